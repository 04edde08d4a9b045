// Running programs with libsidelatch-verbs.so preloaded, alone or as a server and its client.
//
//   Site site;                                                       // a wire of its own
//   const Outcome devices = site.run({"ibv_devices"});
//   const Pair pair = site.run_pair({"ib_read_bw", "-n", "100"});    // with -p PORT, the client with "localhost" too
//
// A program that does not end within a minute is killed, and its status is -1.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sidelatch::softnic {

using Command = std::vector<std::string>;

struct Outcome {
  int status = -1;   ///< exit status; -1: killed
  std::string text;  ///< what it printed, to stdout and stderr
};

struct Pair {
  Outcome server;
  Outcome client;
};

using EndsServer = std::function<bool(const Outcome& client)>;
inline bool always(const Outcome& /*client*/) { return true; }

class Site {
 public:
  Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;
  ~Site();

  /// Sets an environment variable, "NAME=VALUE", for programs that are run from now on.
  void set(const std::string& variable);
  /// The same for one role only: "program" of run(), "server" or "client" of run_pair().
  void set_for(const std::string& role, const std::string& variable);
  [[nodiscard]] Outcome run(const Command& command) const;
  /// The client is started after the server listens.
  [[nodiscard]] Pair run_pair(const Command& command) const;
  /// The same for a server that listens over librdmacm at `port`, or over TCP; the commands are run as they are. Port
  /// 0: the client is started at once. A server that serves on is ended after the client if `ends_server` says so of
  /// how the client ended.
  [[nodiscard]] Pair run_connected(const Command& server, const Command& client, std::uint16_t port,
                                   const EndsServer& ends_server = nullptr) const;

 private:
  struct Running {
    int process = 0;
    std::string output;  // a file
  };
  [[nodiscard]] Running start(const Command& command, const std::string& role) const;
  [[nodiscard]] static Outcome wait(const Running& running);
  [[nodiscard]] bool listens_over_rdma(std::uint16_t port) const;

  std::string name_;
  std::vector<std::string> variables_;
  std::map<std::string, std::vector<std::string>> of_role_;
};

/// "ib_read_bw -n 100" as a command.
[[nodiscard]] Command words_of(const std::string& text);
/// Both programs have ended with status 0.
void expect_success(const Pair& pair);
/// A number that no TCP port of this machine has now.
[[nodiscard]] std::uint16_t free_port();
/// Whether the program is installed.
[[nodiscard]] bool is_installed(const std::string& program);

/// Why programs cannot be run; empty if they can. They are not built with sanitizers and do not load a library that is.
[[nodiscard]] std::string why_not();

}  // namespace sidelatch::softnic

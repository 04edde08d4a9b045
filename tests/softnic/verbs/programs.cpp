#include "programs.h"

#include "common/sanitizers.h"
#include "softnic/port_registry.h"
#include "tests/paths.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace sidelatch::softnic {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLimit = 110s;  // for a busy machine; below that of ctest
constexpr auto kPause = 2ms;

// Reads the table instead of connecting, because servers accept one connection.
bool listens_in(const char* table, std::uint16_t port) {
  std::ifstream lines(table);
  const std::string local = fmt::format(":{:04X} ", port);
  constexpr const char* kListening = " 0A ";
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(local);
    // The local address precedes the state; the remote one of a listening socket has port 0.
    if (at != std::string::npos && line.find(kListening, at) != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool listens(std::uint16_t port) { return listens_in("/proc/net/tcp", port) || listens_in("/proc/net/tcp6", port); }

bool has_ended(int process) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) {
    all.push_back(const_cast<char*>(text.c_str()));  // posix_spawnp() does not write to them
  }
  all.push_back(nullptr);
  return all;
}

void replace(std::vector<std::string>& variables, const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('=') + 1);
  std::erase_if(variables, [&](const std::string& other) { return other.starts_with(name); });
  variables.push_back(variable);
}

}  // namespace

// Free now. If another process takes it before the server does, the test fails and does not pass.
std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t bytes = sizeof address;
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    throw std::runtime_error("no free TCP port");
  }
  ::close(socket);
  return ntohs(address.sin_port);
}

Command words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

void expect_success(const Pair& pair) {
  EXPECT_EQ(pair.client.status, 0) << pair.client.text;
  EXPECT_EQ(pair.server.status, 0) << pair.server.text;
}

bool is_installed(const std::string& program) { return ::access(("/usr/bin/" + program).c_str(), X_OK) == 0; }

Site::Site() {
  static std::atomic<int> count = 0;
  name_ = fmt::format("test-{}-{}", ::getpid(), ++count);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (const std::string text = *variable; !text.starts_with("LD_PRELOAD=") && !text.starts_with("SIDELATCH_")) {
      variables_.push_back(text);
    }
  }
  set(std::string("LD_PRELOAD=") + verbs_library_path());
  set("SIDELATCH_SOFTNIC_WIRE=shm:" + name_);
}

Site::~Site() {
  for (const char* const role : {"program", "server", "client"}) {
    std::error_code none;
    std::filesystem::remove(fmt::format("{}/{}-{}", ::testing::TempDir(), name_, role), none);
  }
}

void Site::set(const std::string& variable) { replace(variables_, variable); }

void Site::set_for(const std::string& role, const std::string& variable) { replace(of_role_[role], variable); }

Site::Running Site::start(const Command& command, const std::string& role) const {
  Running running{.output = fmt::format("{}/{}-{}", ::testing::TempDir(), name_, role)};
  std::vector<std::string> variables = variables_;
  if (const auto own = of_role_.find(role); own != of_role_.end()) {
    for (const std::string& variable : own->second) {
      replace(variables, variable);
    }
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  constexpr int kAnyone = 0644;
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, running.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     kAnyone);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  const int error = ::posix_spawnp(&running.process, command.front().c_str(), &actions, nullptr,
                                   pointers(command).data(), pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot run {}: run scripts/install-deps test", command.front()));
  }
  return running;
}

Outcome Site::wait(const Running& running) {
  const auto limit = Clock::now() + kLimit;
  while (!has_ended(running.process) && Clock::now() < limit) {
    std::this_thread::sleep_for(kPause);
  }
  if (!has_ended(running.process)) {
    ::kill(running.process, SIGKILL);
  }
  int status = 0;
  ::waitpid(running.process, &status, 0);
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .text = slurp(running.output)};
}

Outcome Site::run(const Command& command) const { return wait(start(command, "program")); }

Pair Site::run_pair(const Command& command) const {
  const std::uint16_t port = free_port();
  Command with_port = command;
  with_port.insert(with_port.end(), {"-p", std::to_string(port)});
  const Running server = start(with_port, "server");
  const auto limit = Clock::now() + kLimit;
  while (!listens(port) && !has_ended(server.process) && Clock::now() < limit) {
    std::this_thread::sleep_for(kPause);
  }
  with_port.emplace_back("localhost");
  const Running client = start(with_port, "client");
  Pair pair;
  pair.client = wait(client);
  pair.server = wait(server);
  return pair;
}

// Looks into the wire's registry of ports.
bool Site::listens_over_rdma(std::uint16_t port) const {
  PortRegistry ports(roce::SharedMemoryWireOptions{.name = name_}, {roce::gid_of(roce::Ipv4Address{})});
  for (const roce::Gid& ip :
       {roce::gid_of(roce::Ipv4Address{127, 0, 0, 1}), roce::Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}) {
    for (const cm::PortSpace space : {cm::kTcp, cm::kUdp, cm::kInfiniband}) {
      if (ports.is_open(space, {.ip = ip, .port = port})) {
        return true;
      }
    }
  }
  return false;
}

Pair Site::run_connected(const Command& server_command, const Command& client_command, std::uint16_t port,
                         const EndsServer& ends_server) const {
  const Running server = start(server_command, "server");
  const auto limit = Clock::now() + kLimit;
  while (port != 0 && !listens_over_rdma(port) && !listens(port) && !has_ended(server.process) &&
         Clock::now() < limit) {
    std::this_thread::sleep_for(kPause);
  }
  const Running client = start(client_command, "client");
  Pair pair;
  pair.client = wait(client);
  if (ends_server && ends_server(pair.client)) {
    ::kill(server.process, SIGKILL);
  }
  pair.server = wait(server);
  return pair;
}

std::string why_not() {
#if SIDELATCH_IS_SANITIZED
  return "the library is built with a sanitizer, which programs that are not cannot load";
#else
  return {};
#endif
}

}  // namespace sidelatch::softnic

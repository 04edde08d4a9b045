// The software NIC for programs that use libibverbs: what `sidelatch softnic run` does, as functions.
//
//   softnic::LaunchOptions options;
//   options.order = "relaxed";
//   softnic::set_environment(options);               // LD_PRELOAD, and the NIC's settings
//   execvp(program, arguments);                      // finds one RDMA device, sidelatch0
//
// The library libsidelatch-verbs.so, preloaded, takes the place of libibverbs: RC and UD queue pairs over RoCEv2
// packets, in user space. Programs of one user at the same wire reach each other. docs/softnic.md says what it does.
//
// Thread-safety: set_environment() as setenv(3); the others may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sidelatch::softnic {

/// The name of the device that programs find.
inline constexpr std::string_view kDeviceName = "sidelatch0";

/// A setting that means nothing; the message names it and says what it may be.
class SettingsError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The library cannot be found.
class LibraryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct LaunchOptions {
  /// "shm:NAME", "folder:PATH", "link:OURS,THEIRS,ADDRESS[,mac=MAC][,mtu=BYTES]" or
  /// "interface:NAME,ADDRESS[,mac=MAC]".
  std::string wire = "shm:default";
  /// Preset of the memory model, "strict", "observed", "spec" or "relaxed": memory is touched line by line, in an order
  /// that it allows. Empty: at once, lines ascending.
  std::string order{};
  std::uint64_t seed = 1;  ///< of the order
  double torn_bias = 0;    ///< with an order: chance that the lines of a request are touched far apart
  double loss = 0;         ///< chances of what happens to a frame that is sent
  double duplication = 0;
  double corruption = 0;
  double reordering = 0;
  double delay = 0;
  std::uint64_t fault_seed = 1;
  std::filesystem::path pcap{};  ///< frames are captured there; an old file is removed
};

/// Sets what a program that is executed next needs to find the software NIC. An LD_PRELOAD that is set already is kept,
/// behind ours. Throws SettingsError, and LibraryError that says where the library was looked for.
void set_environment(const LaunchOptions& options);

/// Whether the library is preloaded into this process, so that its verbs are those of the software NIC.
[[nodiscard]] bool is_preloaded() noexcept;

/// What this process's environment sets, in a line: "shm:default, order observed, seed 1". Throws SettingsError.
[[nodiscard]] std::string describe_environment();

}  // namespace sidelatch::softnic

// Functions of `sidelatch softnic run`: the software NIC for programs that use libibverbs.
//
//   softnic::LaunchOptions options;
//   options.order = "relaxed";
//   softnic::set_environment(options);               // LD_PRELOAD, and the NIC's settings
//   execvp(program, arguments);                      // finds one RDMA device, sidelatch0
//
// The preloaded library libsidelatch-verbs.so replaces libibverbs: it runs RC, XRC, UC and UD queue pairs over RoCEv2
// packets in user space. Programs of one user at the same wire reach each other. See docs/softnic.md.
//
// Thread-safety: set_environment() has setenv(3)'s rules; the others may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sidelatch::softnic {

/// The name of the device that programs find.
inline constexpr std::string_view kDeviceName = "sidelatch0";

/// A setting has no meaning; the message names it and lists the allowed values.
class SettingsError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The library cannot be found, or not be preloaded from where it is.
class LibraryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct LaunchOptions {
  /// "shm:NAME", "folder:PATH", "link:OURS,THEIRS,ADDRESS[,mac=MAC][,mtu=BYTES]",
  /// "interface:NAME,ADDRESS[,mac=MAC]" or "switch:NAME,ADDRESS[,mac=MAC]".
  std::string wire = "shm:default";
  /// Preset of the memory model, "strict", "observed", "spec" or "relaxed": memory is touched line by line, in an order
  /// that the preset allows. Empty: all lines at once, ascending.
  std::string order{};
  std::uint64_t seed = 1;  ///< of the order
  double torn_bias = 0;    ///< with an order: probability that the lines of a request are touched far apart
  /// What the device says that its atomics are: "glob", atomic for CPUs too (IBV_ATOMIC_GLOB), or "hca", only among
  /// those of the same NIC (IBV_ATOMIC_HCA, as real NICs say). Empty: what holds.
  std::string atomics{};
  double loss = 0;  ///< probabilities of faults to a sent frame: this and those below
  double duplication = 0;
  double corruption = 0;
  double reordering = 0;
  double delay = 0;
  std::uint64_t fault_seed = 1;
  std::filesystem::path pcap{};  ///< frames are captured in this file; an old file is removed
};

/// The LD_PRELOAD of a program that is to find the software NIC, whose library is `library`. What `others`, an existing
/// LD_PRELOAD, names is kept, in its order: runtimes of sanitizers before `library`, because they must come first; all
/// else after it, so that no other libibverbs answers. Other copies of libsidelatch-verbs.so are left out.
[[nodiscard]] std::string preloads(std::string_view others, const std::filesystem::path& library);

/// Sets the environment in which a program executed next finds the software NIC, LD_PRELOAD as preloads() says. Throws
/// SettingsError, and LibraryError that says where the library was looked for.
void set_environment(const LaunchOptions& options);

/// Whether the library is preloaded into this process, so that its verbs are those of the software NIC.
[[nodiscard]] bool is_preloaded() noexcept;

/// The settings of this process's environment in one line: "shm:default, order observed, seed 1". Throws SettingsError.
[[nodiscard]] std::string describe_environment();

}  // namespace sidelatch::softnic

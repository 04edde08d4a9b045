// Settings: what the software NIC of a process is like, as `sidelatch softnic run` hands it to the program that it
// runs: by environment variables, which the program's children inherit.
//
//   for (const auto& [name, value] : environment_of(settings)) setenv(name, value, 1);
//   ... in the program: const Settings settings = settings_from([](const char* name) { return getenv(name); });
//
// Thread-safety: values, and functions without state.
#pragma once

#include "fabric/roce/wires.h"

#include <sidelatch/fabric/model/rules.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sidelatch::fabric::softnic {

/// Which wire the NIC is at.
using WireSettings = std::variant<roce::SharedMemoryWireOptions, roce::FolderWireOptions, roce::LinkWireOptions,
                                  roce::PacketWireOptions>;

struct Settings {
  WireSettings wire = roce::SharedMemoryWireOptions{};
  /// Memory is touched in an order that this preset allows, drawn by the seed, by a thread of its own. Nothing: at
  /// once, lines ascending, by whoever drives the NIC; the fastest.
  std::optional<model::Preset> order{};
  std::uint64_t seed = 1;
  /// Chance that the lines of a request are touched far apart, so that readers tear more often; needs an order.
  double torn_bias = 0;
  /// Chances of loss and the like, of frames sent; their seed is its own.
  roce::FaultOptions faults{};
  /// Frames are written here. If another process of the program has it already, its number is put before the
  /// extension.
  std::optional<std::filesystem::path> capture{};
};

/// An environment variable that means nothing; the message names it and says what it may be.
class SettingsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "shm:NAME", "folder:PATH", "link:OURS,THEIRS,ADDRESS[,ADDRESS][,mac=MAC][,mtu=BYTES]",
/// "interface:NAME,ADDRESS[,ADDRESS][,mac=MAC]". Throws SettingsError.
[[nodiscard]] WireSettings parse_wire(const std::string& text);
[[nodiscard]] std::string text_of(const WireSettings& wire);

/// Throws SettingsError. `variable` returns nullptr for one that is not set; then it is as in Settings{}.
[[nodiscard]] Settings settings_from(const std::function<const char*(const char*)>& variable);
/// Names and values; only of what differs from Settings{}.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(const Settings& settings);

/// Joins the wire, with faults and capture around it. Throws roce::WireError, and std::invalid_argument as wires.h.
[[nodiscard]] std::unique_ptr<roce::Wire> open_wire(const Settings& settings);

}  // namespace sidelatch::fabric::softnic

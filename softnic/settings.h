// Settings: the configuration of a process's software NIC. `sidelatch softnic run` passes it in environment variables
// to the program that it runs, whose children inherit them.
//
//   for (const auto& [name, value] : environment_of(settings)) setenv(name, value, 1);
//   ... in the program: const Settings settings = settings_from([](const char* name) { return getenv(name); });
//
// Thread-safety: values, and functions without state.
#pragma once

#include "roce/wire/wires.h"

#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/softnic/launch.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sidelatch::softnic {

/// The NIC's wire.
using WireSettings = std::variant<roce::SharedMemoryWireOptions, roce::FolderWireOptions, roce::LinkWireOptions,
                                  roce::PacketWireOptions, roce::CableWireOptions>;

struct Settings {
  WireSettings wire = roce::SharedMemoryWireOptions{};
  /// A separate thread touches memory in an order that this preset allows, drawn by the seed. Nothing: the thread that
  /// drives the NIC touches memory at once, lines ascending, which is fastest.
  std::optional<fabric::model::Preset> order{};
  std::uint64_t seed = 1;
  /// Probability that the lines of a request are touched far apart, so that reads are torn more often; needs an order.
  double torn_bias = 0;
  /// What the device says of its atomics. Nothing: what holds.
  std::optional<fabric::model::AtomicScope> atomics{};
  /// Probabilities of loss and other faults of sent frames, with a separate seed.
  roce::FaultOptions faults{};
  /// Frames are written to this file. If another process of the program already uses it, the process's number is put
  /// before the extension.
  std::optional<std::filesystem::path> capture{};
};

/// The environment variables, in the order of what they set: wire, order, seed, torn bias, faults, capture, atomics.
/// Faults are "loss=P,duplication=P,corruption=P,reordering=P,delay=P,seed=N", any of them. Atomics are "glob" or
/// "hca".
inline constexpr std::array kVariables = {
    "SIDELATCH_SOFTNIC_WIRE",   "SIDELATCH_SOFTNIC_ORDER", "SIDELATCH_SOFTNIC_SEED",   "SIDELATCH_SOFTNIC_TORN_BIAS",
    "SIDELATCH_SOFTNIC_FAULTS", "SIDELATCH_SOFTNIC_PCAP",  "SIDELATCH_SOFTNIC_ATOMICS"};

/// "shm:NAME", "folder:PATH", "link:OURS,THEIRS,ADDRESS[,ADDRESS][,mac=MAC][,mtu=BYTES]",
/// "interface:NAME,ADDRESS[,ADDRESS][,mac=MAC]", "switch:NAME,ADDRESS[,ADDRESS][,mac=MAC]". Throws SettingsError.
[[nodiscard]] WireSettings parse_wire(const std::string& text);
[[nodiscard]] std::string text_of(const WireSettings& wire);
/// "loss=0.02,seed=1": the probabilities that are not 0, and the seed; empty if all are 0.
[[nodiscard]] std::string text_of(const roce::FaultOptions& faults);

/// What messages call the settings: as whoever gave a wrong one knows it.
struct SettingNames {
  const char* order = kVariables[1];
  const char* seed = kVariables[2];
  const char* torn_bias = kVariables[3];
  const char* atomics = kVariables[6];
  const char* fault = "SIDELATCH_SOFTNIC_FAULTS: ";  ///< stands before the name of a fault
};

/// Throws SettingsError. `variable` returns nullptr for a variable that is not set; its setting is then the default of
/// Settings{}.
[[nodiscard]] Settings settings_from(const std::function<const char*(const char*)>& variable,
                                     const SettingNames& names = {});
/// What atomics are atomic against: `global`, also against the CPU, or `nic`, only against those of the same NIC.
/// Without an order they are the CPU's; with an order its rules decide. The device may be set to promise less than it
/// keeps.
[[nodiscard]] fabric::model::AtomicScope atomics_of(const Settings& settings);
/// Names and values of the settings that differ from Settings{}. kVariables lists all names.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(const Settings& settings);

/// Whether faults or a capture are set, so that frames of the NIC to itself must pass them, too.
[[nodiscard]] bool watches_frames(const Settings& settings);
/// Joins the wire, with faults and capture around it. If watches_frames(), it hands back the station's frames to
/// itself. Throws roce::WireError, and std::invalid_argument as in wires.h.
[[nodiscard]] std::unique_ptr<roce::Wire> open_wire(const Settings& settings);

}  // namespace sidelatch::softnic

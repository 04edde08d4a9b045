// WordSwitch: the control plane of p4/switch_atomics.p4, words that the switch itself hosts.
//
//   p4::Switch device(p4::compile_file("switch_atomics.p4"), {.ports = 3, .icrc = true});
//   WordSwitch control(device.state());
//   control.add_station(mac, port);                            // of each host
//   control.serve(switch_ip, switch_mac);
//   control.add_words({.rkey = 0x5eed, .address = 0x1000, .first = 0, .count = 512});
//   const auto id = control.connect({.ip = switch_ip, .queue_pair = 0x100, .client = ip, .client_queue_pair = 17,
//                                    .client_psn = psn});
//   ...
//   control.disconnect(id);          // its queue pair may be given to another client then
//
// Clients connect a reliable queue pair to `queue_pair` at `ip`, with max_rd_atomic of at most 16 and at most 16
// requests of any kind in flight, WRITEs too (a send queue of 16): results of atomics are kept by their packet numbers.
//
// Thread-safety: as that of p4::State.
#pragma once

#include <sidelatch/p4/state.h>

#include <array>
#include <cstdint>
#include <vector>

namespace sidelatch::switchsync {

/// Words of the switch, as a region that clients use by key and address.
struct SwitchWords {
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;  ///< of the first word; a multiple of 8
  std::uint32_t first = 0;    ///< which of the switch's words that is
  std::uint64_t count = 0;
  bool readable = true;
  bool writable = true;
  bool atomic = true;
};

/// A reliable connection of a client and the switch.
struct WordConnection {
  std::array<std::uint8_t, 4> ip{};  ///< of the switch, as in serve()
  std::uint32_t queue_pair = 0;      ///< at the switch; the caller chooses it
  std::array<std::uint8_t, 4> client{};
  std::uint32_t client_queue_pair = 0;
  std::uint32_t client_psn = 0;  ///< the first one that the client sends
};

class WordSwitch {
 public:
  using ConnectionId = std::uint32_t;

  /// Throws p4::ControlError if the state is that of another program, or has connections already.
  explicit WordSwitch(p4::State& state);

  /// Frames for this address leave at the port.
  void add_station(const std::array<std::uint8_t, 6>& mac, std::uint16_t port);
  /// The switch has this IP address: it answers requests and ARP.
  void serve(const std::array<std::uint8_t, 4>& ip, const std::array<std::uint8_t, 6>& mac);
  /// Throws std::invalid_argument that names the field and its value, p4::ControlError if the key is in use.
  void add_words(const SwitchWords& words);
  /// Call it before the client sends. Throws std::invalid_argument, and p4::ControlError if the switch has no room or
  /// has this queue pair already.
  ConnectionId connect(const WordConnection& connection);
  /// Call it when the client's queue pair has ended: packets that are still on their way are dropped then. Throws
  /// std::invalid_argument if there is no such connection.
  void disconnect(ConnectionId connection);

  [[nodiscard]] std::uint64_t word(std::uint32_t which) const;
  /// For set-up, while no client uses it. Throws std::invalid_argument if there is no such word.
  void set_word(std::uint32_t which, std::uint64_t value);

 private:
  struct Slot {
    bool is_used = false;
    p4::EntryHandle entry = 0;
  };

  p4::TableState* stations_;
  p4::TableState* addresses_;
  p4::TableState* arp_addresses_;
  p4::TableState* regions_;
  p4::TableState* queue_pairs_;
  p4::RegisterState* words_;
  p4::RegisterState* psns_;
  p4::RegisterState* counts_;
  p4::RegisterState* kept_;
  std::vector<Slot> slots_;
};

}  // namespace sidelatch::switchsync

// Neighbours: maps IP addresses to MAC addresses on a network with stations that are not ours, by ARP for IPv4 (RFC
// 826) and neighbour discovery for IPv6 (RFC 4861). It answers questions for our addresses, and asks for and remembers
// those of others.
//
//   if (neighbours.take(frame, reply)) { if (!reply.empty()) send(reply); }   // it was one of these
//   else use(frame);
//   if (!(mac = neighbours.find(gid))) send(neighbours.question_for(gid));     // and look again later
//
// Routers are not supported: an address that is not on this network is never found.
//
// Thread-safety: one thread.
#pragma once

#include "roce/wire/wire.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::roce {

inline constexpr std::uint16_t kEtherTypeArp = 0x0806;
inline constexpr std::uint8_t kProtocolIcmpv6 = 58;
inline constexpr std::uint8_t kSolicitation = 135;
inline constexpr std::uint8_t kAdvertisement = 136;

class Neighbours {
 public:
  using Clock = std::chrono::steady_clock;
  using Frame = std::vector<std::byte>;

  /// An unanswered question is repeated after this time.
  static constexpr std::chrono::milliseconds kAskAgain{100};
  /// A known address is asked for again after this time, and stays in use meanwhile.
  static constexpr std::chrono::seconds kFresh{30};

  /// `now`: for tests.
  explicit Neighbours(const StationAddresses& own, std::function<Clock::time_point()> now = Clock::now);

  /// Handles a frame of ARP or neighbour discovery, and sets `reply` to the frame to send, or empty. Returns false for
  /// other frames. Never reads outside the frame, whatever it holds.
  [[nodiscard]] bool take(std::span<const std::byte> frame, Frame& reply);
  /// The MAC for frames to this address, if known.
  [[nodiscard]] std::optional<MacAddress> find(const Gid& gid) const;
  /// The frame to send to learn or to refresh this address. Empty: there is nothing to send now, or we have no address
  /// of that kind.
  [[nodiscard]] Frame question_for(const Gid& gid);

 private:
  struct Entry {
    std::optional<MacAddress> mac;
    Clock::time_point asked{};
    Clock::time_point learnt{};
  };

  void take_arp(std::span<const std::byte> frame, Frame& reply);
  void take_discovery(std::span<const std::byte> frame, Frame& reply);
  void make_room();
  void learn(const Gid& gid, const MacAddress& mac, bool only_if_known);

  StationAddresses own_;
  std::function<Clock::time_point()> now_;
  std::map<Gid, Entry> entries_;
};

}  // namespace sidelatch::roce

// Neighbours: which MAC address has which IP address, on a network where other stations are not ours. ARP for IPv4
// (RFC 826), neighbour discovery for IPv6 (RFC 4861): ours are answered, those of others are asked for and remembered.
//
//   if (neighbours.take(frame, reply)) { if (!reply.empty()) send(reply); }   // it was one of these
//   else use(frame);
//   if (!(mac = neighbours.find(gid))) send(neighbours.question_for(gid));     // and look again later
//
// There are no routers: an address that is not on this network is never found.
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

  /// Who is asked and does not answer is asked again after this.
  static constexpr std::chrono::milliseconds kAskAgain{100};
  /// A known address is asked for again after this, and used on meanwhile.
  static constexpr std::chrono::seconds kFresh{30};

  /// `now`: for tests.
  explicit Neighbours(const StationAddresses& own, std::function<Clock::time_point()> now = Clock::now);

  /// Whether this is a frame of ARP or neighbour discovery; it is then dealt with, and `reply` is what to send, or
  /// empty. Never looks outside the frame, whatever it holds.
  [[nodiscard]] bool take(std::span<const std::byte> frame, Frame& reply);
  /// Where frames for this address go, as far as we know.
  [[nodiscard]] std::optional<MacAddress> find(const Gid& gid) const;
  /// What to send in order to learn or to refresh this address. Empty: nothing now, or we have no address of that kind.
  [[nodiscard]] Frame question_for(const Gid& gid);

 private:
  struct Entry {
    std::optional<MacAddress> mac;
    Clock::time_point asked{};
    Clock::time_point learnt{};
  };

  void take_arp(std::span<const std::byte> frame, Frame& reply);
  void take_discovery(std::span<const std::byte> frame, Frame& reply);
  void learn(const Gid& gid, const MacAddress& mac, bool only_if_known);

  StationAddresses own_;
  std::function<Clock::time_point()> now_;
  std::map<Gid, Entry> entries_;
};

}  // namespace sidelatch::roce

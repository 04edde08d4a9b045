// Properties of address resolution (ARP and neighbour discovery) that hold whatever frames strangers send: no byte
// outside of a frame is read; frames of other kinds are left alone; nobody makes a station take another MAC address for
// its own; an answer is the station's own, for its own addresses, and causes no further frame; an address that nobody
// asked for or asks from is never known. Run by libFuzzer (`scripts/fuzz roce-neighbours`), and briefly by
// roce_neighbours_test.cpp.
//
// The bytes are frames, each behind its length in one byte.
#include "tests/fuzz/roce_neighbours_fuzz.h"

#include "roce/wire/neighbours.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

namespace sidelatch::roce {
namespace {

void require_neighbours(bool holds, const char* property) {
  if (!holds) {
    std::fprintf(stderr, "a property of neighbours does not hold: %s\n", property);
    std::abort();
  }
}

constexpr StationAddresses kStation = {
    .mac = {2, 0, 0, 0, 0, 2}, .ipv4 = {10, 9, 0, 2}, .ipv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr StationAddresses kAsked = {
    .mac = {2, 0, 0, 0, 0, 1}, .ipv4 = {10, 9, 0, 1}, .ipv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

bool has_ether_type(std::span<const std::byte> frame, std::uint16_t type) {
  return frame.size() >= Ethernet::kBytes && Ethernet::read(frame.data()).ether_type == type;
}

class Network {
 public:
  NeighboursReached play(std::span<const std::byte> bytes) {
    ask();
    while (!bytes.empty()) {
      const std::size_t length = std::min<std::size_t>(std::to_integer<std::size_t>(bytes[0]), bytes.size() - 1);
      deliver(bytes.subspan(1, length));
      bytes = bytes.subspan(1 + length);
      now_ += std::chrono::seconds(1);
    }
    return reached_;
  }

 private:
  void ask() {
    for (const Gid& gid : {gid_of(kAsked.ipv4), kAsked.ipv6}) {
      const Neighbours::Frame question = station_.question_for(gid);
      require_neighbours(!question.empty(), "an unknown address is asked for");
      Neighbours::Frame answer;
      require_neighbours(asked_.take(question, answer) && !answer.empty(), "who is asked answers");
    }
  }

  void deliver(std::span<const std::byte> bytes) {
    // A heap copy of exactly this size, so that AddressSanitizer detects the first byte outside.
    const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
    std::copy_n(bytes.data(), bytes.size(), copy.get());
    const std::span<const std::byte> frame(copy.get(), bytes.size());
    Neighbours::Frame reply(1);
    const bool is_taken = station_.take(frame, reply);
    require_neighbours(!is_taken || has_ether_type(frame, kEtherTypeArp) || has_ether_type(frame, kEtherTypeIpv6),
                       "frames of other kinds are left alone");
    require_neighbours(is_taken || reply.empty(), "what is left alone is not answered");
    if (!reply.empty()) {
      check_reply(reply);
    }
    check_known();
  }

  void check_reply(const Neighbours::Frame& reply) {
    ++reached_.answered;
    constexpr MacAddress kAllNodes = {0x33, 0x33, 0, 0, 0, 1};
    const Ethernet ethernet = Ethernet::read(reply.data());
    require_neighbours(ethernet.source == kStation.mac, "an answer is from the station");
    require_neighbours((ethernet.destination[0] & 1U) == 0 || ethernet.destination == kAllNodes,
                       "an answer goes to one station, or to all nodes if the asker has no address");
    // A third station, which asks for both addresses, learns only the truth from it, and says nothing more.
    Neighbours asker(kAsked, [this] { return now_; });
    static_cast<void>(asker.question_for(gid_of(kStation.ipv4)));
    static_cast<void>(asker.question_for(kStation.ipv6));
    Neighbours::Frame more;
    require_neighbours(asker.take(reply, more), "an answer can be read");
    require_neighbours(more.empty(), "an answer causes no further frame");
    const auto ipv4 = asker.find(gid_of(kStation.ipv4));
    const auto ipv6 = asker.find(kStation.ipv6);
    require_neighbours(ipv4.value_or(kStation.mac) == kStation.mac && ipv6.value_or(kStation.mac) == kStation.mac,
                       "an answer tells the station's MAC address");
    require_neighbours(!asker.find(gid_of({10, 9, 0, 7})), "an answer tells nothing of others");
  }

  void check_known() {
    require_neighbours(
        station_.find(gid_of(kStation.ipv4)) == kStation.mac && station_.find(kStation.ipv6) == kStation.mac,
        "a station knows its own address");
    for (std::size_t i = 0; i < known_.size(); ++i) {
      const std::optional<MacAddress> mac = station_.find(i == 0 ? gid_of(kAsked.ipv4) : kAsked.ipv6);
      require_neighbours(!known_.at(i) || mac.has_value(), "a known address stays known");
      require_neighbours(!mac || (mac->at(0) & 1U) == 0, "an address is not that of a group");
      reached_.learnt += mac != known_.at(i) ? 1U : 0U;
      known_.at(i) = mac;
    }
  }

  Neighbours::Clock::time_point now_{std::chrono::hours(1)};
  Neighbours station_{kStation, [this] { return now_; }};
  Neighbours asked_{kAsked, [this] { return now_; }};
  std::array<std::optional<MacAddress>, 2> known_{};
  NeighboursReached reached_;
};

}  // namespace

NeighboursReached check_neighbours(std::span<const std::byte> bytes) { return Network().play(bytes); }

}  // namespace sidelatch::roce

#ifdef SIDELATCH_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(sidelatch::roce::check_neighbours(std::as_bytes(std::span(data, size))));
  return 0;
}
#endif

// A short run of the fuzz target without libFuzzer: the corpus itself, and mutations of it that depend only on a seed.
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/roce_packet_fuzz.h"

#include "roce/big_endian.h"
#include "roce/crc32.h"
#include "roce/icrc.h"
#include "roce/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sidelatch::roce {
namespace {

using Input = std::vector<std::byte>;

bool is_accepted(const Input& input, IcrcCheck check) {
  return std::holds_alternative<Packet>(parse_frame(input, check)) ||
         std::holds_alternative<Packet>(parse_datagram(input, check));
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  void mutate(Input& input) {
    for (std::uint64_t left = 1 + below(4); left > 0; --left) {
      step(input);
    }
    // Most inputs would stop at a checksum; half of them get further.
    if (below(2) == 0) {
      mend(input);
    }
  }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

 private:
  void step(Input& input) {
    const std::size_t place = input.empty() ? 0 : below(input.size());
    const auto at = input.begin() + static_cast<std::ptrdiff_t>(place);
    switch (below(6)) {
      case 0:
        if (!input.empty()) {
          *at ^= std::byte{static_cast<unsigned char>(1U << below(8))};
        }
        break;
      case 1:
        if (!input.empty()) {
          *at = static_cast<std::byte>(below(256));
        }
        break;
      case 2:
        input.insert(at, 1 + below(8), static_cast<std::byte>(below(256)));
        break;
      case 3:
        input.erase(at, at + static_cast<std::ptrdiff_t>(below(1 + std::min<std::size_t>(input.size() - place, 8))));
        break;
      case 4:
        input.resize(place);
        break;
      default:
        if (input.size() >= 2) {
          store16(input.data() + below(input.size() - 1), static_cast<std::uint16_t>(below(100)));
        }
    }
  }

  // Corrects the lengths of IPv4 and UDP, and the header checksum, for the present bytes.
  static void mend(Input& input) {
    constexpr std::size_t kLink = Ethernet::kBytes;
    if (input.size() < kLink + Ipv4::kBytes + Udp::kBytes || input[kLink] != std::byte{0x45}) {
      return;
    }
    std::byte* const ip = input.data() + kLink;
    store16(ip + 2, static_cast<std::uint16_t>(input.size() - kLink));
    store16(ip + Ipv4::kBytes + 4, static_cast<std::uint16_t>(input.size() - kLink - Ipv4::kBytes));
    store16(ip + 10, ipv4_checksum(ip));
  }

  std::mt19937_64 random_;
};

TEST(FuzzRoce, TheCorpusHasEveryOpcodeAndIsAccepted) {
  std::vector<bool> seen(256);
  for (const Input& input : read_corpus("roce/corpus")) {
    ASSERT_TRUE(is_accepted(input, IcrcCheck::yes));
    const auto frame = parse_frame(input);
    const auto datagram = parse_datagram(input);
    const Packet& packet = std::get<Packet>(std::holds_alternative<Packet>(frame) ? frame : datagram);
    seen[static_cast<std::size_t>(packet.bth.opcode)] = true;
    check_codec(input);
  }
  for (std::size_t number = 0; number < seen.size(); ++number) {
    EXPECT_EQ(seen[number], traits_of(static_cast<Opcode>(number)).has_value()) << number;
  }
}

TEST(FuzzRoce, MutationsOfTheCorpusHoldToo) {
  constexpr int kRuns = 300'000;
  const std::vector<Input> corpus = read_corpus("roce/corpus");
  ASSERT_FALSE(corpus.empty());
  Mutator mutator(20'240'501);
  int accepted = 0;
  for (int i = 0; i < kRuns; ++i) {
    Input input = corpus[mutator.below(corpus.size())];
    mutator.mutate(input);
    check_codec(input);
    accepted += is_accepted(input, IcrcCheck::no) ? 1 : 0;
  }
  // Both branches of the code are reached.
  EXPECT_GT(accepted, kRuns / 20);
  EXPECT_LT(accepted, kRuns - kRuns / 20);
}

}  // namespace
}  // namespace sidelatch::roce

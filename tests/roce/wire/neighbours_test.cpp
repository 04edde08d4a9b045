// ARP and neighbour discovery, against frames made by scapy.
#include "roce/wire/neighbours.h"

#include "tests/roce/samples.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>

namespace sidelatch::roce {
namespace {

constexpr MacAddress kOther = {0x52, 0x54, 0, 0x12, 0x34, 0x56};
constexpr StationAddresses kOwn = {
    .mac = {2, 0, 0, 0, 0, 2},
    .ipv4 = {10, 9, 0, 2},
    .ipv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2},
};
constexpr Ipv6Address kOtherIpv6 = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
const Gid kOtherIpv4 = gid_of({10, 9, 0, 1});

// ARP(op=1, psrc="10.9.0.1", pdst="10.9.0.2"), the answer, our question, and the answer to that.
constexpr std::string_view kArpRequest =
    "ffffffffffff 525400123456 0806 0001080006040001 525400123456 0a090001 000000000000 0a090002";
constexpr std::string_view kOurArpReply =
    "525400123456 020000000002 0806 0001080006040002 020000000002 0a090002 525400123456 0a090001";
constexpr std::string_view kOurArpRequest =
    "ffffffffffff 020000000002 0806 0001080006040001 020000000002 0a090002 000000000000 0a090001";
constexpr std::string_view kArpReply =
    "020000000002 525400123456 0806 0001080006040002 525400123456 0a090001 020000000002 0a090002";
// ICMPv6ND_NS and ICMPv6ND_NA likewise; then a check whether fd09::2 is free, and the answer that it is not.
constexpr std::string_view kSolicitation =
    "3333ff000002 525400123456 86dd 6000000000203aff fd090000000000000000000000000001 ff0200000000000000000001ff000002"
    "8700f8c900000000 fd090000000000000000000000000002 0101525400123456";
constexpr std::string_view kOurAdvertisement =
    "525400123456 020000000002 86dd 6000000000203aff fd090000000000000000000000000002 fd090000000000000000000000000001"
    "88001c7f60000000 fd090000000000000000000000000002 0201020000000002";
constexpr std::string_view kOurSolicitation =
    "3333ff000001 020000000002 86dd 6000000000203aff fd090000000000000000000000000002 ff0200000000000000000001ff000001"
    "87007d8500000000 fd090000000000000000000000000001 0101020000000002";
constexpr std::string_view kAdvertisement =
    "020000000002 525400123456 86dd 6000000000203aff fd090000000000000000000000000001 fd090000000000000000000000000002"
    "880097c560000000 fd090000000000000000000000000001 0201525400123456";
constexpr std::string_view kIsItFree =
    "3333ff000002 525400123456 86dd 6000000000183aff 00000000000000000000000000000000 ff0200000000000000000001ff000002"
    "87007d9a00000000 fd090000000000000000000000000002";
constexpr std::string_view kItIsOurs =
    "333300000001 020000000002 86dd 6000000000203aff fd090000000000000000000000000002 ff020000000000000000000000000001"
    "88005a8620000000 fd090000000000000000000000000002 0201020000000002";

// With Ethernet's padding.
Bytes padded(std::string_view hex) {
  Bytes bytes = from_hex(hex);
  bytes.resize(std::max<std::size_t>(bytes.size(), 60));
  return bytes;
}

struct Station {
  Neighbours::Clock::time_point now{std::chrono::hours(1)};
  Neighbours neighbours{kOwn, [this] { return now; }};
  Bytes reply;

  bool take(std::string_view hex) { return neighbours.take(padded(hex), reply); }
};

TEST(Neighbours, AnswersArpAndRemembersWhoAsked) {
  Station station;
  EXPECT_TRUE(station.take(kArpRequest));
  EXPECT_EQ(station.reply, padded(kOurArpReply));
  EXPECT_EQ(station.neighbours.find(kOtherIpv4), kOther);
  EXPECT_EQ(station.neighbours.find(kOtherIpv6), std::nullopt);
}

TEST(Neighbours, AsksWithArp) {
  Station station;
  EXPECT_EQ(station.neighbours.find(kOtherIpv4), std::nullopt);
  EXPECT_EQ(station.neighbours.question_for(kOtherIpv4), padded(kOurArpRequest));
  EXPECT_TRUE(station.take(kArpReply));
  EXPECT_TRUE(station.reply.empty());
  EXPECT_EQ(station.neighbours.find(kOtherIpv4), kOther);
}

TEST(Neighbours, AnswersNeighbourDiscoveryAndRemembersWhoAsked) {
  Station station;
  EXPECT_TRUE(station.take(kSolicitation));
  EXPECT_EQ(station.reply, from_hex(kOurAdvertisement));
  EXPECT_EQ(station.neighbours.find(kOtherIpv6), kOther);
  EXPECT_TRUE(station.take(kIsItFree));
  EXPECT_EQ(station.reply, from_hex(kItIsOurs));
}

TEST(Neighbours, AsksWithNeighbourDiscovery) {
  Station station;
  EXPECT_EQ(station.neighbours.question_for(kOtherIpv6), from_hex(kOurSolicitation));
  EXPECT_TRUE(station.take(kAdvertisement));
  EXPECT_EQ(station.neighbours.find(kOtherIpv6), kOther);
}

// Others can make us remember only so many; the table is never full for good.
TEST(Neighbours, MakesRoomForNewOnesAndKeepsWhoAnswers) {
  Station station;
  EXPECT_FALSE(station.neighbours.question_for(kOtherIpv4).empty());
  EXPECT_TRUE(station.take(kArpReply));
  for (unsigned i = 0; i < 10'000; ++i) {
    station.now += std::chrono::milliseconds(1);
    const Gid absent = gid_of({10, 8, static_cast<std::uint8_t>(i >> 8U), static_cast<std::uint8_t>(i)});
    ASSERT_FALSE(station.neighbours.question_for(absent).empty()) << i;
  }
  EXPECT_EQ(station.neighbours.find(kOtherIpv4), kOther);
}

TEST(Neighbours, AQuestionIsKeptUntilItsAnswerComesThoughTheTableIsFull) {
  Station station;
  for (unsigned i = 0; i < 5'000; ++i) {
    const Gid absent = gid_of({10, 8, static_cast<std::uint8_t>(i >> 8U), static_cast<std::uint8_t>(i)});
    static_cast<void>(station.neighbours.question_for(absent));
  }
  station.now += std::chrono::seconds(2);
  EXPECT_FALSE(station.neighbours.question_for(kOtherIpv6).empty());
  for (unsigned i = 0; i < 100; ++i) {
    static_cast<void>(station.neighbours.question_for(gid_of({10, 7, 0, static_cast<std::uint8_t>(i)})));
  }
  EXPECT_TRUE(station.neighbours.question_for(kOtherIpv6).empty());  // asked already
  EXPECT_TRUE(station.take(kAdvertisement));
  EXPECT_EQ(station.neighbours.find(kOtherIpv6), kOther);
}

TEST(Neighbours, AsksAgainAfterATime) {
  Station station;
  EXPECT_FALSE(station.neighbours.question_for(kOtherIpv4).empty());
  EXPECT_TRUE(station.neighbours.question_for(kOtherIpv4).empty());
  station.now += Neighbours::kAskAgain;
  EXPECT_FALSE(station.neighbours.question_for(kOtherIpv4).empty());
  station.take(kArpReply);
  station.now += Neighbours::kAskAgain;
  EXPECT_TRUE(station.neighbours.question_for(kOtherIpv4).empty());
  station.now += Neighbours::kFresh;
  EXPECT_FALSE(station.neighbours.question_for(kOtherIpv4).empty());
  EXPECT_EQ(station.neighbours.find(kOtherIpv4), kOther) << "used on while it is asked for";
}

TEST(Neighbours, KnowsItself) {
  Station station;
  EXPECT_EQ(station.neighbours.find(kOwn.ipv6), kOwn.mac);
  EXPECT_EQ(station.neighbours.find(gid_of(kOwn.ipv4)), kOwn.mac);
  EXPECT_TRUE(station.neighbours.question_for(kOwn.ipv6).empty());
  EXPECT_TRUE(station.neighbours.question_for(gid_of(kOwn.ipv4)).empty());
}

TEST(Neighbours, LearnsNothingFromWhatNobodyAskedFor) {
  Station station;
  EXPECT_TRUE(station.take(kAdvertisement));
  EXPECT_EQ(station.neighbours.find(kOtherIpv6), std::nullopt);
  // Between others.
  Bytes frame = padded(kArpRequest);
  frame[41] = std::byte{77};
  EXPECT_TRUE(station.neighbours.take(frame, station.reply));
  EXPECT_TRUE(station.reply.empty());
  EXPECT_EQ(station.neighbours.find(kOtherIpv4), std::nullopt);
}

TEST(Neighbours, HearsThatAnAddressHasMoved) {
  Station station;
  station.take(kArpRequest);
  Bytes announcement = padded(kArpReply);
  announcement[27] = std::byte{0x57};
  EXPECT_TRUE(station.neighbours.take(announcement, station.reply));
  EXPECT_EQ(station.neighbours.find(kOtherIpv4), (MacAddress{0x52, 0x54, 0, 0x12, 0x34, 0x57}));
}

TEST(Neighbours, LeaveOtherFramesAlone) {
  Station station;
  EXPECT_FALSE(station.neighbours.take(built(sample(4, Opcode::read_request, {})), station.reply));
  EXPECT_FALSE(station.neighbours.take(built(sample(6, Opcode::read_request, {})), station.reply));
  EXPECT_FALSE(station.neighbours.take({}, station.reply));
}

TEST(Neighbours, WithoutAnAddressOfAKindNeitherAskNorAnswer) {
  Neighbours only_ipv6({.mac = kOwn.mac, .ipv4 = {}, .ipv6 = kOwn.ipv6});
  Neighbours only_ipv4({.mac = kOwn.mac, .ipv4 = kOwn.ipv4, .ipv6 = {}});
  Bytes reply;
  EXPECT_TRUE(only_ipv6.take(padded(kArpRequest), reply));
  EXPECT_TRUE(reply.empty());
  EXPECT_TRUE(only_ipv4.take(padded(kSolicitation), reply));
  EXPECT_TRUE(reply.empty());
  EXPECT_TRUE(only_ipv6.question_for(kOtherIpv4).empty());
  EXPECT_TRUE(only_ipv4.question_for(kOtherIpv6).empty());
}

// No truncated or changed frame causes an answer, except where the change does not matter.
TEST(Neighbours, RefuseWhatIsDamaged) {
  for (const std::string_view hex : {kArpRequest, kSolicitation, kAdvertisement, kIsItFree}) {
    const Bytes whole = from_hex(hex);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      Station station;
      // In memory of its own, so that AddressSanitizer detects a read behind the end.
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
      static_cast<void>(station.neighbours.take(cut, station.reply));
      EXPECT_TRUE(station.reply.empty()) << bytes;
    }
  }
  const Bytes whole = from_hex(kSolicitation);
  for (std::size_t at = 18; at < whole.size(); ++at) {
    Station station;
    Bytes changed = whole;
    changed[at] ^= std::byte{0x01};
    static_cast<void>(station.neighbours.take(changed, station.reply));
    EXPECT_TRUE(station.reply.empty()) << "byte " << at;
  }
}

TEST(Neighbours, SurviveAnyBytes) {
  std::mt19937 random(6);
  const std::array<Bytes, 3> seeds = {padded(kArpRequest), from_hex(kSolicitation), from_hex(kAdvertisement)};
  Station station;
  for (int i = 0; i < 100'000; ++i) {
    Bytes frame = seeds[static_cast<std::size_t>(random() % seeds.size())];
    for (unsigned changes = 1 + static_cast<unsigned>(random() % 4); changes > 0; --changes) {
      frame[random() % frame.size()] = static_cast<std::byte>(random());
    }
    frame.resize(random() % 8 == 0 ? random() % (frame.size() + 20) : frame.size());
    static_cast<void>(station.neighbours.take(frame, station.reply));
    ASSERT_LE(station.reply.size(), 100U);
  }
}

}  // namespace
}  // namespace sidelatch::roce

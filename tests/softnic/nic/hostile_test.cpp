// Frames of somebody who means harm, or of a broken wire: nothing outside of the region that they may write is written,
// and nothing crashes (which AddressSanitizer watches).
#include "softnic/nic/deferred_access.h"
#include "tests/paths.h"
#include "tests/roce/samples.h"
#include "tests/softnic/nic/fake_peer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::size_t kOpen = 0x8000;  // remote rights
constexpr std::size_t kOpenBytes = 0x4000;
constexpr std::byte kGuard{0xee};

// A host that lets others access [kOpen, kOpen + kOpenBytes) of its memory, with a connection in use. Receive buffers
// lie in there, too.
class Target {
 public:
  explicit Target(std::unique_ptr<MemoryAccess> access) : host(1, std::move(access)) {
    std::ranges::fill(host.bytes(0, Host::kMemoryBytes), kGuard);
    key = host.nic.register_memory({host.at(kOpen), kOpenBytes, host.address(kOpen), host.domain, Rights::all});
    // Reads are allowed here, writes are not.
    read_key = host.nic.register_memory({host.at(0), kOpen, host.address(0), host.domain, Rights::remote_read});
    host.nic.deregister_memory(host.key);
    peer.emplace(host, link());
    datagrams = &host.nic.make_queue_pair(host.options(QueuePairType::ud));
    bring_up(*datagrams, {}, {}, 0, Psn(0), Psn(0));
    refresh();
  }
  static Link link() { return {.mtu = PathMtu::b256, .retry_count = 2, .rnr_retry = 1, .dest_rd_atomic = 3}; }

  // Restores a connection that somebody has ended, and gives it work.
  void refresh() {
    QueuePair& pair = peer->pair;
    if (pair.state() == QueuePairState::error) {
      pair.modify({.state = QueuePairState::reset}, Attributes::state);
      bring_up(pair, link(), {.mac = {2, 9, 9, 9, 9, 9}, .gid = gid_of({10, 0, 0, 99})}, FakePeer::kQueuePair,
               FakePeer::kToHost, FakePeer::kFromHost);
      ++ended;
    }
    if (datagrams->state() == QueuePairState::error) {
      datagrams->modify({.state = QueuePairState::reset}, Attributes::state);
      bring_up(*datagrams, {}, {}, 0, Psn(0), Psn(0));
    }
    const Sge buffer{host.address(kOpen), 700, key};
    for (QueuePair* const each : {&pair, datagrams}) {
      while (each->post_receive({.id = 1, .sges = {&buffer, 1}}) == Post::done) {
      }
    }
    const std::array kKinds{WorkKind::write, WorkKind::read, WorkKind::fetch_add, WorkKind::send};
    for (int i = 0; i < 3; ++i) {
      static_cast<void>(pair.post_send({.id = 2,
                                        .kind = kKinds[posted++ % kKinds.size()],
                                        .sges = {&buffer, 1},
                                        .remote_address = 0x1000,
                                        .rkey = 5}));
    }
    static_cast<void>(peer->listen());
    static_cast<void>(host.sent());
    static_cast<void>(host.received());
    static_cast<void>(host.events());
  }

  [[nodiscard]] bool is_unharmed() {
    const auto is_guard = [](std::byte byte) { return byte == kGuard; };
    return std::ranges::all_of(host.bytes(0, kOpen), is_guard) &&
           std::ranges::all_of(host.bytes(kOpen + kOpenBytes, Host::kMemoryBytes - kOpen - kOpenBytes), is_guard);
  }

  Host host;
  std::optional<FakePeer> peer;
  QueuePair* datagrams = nullptr;
  std::uint32_t key = 0;
  std::uint32_t read_key = 0;
  std::size_t posted = 0;
  std::size_t ended = 0;
};

// A packet that fits the connection in most respects; each respect is random.
class Attacker {
 public:
  Attacker(Target& target, std::uint64_t seed) : target_(target), random_(seed) {}

  Packet next() {
    const std::vector<Opcode> opcodes = all_opcodes();
    const Opcode opcode = opcodes[random_() % opcodes.size()];
    Packet packet = target_.peer->packet(opcode, psn(opcode), payload(opcode));
    if (is_one_of(20)) {
      packet.bth.destination_qp = static_cast<std::uint32_t>(random_() & Psn::kMask);
    } else if (traits_of(opcode)->deth) {
      packet.bth.destination_qp = target_.datagrams->number();
    }
    packet.bth.ack_request = !is_one_of(4);
    packet.reth = {address(), key(), length(packet.payload.size())};
    packet.atomic = {address(), key(), random_(), random_()};
    if (!is_one_of(4)) {
      packet.atomic.virtual_address &= ~std::uint64_t{7};
    }
    packet.aeth = {Syndrome(static_cast<std::uint8_t>(is_one_of(3) ? random_() : 0x1f)), 0};
    packet.ieth = {is_one_of(3) ? target_.read_key + 1 : 0};
    packet.deth.q_key = 0x11223344;
    return packet;
  }

 private:
  bool is_one_of(std::uint64_t n) { return random_() % n == 0; }
  Psn psn(Opcode opcode) {
    const QueuePairAttributes now = target_.peer->pair.query();
    const bool is_answer = shape_of(opcode).kind == RequestShape::Kind::none;
    const Psn base = is_answer ? now.send_psn - 1 - static_cast<std::uint32_t>(random_() % 5) : now.receive_psn;
    switch (random_() % 8) {
      case 0:
        return base + static_cast<std::uint32_t>(random_() % 5);
      case 1:
        return base - static_cast<std::uint32_t>(random_() % 8);
      case 2:
        return Psn(static_cast<std::uint32_t>(random_()));
      default:
        return base;
    }
  }
  std::vector<std::byte> payload(Opcode opcode) {
    std::size_t bytes = 0;
    switch (traits_of(opcode)->payload) {
      case PayloadRule::none:
        break;
      case PayloadRule::exact:
        bytes = is_one_of(10) ? 512 : 256;
        break;
      case PayloadRule::non_empty:
        bytes = 1 + random_() % 256;
        break;
      case PayloadRule::any:
        bytes = random_() % 257;
        break;
      case PayloadRule::word:
        bytes = 8;
        break;
    }
    return std::vector<std::byte>(bytes, std::byte{0xaa});
  }
  std::uint64_t address() {
    const std::uint64_t open = target_.host.address(kOpen);
    switch (random_() % 6) {
      case 0:
        return open + kOpenBytes - random_() % 600;  // across the end
      case 1:
        return open - random_() % 600;
      case 2:
        return ~std::uint64_t{0} - random_() % 600;
      default:
        return open + random_() % (kOpenBytes / 2);
    }
  }
  std::uint32_t key() {
    return is_one_of(8) ? target_.read_key : is_one_of(30) ? static_cast<std::uint32_t>(random_()) : target_.key;
  }
  std::uint32_t length(std::size_t payload) {
    return is_one_of(6)   ? static_cast<std::uint32_t>(random_())
           : is_one_of(2) ? static_cast<std::uint32_t>(random_() % 2000)
                          : static_cast<std::uint32_t>(payload);
  }

  Target& target_;
  std::mt19937_64 random_;
};

std::unique_ptr<MemoryAccess> access_of(int kind) {
  if (kind == 0) {
    return std::make_unique<ImmediateAccess>();
  }
  return std::make_unique<DeferredAccess>(DeferredOptions{
      .rules = fabric::model::rules_of(kind == 1 ? fabric::model::Preset::strict : fabric::model::Preset::relaxed)});
}

class Hostile : public ::testing::TestWithParam<int> {};

TEST_P(Hostile, PacketsThatFitTheConnectionHarmNothing) {
  Target target(access_of(GetParam()));
  Attacker attacker(target, 1);
  std::mt19937_64 random(2);
  for (int i = 0; i < 30'000; ++i) {
    static_cast<void>(target.peer->tell(attacker.next()));
    if (random() % 8 == 0) {
      static_cast<void>(target.peer->wait(random() % 3'000'000));
    }
    if (random() % 4 == 0) {
      target.refresh();
    }
    if (i % 1000 == 0) {
      ASSERT_TRUE(target.is_unharmed()) << i;
    }
  }
  static_cast<void>(target.peer->wait(Time{1} << 40));
  EXPECT_TRUE(target.is_unharmed());
  EXPECT_GT(target.ended, 100U);
  const NicCounters& counters = target.host.nic.counters();
  EXPECT_GT(counters.duplicates, 100U);
  EXPECT_GT(counters.out_of_sequence, 100U);
  EXPECT_GT(counters.sent, 1000U);
  // The open part was actually reached.
  EXPECT_NE(std::ranges::count(target.host.bytes(kOpen, kOpenBytes), std::byte{0xaa}), 0);
}

// A READ of 2 GiB whose answers nobody takes, repeated READs, and endless requests.
TEST_P(Hostile, AFloodPilesNothingUp) {
  Target target(access_of(GetParam()));
  Attacker attacker(target, 3);
  for (int i = 0; i < 20'000; ++i) {
    const Packet packet = attacker.next();
    std::vector<std::byte> frame(encoded_bytes(packet));
    ASSERT_EQ(std::get<std::size_t>(build(packet, frame)), frame.size());
    target.host.nic.on_frame(frame, target.peer->now);
    target.host.nic.advance(++target.peer->now);
    if (i % 2000 == 0) {
      target.refresh();
    }
  }
  static_cast<void>(target.peer->listen());
  EXPECT_TRUE(target.is_unharmed());
}

INSTANTIATE_TEST_SUITE_P(Roce, Hostile, ::testing::Values(0, 1, 2), [](const auto& test) {
  return test.param == 0 ? "Immediate" : test.param == 1 ? "Strict" : "Relaxed";
});

std::vector<Bytes> known_frames() {
  std::vector<Bytes> frames = read_capture("rxe_ipv4.pcap");
  for (const auto& entry : std::filesystem::directory_iterator(in_source_tree("tests/data/roce/corpus"))) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const auto* const data = reinterpret_cast<const std::byte*>(bytes.data());
    frames.emplace_back(data, data + bytes.size());
  }
  return frames;
}

// Every frame of the captures and the corpus, addressed to the connection, with flipped bits: the ICRC refuses it. With
// a corrected ICRC it is a normal packet.
TEST(HostileFrames, FlippedBitsHarmNothing) {
  Target target(access_of(0));
  std::mt19937_64 random(4);
  std::uint64_t accepted = 0;
  for (const Bytes& known : known_frames()) {
    const auto parsed = parse_frame(known, IcrcCheck::no);
    for (int round = 0; round < 40; ++round) {
      Bytes frame = known;
      if (const auto* const packet = std::get_if<Packet>(&parsed)) {
        Packet ours = target.peer->packet(packet->bth.opcode, target.peer->pair.query().receive_psn, packet->payload);
        ours.reth = packet->reth;
        ours.reth.virtual_address = target.host.address(kOpen);
        ours.reth.r_key = target.key;
        ours.atomic = packet->atomic;
        ours.aeth = packet->aeth;
        frame = built(ours);
      }
      for (std::uint64_t flips = 1 + random() % 3; flips > 0 && !frame.empty(); --flips) {
        frame[random() % frame.size()] ^= static_cast<std::byte>(1U << random() % 8);
      }
      const std::uint64_t before = target.host.nic.counters().refused;
      static_cast<void>(target.peer->tell_frame(frame));
      accepted += before == target.host.nic.counters().refused ? 1U : 0U;
      if (const auto again = parse_frame(frame, IcrcCheck::no); std::holds_alternative<Packet>(again)) {
        static_cast<void>(target.peer->tell_frame(built(std::get<Packet>(again))));
      }
      target.refresh();
    }
    // Truncated at every length.
    for (std::size_t length = 0; length < known.size(); length += 1 + length / 16) {
      static_cast<void>(target.peer->tell_frame(std::span(known).first(length)));
    }
  }
  EXPECT_TRUE(target.is_unharmed());
  // The ICRC covers everything except Ethernet's addresses and some fields of IP and UDP.
  EXPECT_LT(accepted, known_frames().size() * 20);
}

}  // namespace
}  // namespace sidelatch::softnic::nic

// Requests that Linux's soft-RoCE driver sent, given to our responder, which must answer like that driver.
//
// The capture contains keys and addresses of the machine where it was taken. The region here gets the captured address.
// The packets get our key, except the one whose key was wrong on purpose.
#include "softnic/nic/nic.h"
#include "tests/roce/samples.h"
#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::size_t kRoom = 16384;  // as in rxe_traffic.py
constexpr Psn kFirstPsn{0xfffff8};
constexpr std::uint32_t kWrongKey = 0x7fffff00;

// One end of a capture, played by our NIC.
class Replay {
 public:
  explicit Replay(const std::string& capture) : frames_(read_capture(capture)) {
    for (const Bytes& frame : frames_) {
      packets_.push_back(std::get<Packet>(parse_frame(frame)));
    }
    // The first packet is a request.
    target_ = destination_gid(packets_[0]);
    NicOptions options{.mac = packets_[0].ethernet->destination, .gids = {target_}};
    nic_.emplace(options, memory_);
    domain_ = nic_->make_domain();
    completions_ = &nic_->make_completion_queue(256);
  }

  void run() {
    for (std::size_t i = 0; i < packets_.size(); ++i) {
      if (is_request(packets_[i])) {
        SCOPED_TRACE(i);
        give(i);
      }
    }
  }

  // The compared contents of answers: all but the UDP source port and IP's own fields, which each sender chooses.
  struct Heard {
    Bth bth;
    Aeth aeth;
    std::uint64_t original = 0;
    std::string payload;
  };
  [[nodiscard]] static Heard told(const Packet& packet) {
    const OpcodeTraits traits = *traits_of(packet.bth.opcode);
    Bth bth = packet.bth;
    bth.migration = true;  // the driver sends 0 there
    return {.bth = bth,
            .aeth = traits.aeth ? packet.aeth : Aeth{},
            .original = traits.atomic_ack_eth ? packet.atomic_ack.original : 0,
            .payload = to_hex(packet.payload)};
  }
  [[nodiscard]] std::vector<Heard> wanted() const {
    std::vector<Heard> all;
    for (const Packet& packet : packets_) {
      if (!is_request(packet)) {
        all.push_back(told(packet));
      }
    }
    return all;
  }
  [[nodiscard]] const std::vector<Heard>& heard() const { return heard_; }
  [[nodiscard]] std::size_t datagrams() const { return datagrams_; }

 private:
  struct Pair {
    QueuePair* pair;
    std::vector<std::byte> memory;
    std::uint32_t key;
    std::uint32_t their_key;
    std::uint64_t their_address;
  };

  [[nodiscard]] bool is_request(const Packet& packet) const { return destination_gid(packet) == target_; }

  // The driver's answer to the queue pair that sent packet `from`.
  [[nodiscard]] const Packet* next_answer(std::size_t from) const {
    for (std::size_t i = from; i < packets_.size(); ++i) {
      if (!is_request(packets_[i])) {
        return &packets_[i];
      }
    }
    return nullptr;
  }

  // A pair with the key and address named by requests to this queue pair, and the path MTU of their packets.
  Pair& pair_of(std::size_t number) {
    const Packet& request = packets_[number];
    const auto found = pairs_.find(request.bth.destination_qp);
    if (found != pairs_.end()) {
      return found->second;
    }
    Pair& made = pairs_[request.bth.destination_qp];
    made.memory.resize(kRoom);
    for (std::size_t i = 0; i < kRoom; ++i) {
      made.memory[i] = static_cast<std::byte>(i * 131 % 251);
    }
    const bool is_datagram = traits_of(request.bth.opcode)->deth;
    PathMtu mtu = PathMtu::b256;
    made.their_key = 0;
    made.their_address = 0x1000;
    for (std::size_t i = number; i < packets_.size(); ++i) {
      const Packet& packet = packets_[i];
      if (is_request(packet) && packet.bth.destination_qp == request.bth.destination_qp) {
        if (traits_of(packet.bth.opcode)->reth && packet.reth.r_key != kWrongKey && made.their_key == 0) {
          made.their_key = packet.reth.r_key;
          made.their_address = packet.reth.virtual_address;
        }
        if (packet.bth.opcode == Opcode::write_first) {
          mtu = static_cast<PathMtu>(packet.payload.size());
        }
      }
    }
    made.key = nic_->register_memory({made.memory.data(), kRoom, made.their_address, domain_, Rights::all});
    QueuePairOptions options{.type = is_datagram ? QueuePairType::ud : QueuePairType::rc,
                             .domain = domain_,
                             .send_completions = completions_,
                             .receive_completions = completions_,
                             .receive_depth = 16,
                             .number = request.bth.destination_qp};
    made.pair = &nic_->make_queue_pair(options);
    const Packet* const answer = is_datagram ? nullptr : next_answer(number);
    const std::uint32_t theirs = answer == nullptr ? 0 : answer->bth.destination_qp;
    const AddressVector back{.mac = request.ethernet->source, .gid = source_gid(request)};
    const bool is_slow = answer != nullptr && answer->aeth.syndrome.kind() == Syndrome::Kind::rnr_nak;
    const Link link{.mtu = mtu, .min_rnr_timer = static_cast<std::uint8_t>(is_slow ? 24 : 12)};
    bring_up(*made.pair, link, back, theirs, kFirstPsn, kFirstPsn);
    return made;
  }

  void give(std::size_t number) {
    Pair& pair = pair_of(number);
    Packet packet = packets_[number];
    const OpcodeTraits traits = *traits_of(packet.bth.opcode);
    if (traits.reth && packet.reth.r_key == pair.their_key) {
      packet.reth.r_key = pair.key;
    }
    if (traits.atomic_eth) {
      ASSERT_EQ(packet.atomic.r_key, pair.their_key);
      packet.atomic.r_key = pair.key;
    }
    const Packet* const answer = next_answer(number);
    const bool is_refused = answer != nullptr && answer->bth.psn == packet.bth.psn &&
                            traits_of(answer->bth.opcode)->aeth &&
                            answer->aeth.syndrome.kind() == Syndrome::Kind::rnr_nak;
    const RequestShape shape = shape_of(packet.bth.opcode);
    const bool needs_buffer = (shape.kind == RequestShape::Kind::send && shape.starts) || shape.has_immediate;
    const bool in_message = shape.kind == RequestShape::Kind::send && !shape.starts;
    if (((needs_buffer && !in_message) || traits.deth) && !is_refused) {
      const Sge sge{pair.their_address, kRoom, pair.key};
      ASSERT_EQ(pair.pair->post_receive({.id = number, .sges = {&sge, 1}}), Post::done);
    }
    const Bytes frame = built(packet);
    nic_->on_frame(frame, now_ += 1000);
    Bytes buffer(kFrameRoom);
    while (const std::size_t bytes = nic_->pull_frame(buffer, now_)) {
      heard_.push_back(told(std::get<Packet>(parse_frame(std::span(buffer).first(bytes)))));
    }
    if (traits.deth) {
      EXPECT_TRUE(std::ranges::equal(packet.payload, std::span(pair.memory).subspan(kGrhBytes, packet.payload.size())));
      ++datagrams_;
    }
    std::array<Completion, 16> completions;
    for (const Completion& completion : std::span(completions).first(completions_->poll(completions))) {
      EXPECT_TRUE(completion.status == CompletionStatus::success || completion.status == CompletionStatus::flushed);
      if (completion.has_immediate) {
        EXPECT_EQ(completion.immediate, packet.immediate.data);
      }
    }
  }

  std::vector<Bytes> frames_;
  std::vector<Packet> packets_;
  Gid target_{};
  ImmediateAccess memory_;
  std::optional<Nic> nic_;
  Domain domain_ = 0;
  CompletionQueue* completions_ = nullptr;
  std::map<std::uint32_t, Pair> pairs_;
  std::vector<Heard> heard_;
  std::size_t datagrams_ = 0;
  Time now_ = 0;
};

class SoftRoceConformance : public ::testing::TestWithParam<const char*> {};

TEST_P(SoftRoceConformance, WeAnswerWhatTheDriverAnswered) {
  Replay replay(GetParam());
  replay.run();
  const auto wanted = replay.wanted();
  ASSERT_EQ(replay.heard().size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(name(replay.heard()[i].bth.opcode), name(wanted[i].bth.opcode));
    EXPECT_EQ(replay.heard()[i].bth.psn, wanted[i].bth.psn);
    EXPECT_TRUE(replay.heard()[i].bth == wanted[i].bth);
    EXPECT_EQ(replay.heard()[i].aeth.syndrome, wanted[i].aeth.syndrome);
    EXPECT_EQ(replay.heard()[i].aeth.msn, wanted[i].aeth.msn);
    EXPECT_EQ(replay.heard()[i].original, wanted[i].original);
    EXPECT_EQ(replay.heard()[i].payload, wanted[i].payload);
  }
  EXPECT_EQ(replay.datagrams(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Roce, SoftRoceConformance, ::testing::Values("rxe_ipv4.pcap", "rxe_ipv6.pcap"),
                         [](const auto& test) { return std::string(test.param).substr(4, 4); });

}  // namespace
}  // namespace sidelatch::softnic::nic

// A wire that loses, repeats and reorders frames: each completed operation has happened once and in order.
#include "softnic/nic/deferred_access.h"
#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace sidelatch::softnic::nic {
namespace {

struct Plan {
  WireFaults faults;
  std::uint64_t seeds = 0;
  std::size_t requests = 0;
  const char* name = "";
  std::optional<fabric::model::Preset> memory{};  ///< of the side that answers
};

std::unique_ptr<MemoryAccess> make_memory(const Plan& plan, std::uint64_t seed) {
  if (plan.memory) {
    return std::make_unique<DeferredAccess>(
        DeferredOptions{.rules = fabric::model::rules_of(*plan.memory), .seed = seed, .spread = 5000});
  }
  return std::make_unique<ImmediateAccess>();
}

constexpr std::size_t kCounter = 0;         // on b: a FETCH-ADD of 1 by each
constexpr std::size_t kResults = 0x1000;    // on a: what the FETCH-ADDs found
constexpr std::size_t kSent = 0x4000;       // on a: what WRITEs and SENDs carry
constexpr std::size_t kWritten = 0x4000;    // on b
constexpr std::size_t kReceived = 0x14000;  // on b
constexpr std::size_t kRead = 0x24000;      // on a
constexpr std::size_t kSource = 0x30000;    // on b: what READs find; nobody changes it
constexpr std::size_t kSlot = 1600;         // bytes for each request

// One connection, with requests of all kinds whose values show when they happened, and checks of the results.
class Exchange {
 public:
  Exchange(const Plan& plan, std::uint64_t seed)
      : plan_(plan),
        random_(seed),
        b_(2, make_memory(plan, seed)),
        wire_({&a_, &b_}, plan.faults, seed),
        pair_(connect(a_, b_, link())) {
    b_.fill(kSource, 4 * kSlot, 99);
    a_.fill(kSent, plan.requests * kSlot, static_cast<std::uint32_t>(seed));
  }

  void go() {
    for (std::size_t i = 0; i < plan_.requests; ++i) {
      post(i);
    }
    wire_.run();
    judge();
  }
  [[nodiscard]] bool has_failed() const { return failed_; }
  [[nodiscard]] const NicCounters& counters() const { return a_.nic.counters(); }

 private:
  Link link() {
    Link link{.mtu = PathMtu::b256};
    link.a_to_b = Psn(static_cast<std::uint32_t>(0xffffff - random_() % 64));
    link.rd_atomic = link.dest_rd_atomic = static_cast<std::uint8_t>(1 + random_() % 4);
    link.min_rnr_timer = 1;
    return link;
  }

  void post(std::size_t i) {
    constexpr std::array kKinds{WorkKind::fetch_add,           WorkKind::send,        WorkKind::write, WorkKind::read,
                                WorkKind::send_with_immediate, WorkKind::compare_swap};
    const WorkKind kind = kKinds[random_() % kKinds.size()];
    const std::size_t length = random_() % kSlot;
    Sge sge = a_.sge(kSent + i * kSlot, length);
    SendRequest work{.id = i, .kind = kind, .signaled = true, .fence = random_() % 5 == 0, .rkey = b_.key};
    work.immediate = static_cast<std::uint32_t>(i);
    switch (kind) {
      case WorkKind::fetch_add:
      case WorkKind::compare_swap:
        sge = a_.sge(kResults + 8 * i, 8);
        work.remote_address = b_.address(kCounter);
        // A compare-and-swap succeeds only in its turn, after all earlier ones have happened once.
        work.compare = atomics_;
        work.swap_or_add = kind == WorkKind::fetch_add ? 1 : atomics_ + 1;
        expected_[i] = atomics_++;
        break;
      case WorkKind::write:
        work.remote_address = b_.address(kWritten + i * kSlot);
        break;
      case WorkKind::read:
        sge = a_.sge(kRead + i * kSlot, length);
        work.remote_address = b_.address(kSource + length);
        break;
      default: {
        const Sge to = b_.sge(kReceived + receives_ * kSlot, kSlot);
        ASSERT_EQ(pair_.b.post_receive({.id = i, .sges = {&to, 1}}), Post::done);
        ++receives_;
        break;
      }
    }
    kinds_.push_back(kind);
    lengths_.push_back(length);
    work.sges = {&sge, 1};
    ASSERT_EQ(pair_.a.post_send(work), Post::done);
  }

  void judge() {
    const auto sent = a_.sent();
    ASSERT_EQ(sent.size(), plan_.requests);
    std::size_t done = 0;
    while (done < sent.size() && sent[done].status == CompletionStatus::success) {
      ++done;
    }
    failed_ = done < sent.size();
    for (std::size_t i = 0; i < sent.size(); ++i) {
      ASSERT_EQ(sent[i].id, i);
      if (i == done) {
        // Enough losses in a row end the connection.
        ASSERT_EQ(sent[i].status, CompletionStatus::retry_exceeded) << text(sent[i].status);
      } else if (i > done) {
        ASSERT_EQ(sent[i].status, CompletionStatus::flushed);
      }
    }
    std::vector<std::size_t> arrived;
    for (const Completion& completion : b_.received()) {
      if (completion.status == CompletionStatus::success) {
        arrived.push_back(completion.id);
      }
    }
    std::size_t receives = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      SCOPED_TRACE(i);
      const bool is_message = kinds_[i] == WorkKind::send || kinds_[i] == WorkKind::send_with_immediate;
      if (i < done) {
        check_done(i, receives);
        if (is_message) {
          ASSERT_GT(arrived.size(), receives);
        }
      }
      receives += is_message ? 1U : 0U;
    }
    // No message arrives twice or out of order.
    ASSERT_LE(arrived.size(), receives);
    ASSERT_TRUE(std::ranges::is_sorted(arrived));
    ASSERT_EQ(std::ranges::adjacent_find(arrived), arrived.end());
    // Some flushed atomics may have happened, each at most once.
    const std::uint64_t counter = b_.word(kCounter);
    ASSERT_LE(counter, atomics_);
    if (!failed_) {
      ASSERT_EQ(counter, atomics_);
      ASSERT_EQ(arrived.size(), receives);
    }
  }

  void check_done(std::size_t i, std::size_t receives) {
    const auto same = [&](std::byte* found, std::byte* wanted) {
      ASSERT_TRUE(std::equal(found, found + lengths_[i], wanted));
    };
    switch (kinds_[i]) {
      case WorkKind::fetch_add:
      case WorkKind::compare_swap:
        ASSERT_EQ(a_.word(kResults + 8 * i), expected_[i]);
        break;
      case WorkKind::write:
        same(b_.at(kWritten + i * kSlot), a_.at(kSent + i * kSlot));
        break;
      case WorkKind::read:
        same(a_.at(kRead + i * kSlot), b_.at(kSource + lengths_[i]));
        break;
      default:
        same(b_.at(kReceived + receives * kSlot), a_.at(kSent + i * kSlot));
        break;
    }
  }

  Plan plan_;
  std::mt19937_64 random_;
  Host a_{1};
  Host b_;
  LossyWire wire_;
  Connection pair_;
  std::vector<WorkKind> kinds_;
  std::vector<std::size_t> lengths_;
  std::map<std::size_t, std::uint64_t> expected_;
  std::uint64_t atomics_ = 0;
  std::size_t receives_ = 0;
  bool failed_ = false;
};

class Loss : public ::testing::TestWithParam<Plan> {};

TEST_P(Loss, WhatCompletesHasHappenedOnceAndInOrder) {
  const Plan& plan = GetParam();
  std::uint64_t failed = 0;
  std::uint64_t retransmissions = 0;
  for (std::uint64_t seed = 1; seed <= plan.seeds; ++seed) {
    SCOPED_TRACE(seed);
    Exchange run(plan, seed);
    run.go();
    ASSERT_FALSE(HasFatalFailure());
    failed += run.has_failed() ? 1U : 0U;
    retransmissions += run.counters().retransmissions;
  }
  // A connection gives up only if eight rounds in a row are lost.
  EXPECT_LE(failed, plan.faults.drop > 0.1 ? plan.seeds / 20 : 0);
  EXPECT_EQ(retransmissions > 0, plan.faults.drop > 0 || plan.faults.reorder > 0);
}

INSTANTIATE_TEST_SUITE_P(
    Roce, Loss,
    ::testing::Values(Plan{{}, 50, 24, "none"}, Plan{{0, 0.3, 0}, 100, 24, "repeated"},
                      Plan{{0, 0, 0.2}, 300, 24, "reordered"}, Plan{{0.02, 0.02, 0.02}, 500, 24, "some"},
                      Plan{{0.2, 0.1, 0.1}, 1000, 16, "much"}, Plan{{0.2, 0, 0}, 500, 16, "lost"},
                      Plan{{}, 50, 24, "strict", fabric::model::Preset::strict},
                      Plan{{0.02, 0.02, 0.02}, 300, 24, "some_strict", fabric::model::Preset::strict},
                      Plan{{0.02, 0.02, 0.02}, 300, 24, "some_observed", fabric::model::Preset::observed},
                      Plan{{0.2, 0.1, 0.1}, 300, 16, "much_relaxed", fabric::model::Preset::relaxed}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace sidelatch::softnic::nic

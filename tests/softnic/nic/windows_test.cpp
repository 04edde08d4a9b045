// Memory windows, invalidation, and ATOMIC WRITE.
#include "softnic/nic/deferred_access.h"
#include "tests/softnic/nic/wired_nics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

class WindowsTest : public ::testing::Test {
 protected:
  // b opens [0x1000, 0x1100) of its memory by the window.
  [[nodiscard]] Binding binding(std::uint32_t window, std::uint8_t tag, Rights rights = Rights::remote_write) {
    return {.window = window,
            .new_key = (window & ~0xffU) | tag,
            .region = open_,
            .address = b_.address(0x1000),
            .length = 0x100,
            .rights = rights};
  }
  CompletionStatus bind(QueuePair& pair, const Binding& wanted) {
    return run(pair, {.kind = WorkKind::bind_window, .signaled = true, .binding = wanted});
  }
  CompletionStatus run(QueuePair& pair, const SendRequest& request) {
    EXPECT_EQ(pair.post_send(request), Post::done);
    wire_.run();
    auto sent = &pair == &pair_.a ? a_.sent() : b_.sent();
    EXPECT_EQ(sent.size(), 1U);
    return sent.empty() ? CompletionStatus::flushed : sent[0].status;
  }
  CompletionStatus write(std::uint32_t key, std::uint64_t address, std::size_t length) {
    const Sge sge = a_.sge(0, length);
    return run(pair_.a,
               {.kind = WorkKind::write, .signaled = true, .sges = {&sge, 1}, .remote_address = address, .rkey = key});
  }
  Host a_{1};
  Host b_{2};
  LossyWire wire_{{&a_, &b_}};
  Connection pair_ = connect(a_, b_);
  std::uint32_t open_ =
      b_.nic.register_memory({b_.at(0), 0x4000, b_.address(0), b_.domain, Rights::all | Rights::window_bind});
};

TEST_F(WindowsTest, AWindowOpensItsPartOnly) {
  for (const WindowType type : {WindowType::one, WindowType::two}) {
    const std::uint32_t window = b_.nic.make_window(b_.domain, type);
    const Binding wanted = binding(window, 0x55);
    ASSERT_EQ(bind(pair_.b, wanted), CompletionStatus::success);
    EXPECT_EQ(b_.nic.window_key(window), wanted.new_key);
    a_.fill(0, 0x100, 4);
    EXPECT_EQ(write(wanted.new_key, b_.address(0x1000), 0x100), CompletionStatus::success);
    EXPECT_TRUE(std::ranges::equal(b_.bytes(0x1000, 0x100), a_.bytes(0, 0x100)));
    b_.nic.destroy_window(window);
  }
}

TEST_F(WindowsTest, OutsideOfItNothingIsWritten) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::two);
  const Binding wanted = binding(window, 1);
  ASSERT_EQ(bind(pair_.b, wanted), CompletionStatus::success);
  EXPECT_EQ(write(wanted.new_key, b_.address(0x1001), 0x100), CompletionStatus::remote_access);
}

TEST_F(WindowsTest, WithoutTheRightNothingIsRead) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::two);
  const Binding wanted = binding(window, 1);
  ASSERT_EQ(bind(pair_.b, wanted), CompletionStatus::success);
  const Sge sge = a_.sge(0, 8);
  EXPECT_EQ(
      run(pair_.a,
          {.kind = WorkKind::read, .sges = {&sge, 1}, .remote_address = b_.address(0x1000), .rkey = wanted.new_key}),
      CompletionStatus::remote_access);
}

TEST_F(WindowsTest, ZeroBasedAddressesBeginAtTheWindow) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::one);
  Binding wanted = binding(window, 1);
  wanted.is_zero_based = true;
  ASSERT_EQ(bind(pair_.b, wanted), CompletionStatus::success);
  a_.fill(0, 8, 9);
  EXPECT_EQ(write(wanted.new_key, 8, 8), CompletionStatus::success);
  EXPECT_TRUE(std::ranges::equal(b_.bytes(0x1008, 8), a_.bytes(0, 8)));
}

TEST_F(WindowsTest, AWindowIsNoLocalKey) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::one);
  ASSERT_EQ(bind(pair_.b, binding(window, 1, Rights::remote_read)), CompletionStatus::success);
  const Sge sge{b_.address(0x1000), 8, b_.nic.window_key(window)};
  EXPECT_EQ(run(pair_.b, {.sges = {&sge, 1}}), CompletionStatus::local_protection);
}

TEST_F(WindowsTest, WrongBindingsAreRefused) {
  const std::uint32_t plain = b_.nic.register_memory({b_.at(0), 0x4000, b_.address(0), b_.domain, Rights::all});
  const std::uint32_t read_only =
      b_.nic.register_memory({b_.at(0), 0x4000, b_.address(0), b_.domain, Rights::remote_read | Rights::window_bind});
  const Domain foreign = b_.nic.make_domain();
  const std::vector<std::function<void(Binding&)>> changes{[&](Binding& wanted) { wanted.region = plain; },
                                                           [&](Binding& wanted) { wanted.region = read_only; },
                                                           [&](Binding& wanted) { wanted.length = 0x4000; },
                                                           [&](Binding& wanted) { wanted.new_key += 0x100; },
                                                           [&](Binding& wanted) { wanted.window = plain; },
                                                           [&](Binding& wanted) {
                                                             wanted.window =
                                                                 b_.nic.make_window(foreign, WindowType::two);
                                                             wanted.new_key = wanted.window + 1;
                                                           }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    const Connection pair = connect(a_, b_);
    Binding wanted = binding(b_.nic.make_window(b_.domain, WindowType::two), 7);
    changes[i](wanted);
    EXPECT_EQ(bind(pair.b, wanted), CompletionStatus::window_bind);
    EXPECT_EQ(pair.b.state(), QueuePairState::error);
  }
}

TEST_F(WindowsTest, ARegionWithWindowsIsBusy) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::one);
  ASSERT_EQ(bind(pair_.b, binding(window, 1)), CompletionStatus::success);
  EXPECT_THROW(b_.nic.deregister_memory(open_), NicError);
  Binding nothing = binding(window, 2);
  nothing.length = 0;
  ASSERT_EQ(bind(pair_.b, nothing), CompletionStatus::success);
  EXPECT_EQ(write(b_.nic.window_key(window), b_.address(0x1000), 8), CompletionStatus::remote_access);
  b_.nic.deregister_memory(open_);
  b_.nic.destroy_window(window);
}

TEST_F(WindowsTest, AWindowOfTypeTwoServesOnlyItsQueuePair) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::two);
  const Connection other = connect(a_, b_);
  const Binding wanted = binding(window, 1);
  ASSERT_EQ(bind(other.b, wanted), CompletionStatus::success);
  EXPECT_EQ(write(wanted.new_key, b_.address(0x1000), 8), CompletionStatus::remote_access);
}

TEST_F(WindowsTest, AWindowOfTypeTwoIsInvalidatedBeforeItIsBoundAgain) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::two);
  const Binding first = binding(window, 1);
  ASSERT_EQ(bind(pair_.b, first), CompletionStatus::success);
  ASSERT_EQ(run(pair_.b, {.kind = WorkKind::invalidate, .signaled = true, .invalidate_key = first.new_key}),
            CompletionStatus::success);
  ASSERT_EQ(bind(pair_.b, binding(window, 2)), CompletionStatus::success);
  EXPECT_EQ(bind(pair_.b, binding(window, 3)), CompletionStatus::window_bind);
}

TEST_F(WindowsTest, TheOtherSideInvalidatesAWindowOfTypeTwo) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::two);
  const Binding wanted = binding(window, 1);
  ASSERT_EQ(bind(pair_.b, wanted), CompletionStatus::success);
  const Sge to = b_.sge(0x3000, 8);
  ASSERT_EQ(pair_.b.post_receive({.id = 1, .sges = {&to, 1}}), Post::done);
  const Sge from = a_.sge(0, 8);
  ASSERT_EQ(run(pair_.a, {.kind = WorkKind::send_with_invalidate,
                          .signaled = true,
                          .sges = {&from, 1},
                          .invalidate_key = wanted.new_key}),
            CompletionStatus::success);
  const auto received = b_.received();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_TRUE(received[0].has_invalidated);
  EXPECT_EQ(received[0].invalidated_key, wanted.new_key);
  EXPECT_EQ(write(wanted.new_key, b_.address(0x1000), 8), CompletionStatus::remote_access);
}

TEST_F(WindowsTest, AWindowOfTypeOneIsNotInvalidated) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::one);
  const Binding wanted = binding(window, 1);
  ASSERT_EQ(bind(pair_.b, wanted), CompletionStatus::success);
  EXPECT_EQ(run(pair_.b, {.kind = WorkKind::invalidate, .invalidate_key = wanted.new_key}),
            CompletionStatus::local_operation);
}

TEST_F(WindowsTest, ARegionIsNotInvalidated) {
  EXPECT_EQ(run(pair_.b, {.kind = WorkKind::invalidate, .invalidate_key = open_}), CompletionStatus::local_operation);
  EXPECT_EQ(pair_.b.state(), QueuePairState::error);
}

// Requests before an invalidation are done before it, and complete in order.
TEST_F(WindowsTest, LocalRequestsCompleteInTheirTurn) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::two);
  const Binding wanted = binding(window, 1);
  const Sge sge = b_.sge(0, 3000);
  const SendRequest send{.id = 1,
                         .kind = WorkKind::write,
                         .signaled = true,
                         .sges = {&sge, 1},
                         .remote_address = a_.address(0),
                         .rkey = a_.key};
  ASSERT_EQ(pair_.b.post_send(send), Post::done);
  ASSERT_EQ(pair_.b.post_send({.id = 2, .kind = WorkKind::bind_window, .signaled = true, .binding = wanted}),
            Post::done);
  ASSERT_EQ(
      pair_.b.post_send({.id = 3, .kind = WorkKind::invalidate, .signaled = true, .invalidate_key = wanted.new_key}),
      Post::done);
  SendRequest last = send;
  last.id = 4;
  ASSERT_EQ(pair_.b.post_send(last), Post::done);
  wire_.set_faults({.drop = 0.3});
  wire_.run();
  std::vector<std::uint64_t> order;
  for (const Completion& completion : b_.sent()) {
    EXPECT_EQ(completion.status, CompletionStatus::success);
    order.push_back(completion.id);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

// The binding is done, but its completion waits for that of the WRITE before it, which is to be sent again. The
// answer of the READ behind it is not the binding's.
TEST_F(WindowsTest, ABindingThatIsDoneTakesNoAnswerOfWhatFollows) {
  const Binding wanted = binding(b_.nic.make_window(b_.domain, WindowType::two), 1);
  const Sge sge = b_.sge(0, 8);
  const auto post = [&](std::uint64_t id, WorkKind kind) {
    ASSERT_EQ(pair_.b.post_send({.id = id,
                                 .kind = kind,
                                 .signaled = true,
                                 .sges = {&sge, 1},
                                 .remote_address = a_.address(0x100),
                                 .rkey = a_.key,
                                 .binding = wanted}),
              Post::done);
  };
  post(1, WorkKind::write);
  post(2, WorkKind::bind_window);
  post(3, WorkKind::read);
  // All are sent and done. The answers come when the WRITE, and nothing else, has been sent again.
  std::vector<std::vector<std::byte>> answers;
  wire_.on_send = [&](std::vector<std::byte>& frame) {
    const bool is_answer = Ethernet::read(frame.data()).source == a_.nic.options().mac;
    if (is_answer) {
      answers.push_back(frame);
    }
    return !is_answer;
  };
  wire_.run([&] { return answers.size() == 2; });
  wire_.set_now(b_.nic.next_deadline());
  b_.nic.advance(wire_.now());
  std::vector<std::byte> again(kFrameRoom);
  ASSERT_NE(b_.nic.pull_frame(again, wire_.now()), 0U);
  wire_.on_send = nullptr;
  for (const std::vector<std::byte>& answer : answers) {
    b_.nic.on_frame(answer, wire_.now());
  }
  wire_.run();
  std::vector<std::uint64_t> order;
  for (const Completion& completion : b_.sent()) {
    EXPECT_EQ(completion.status, CompletionStatus::success);
    order.push_back(completion.id);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(pair_.b.state(), QueuePairState::rts);
}

TEST_F(WindowsTest, AKeyThatItsProgramChoseDoesNotComeBackWhenTheWindowEnds) {
  const std::uint32_t window = b_.nic.make_window(b_.domain, WindowType::two);
  const Binding first = binding(window, static_cast<std::uint8_t>(window + 5));
  ASSERT_EQ(bind(pair_.b, first), CompletionStatus::success);
  ASSERT_EQ(run(pair_.b, {.kind = WorkKind::invalidate, .signaled = true, .invalidate_key = first.new_key}),
            CompletionStatus::success);
  ASSERT_EQ(bind(pair_.b, binding(window, static_cast<std::uint8_t>(window + 4))), CompletionStatus::success);
  b_.nic.destroy_window(window);
  // Somebody may still have the first key.
  for (int i = 0; i < 8; ++i) {
    EXPECT_NE(b_.nic.make_window(b_.domain, WindowType::two), first.new_key);
  }
}

// The other side may end its window by the last message of its work. With an order that work may still be under way.
TEST(WindowsOfDeferredAccess, WhatCameBeforeAnInvalidationOfTheOtherSideIsThereWithItsMessage) {
  using fabric::model::Preset;
  for (const Preset preset : {Preset::strict, Preset::observed, Preset::relaxed}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Host a(1);
      Host b(2, std::make_unique<DeferredAccess>(
                    DeferredOptions{.rules = fabric::model::rules_of(preset), .seed = seed, .torn_bias = 0.5}));
      LossyWire wire({&a, &b});
      const Connection pair = connect(a, b);
      const std::uint32_t region =
          b.nic.register_memory({b.at(0), 0x4000, b.address(0), b.domain, Rights::all | Rights::window_bind});
      const std::uint32_t window = b.nic.make_window(b.domain, WindowType::two);
      const Binding binding{.window = window,
                            .new_key = window ^ 1U,
                            .region = region,
                            .address = b.address(0x1000),
                            .length = 0x1000,
                            .rights = Rights::remote_write | Rights::remote_atomic};
      ASSERT_EQ(pair.b.post_send({.kind = WorkKind::bind_window, .binding = binding}), Post::done);
      wire.run();
      ASSERT_EQ(pair.b.post_receive({.id = 1}), Post::done);
      a.fill(0, 0x800, static_cast<std::uint32_t>(seed));
      const Sge bytes = a.sge(0, 0x800);
      const Sge old = a.sge(0x2000, 8);
      ASSERT_EQ(pair.a.post_send({.kind = WorkKind::write,
                                  .sges = {&bytes, 1},
                                  .remote_address = b.address(0x1000),
                                  .rkey = binding.new_key}),
                Post::done);
      ASSERT_EQ(pair.a.post_send({.kind = WorkKind::fetch_add,
                                  .sges = {&old, 1},
                                  .remote_address = b.address(0x1800),
                                  .rkey = binding.new_key,
                                  .swap_or_add = 5}),
                Post::done);
      ASSERT_EQ(pair.a.post_send(
                    {.kind = WorkKind::send_with_invalidate, .signaled = true, .invalidate_key = binding.new_key}),
                Post::done);
      std::vector<Completion> received;
      wire.run([&] {
        received = b.received();
        return !received.empty();
      });
      ASSERT_EQ(received.size(), 1U);
      EXPECT_EQ(received[0].status, CompletionStatus::success);
      EXPECT_TRUE(received[0].has_invalidated);
      EXPECT_TRUE(std::ranges::equal(b.bytes(0x1000, 0x800), a.bytes(0, 0x800)));
      EXPECT_EQ(b.word(0x1800), 5U);
      wire.run();
      const std::vector<Completion> sent = a.sent();
      ASSERT_EQ(sent.size(), 1U);
      EXPECT_EQ(sent[0].status, CompletionStatus::success);
    }
  }
}

// ---- ATOMIC WRITE.

TEST(AtomicWrite, WritesTheWordOnceWhateverIsLost) {
  for (const bool is_late : {false, true}) {
    Host a(1);
    Host b(2, is_late ? std::unique_ptr<MemoryAccess>(std::make_unique<DeferredAccess>(
                            DeferredOptions{.rules = fabric::model::rules_of(fabric::model::Preset::relaxed)}))
                      : std::make_unique<ImmediateAccess>());
    LossyWire wire({&a, &b}, {.drop = 0.1, .duplicate = 0.2, .reorder = 0.1}, 8);
    const Connection pair = connect(a, b);
    for (std::uint64_t value = 1; value <= 50; ++value) {
      a.word(0) = value;
      const Sge sge = a.sge(0, 8);
      ASSERT_EQ(pair.a.post_send({.id = value,
                                  .kind = WorkKind::atomic_write,
                                  .signaled = true,
                                  .sges = {&sge, 1},
                                  .remote_address = b.address(64),
                                  .rkey = b.key}),
                Post::done);
      wire.run();
      const auto sent = a.sent();
      ASSERT_EQ(sent.size(), 1U);
      ASSERT_EQ(sent[0].status, CompletionStatus::success);
      EXPECT_EQ(sent[0].kind, CompletionKind::atomic_write);
      EXPECT_EQ(b.word(64), value);
      EXPECT_EQ(a.word(0), value);
      b.word(64) = 0;  // a repetition that is executed again would show
      wire.run();
      EXPECT_EQ(b.word(64), 0U);
    }
  }
}

TEST(AtomicWrite, NeedsAnAlignedWordAndTheRightToWrite) {
  struct Wrong {
    std::size_t length;
    std::size_t address;
    Rights rights;
    CompletionStatus status;
  };
  for (const Wrong& wrong : {Wrong{4, 64, Rights::all, CompletionStatus::local_length},
                             Wrong{8, 68, Rights::all, CompletionStatus::remote_invalid_request},
                             Wrong{8, 64, Rights::remote_read, CompletionStatus::remote_invalid_request}}) {
    Host a(1);
    Host b(2);
    LossyWire wire({&a, &b});
    const Connection pair = connect(a, b, {.rights = wrong.rights});
    const Sge sge = a.sge(0, wrong.length);
    ASSERT_EQ(pair.a.post_send({.kind = WorkKind::atomic_write,
                                .sges = {&sge, 1},
                                .remote_address = b.address(wrong.address),
                                .rkey = b.key}),
              Post::done);
    wire.run();
    const auto sent = a.sent();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].status, wrong.status) << text(sent[0].status);
  }
}

}  // namespace
}  // namespace sidelatch::softnic::nic

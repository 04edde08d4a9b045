// A load or a store of a client has its own moment. What the client looks at by pointers behind it, with no wait
// between them, may change after that moment.
#include <sidelatch/explore/check.h>

#include "checking.h"
#include "clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string_view>
#include <tuple>

namespace sidelatch::explore {
namespace looks_behind {
namespace {

using fabric::Access;
using fabric::Task;
using fabric::WorkRequest;
using ::testing::HasSubstr;

// Two nodes with memory that others reach, and a client at each, which reaches the other one's.
struct Side {
  Side(World& the_world, std::string_view name, Access access = Access::remote_all)
      : world(&the_world),
        node(&the_world.add_node(name)),
        memory(node->allocate(256, access)),
        buffer(node->allocate(64, Access::local_write)) {}
  [[nodiscard]] fabric::LocalSpan own(std::uint64_t line) const { return memory.local(line * 64, 8); }
  [[nodiscard]] fabric::RemoteSpan word(std::uint64_t line) const { return memory.remote(line * 64, 8); }
  [[nodiscard]] std::uint64_t look(std::uint64_t line) const { return word_in(memory.bytes(), line * 64); }

  World* world;
  fabric::Node* node;
  fabric::MemoryRegion memory;
  fabric::MemoryRegion buffer;
  std::unique_ptr<fabric::QueuePair> qp;
};

struct Sides {
  explicit Sides(World& world) : here(world, "here"), there(world, "there") {
    here.qp = here.node->connect(*there.node);
    there.qp = there.node->connect(*here.node);
  }
  Side here;
  Side there;
};

// Sets a flag at `here`, and then a word of its own.
Task<void> set_flag_then_own_word(Side* there, Side* here) {
  co_await there->qp->fetch_add(here->word(0), 1);
  co_await there->node->cpu().store(there->own(0), 1);
}
Task<void> load_then_look_at_buffer(Side* here, Side* there) {
  const WorkRequest request = fabric::read(here->buffer.local(0, 8), there->word(0));
  co_await here->qp->enqueue(request);
  const std::uint64_t flag = co_await here->node->cpu().load(here->own(0));
  const std::uint64_t word = word_in(here->buffer.bytes());
  here->world->require(flag == 1 || word == 0, "the READ came after the load, and before the look");
  co_await here->qp->drain();
}
void a_buffer_is_filled_behind_a_load(World& world) {
  auto& sides = world.make<Sides>(world);
  world.spawn(*sides.here.node, load_then_look_at_buffer(&sides.here, &sides.there));
  world.spawn(*sides.there.node, set_flag_then_own_word(&sides.there, &sides.here));
}

Task<void> set_two_flags(Side* there, Side* here) {
  co_await there->qp->fetch_add(here->word(0), 1);
  co_await there->qp->fetch_add(here->word(1), 1);
}
Task<void> load_then_look(Side* here) {
  const std::uint64_t first = co_await here->node->cpu().load(here->own(0));
  const std::uint64_t second = here->look(1);
  here->world->require(first == 1 || second == 0, "both came between the load and the look");
}
void memory_changes_behind_a_load(World& world) {
  auto& sides = world.make<Sides>(world);
  world.spawn(*sides.here.node, load_then_look(&sides.here));
  world.spawn(*sides.there.node, set_two_flags(&sides.there, &sides.here));
}

Task<void> take_first_message(Side* here) {
  const std::uint64_t number = co_await here->node->cpu().load(here->own(0));
  here->world->require(number != 1 || here->look(1) == 1, "the next message came between the load and the look");
}
Task<void> send_two_messages(Side* there, Side* here) {
  co_await there->qp->fetch_add(here->word(1), 1);
  co_await there->qp->fetch_add(here->word(0), 1);
  co_await there->qp->fetch_add(here->word(0), 1);
  co_await there->qp->fetch_add(here->word(1), 1);
}
void a_message_is_overwritten_behind_a_load(World& world) {
  auto& sides = world.make<Sides>(world);
  world.spawn(*sides.here.node, take_first_message(&sides.here));
  world.spawn(*sides.there.node, send_two_messages(&sides.there, &sides.here));
}

Task<void> answer_a_flag(Side* there, Side* here) {
  co_await there->qp->read(there->buffer.local(0, 8), here->word(0));
  if (word_in(there->buffer.bytes()) == 1) {
    co_await there->qp->fetch_add(here->word(1), 1);
  }
}
Task<void> store_then_look(Side* here) {
  co_await here->node->cpu().store(here->own(0), 1);
  here->world->require(here->look(1) == 0, "the answer came between the store and the look");
}
void a_store_is_answered(World& world) {
  auto& sides = world.make<Sides>(world);
  world.spawn(*sides.here.node, store_then_look(&sides.here));
  world.spawn(*sides.there.node, answer_a_flag(&sides.there, &sides.here));
}

Task<void> store_local_then_look(Side* here, Side* there) {
  const WorkRequest request = fabric::read(here->buffer.local(0, 8), there->word(0));
  co_await here->qp->enqueue(request);
  co_await here->world->store_local(*here->node, here->buffer.local(0, 8), 7);
  here->world->require(word_in(here->buffer.bytes()) == 7, "the READ came between the store and the look");
  co_await here->qp->drain();
}
void a_read_overwrites_a_local_store(World& world) {
  auto& sides = world.make<Sides>(world);
  world.spawn(*sides.here.node, store_local_then_look(&sides.here, &sides.there));
}

// The same without anything that comes between: what is forbidden stays so.
Task<void> load_then_look_backwards(Side* here) {
  const std::uint64_t second = co_await here->node->cpu().load(here->own(1));
  const std::uint64_t first = here->look(0);
  here->world->require(second == 0 || first == 1, "the second flag was set before the first");
}
void flags_are_seen_in_order(World& world) {
  auto& sides = world.make<Sides>(world);
  world.spawn(*sides.here.node, load_then_look_backwards(&sides.here));
  world.spawn(*sides.there.node, set_two_flags(&sides.there, &sides.here));
}

struct Row {
  const char* name;
  void (*program)(World&);
  friend std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }
};

class LooksBehindAccesses : public ::testing::TestWithParam<Row> {};

TEST_P(LooksBehindAccesses, ArePartedFromThem) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    Options options{.rules = fabric::model::rules_of(fabric::model::Preset::observed)};
    options.mode = mode;
    options.walks = 0;
    const Verdict verdict = check(GetParam().program, options);
    ASSERT_EQ(verdict.outcome, Outcome::broken) << to_text(verdict);
    EXPECT_EQ(verdict.violation->kind, Kind::assertion);
    // The trace can be replayed.
    const Verdict again = replay(GetParam().program, options, verdict.violation->choices);
    ASSERT_TRUE(again.violation) << to_text(again);
    EXPECT_EQ(again.violation->what, verdict.violation->what);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, LooksBehindAccesses,
                         ::testing::Values(Row{"Buffer", a_buffer_is_filled_behind_a_load},
                                           Row{"OwnMemory", memory_changes_behind_a_load},
                                           Row{"Message", a_message_is_overwritten_behind_a_load},
                                           Row{"Store", a_store_is_answered},
                                           Row{"LocalStore", a_read_overwrites_a_local_store}),
                         [](const auto& row) { return row.param.name; });

TEST(LooksBehindAccessesInOrder, StaySafe) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    Options options{.rules = fabric::model::rules_of(fabric::model::Preset::observed)};
    options.mode = mode;
    const Verdict verdict = check(flags_are_seen_in_order, options);
    EXPECT_EQ(verdict.outcome, Outcome::safe) << to_text(verdict);
  }
}

// ---- Behind a receive buffer.

struct Ends {
  explicit Ends(World& world, Access access = Access::remote_all)
      : here(world, "here", access), there(world, "there", access) {
    std::tie(to_there, to_here) = here.node->connect_pair(*there.node);
  }
  Side here;
  Side there;
  std::unique_ptr<fabric::QueuePair> to_there;
  std::unique_ptr<fabric::QueuePair> to_here;
};

Task<void> send_one(Ends* ends) {
  constexpr std::uint64_t kOne = 1;
  std::memcpy(ends->there.buffer.bytes().data(), &kOne, sizeof kOne);
  co_await ends->to_here->submit(fabric::send(ends->there.buffer.local(0, 8)));
}
Task<void> look_behind_a_receive_buffer(Ends* ends) {
  static_cast<void>(ends->to_there->post_receive(ends->here.buffer.local(0, 8)));
  ends->here.world->require(word_in(ends->here.buffer.bytes()) == 0, "the message is there");
  co_await ends->to_there->receive();
}
void a_message_comes_at_once(World& world) {
  auto& ends = world.make<Ends>(world);
  world.spawn(*ends.here.node, look_behind_a_receive_buffer(&ends));
  world.spawn(*ends.there.node, send_one(&ends));
}

// Nothing can come between the two, so it is not decided.
TEST(LooksBehindReceiveBuffers, AreNamed) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    Options options{.rules = fabric::model::rules_of(fabric::model::Preset::observed)};
    options.mode = mode;
    options.walks = 0;
    const Verdict verdict = check(a_message_comes_at_once, options);
    ASSERT_EQ(verdict.outcome, Outcome::bounded) << to_text(verdict);
    EXPECT_THAT(verdict.bound, HasSubstr("here, which looks at a buffer that a request fills behind a post"));
  }
}

// What it does to another buffer, on the same page, is its own.
Task<void> echo(Ends* ends) {
  static_cast<void>(ends->to_there->post_receive(ends->here.memory.local(128, 8)));
  std::memset(ends->here.memory.bytes().data(), 7, 8);
  std::memset(ends->here.memory.bytes().data() + 192, 7, 8);
  co_await ends->to_there->receive();
  ends->here.world->require(ends->here.look(0) == ends->here.look(3), "both are its own");
}
void another_buffer_is_filled(World& world) {
  auto& ends = world.make<Ends>(world, Access::local_write);
  world.spawn(*ends.here.node, echo(&ends));
  world.spawn(*ends.there.node, send_one(&ends));
}

TEST(LooksBehindReceiveBuffers, AreToldFromThoseAtOtherBuffers) {
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    Options options{.rules = fabric::model::rules_of(fabric::model::Preset::observed)};
    options.mode = mode;
    const Verdict verdict = check(another_buffer_is_filled, options);
    EXPECT_EQ(verdict.outcome, Outcome::safe) << to_text(verdict);
  }
}

}  // namespace
}  // namespace looks_behind
}  // namespace sidelatch::explore

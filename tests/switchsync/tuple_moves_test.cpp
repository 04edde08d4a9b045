// Tuples that become hot and cold: the control plane's part, what it refuses, and what a move that fails leaves.
#include <sidelatch/switchsync/tuple_moves.h>

#include "changed_program.h"

#include "tests/message_of.h"
#include "tests/paths.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/switch.h>

#include <p4/switch_cached.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace sidelatch::switchsync {
namespace {
namespace moves_of_tuples {

using testing::HasSubstr;

SwitchTuples some_tuples(std::uint64_t count, std::uint64_t address) {
  return {.memory_node = {10, 0, 0, 2},
          .rkey = static_cast<std::uint32_t>(address / 4096),
          .address = address,
          .count = count,
          .tuple_bytes = 48,
          .slot_bytes = 64,
          .is_new = true};
}

class TupleMovesTest : public testing::Test {
 protected:
  template <class T>
  T run(fabric::Task<T> task) {
    return world_.reactor().run(std::move(task));
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t tuple) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.bytes().data() + tuple * 64, sizeof value);
    return value;
  }
  void set_word(std::uint64_t tuple, std::uint64_t value) {
    std::memcpy(memory_.bytes().data() + tuple * 64, &value, sizeof value);
  }
  // As an unlatch without a WRITE does.
  void set_version(std::uint32_t number, std::uint64_t version) {
    device_.state().reg("versions").write(number, version);
  }
  // All numbers but so many are in use.
  void leave_room(std::size_t numbers) {
    const std::uint32_t others = control_.add_tuples(some_tuples(20, 1 << 30));
    while (control_.room() > numbers) {
      const auto one = static_cast<std::uint32_t>(others + control_.room() - 1);
      ASSERT_TRUE(control_.begin_to_heat(one));
      control_.end_to_heat(one, 0);
    }
  }

  fabric::sim::Simulation world_{{}};
  fabric::Node& client_ = world_.add_node("control plane");
  fabric::Node& storage_ = world_.add_node("memory");
  fabric::MemoryRegion memory_ = storage_.allocate(64 * 100, fabric::Access::remote_all);
  fabric::MemoryRegion buffer_ = client_.allocate(8, fabric::Access::local_write);
  std::unique_ptr<fabric::QueuePair> direct_ = client_.connect(storage_);
  p4::Switch device_{cached_program_for(20), {.ports = 2}};
  OptimisticSwitch control_{device_.state()};
  std::uint32_t first_ = control_.add_tuples(some_tuples(100, 4096));
  TupleMoves moves_{control_, first_, *direct_, memory_.remote(), buffer_.local()};
};

TEST_F(TupleMovesTest, AVersionGoesFromTheWordToTheSwitchAndBack) {
  set_word(3, 8);
  EXPECT_FALSE(control_.is_hot(3));
  EXPECT_TRUE(run(moves_.heat(3)));
  EXPECT_TRUE(run(moves_.heat(3)));  // it is
  EXPECT_EQ(control_.version(3), 8U);
  set_version(0, 12);
  EXPECT_TRUE(run(moves_.cool(3)));
  EXPECT_TRUE(run(moves_.cool(3)));
  EXPECT_FALSE(control_.is_hot(3));
  EXPECT_EQ(word(3), 12U);
}

TEST_F(TupleMovesTest, ATupleThatIsLatchedDoesNotMove) {
  EXPECT_TRUE(run(moves_.heat(3)));
  set_version(0, 5);
  EXPECT_FALSE(run(moves_.cool(3)));
  EXPECT_EQ(control_.version(3), 5U);
  EXPECT_EQ(word(3), 0U);
}

TEST_F(TupleMovesTest, WithoutRoomTheNextOneThatIsNotLatchedMakesRoom) {
  leave_room(2);
  EXPECT_TRUE(run(moves_.heat(10)));
  EXPECT_TRUE(run(moves_.heat(20)));
  EXPECT_EQ(control_.room(), 0U);
  EXPECT_TRUE(run(moves_.heat(30)));
  EXPECT_FALSE(control_.is_hot(10));
  EXPECT_TRUE(run(moves_.heat(40)));  // not 30, which has just come
  EXPECT_FALSE(control_.is_hot(20));
  EXPECT_TRUE(control_.is_hot(30));
  EXPECT_TRUE(control_.begin_to_cool(30));  // somebody else moves these
  EXPECT_TRUE(control_.begin_to_cool(40));
  EXPECT_FALSE(run(moves_.heat(50)));
  EXPECT_FALSE(run(moves_.cool(30)));
  EXPECT_FALSE(run(moves_.heat(30)));
}

// The queue pair fails in the middle: the tuple is what it was.
TEST_F(TupleMovesTest, AMoveThatFailsIsGivenUp) {
  EXPECT_TRUE(run(moves_.heat(1)));
  set_version(0, 6);
  storage_.revoke(*direct_);
  EXPECT_THROW(static_cast<void>(run(moves_.cool(1))), fabric::FabricError);
  EXPECT_THROW(static_cast<void>(run(moves_.heat(2))), fabric::FabricError);
  EXPECT_FALSE(control_.is_moving(1));
  EXPECT_FALSE(control_.is_moving(2));
  EXPECT_EQ(control_.version(1), 6U);
  EXPECT_FALSE(control_.is_hot(2));
  EXPECT_EQ(control_.next_hot(0), 1U);
  EXPECT_EQ(control_.next_hot(2), std::nullopt);
  const auto again = client_.connect(storage_);
  TupleMoves others(control_, first_, *again, memory_.remote(), buffer_.local());
  EXPECT_TRUE(run(others.cool(1)));
  EXPECT_EQ(word(1), 6U);
}

TEST_F(TupleMovesTest, AColdTupleWhoseWordIsOddIsNotMadeHot) {
  set_word(1, 7);
  EXPECT_THAT(message_of([&] { static_cast<void>(run(moves_.heat(1))); }), HasSubstr("version 7 of tuple 1 is odd"));
  EXPECT_FALSE(control_.is_hot(1));
}

TEST_F(TupleMovesTest, OtherOrdersAreRefused) {
  EXPECT_THAT(message_of([&] { control_.end_to_heat(1, 0); }), HasSubstr("tuple 1 does not move"));
  EXPECT_THAT(message_of([&] { control_.give_up_move(1); }), HasSubstr("does not move"));
  EXPECT_THAT(message_of([&] { static_cast<void>(control_.begin_to_cool(1)); }), HasSubstr("is cold"));
  EXPECT_THAT(message_of([&] { static_cast<void>(control_.begin_to_heat(100)); }), HasSubstr("no tuple 100"));
  EXPECT_TRUE(control_.begin_to_heat(1));
  EXPECT_THAT(message_of([&] { static_cast<void>(control_.begin_to_heat(1)); }), HasSubstr("moves already"));
  EXPECT_THAT(message_of([&] { control_.end_to_cool(1); }), HasSubstr("becomes hot"));
  control_.end_to_heat(1, 2);
  EXPECT_THAT(message_of([&] { static_cast<void>(control_.begin_to_heat(1)); }), HasSubstr("is hot already"));
  EXPECT_EQ(control_.begin_to_cool(1), 2U);
  EXPECT_THAT(message_of([&] { control_.end_to_heat(1, 2); }), HasSubstr("becomes cold"));
  EXPECT_THAT(message_of([&] { control_.unlatch(1); }), HasSubstr("not in doubt"));
  EXPECT_THAT(message_of([&] { static_cast<void>(run(moves_.heat(100))); }), HasSubstr("tuple 100 is not one of 100"));
  EXPECT_THAT(message_of([&] { control_.install_latched(first_, 0); }), HasSubstr("no room"));
}

TEST_F(TupleMovesTest, AWriteWithoutAnAnswerIsInDoubtAfterARestart) {
  EXPECT_TRUE(control_.begin_to_heat(1));
  control_.end_to_heat(1, 4, true);
  EXPECT_EQ(control_.version(1), 5U);
  EXPECT_FALSE(run(moves_.cool(1)));
  const auto to = control_.connect({.client = {10, 0, 0, 1},
                                    .client_queue_pair = 1,
                                    .client_psn = 1,
                                    .memory_node = {10, 0, 0, 2},
                                    .memory_queue_pair = 2});
  control_.give_latch(1, to);
  EXPECT_EQ(control_.holder(1), to);
}

TEST_F(TupleMovesTest, RecoveryGivesColdTuplesTheNextEpoch) {
  SwitchTuples used = some_tuples(100, 4096);
  used.is_new = false;
  p4::Switch device(p4::programs::switch_cached(), {.ports = 2});
  OptimisticSwitch control(device.state());
  EXPECT_EQ(control.add_tuples(used), 0U);
  EXPECT_THAT(message_of([&] { static_cast<void>(control.begin_to_heat(1)); }), HasSubstr("recovered first"));
  set_word(5, 8);
  world_.reactor().run(recover(control, 0, *direct_, memory_.remote(), buffer_.local()));
  EXPECT_EQ(word(0), std::uint64_t{1} << 32);
  EXPECT_EQ(word(5), std::uint64_t{1} << 32);
  TupleMoves moves(control, 0, *direct_, memory_.remote(), buffer_.local());
  EXPECT_TRUE(run(moves.heat(5)));
  EXPECT_EQ(control.version(5), std::uint64_t{1} << 32);
}

TEST_F(TupleMovesTest, TuplesWhoseMemoryHasEndedAreNotHotAnyMore) {
  EXPECT_TRUE(run(moves_.heat(5)));
  const std::size_t room = control_.room();
  control_.remove_tuples(first_);
  EXPECT_EQ(control_.room(), room + 1);
  EXPECT_FALSE(control_.is_hot(5));
  EXPECT_EQ(control_.add_tuples(some_tuples(100, 8192)), first_);
}

TEST_F(TupleMovesTest, MoreTuplesThanVersionsFit) {
  EXPECT_EQ(control_.add_tuples(some_tuples(10'000'000, 1 << 20)), 100U);
  EXPECT_THAT(message_of([&] { control_.add_tuples(some_tuples(std::uint64_t{1} << 31, std::uint64_t{1} << 32)); }),
              HasSubstr("numbers for"));
}

TEST(TupleMovesElsewhere, AProgramThatKeepsAllVersionsHasNoColdTuples) {
  p4::Switch device(p4::compile_file(in_source_tree("p4/switch_optimistic.p4")), {.ports = 2});
  OptimisticSwitch control(device.state());
  EXPECT_EQ(control.add_tuples(some_tuples(10, 4096)), 0U);
  EXPECT_FALSE(control.is_cache());
  EXPECT_THAT(message_of([&] { static_cast<void>(control.begin_to_heat(1)); }), HasSubstr("versions of all tuples"));
  EXPECT_TRUE(control.take_asked().empty());
}

}  // namespace moves_of_tuples
}  // namespace
}  // namespace sidelatch::switchsync

#include "history.h"

#include <gtest/gtest.h>

namespace sidelatch::structures {
namespace {

Event get(std::optional<std::uint64_t> seen, std::int64_t began, std::int64_t ended) {
  return {.call = Call::get,
          .outcome = seen ? Outcome::done : Outcome::absent,
          .result = seen.value_or(0),
          .began = began,
          .ended = ended};
}
Event put(std::uint64_t value, std::int64_t began, std::int64_t ended) {
  return {.call = Call::put, .argument = value, .began = began, .ended = ended};
}
Event insert(std::uint64_t value, Outcome outcome, std::int64_t began, std::int64_t ended) {
  return {.call = Call::insert, .argument = value, .outcome = outcome, .began = began, .ended = ended};
}
Event remove(Outcome outcome, std::int64_t began, std::int64_t ended) {
  return {.call = Call::remove, .outcome = outcome, .began = began, .ended = ended};
}

TEST(History, OneAfterTheOtherIsWhatAMapDoes) {
  EXPECT_TRUE(is_linearizable({get({}, 0, 1), put(7, 2, 3), get(7, 4, 5), remove(Outcome::done, 6, 7), get({}, 8, 9)}));
  EXPECT_FALSE(is_linearizable({put(7, 0, 1), get({}, 2, 3)}));
  EXPECT_FALSE(is_linearizable({put(7, 0, 1), put(8, 2, 3), get(7, 4, 5)}));
  EXPECT_FALSE(is_linearizable({remove(Outcome::done, 0, 1)}));
}

TEST(History, OverlappingOperationsMayTakeEitherOrder) {
  EXPECT_TRUE(is_linearizable({put(7, 0, 10), get({}, 1, 2), get(7, 3, 4)}));
  EXPECT_FALSE(is_linearizable({put(7, 0, 10), get(7, 1, 2), get({}, 3, 4)}));
  EXPECT_TRUE(is_linearizable({put(7, 0, 10), put(8, 0, 10), get(8, 11, 12)}));
  EXPECT_TRUE(is_linearizable({put(7, 0, 10), put(8, 0, 10), get(7, 11, 12)}));
}

TEST(History, TwoInsertsOfOneKeyCannotBothSucceed) {
  EXPECT_FALSE(is_linearizable({insert(1, Outcome::done, 0, 10), insert(2, Outcome::done, 0, 10)}));
  EXPECT_TRUE(is_linearizable({insert(1, Outcome::done, 0, 10), insert(2, Outcome::present, 0, 10)}));
  EXPECT_FALSE(is_linearizable({insert(1, Outcome::done, 0, 10), insert(2, Outcome::present, 0, 10), get(2, 11, 12)}));
}

TEST(History, NoRoomMeansThatTheKeyIsNotThere) {
  EXPECT_TRUE(is_linearizable({insert(7, Outcome::full, 0, 1), get({}, 2, 3)}));
  EXPECT_FALSE(is_linearizable({insert(7, Outcome::full, 0, 1), get(7, 2, 3)}));
  EXPECT_FALSE(is_linearizable({put(7, 0, 1), insert(8, Outcome::full, 2, 3)}));
}

TEST(History, AnOpenOperationMayHaveHappenedOrNot) {
  Event open = put(7, 0, 0);
  open.is_open = true;
  EXPECT_TRUE(is_linearizable({open, get({}, 5, 6)}));
  EXPECT_TRUE(is_linearizable({open, get({}, 5, 6), get(7, 7, 8)}));
  EXPECT_FALSE(is_linearizable({open, get(7, 5, 6), get({}, 7, 8)}));
}

}  // namespace
}  // namespace sidelatch::structures

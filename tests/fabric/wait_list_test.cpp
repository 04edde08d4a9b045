// The intrusive lists of all waiters.
#include <sidelatch/fabric/wait_list.h>

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace sidelatch::fabric {
namespace {

std::vector<const Waiter*> drain(WaitList& list) {
  std::vector<const Waiter*> order;
  while (!list.empty()) {
    order.push_back(&list.front());
    list.front().unlink();
  }
  return order;
}

TEST(WaitLists, AreFirstInFirstOut) {
  WaitList list;
  Waiter a;
  Waiter b;
  Waiter c;
  list.push_back(a);
  list.push_back(b);
  list.push_front(c);
  EXPECT_EQ(&list.back(), &b);
  EXPECT_EQ(drain(list), (std::vector<const Waiter*>{&c, &a, &b}));
}

TEST(WaitLists, AWaiterThatIsPushedElsewhereLeavesItsOldList) {
  WaitList first;
  WaitList second;
  Waiter a;
  first.push_back(a);
  second.push_back(a);
  EXPECT_TRUE(first.empty());
  EXPECT_EQ(&second.front(), &a);
}

TEST(WaitLists, AWaiterThatEndsLeavesItsList) {
  WaitList list;
  Waiter a;
  std::optional<Waiter> middle(std::in_place);
  Waiter c;
  list.push_back(a);
  list.push_back(*middle);
  list.push_back(c);
  middle.reset();
  EXPECT_EQ(drain(list), (std::vector<const Waiter*>{&a, &c}));
}

TEST(WaitLists, AListThatEndsLetsItsWaitersGo) {
  Waiter a;
  {
    WaitList list;
    list.push_back(a);
    EXPECT_TRUE(a.linked());
  }
  EXPECT_FALSE(a.linked());
  a.unlink();
}

TEST(WaitLists, NeighboursAreFoundAndInsertedAt) {
  WaitList list;
  Waiter a;
  Waiter b;
  Waiter c;
  list.push_back(a);
  list.push_back(c);
  list.insert_after(b, a);
  EXPECT_EQ(list.before(a), nullptr);
  EXPECT_EQ(list.before(b), &a);
  EXPECT_EQ(list.before(c), &b);
  EXPECT_EQ(list.after(a), &b);
  EXPECT_EQ(list.after(c), nullptr);
  EXPECT_EQ(drain(list), (std::vector<const Waiter*>{&a, &b, &c}));
}

}  // namespace
}  // namespace sidelatch::fabric

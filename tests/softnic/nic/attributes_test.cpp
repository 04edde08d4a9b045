// The possible changes of state, and the attributes that each needs and allows. The table below is copied from the
// specification (volume 1, 11.2, properties of the transitions) and ibv_modify_qp(3), not from the code.
#include "softnic/nic/attributes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

namespace sidelatch::softnic::nic {
namespace {

using S = QueuePairState;
using A = Attributes;
using Type = QueuePairType;

struct Row {
  Type type;
  S from;
  S to;
  std::set<A> needed;
  std::set<A> optional;
};

// Without the targets RESET and ERROR, which every state allows without attributes.
const std::vector<Row> kRows{
    {Type::rc, S::reset, S::init, {A::p_key_index, A::port, A::rights}, {}},
    {Type::rc, S::init, S::init, {}, {A::p_key_index, A::port, A::rights}},
    {Type::rc,
     S::init,
     S::rtr,
     {A::address, A::path_mtu, A::remote_qp, A::receive_psn, A::max_dest_rd_atomic, A::min_rnr_timer},
     {A::rights, A::p_key_index}},
    {Type::rc,
     S::rtr,
     S::rts,
     {A::send_psn, A::max_rd_atomic, A::retry_count, A::rnr_retry, A::timeout},
     {A::current_state, A::rights, A::min_rnr_timer}},
    {Type::rc, S::rts, S::rts, {}, {A::current_state, A::rights, A::min_rnr_timer}},
    {Type::rc, S::rts, S::sqd, {}, {A::notify_drained}},
    {Type::rc, S::sqd, S::rts, {}, {A::current_state, A::rights, A::min_rnr_timer}},
    {Type::rc,
     S::sqd,
     S::sqd,
     {},
     {A::port, A::address, A::timeout, A::retry_count, A::rnr_retry, A::max_rd_atomic, A::max_dest_rd_atomic, A::rights,
      A::p_key_index, A::min_rnr_timer}},
    {Type::ud, S::reset, S::init, {A::p_key_index, A::port, A::q_key}, {}},
    {Type::ud, S::init, S::init, {}, {A::p_key_index, A::port, A::q_key}},
    {Type::ud, S::init, S::rtr, {}, {A::p_key_index, A::q_key}},
    {Type::ud, S::rtr, S::rts, {A::send_psn}, {A::current_state, A::q_key}},
    {Type::ud, S::rts, S::rts, {}, {A::current_state, A::q_key}},
    {Type::ud, S::rts, S::sqd, {}, {A::notify_drained}},
    {Type::ud, S::sqd, S::rts, {}, {A::current_state, A::q_key}},
    {Type::ud, S::sqd, S::sqd, {}, {A::p_key_index, A::q_key}},
    {Type::ud, S::sqe, S::rts, {}, {A::current_state, A::q_key}},
    {Type::uc, S::reset, S::init, {A::p_key_index, A::port, A::rights}, {}},
    {Type::uc, S::init, S::init, {}, {A::p_key_index, A::port, A::rights}},
    {Type::uc, S::init, S::rtr, {A::address, A::path_mtu, A::remote_qp, A::receive_psn}, {A::rights, A::p_key_index}},
    {Type::uc, S::rtr, S::rts, {A::send_psn}, {A::current_state, A::rights}},
    {Type::uc, S::rts, S::rts, {}, {A::current_state, A::rights}},
    {Type::uc, S::rts, S::sqd, {}, {A::notify_drained}},
    {Type::uc, S::sqd, S::rts, {}, {A::current_state, A::rights}},
    {Type::uc, S::sqd, S::sqd, {}, {A::port, A::address, A::rights, A::p_key_index}},
    {Type::uc, S::sqe, S::rts, {}, {A::current_state, A::rights}},
};

A all_of(const std::set<A>& set) {
  A all = A::state;
  for (const A member : set) {
    all = all | member;
  }
  return all;
}

constexpr std::array kStates{S::reset, S::init, S::rtr, S::rts, S::sqd, S::sqe, S::error};

const Row* find(Type type, S from, S to) {
  for (const Row& row : kRows) {
    if (row.type == type && row.from == from && row.to == to) {
      return &row;
    }
  }
  return nullptr;
}

TEST(Attributes, EachTransitionNeedsAndAllowsWhatTheSpecificationSays) {
  for (const Type type : {Type::rc, Type::ud, Type::uc}) {
    for (const S from : kStates) {
      for (const S to : kStates) {
        SCOPED_TRACE(std::string(name(from)) + " to " + std::string(name(to)));
        const Row* row = find(type, from, to);
        const Row nothing{type, from, to, {}, {}};
        if (to == S::reset || to == S::error) {
          row = &nothing;
        }
        if (row == nullptr) {
          EXPECT_TRUE(refuse_transition(type, from, to, A::state));
          continue;
        }
        const A needed = all_of(row->needed);
        EXPECT_FALSE(refuse_transition(type, from, to, needed));
        EXPECT_FALSE(refuse_transition(type, from, to, needed | all_of(row->optional)));
        for (std::uint32_t bit = 1; bit < kAttributes; ++bit) {
          const auto attribute = static_cast<A>(1U << bit);
          if (row->needed.contains(attribute)) {
            const auto reason = refuse_transition(type, from, to, needed & ~attribute);
            ASSERT_TRUE(reason) << names(attribute);
            EXPECT_NE(reason->find("needs " + names(attribute)), std::string::npos) << *reason;
          } else if (!row->optional.contains(attribute)) {
            const auto reason = refuse_transition(type, from, to, needed | attribute);
            ASSERT_TRUE(reason) << names(attribute);
            EXPECT_NE(reason->find(names(attribute)), std::string::npos) << *reason;
          }
        }
      }
    }
  }
}

TEST(Attributes, AChangeOfStateMustBeGivenAndAnotherStateMayStay) {
  EXPECT_TRUE(refuse_transition(Type::ud, S::init, S::rtr, A::none));
  EXPECT_FALSE(refuse_transition(Type::rc, S::rts, S::rts, A::min_rnr_timer));
}

TEST(Attributes, ValuesOutOfRangeAreRefusedByName) {
  const AttributeLimits limits{.gids = 2, .mtu = PathMtu::b1024, .max_rd_atomic = 8, .max_dest_rd_atomic = 4};
  const auto expect_refused = [&](A attribute, auto change, const std::string& word) {
    QueuePairAttributes values;
    EXPECT_FALSE(refuse_values(values, static_cast<A>(~0U), limits));
    change(values);
    const auto reason = refuse_values(values, attribute, limits);
    ASSERT_TRUE(reason) << word;
    EXPECT_NE(reason->find(word), std::string::npos) << *reason;
    EXPECT_FALSE(refuse_values(values, A::none, limits));  // values that are not given are not checked
  };
  using Q = QueuePairAttributes;
  expect_refused(
      A::p_key_index, [](Q& q) { q.p_key_index = 1; }, "p_key_index is 1");
  expect_refused(
      A::port, [](Q& q) { q.port = 0; }, "port is 0");
  expect_refused(
      A::port, [](Q& q) { q.port = 2; }, "port is 2");
  expect_refused(
      A::address, [](Q& q) { q.address.gid_index = 2; }, "gid_index is 2");
  expect_refused(
      A::address, [](Q& q) { q.address.flow_label = 1U << 20; }, "flow_label");
  expect_refused(
      A::path_mtu, [](Q& q) { q.path_mtu = PathMtu::b2048; }, "path_mtu is 2048");
  expect_refused(
      A::path_mtu, [](Q& q) { q.path_mtu = static_cast<PathMtu>(300); }, "path_mtu is 300");
  expect_refused(
      A::timeout, [](Q& q) { q.timeout = 32; }, "timeout is 32");
  expect_refused(
      A::retry_count, [](Q& q) { q.retry_count = 8; }, "retry_count is 8");
  expect_refused(
      A::rnr_retry, [](Q& q) { q.rnr_retry = 8; }, "rnr_retry is 8");
  expect_refused(
      A::max_rd_atomic, [](Q& q) { q.max_rd_atomic = 9; }, "max_rd_atomic is 9: at most 8");
  expect_refused(
      A::max_dest_rd_atomic, [](Q& q) { q.max_dest_rd_atomic = 5; }, "max_dest_rd_atomic is 5: at most 4");
  expect_refused(
      A::min_rnr_timer, [](Q& q) { q.min_rnr_timer = 32; }, "min_rnr_timer is 32");
  expect_refused(
      A::remote_qp, [](Q& q) { q.remote_qp = 1U << 24; }, "remote_qp");
  expect_refused(
      A::rights, [](Q& q) { q.rights = static_cast<Rights>(16); }, "rights");
}

}  // namespace
}  // namespace sidelatch::softnic::nic

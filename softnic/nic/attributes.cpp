#include "attributes.h"

#include <fmt/format.h>

#include <array>

namespace sidelatch::softnic::nic {

namespace {

using A = Attributes;
using S = QueuePairState;

// What one type of queue pair needs and may give.
struct Sets {
  A needed = A::none;
  A allowed = A::none;
};

struct Transition {
  S from;
  S to;
  std::array<Sets, kQueuePairTypes> of;  // by type
};

constexpr A kBegin = A::p_key_index | A::port;
constexpr A kPath = A::alternate_path | A::path_migration;
constexpr A kRunning = A::current_state | A::rights | A::min_rnr_timer | kPath;
constexpr A kRunningUc = A::current_state | A::rights | kPath;
constexpr A kDatagram = A::current_state | A::q_key;
constexpr A kConnect = A::address | A::path_mtu | A::remote_qp | A::receive_psn;
constexpr A kRespond = A::max_dest_rd_atomic | A::min_rnr_timer;
constexpr A kRequest = A::retry_count | A::rnr_retry | A::max_rd_atomic;
constexpr A kWhileConnecting = A::alternate_path | A::rights | A::p_key_index;
constexpr A kDrained = A::port | A::address | A::rights | A::p_key_index | kPath;

constexpr Sets kConnectedBegin{kBegin | A::rights};
constexpr Sets kConnectedAgain{A::none, kBegin | A::rights};
constexpr Sets kNotify{A::none, A::notify_drained};

// The transitions, except that every state may go to RESET and to ERROR with no other attribute. Columns: RC, UD, UC,
// XRC initiator, XRC target. Of the latter two each may be given what only the other uses: programs treat both alike.
constexpr std::array kTransitions{
    Transition{S::reset,
               S::init,
               {kConnectedBegin, Sets{kBegin | A::q_key}, kConnectedBegin, kConnectedBegin, kConnectedBegin}},
    Transition{S::init,
               S::init,
               {kConnectedAgain, Sets{A::none, kBegin | A::q_key}, kConnectedAgain, kConnectedAgain, kConnectedAgain}},
    Transition{S::init,
               S::rtr,
               {Sets{kConnect | kRespond, kWhileConnecting}, Sets{A::none, A::p_key_index | A::q_key},
                Sets{kConnect, kWhileConnecting}, Sets{kConnect, kWhileConnecting | kRespond},
                Sets{kConnect | kRespond, kWhileConnecting}}},
    Transition{S::rtr,
               S::rts,
               {Sets{A::timeout | kRequest | A::send_psn, kRunning}, Sets{A::send_psn, kDatagram},
                Sets{A::send_psn, kRunningUc}, Sets{A::timeout | kRequest | A::send_psn, kRunning},
                Sets{A::timeout | A::send_psn, kRunning | kRequest}}},
    Transition{S::rts,
               S::rts,
               {Sets{A::none, kRunning}, Sets{A::none, kDatagram}, Sets{A::none, kRunningUc}, Sets{A::none, kRunningUc},
                Sets{A::none, kRunning}}},
    Transition{S::rts, S::sqd, {kNotify, kNotify, kNotify, kNotify, kNotify}},
    Transition{S::sqd,
               S::rts,
               {Sets{A::none, kRunning}, Sets{A::none, kDatagram}, Sets{A::none, kRunningUc}, Sets{A::none, kRunningUc},
                Sets{A::none, kRunning}}},
    Transition{S::sqd,
               S::sqd,
               {Sets{A::none, kDrained | A::timeout | kRequest | kRespond}, Sets{A::none, A::p_key_index | A::q_key},
                Sets{A::none, kDrained}, Sets{A::none, kDrained | A::timeout | kRequest},
                Sets{A::none, kDrained | A::timeout | kRespond}}},
    Transition{S::sqe,
               S::rts,
               {Sets{}, Sets{A::none, kDatagram}, Sets{A::none, A::current_state | A::rights}, Sets{}, Sets{}}},
};

std::optional<std::string> refuse_sets(A given, A needed, A allowed, S from, S to) {
  given = given & ~A::state;
  if (const A missing = needed & ~given; missing != A::none) {
    return fmt::format("{} to {} needs {}", name(from), name(to), names(missing));
  }
  if (const A excess = given & ~(needed | allowed); excess != A::none) {
    return fmt::format("{} to {} does not allow {}", name(from), name(to), names(excess));
  }
  if (const A unknown = given & (A::alternate_path | A::path_migration); unknown != A::none) {
    return fmt::format("{}: there is no alternate path here", names(unknown));
  }
  return std::nullopt;
}

std::optional<std::string> above(const char* attribute, std::uint64_t value, std::uint64_t most) {
  return value <= most ? std::nullopt : std::optional(fmt::format("{} is {}: at most {}", attribute, value, most));
}

}  // namespace

std::string_view name(QueuePairState state) noexcept {
  constexpr std::array<std::string_view, kQueuePairStates> kNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};
  return static_cast<std::size_t>(state) < kNames.size() ? kNames[static_cast<std::size_t>(state)] : "no state";
}

std::string names(Attributes set) {
  constexpr std::array<std::string_view, kAttributes> kNames{
      "state",          "current_state", "notify_drained", "rights",        "p_key_index", "port",
      "q_key",          "address",       "path_mtu",       "timeout",       "retry_count", "rnr_retry",
      "receive_psn",    "max_rd_atomic", "alternate_path", "min_rnr_timer", "send_psn",    "max_dest_rd_atomic",
      "path_migration", "capabilities",  "remote_qp"};
  std::string text;
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    if (has(set, static_cast<Attributes>(1U << bit))) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", bit < kAttributes ? kNames[bit] : "an unknown attribute");
    }
  }
  return text;
}

std::optional<std::string> refuse_transition(QueuePairType type, QueuePairState from, QueuePairState to,
                                             Attributes given) {
  if (from != to && !has(given, A::state)) {
    return fmt::format("{} to {} needs state", name(from), name(to));
  }
  if (to == S::reset || to == S::error) {
    return refuse_sets(given, A::none, A::none, from, to);
  }
  for (const Transition& row : kTransitions) {
    if (row.from == from && row.to == to && (from != S::sqe || !is_reliable(type))) {
      const Sets& its = row.of[static_cast<std::size_t>(type)];
      return refuse_sets(given, its.needed, its.allowed, from, to);
    }
  }
  return fmt::format("a queue pair does not go from {} to {}", name(from), name(to));
}

std::optional<std::string> refuse_values(const QueuePairAttributes& values, Attributes given,
                                         const AttributeLimits& limits) {
  constexpr std::uint64_t kMost5Bits = 31;
  constexpr std::uint64_t kMost3Bits = 7;
  std::optional<std::string> reason;
  const auto check = [&](A attribute, const char* of, std::uint64_t value, std::uint64_t most) {
    if (!reason && has(given, attribute)) {
      reason = above(of, value, most);
    }
  };
  check(A::p_key_index, "p_key_index", values.p_key_index, limits.p_keys - 1U);
  check(A::address, "the address's gid_index", values.address.gid_index, limits.gids == 0 ? 0 : limits.gids - 1);
  check(A::address, "the address's flow_label", values.address.flow_label, 0xfffff);
  check(A::path_mtu, "path_mtu", bytes_of(values.path_mtu), bytes_of(limits.mtu));
  check(A::timeout, "timeout", values.timeout, kMost5Bits);
  check(A::retry_count, "retry_count", values.retry_count, kMost3Bits);
  check(A::rnr_retry, "rnr_retry", values.rnr_retry, kMost3Bits);
  check(A::max_rd_atomic, "max_rd_atomic", values.max_rd_atomic, limits.max_rd_atomic);
  check(A::max_dest_rd_atomic, "max_dest_rd_atomic", values.max_dest_rd_atomic, limits.max_dest_rd_atomic);
  check(A::min_rnr_timer, "min_rnr_timer", values.min_rnr_timer, kMost5Bits);
  check(A::remote_qp, "remote_qp", values.remote_qp, Psn::kMask);
  check(A::rights, "rights", static_cast<std::uint64_t>(values.rights), static_cast<std::uint64_t>(Rights::all));
  if (!reason && has(given, A::port) && (values.port == 0 || values.port > limits.ports)) {
    reason = fmt::format("port is {}: 1 to {}", values.port, limits.ports);
  }
  if (const std::size_t mtu = bytes_of(values.path_mtu);
      !reason && has(given, A::path_mtu) && (mtu < 256 || (mtu & (mtu - 1)) != 0)) {
    reason = fmt::format("path_mtu is {}: 256, 512, 1024, 2048 or 4096", mtu);
  }
  return reason;
}

}  // namespace sidelatch::softnic::nic

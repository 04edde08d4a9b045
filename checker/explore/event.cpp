#include "event.h"

#include "mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace sidelatch::explore {

using fabric::model::StepKind;

namespace {

constexpr std::string_view kClient = "client";
constexpr std::string_view kLease = "lease";
constexpr std::string_view kNever = "never-begins";
constexpr std::array kSteps = {StepKind::fetch,    StepKind::place,      StepKind::sample,  StepKind::load,
                               StepKind::store,    StepKind::load_store, StepKind::execute, StepKind::deliver,
                               StepKind::complete, StepKind::receive,    StepKind::drain};

bool is_machine(const Event& event) { return event.action.sort == Action::Sort::machine; }
bool is_drain(const Event& event) { return is_machine(event) && event.action.kind == StepKind::drain; }
bool is_request_step(const Event& event) { return is_machine(event) && event.action.kind != StepKind::drain; }
bool ends(StepKind kind) { return kind == StepKind::complete || kind == StepKind::execute; }

bool posts(const Event& event, const Action& of) {
  return std::ranges::any_of(event.posts,
                             [&](const Event::Post& post) { return post.qp == of.owner && post.index == of.index; });
}

// Whether `first` posted the buffer that the SEND of `second` takes.
bool posts_buffer(const Event& first, const Event& second) {
  return !first.receives.empty() && second.request == fabric::model::Kind::send &&
         second.action.kind != StepKind::fetch &&
         std::ranges::any_of(first.receives, [&](const Event::Receive& receive) {
           return receive.qp == second.action.owner && receive.number == second.send;
         });
}

bool of_one_client(const Event& a, const Event& b) {
  const auto is = [](std::uint16_t client, const Event& event) {
    return client != Event::kNone && (client == event.client || client == event.sender);
  };
  return is(a.client, b) || is(a.sender, b);
}

// Rule 2: whether a post waits for the placement of the request that `completion` completes.
bool completion_matters(const Event& completion, const Event& posting) {
  if (!is_request_step(completion) || completion.action.kind != StepKind::complete || completion.empty ||
      (completion.request != fabric::model::Kind::write && completion.request != fabric::model::Kind::send) ||
      has(Mutation::rule_2_is_no_race)) {
    return false;
  }
  return std::ranges::any_of(posting.posts, [&](const Event::Post& post) {
    return post.sees_completed && post.qp != completion.action.owner && post.nic == completion.nic;
  });
}

bool binds(const Event& posting, const Event& other) {
  return std::ranges::any_of(posting.posts, [&](const Event::Post& post) {
    return post.bound.conflicts(other.local) || post.bound.conflicts(other.target);
  });
}

bool changes_source(const Event& changing, const Event& fetch) {
  if (changing.changed.empty() || !is_request_step(fetch)) {
    return false;
  }
  const Action& of = fetch.action;
  if (of.kind != StepKind::fetch && of.kind != StepKind::execute) {
    return false;
  }
  return std::ranges::any_of(changing.changed, [&](const Event::Changed& changed) {
    return changed.qp == of.owner && changed.index == of.index &&
           (of.kind == StepKind::execute || changed.line == of.piece);
  });
}

bool conflict(const Event& a, const Event& b) {
  if (has(Mutation::memory_is_no_race)) {
    return a.local.conflicts(b.local);
  }
  return a.target.conflicts(b.target) || a.local.conflicts(b.local) || a.target.conflicts(b.local) ||
         a.local.conflicts(b.target) || a.own.conflicts(b.target) || a.own.conflicts(b.local) ||
         b.own.conflicts(a.target) || b.own.conflicts(a.local) || a.ended.conflicts(b.target) ||
         b.ended.conflicts(a.target) ||
         (a.own_node == b.own_node && a.own.conflicts(b.own));  // of several regions it is the hull
}

// One of two clients changes an object of the process that the other one looks at, or changes, too.
bool share_an_object(const Event& a, const Event& b) {
  return !has(Mutation::objects_are_no_race) &&
         ((a.altered & (b.altered | b.looked_at)) != 0 || (b.altered & a.looked_at) != 0);
}

// A client that runs may look at its buffers before the bytes of a READ or an atomic's old value are there, or after.
bool looks_early(const Event& delivering, const Event& running) {
  if (!running.ran || !is_request_step(delivering)) {
    return false;
  }
  using fabric::model::Kind;
  const StepKind kind = delivering.action.kind;
  const bool into_buffer = (kind == StepKind::deliver || kind == StepKind::execute) &&
                           (delivering.request == Kind::read || delivering.request == Kind::atomic);
  const bool into_receive_buffer =
      (kind == StepKind::place || kind == StepKind::execute) && delivering.request == Kind::send;
  return (into_buffer && delivering.initiator == running.client) ||
         (into_receive_buffer && delivering.node == running.client);
}

// A client that crashes is told of no completion and of no message. Before the crash it would have been.
bool silences(const Event& crash, const Event& completing) {
  if (crash.action.crash == 0 || !is_request_step(completing)) {
    return false;
  }
  const StepKind kind = completing.action.kind;
  return (ends(kind) && completing.initiator == crash.client) ||
         ((kind == StepKind::receive || kind == StepKind::execute) && completing.receiver == crash.client);
}

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument(fmt::format("'{}' names no step of an execution", text));
}

template <class Number>
Number parse_number(std::string_view text, std::string_view whole) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    refuse(whole);
  }
  return number;
}

}  // namespace

std::string to_string(const Action& action) {
  const std::string_view what = action.sort == Action::Sort::client  ? kClient
                                : action.sort == Action::Sort::lease ? kLease
                                                                     : name(action.kind);
  std::string text = fmt::format("{}:{}:{}:{}", what, action.owner, action.index, action.piece);
  return action.crash == 0                      ? text
         : action.crash == Action::kNeverBegins ? fmt::format("{}:{}", text, kNever)
                                                : fmt::format("{}:{}", text, action.crash);
}

Action parse_action(std::string_view text) {
  std::array<std::string_view, 5> parts;
  std::size_t count = 0;
  for (std::string_view rest = text;; ++count) {
    if (count == parts.size()) {
      refuse(text);
    }
    const std::size_t colon = rest.find(':');
    parts.at(count) = rest.substr(0, colon);
    if (colon == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(colon + 1);
  }
  ++count;
  if (count < 4) {
    refuse(text);
  }
  Action action;
  if (parts[0] == kClient) {
    action.sort = Action::Sort::client;
  } else if (parts[0] == kLease) {
    action.sort = Action::Sort::lease;
  } else {
    const auto* kind = std::ranges::find_if(kSteps, [&](StepKind step) { return name(step) == parts[0]; });
    if (kind == kSteps.end()) {
      refuse(text);
    }
    action.kind = *kind;
  }
  action.owner = parse_number<std::uint16_t>(parts[1], text);
  action.index = parse_number<std::uint32_t>(parts[2], text);
  action.piece = parse_number<std::uint32_t>(parts[3], text);
  action.crash = count != 5           ? std::uint16_t{0}
                 : parts[4] == kNever ? Action::kNeverBegins
                                      : parse_number<std::uint16_t>(parts[4], text);
  return action;
}

// ---- Dependence.

Dependence::Relation Dependence::between(const Event& first, const Event& second,
                                         const std::vector<std::vector<RequestTimes>>& times) const {
  const bool requests = is_request_step(first) && is_request_step(second);
  if (requests && first.client == Event::kNone && second.client == Event::kNone) {
    // Most pairs: neither event resumes a client.
    const Relation relation = machine_steps(first, second, times);
    return relation != Relation::independent                            ? relation
           : conflict(first, second) || (first.judged && second.judged) ? Relation::race
                                                                        : Relation::independent;
  }
  // The program's events make its requests and its next steps possible.
  if (is_request_step(second) && (posts(first, second.action) || posts_buffer(first, second))) {
    return Relation::forced;
  }
  if (second.action.sort == Action::Sort::client &&
      std::ranges::find(first.suspensions, Event::Suspension{second.action.owner, second.action.index}) !=
          first.suspensions.end()) {
    return Relation::forced;
  }
  if (first.message != Event::kNone && first.message == second.message) {
    return Relation::forced;  // messages are told in their order
  }
  if (second.action.sort == Action::Sort::lease && first.client == second.action.owner) {
    return Relation::forced;  // it has parked since
  }
  if (second.lease_of != Event::kNone && !first.by_cpu &&
      !(is_request_step(first) && first.initiator == second.lease_of && first.client == Event::kNone)) {
    return Relation::forced;
  }
  if (is_drain(second) && first.stored == second.action.index && first.thread == second.thread) {
    return Relation::forced;
  }
  if (second.fence && is_drain(first) && first.thread == second.thread) {
    return Relation::forced;
  }
  const auto drains_before = [&first](std::uint16_t thread, std::uint32_t behind) {
    return first.thread == thread && first.action.index < behind;
  };
  if (is_request_step(second) && is_drain(first) &&
      (drains_before(second.thread, second.behind) || drains_before(second.buffer_thread, second.buffer_behind))) {
    return Relation::forced;
  }
  if (is_drain(first) && is_drain(second) && first.thread == second.thread) {
    return Relation::forced;
  }
  if (requests) {
    const Relation relation = machine_steps(first, second, times);
    if (relation != Relation::independent) {
      return relation;
    }
  }
  // Who begins, or gets a message of the dead, is in the middle of something then: the lease would not have ended.
  const bool wakes_late = first.lease_of != Event::kNone &&
                          (second.starts || (is_request_step(second) && second.initiator == first.lease_of &&
                                             second.client != Event::kNone));
  const bool race = (first.judged && second.judged) || wakes_late ||
                    (first.allocates_at != Event::kNone && first.allocates_at == second.allocates_at) || first.global ||
                    second.global || conflict(first, second) || share_an_object(first, second) ||
                    of_one_client(first, second) || binds(first, second) || binds(second, first) ||
                    changes_source(first, second) || changes_source(second, first) ||
                    completion_matters(first, second) || completion_matters(second, first) ||
                    looks_early(first, second) || looks_early(second, first) || silences(first, second);
  return race ? Relation::race : Relation::independent;
}

Dependence::Relation Dependence::machine_steps(const Event& first, const Event& second,
                                               const std::vector<std::vector<RequestTimes>>& times) const {
  const Action& a = first.action;
  const Action& b = second.action;
  if (a.owner == b.owner) {
    if (a.index == b.index) {
      return within(first, second);
    }
    return a.index < b.index && ordered_in_queue(first, second) ? Relation::forced : Relation::independent;
  }
  if (rules_.one_step_requests || !first.touches || !second.touches || first.nic != second.nic) {
    return Relation::independent;
  }
  using fabric::model::Kind;
  if (first.request == Kind::atomic && second.request == Kind::atomic) {
    if (first.word != second.word) {
      return Relation::independent;
    }
    // Rule 8: the store unlocks the word.
    return a.kind == StepKind::store && b.kind == StepKind::load ? Relation::forced : Relation::race;
  }
  const bool writes = first.request == Kind::write || first.request == Kind::send;
  const bool waits = second.request == Kind::read || (second.request == Kind::atomic && rules_.atomics_see_writes);
  if (writes && waits && times[a.owner][a.index].completed <= times[b.owner][b.index].posted) {
    return Relation::forced;  // rule 2
  }
  return Relation::independent;
}

// Two steps of one request, in the order in which they happened.
Dependence::Relation Dependence::within(const Event& first, const Event& second) const {
  const StepKind a = first.action.kind;
  const StepKind b = second.action.kind;
  if (first.action.same_step(second.action)) {
    return Relation::race;  // one step with two possible ends
  }
  const bool pieces_apart =
      (a == StepKind::fetch && b == StepKind::fetch) || (a == StepKind::sample && b == StepKind::sample) ||
      (a == StepKind::place && b == StepKind::complete) || (a == StepKind::complete && b == StepKind::place) ||
      (a == StepKind::complete && b == StepKind::receive) || (a == StepKind::receive && b == StepKind::complete) ||
      (a == StepKind::place && b == StepKind::fetch);
  if (pieces_apart) {
    return Relation::independent;
  }
  if (a == StepKind::place && b == StepKind::place) {
    const bool ascending =
        rules_.placement == fabric::model::PlacementOrder::ascending && first.request == fabric::model::Kind::write;
    return ascending ? Relation::forced : Relation::independent;
  }
  if (a == StepKind::fetch && b == StepKind::place) {
    const bool feeds = first.local.begin < second.source.end && second.source.begin < first.local.end;
    return feeds ? Relation::forced : Relation::independent;
  }
  return Relation::forced;
}

// Rules 1, 5 and 6: `first` is a step of the earlier request.
bool Dependence::ordered_in_queue(const Event& first, const Event& second) const {
  const StepKind a = first.action.kind;
  const StepKind b = second.action.kind;
  if (ends(a) && ends(b)) {
    return true;
  }
  if (b == StepKind::receive && (a == StepKind::receive || a == StepKind::place)) {
    return true;
  }
  switch (order_between(rules_, first.request, second.request, second.fenced)) {
    case fabric::model::Order::unordered:
      return false;
    case fabric::model::Order::same_word:
      return first.word == second.word && first.touches && second.touches;
    case fabric::model::Order::executed:
      return first.touches && second.touches;
    case fabric::model::Order::completed:
      // An empty SEND has no step before its `receive`.
      return a == StepKind::complete && (second.touches || b == StepKind::fetch || b == StepKind::receive);
  }
  return false;
}

}  // namespace sidelatch::explore

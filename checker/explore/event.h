// What an explorer chooses (Action), what it did (Event), and when two of them must keep their order.
//
// An Action is the name of an event: it means the same in every execution in which it may happen. An Event is what the
// action did when it happened: the bytes it touched and the requests it posted. Whether two events are dependent
// follows from these records alone, so an event of one execution can be compared with those of another that begins the
// same way.
#pragma once

#include <sidelatch/explore/world.h>
#include <sidelatch/fabric/model/machine.h>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::explore {

/// A micro-step of the machine, with the client's continuation if it wakes one; or a step of a client alone.
struct Action {
  enum class Sort : std::uint8_t {
    machine,  ///< `kind`, `owner`, `index`, `piece` as in model::Step
    client,   ///< suspension number `index` of client `owner` ends
    lease,    ///< client `owner`, which waits for a latch, finds that time has passed: its `index`th time
  };
  Sort sort = Sort::machine;
  fabric::model::StepKind kind = fabric::model::StepKind::fetch;
  /// 0: the client that this wakes goes on. n + 1: it crashes after n more requests.
  std::uint16_t crash = 0;
  std::uint16_t owner = 0;
  std::uint32_t index = 0;
  std::uint32_t piece = 0;

  [[nodiscard]] static Action of(const fabric::model::Step& step) {
    return {Sort::machine, step.kind, 0, step.owner, step.index, step.piece};
  }
  [[nodiscard]] fabric::model::Step step() const { return {kind, owner, index, piece}; }
  friend constexpr auto operator<=>(const Action&, const Action&) = default;
  /// The same but for how it ends.
  [[nodiscard]] bool same_step(const Action& other) const {
    Action copy = other;
    copy.crash = crash;
    return *this == copy;
  }
};

/// As a trace file holds it; parse_action() reads it back.
[[nodiscard]] std::string to_string(const Action& action);
/// Throws std::invalid_argument that quotes `text`.
[[nodiscard]] Action parse_action(std::string_view text);

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool writes = false;

  friend bool operator==(const Range&, const Range&) = default;
  [[nodiscard]] bool conflicts(const Range& other) const {
    return begin < other.end && other.begin < end && (writes || other.writes);
  }
};

struct Event {
  static constexpr std::uint16_t kNone = 0xffff;

  Action action;
  Range target;  ///< bytes of a node's memory
  Range local;   ///< bytes of a client's buffers
  Range source;  ///< place: the bytes of the local buffer that it takes, which it no longer touches
  // The request of a machine step.
  std::uint16_t nic = kNone;
  fabric::model::Kind request = fabric::model::Kind::write;
  bool fenced = false;
  bool empty = false;               ///< it moves no bytes, so nothing waits for its placement
  bool touches = false;             ///< a step at the target that rules 2 and 5 order
  std::uintptr_t word = 0;          ///< of an atomic
  std::uint16_t initiator = kNone;  ///< the client of the request
  // A CPU thread's store, load, fence or drain.
  std::uint16_t thread = kNone;
  std::uint32_t stored = 0xffff'ffff;  ///< a store: its number, which its drain has too
  bool fence = false;
  bool by_cpu = false;  ///< a step of a CPU thread, or its drain
  // The client's part.
  std::uint16_t client = kNone;  ///< whose local state this event reads or changes
  bool ran = false;              ///< a task of it went on
  bool may_crash = false;        ///< and could have crashed instead
  // What it touched at a node, for judges.
  std::uint16_t node = kNone;  ///< the node's actor
  fabric::RemoteAddress address;
  std::uint32_t length = 0;
  bool changes = false;
  std::uint64_t tag = 0;
  bool global = false;             ///< dependent with everything: revocation
  std::uint16_t lease_of = kNone;  ///< a lease ran out: after everything but the requests of this client, which crashed
  struct Post {
    std::uint16_t qp = 0;
    std::uint16_t nic = 0;
    std::uint32_t index = 0;
    bool sees_completed = false;  ///< a READ or atomic, for rule 2
    Range bound;                  ///< inline payload: local bytes that it read
    friend bool operator==(const Post&, const Post&) = default;
  };
  std::vector<Post> posts;
  std::vector<std::uint32_t> suspensions;  ///< numbers of the client's steps that it made possible
  struct Changed {
    std::uint16_t qp = 0;
    std::uint32_t index = 0;
    std::uint32_t line = 0;
  };
  std::vector<Changed> changed;  ///< lines of requests in flight whose local bytes it changed
};

/// When requests were posted and completed, as event numbers.
struct RequestTimes {
  Moment posted = 0;
  Moment completed = 0xffff'ffff;
};

/// For dependence between events of one execution, or of two with the same beginning.
class Dependence {
 public:
  enum class Relation : std::uint8_t {
    independent,  ///< adjacent, they may be swapped
    race,         ///< they may happen in either order, with another effect
    forced,       ///< the second cannot happen before the first
  };

  explicit Dependence(const fabric::model::Rules& rules) : rules_(rules) {}

  /// `times`: of the execution, by queue pair and number.
  [[nodiscard]] Relation between(const Event& first, const Event& second,
                                 const std::vector<std::vector<RequestTimes>>& times) const;

 private:
  [[nodiscard]] Relation machine_steps(const Event& first, const Event& second,
                                       const std::vector<std::vector<RequestTimes>>& times) const;
  [[nodiscard]] Relation within(const Event& first, const Event& second) const;
  [[nodiscard]] bool ordered_in_queue(const Event& first, const Event& second) const;

  fabric::model::Rules rules_;
};

}  // namespace sidelatch::explore

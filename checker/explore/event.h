// An explorer's choices (Action), their effects (Event), and when two events must keep their order.
//
// An Action names an event: it means the same in every execution in which it may happen. An Event records the action's
// effects when it happened: the bytes it touched and the requests it posted. Whether two events are dependent follows
// from these records alone, so an event of one execution can be compared with those of another with the same beginning.
#pragma once

#include <sidelatch/explore/world.h>
#include <sidelatch/fabric/model/machine.h>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::explore {

/// A micro-step of the machine, with the continuation of the client that it wakes, if any; or a client's step alone.
struct Action {
  enum class Sort : std::uint8_t {
    machine,  ///< `kind`, `owner`, `index`, `piece` as in model::Step
    client,   ///< suspension number `index` of client `owner` ends
    lease,    ///< the lease of client `owner`, which has crashed, ends for the `index`th time; at the end of an
              ///< execution: client `owner`, which waits, finds that time has passed
  };
  Sort sort = Sort::machine;
  fabric::model::StepKind kind = fabric::model::StepKind::fetch;
  /// 0: the woken client continues. n + 1: it crashes after n more requests.
  std::uint16_t crash = 0;
  /// A client's first step: it crashes instead, and has done nothing.
  static constexpr std::uint16_t kNeverBegins = 0xffff;
  std::uint16_t owner = 0;
  std::uint32_t index = 0;
  std::uint32_t piece = 0;

  [[nodiscard]] static Action of(const fabric::model::Step& step) {
    return {Sort::machine, step.kind, 0, step.owner, step.index, step.piece};
  }
  [[nodiscard]] fabric::model::Step step() const { return {kind, owner, index, piece}; }
  friend constexpr auto operator<=>(const Action&, const Action&) = default;
  /// Whether both are the same step, perhaps with different ends.
  [[nodiscard]] bool same_step(const Action& other) const {
    Action copy = other;
    copy.crash = crash;
    return *this == copy;
  }
};

/// The form used in trace files; parse_action() reads it back.
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
  /// The memory of its node that others reach by requests, if a task of it ran that may look at all of it by pointers.
  Range own;
  std::uint16_t own_node = kNone;
  Range ended;  ///< memory that others reach by requests, and whose region a client's step ended
  /// Objects of the process that a client's step changed, and those that it may have looked at, one bit each.
  std::uint64_t altered = 0;
  std::uint64_t looked_at = 0;
  Range source;  ///< place: the bytes of the local buffer that it takes; it no longer touches them
  // The request of a machine step.
  std::uint16_t nic = kNone;
  fabric::model::Kind request = fabric::model::Kind::write;
  bool fenced = false;
  bool empty = false;               ///< it moves no bytes, so nothing waits for its placement
  bool touches = false;             ///< a step at the target that rules 2 and 5 order
  std::uintptr_t word = 0;          ///< the word of an atomic
  std::uint16_t initiator = kNone;  ///< the client of the request
  // A store, load, fence or drain of a CPU thread; of a request's step, the thread that has posted it.
  std::uint16_t thread = kNone;
  std::uint32_t stored = 0xffff'ffff;  ///< the number of a store, shared with its drain
  std::uint32_t behind = 0;            ///< of a request's step: as many stores of `thread` drain before
  /// Of a SEND's step that needs its receive buffer: the thread that has posted the buffer, and how many stores of that
  /// thread drain before.
  std::uint16_t buffer_thread = kNone;
  std::uint32_t buffer_behind = 0;
  bool fence = false;
  bool by_cpu = false;  ///< a step of a CPU thread that is no client's, or its drain
  // The client's part of the event.
  std::uint16_t client = kNone;  ///< the client whose local state this event reads or changes
  /// The sender of a message that this event completes, and that `client` gets (one-step requests).
  std::uint16_t sender = kNone;
  std::uint16_t message = kNone;  ///< a client's step that learns of the next message of this queue pair
  bool ran = false;               ///< one of its tasks continued
  bool may_crash = false;         ///< the client could have crashed instead
  bool begins = false;            ///< the first step of a client that may crash
  bool starts = false;            ///< the first step of a task
  bool judged = false;            ///< a judge sees when it happens
  bool disables = false;          ///< it destroyed a coroutine that had a next step
  // Memory that it touched at a node, for judges.
  std::uint16_t node = kNone;  ///< the node's actor
  fabric::RemoteAddress address;
  std::uint32_t length = 0;
  bool changes = false;
  std::uint64_t tag = 0;
  std::uint16_t allocates_at = kNone;  ///< a node that registers memory: the next region's address depends on it
  bool global = false;                 ///< dependent with everything: revocation
  std::uint16_t lease_of = kNone;  ///< the lease of this crashed client ended: after everything but its own requests
  struct Post {
    std::uint16_t qp = 0;
    std::uint16_t nic = 0;
    std::uint32_t index = 0;
    bool sees_completed = false;  ///< a READ or atomic, for rule 2
    Range bound;                  ///< inline payload: local bytes that the post read
    std::uint64_t digest = 0;     ///< of the request and the payload that it had then
    friend bool operator==(const Post&, const Post&) = default;
  };
  std::vector<Post> posts;
  struct Receive {
    std::uint16_t qp = 0;
    std::uint32_t number = 0;  ///< of the SENDs of that queue pair
    friend bool operator==(const Receive&, const Receive&) = default;
  };
  std::vector<Receive> receives;   ///< receive buffers that it posted
  std::uint32_t send = 0;          ///< of a SEND's step: how many SENDs its queue pair had before
  std::uint16_t receiver = kNone;  ///< of a SEND's step: the client that gets the message
  struct Suspension {
    std::uint16_t client = 0;
    std::uint32_t number = 0;
    friend bool operator==(const Suspension&, const Suspension&) = default;
  };
  std::vector<Suspension> suspensions;  ///< steps of clients that this event made possible
  struct Changed {
    std::uint16_t qp = 0;
    std::uint32_t index = 0;
    std::uint32_t line = 0;
  };
  std::vector<Changed> changed;  ///< lines of in-flight requests whose local bytes this event changed

  /// How many requests and receive buffers it has posted, between which it could have crashed.
  [[nodiscard]] std::size_t posted() const noexcept { return posts.size() + receives.size(); }
};

/// When requests were posted and completed, as numbers of events.
struct RequestTimes {
  Moment posted = 0;
  Moment completed = 0xffff'ffff;
};

/// Decides dependence between events of one execution, or of two with the same beginning.
class Dependence {
 public:
  enum class Relation : std::uint8_t {
    independent,  ///< if adjacent, they may be swapped
    race,         ///< they may happen in either order, with different effects
    forced,       ///< the second cannot happen before the first
  };

  explicit Dependence(const fabric::model::Rules& rules) : rules_(rules) {}

  /// `times` are those of the execution, by queue pair and number.
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

// The search through the executions of a program.
//
// A Worker explores the subtree below a path of choices (a SearchTask), depth first. After so many executions it stops
// and hands its stack back: its nodes are frozen, and each choice left at one of them becomes a task of its own. Races
// that a subtree finds at nodes above it travel as Additions. The Coordinator runs tasks in rounds and merges their
// results in the order of the tasks, so the result does not depend on the number of threads.
#pragma once

#include "execution.h"

#include <sidelatch/explore/check.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sidelatch::explore {

/// Events before this one in the order of an execution, one bit each.
using Before = std::vector<std::uint64_t>;

inline bool has_bit(const Before& set, Moment bit) { return (set[bit / 64] >> (bit % 64) & 1) != 0; }
inline void set_bit(Before& set, Moment bit) { set[bit / 64] |= std::uint64_t{1} << (bit % 64); }
inline void include(Before& set, const Before& other) {
  for (std::size_t i = 0; i < other.size(); ++i) {
    set[i] |= other[i];
  }
}

/// A state of an execution and the choice made in it.
struct SearchNode {
  Event event;                                      // of the choice
  Before before;                                    // bits of the events before this one
  std::vector<std::shared_ptr<const Event>> sleep;  // choices already explored, or that need no exploring
  std::vector<Action> todo;                         // choices to be explored
  [[nodiscard]] bool knows(const Action& action) const;
};

struct FrozenNode {
  SearchNode node;
  std::shared_ptr<FrozenNode> parent;
  std::shared_ptr<FrozenNode> owner;  // owns this state's choices, if another node does: one per choice exists
  std::vector<Action> started;        // given out as tasks
  bool listed = false;                // has choices to give out

  [[nodiscard]] bool knows(const Action& action) const;
};

struct SearchTask {
  std::shared_ptr<FrozenNode> parent;  // `first` is chosen in the state behind this node's choice; null: the start
  std::shared_ptr<FrozenNode> at;      // the node whose choice `first` replaces; null for the first task
  Action first;
  std::vector<Action> asleep;  // choices of that state that were given out earlier
};

/// A race between an event below and the choice of a frozen node: one of `initials` must be explored there.
struct Addition {
  std::shared_ptr<FrozenNode> node;
  std::vector<Action> initials;
};

/// Why a program is refused.
inline constexpr const char* kDiffers =
    "the program did something else than before, in the same order of events: it must depend on nothing but its world "
    "(no clock, no chance, no variable that outlives it)";

/// The same, where only the numbers of moments differ.
inline constexpr const char* kDiffersByMoments =
    "the program did something else when World::moment() gave other numbers in the same order: nothing but the order "
    "of moments may count";

struct Found {
  Failure failure;
  std::vector<Action> choices;
  std::vector<Action> tail;
  std::size_t events = 0;                      // number of events that it depends on
  bool orders_objects = false;                 // Options::order_objects was set
  bool parts_posts = false;                    // Options::part_posts was set
  bool parts_completions = false;              // Options::part_completions was set
  bool by_states = false;                      // its choices are those of a search through states
  std::size_t repeats_from = ~std::size_t{0};  // from this choice on they repeat for ever
};

struct TaskResult {
  std::uint64_t executions = 0;
  std::uint64_t judged = 0;  // executions in which everybody reached the end
  std::uint64_t redundant = 0;
  std::uint64_t events = 0;
  bool stopped = false;   // not because of the number of executions
  std::uint64_t cut = 0;  // executions in which a loop was given up
  bool reads_counters = false;
  bool shares_objects = false;
  bool revokes_of_the_living = false;
  std::optional<BlindSpot> blind_spot;  // Execution::blind_spot()
  std::vector<Execution::Changing> changing;
  std::vector<Execution::LookBehind> looks_behind;
  std::optional<std::string> too_long;  // an execution has more events than are allowed: who had not ended in it
  std::optional<Cut> first_cut;
  std::optional<Found> found;
  std::vector<Addition> additions;
  std::vector<std::shared_ptr<FrozenNode>> left;  // the nodes of the stack, top first
};

/// What all executions of a search show of objects of the process.
class ObjectsSeen {
 public:
  /// Whether any of it was not known to change.
  bool add(const std::vector<Execution::Changing>& changing);
  void add(const std::vector<Execution::LookBehind>& looks);
  [[nodiscard]] const std::vector<Execution::Changing>& changing() const noexcept { return changing_; }
  void forget_looks() { looks_.clear(); }
  /// A client looks behind a post at what another one changes; or null.
  [[nodiscard]] const std::string* blind_spot() const;

 private:
  std::vector<Execution::Changing> changing_;
  std::vector<Execution::LookBehind> looks_;
};

/// The order of the execution whose nodes are given.
class PathOrder final : public Order {
 public:
  PathOrder(const Execution& execution, const std::vector<const Event*>& events, const std::vector<const Before*>& rows)
      : execution_(&execution), events_(&events), rows_(&rows) {}
  [[nodiscard]] bool before(Moment first, Moment second) const override {
    // What happens at the end, where clients that wait try again, comes after all else.
    return first == second || (first < second && (second >= rows_->size() || has_bit(*(*rows_)[second], first)));
  }
  [[nodiscard]] const std::vector<Access>& changes() const override { return list(changes_, true); }
  [[nodiscard]] const std::vector<Access>& samples() const override { return list(samples_, false); }

 private:
  // Made on demand: most judges do not ask.
  const std::vector<Access>& list(std::vector<Access>& accesses, bool changes) const;

  const Execution* execution_;
  const std::vector<const Event*>* events_;
  const std::vector<const Before*>* rows_;
  mutable std::vector<Access> changes_;
  mutable std::vector<Access> samples_;
};

class Worker {
 public:
  /// `stop`: set from outside to end the search; the worker sets it too when `deadline` has passed.
  /// `changing`: objects that are known to change.
  Worker(const Program& program, const Options& options, std::atomic<bool>& stop,
         std::optional<std::chrono::steady_clock::time_point> deadline,
         const std::vector<Execution::Changing>& changing = {});

  [[nodiscard]] TaskResult run(const SearchTask& task, std::uint64_t most_executions);
  /// One random execution. PCT changes priorities within its first `usual_length` events.
  [[nodiscard]] TaskResult run_random(std::uint64_t seed, std::size_t usual_length);
  /// One random execution that ends within `most_events`, or is given up. Each actor has a pace of its own, which
  /// changes now and then, so that one may try often while another does one step.
  [[nodiscard]] TaskResult walk(std::uint64_t seed, std::size_t most_events);
  /// One execution along `choices`, then with default choices if `to_the_end`.
  [[nodiscard]] TaskResult run_along(const std::vector<Action>& choices, bool to_the_end);
  [[nodiscard]] bool reads_counters() const noexcept { return execution_.reads_counters(); }
  [[nodiscard]] bool shares_objects() const noexcept { return execution_.shares_objects(); }
  [[nodiscard]] bool may_crash() const noexcept { return execution_.may_crash(); }
  /// Rows of the last execution.
  [[nodiscard]] const std::vector<const Before*>& rows() const noexcept { return rows_; }
  [[nodiscard]] const Event& event(std::size_t depth) const { return *events_[depth]; }
  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }

 private:
  void load(const SearchTask& task);
  void push(const Action& action);
  void make_happen(std::size_t depth, const Action& action);
  void find_order(std::size_t depth);
  void reverse(std::size_t first, std::size_t second);
  void reverse_lock(std::size_t holder_load, std::size_t holder_store, std::size_t second);
  void reverse_fence(std::size_t fence);
  void add_choice(std::size_t depth, const std::vector<Action>& initials);
  void extend(TaskResult& result);
  void end_execution(TaskResult& result);
  void tell_what_was_seen(TaskResult& result) const;
  void end_judged(TaskResult& result);
  void let_start_later(std::size_t lease);
  [[nodiscard]] bool is_early_lease(const Action& action);
  void record(TaskResult& result, const Failure& failure, const std::vector<Action>& tail);
  bool next_choice();
  void replay_to(std::size_t depth, const char* refusal = kDiffers);
  [[nodiscard]] bool runs_leaf_again() const;
  void note_leaf();
  void run_leaf_again();
  void repeat_leaf(const char* refusal);
  void freeze(TaskResult& result);
  [[nodiscard]] bool should_stop();
  [[nodiscard]] bool reduces() const { return reduce_; }

  const Options* options_;
  std::atomic<bool>* stop_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool reduce_;
  std::uint32_t looks_ = 0;
  static constexpr std::uint64_t kLeavesRunAgain = 8;  // the first ones
  std::uint64_t leaves_ = 0;                           // ends of executions so far
  std::uint64_t leaf_memory_ = 0;                      // of the last one
  bool leaf_failed_ = false;
  std::shared_ptr<FrozenNode> first_owner_;  // owner of the choices at depth base_, if another task began there
  Dependence dependence_;
  Execution execution_;
  std::size_t base_ = 0;                             // nodes below are frozen
  std::vector<std::shared_ptr<FrozenNode>> frozen_;  // the path to the task
  std::vector<std::unique_ptr<SearchNode>> nodes_;   // by depth; the first base_ are not used
  std::size_t depth_ = 0;
  std::vector<const Event*> events_;  // of frozen and own nodes
  std::vector<const Before*> rows_;
  std::vector<Action> enabled_;
  std::vector<Action> initials_;
  std::vector<Moment> members_;
  std::vector<Addition> additions_;
};

}  // namespace sidelatch::explore

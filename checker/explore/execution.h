// Execution: one run of a program along chosen actions. It is the World that the program sees.
//
//   Execution execution(program, rules);
//   for (execution.begin(); ...;) {
//     execution.enabled(actions);
//     if (actions.empty() || execution.failure() != nullptr) break;
//     const Event& event = execution.apply(choose(actions));
//   }
//
// It is fast because it is reused: the machine keeps its parts, an arena hands out registered memory at the same
// addresses each time, and frames come from their pool.
#pragma once

#include "arena.h"
#include "client_state.h"
#include "event.h"
#include "guard.h"
#include "zone.h"

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/model/machine.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace sidelatch::explore {

class ModelCpu;
class ModelNode;
class ModelQueuePair;
class ModelReactor;

/// A violation found in an execution.
struct Failure {
  Kind kind = Kind::assertion;
  std::string what;
  Moment moment = 0;         ///< the event at which it was found
  std::vector<Moment> also;  ///< other events that are part of it
  bool at_end = false;       ///< the whole execution is the reason
};

/// A retry loop whose attempts were given up, although one more might have done something new.
struct Cut {
  std::string client;
  std::string place;
  std::uint32_t attempts = 0;
  std::string difference;  ///< between the last two attempts' ends
  std::string other;       ///< if it was not a loop: what it was
};
[[nodiscard]] std::string to_string(const Cut& cut);

/// What a client has done that a search does not explore as it happens.
struct BlindSpot {
  std::string what;
  bool parting_helps = false;  ///< it is explored if what follows a post is a step of its own (Options::part_posts)
};

/// A task is its frame's address.
[[nodiscard]] inline const void* frame_of(const fabric::Task<void>& task) noexcept {
  const void* frame = nullptr;
  static_assert(sizeof task == sizeof frame);
  std::memcpy(&frame, static_cast<const void*>(&task), sizeof frame);
  return frame;
}

class Execution final : public World {
 public:
  Execution(Program program, const fabric::model::Rules& rules, std::uint32_t writing_retries = 2);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  ~Execution() override;

  // ---- For explorers.

  /// Also looks at the frames of loops that say that they keep nothing.
  void trust_no_loop() noexcept { trusts_ = false; }
  /// Tasks run in stack frames below this address of the calling thread.
  void runs_below(const void* stack_top);
  /// Addresses in [low, top) count as equal, too. A program's captured objects may have some between their values, of
  /// the thread that made them.
  void leave_out_stack(std::uintptr_t low, std::uintptr_t top);
  void compare_tallies() noexcept { compares_tallies_ = true; }
  /// Whether a client has changed an object of the process that another one can reach, in any execution, and that is
  /// not for judges alone (World::judges_with). Then order_objects() is needed.
  [[nodiscard]] bool shares_objects() const noexcept { return shares_objects_; }
  /// Steps of clients that change such an object, or look at it, are dependent.
  struct Changing {
    std::uint32_t taken_as = 0;    ///< the object's number among the blocks of the program; kMadeInTasks: see there
    std::uint64_t changed_by = 0;  ///< actors, one bit each
  };
  static constexpr std::uint32_t kMadeInTasks = 0;  ///< all that tasks have made and linked to such objects
  /// A client looks at an object behind a post, in the same step, or may do so.
  struct LookBehind {
    /// One actor is enough: it has changed the object itself behind the post, and others look at it.
    static constexpr std::uint64_t kEnough = std::uint64_t{1} << 63;
    std::uint32_t taken_as = 0;
    std::uint64_t by = 0;  ///< actors, one bit each, and kEnough
    std::string what;
  };
  /// `known`: those of changing_objects(), of executions of the same program.
  void order_objects(const std::vector<Changing>& known);
  [[nodiscard]] const std::vector<Changing>& changing_objects() const noexcept { return changing_; }
  /// A step that was taken, in any execution, although what it did cannot be explored as it happens.
  [[nodiscard]] const std::optional<BlindSpot>& blind_spot() const noexcept { return blind_spot_; }
  /// The same, of objects: it is one if another client has changed the object, in any execution of any thread.
  [[nodiscard]] const std::vector<LookBehind>& looks_behind() const noexcept { return looks_behind_; }
  /// What a client does behind a post is a step of its own, where it can be.
  void part_posts() noexcept { parts_posts_ = true; }
  /// Each client goes on in a step of its own behind a completion.
  void part_completions() noexcept { parts_completions_ = true; }
  /// Looks at buffers behind posts are seen also where no awaiter of the library comes between, and looks at memory of
  /// other nodes. This takes longer.
  void look_closely(bool closely, bool at_other_nodes = true) noexcept {
    looks_closely_ = closely;
    looks_at_other_nodes_ = closely && at_other_nodes;
  }
  /// The tasks of the node, and of its CPU threads, access the node's memory by their Cpu alone. This is believed:
  /// their steps are no looks at all of it.
  void believe_in_cpu_alone(const fabric::Node& node) { actors_[actor_of(node)].by_cpu_alone = true; }
  /// For a search through states: no attempt of a loop is left out. A client that tries again waits for a step of its
  /// own. Call it before begin().
  void go_by_states() noexcept { by_states_ = true; }
  /// Why this program has no states that could be compared, or null. Known once its steps have happened.
  [[nodiscard]] const char* no_states() const noexcept { return no_states_; }
  /// Appends the state in a form that is the same wherever it is reached from.
  void append_state(std::vector<std::uint64_t>& out);
  /// Whether `action`, which is enabled, is independent of all that others may ever do before it, and of all that its
  /// own client may do: it may come first.
  [[nodiscard]] bool may_come_first(const Action& action) const;
  /// The same for the step that has just happened, in which a client ran.
  [[nodiscard]] bool could_come_first() const;
  /// The clients that have not ended: "writer 0, reader 1".
  [[nodiscard]] std::string unended() const;
  /// All tasks of the world have ended, but not all of those that they have spawned: notes that, and whose they are.
  void note_unended_spawned();
  /// From now on World::moment() and the like give other numbers, in the same order.
  void stretch_moments(bool stretched) noexcept { stretches_moments_ = stretched; }
  /// Whether the program has ever asked for a moment.
  [[nodiscard]] bool asks_for_moments() const noexcept { return asks_for_moments_; }
  /// Whether the program has ever asked for the time. Then compare_clock() is needed: else two states may differ in
  /// their clocks alone.
  [[nodiscard]] bool reads_clock() const noexcept { return clock_read_; }
  void compare_clock() noexcept { compares_clock_ = true; }
  /// Whether a client has ever asked what time it is after it has waited. Then it may end a wait by itself.
  [[nodiscard]] bool asks_time() const noexcept { return asks_time_; }
  /// Whether the program has ever revoked a queue pair. Then order_revocations() is needed: else results are
  /// delivered and requests complete before anything else, and no revocation comes between.
  [[nodiscard]] bool revokes() const noexcept { return revokes_; }
  void order_revocations() noexcept { orders_revocations_ = true; }
  /// Whether it has ever revoked one of a client that lives. Then part_completions() is needed: what completes before
  /// the revocation may be told after it.
  [[nodiscard]] bool revokes_of_the_living() const noexcept { return revokes_of_the_living_; }
  /// A name of an enabled action that it keeps for as long as it does not happen.
  [[nodiscard]] std::uint32_t lasting_name(const Action& action) const;
  /// Names of atomics that only wait for others on their word (rule 8).
  void append_waiting_atomics(std::vector<std::uint32_t>& out) const;
  /// Whether a client may crash.
  [[nodiscard]] bool may_crash() const noexcept {
    return std::ranges::any_of(actors_, [](const Actor& actor) { return actor.can_crash; });
  }
  /// Whether the program has ever read a tally.
  [[nodiscard]] bool reads_counters() const noexcept { return tally_read_; }

  /// Ends the last execution and starts the next. Throws exceptions of the program, and std::logic_error if it does not
  /// do the same as before. `start` gets what the program has made: no two builds differ in it.
  void begin(std::vector<std::uint64_t>* start = nullptr);
  /// Builds the program some times more, and throws std::logic_error if it is another one each time.
  void require_same_builds();
  /// Of all registered memory. Addresses of the program's heap count as the same wherever the heap lies: a task that is
  /// destroyed before its end may leave blocks, and then the next execution has its own elsewhere.
  [[nodiscard]] std::uint64_t memory_hash() const noexcept;
  /// The actions possible now, in an order that does not depend on how this state was reached.
  void enabled(std::vector<Action>& out);
  [[nodiscard]] bool is_enabled(const Action& action);
  /// Whether the enabled action is the first step of a client that may crash before it (Action::kNeverBegins).
  [[nodiscard]] bool may_never_begin(const Action& action) const;
  /// Performs an enabled action and describes it in `event`.
  void apply(const Action& action, Event& event);
  /// The same for an action that happened at this point of an earlier execution; its effects are not recorded.
  void repeat(const Action& action);
  /// The same where this step was repeated before, in this execution or another's: what its client looks at is known.
  void retrace(const Action& action);
  /// The same; whether the client did the same as in that execution.
  [[nodiscard]] bool repeats(const Event& before);
  /// Whether Node::revoke() needs no yield() before it.
  [[nodiscard]] bool may_revoke_in_this_step() const;
  /// The number of the next event.
  [[nodiscard]] Moment next_moment() const noexcept { return moment_; }
  [[nodiscard]] const Failure* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }
  /// Whether a loop was cut in this execution, so that what would have followed is unknown.
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }
  /// Whether a client has changed behind its crash what others could see, or has done something else that is not
  /// explored. Then what follows is no execution of the program, and blind_spot() says so.
  [[nodiscard]] bool is_void() const noexcept { return is_void_; }
  /// The first loop that was cut since forget_cuts(), in any execution.
  [[nodiscard]] const std::optional<Cut>& first_cut() const noexcept { return first_cut_; }
  void forget_cuts() noexcept { first_cut_.reset(); }
  [[nodiscard]] const std::vector<std::vector<RequestTimes>>& times() const noexcept { return times_; }

  /// Whether a client has parked in a loop on a condition that it could not pass. Requires that nothing is enabled.
  [[nodiscard]] bool has_parked() const;
  /// Lets the parked clients try again one after the other, each alone and with much time passed. Ends when all have
  /// ended or none makes progress, which is a deadlock. Adds the actions to `record`.
  void run_tail(std::vector<Action>* record);
  /// Whether the clients can continue like this for ever: all that have not ended are in loops whose attempts change
  /// memory, have failed twice alike, and nobody made progress meanwhile. Requires that nothing is enabled.
  [[nodiscard]] bool is_livelock(const Order& order) const;
  /// Fails with a deadlock if a task has not ended. Requires that nothing is enabled and nobody is parked.
  void require_ended();
  /// Rule 9: after a crash, liveness is judged only if the program asks for it.
  [[nodiscard]] bool judges_liveness() const noexcept { return crashed_ == Event::kNone || liveness_after_crash_; }
  /// Calls the program's at_end() functions, and then destroys its tasks and objects, which may fail, too. Nothing
  /// can happen in this execution any more.
  void judge(const Order& order);

  // ---- For traces.

  [[nodiscard]] const fabric::model::Machine& machine() const noexcept { return machine_; }
  [[nodiscard]] std::string_view actor_name(std::uint16_t actor) const { return actors_[actor].name; }
  [[nodiscard]] std::uint16_t actor_count() const noexcept { return static_cast<std::uint16_t>(actors_.size()); }
  [[nodiscard]] std::uint16_t initiator(std::uint16_t qp) const { return queue_pairs_[qp].actor; }
  [[nodiscard]] std::uint16_t target_of(std::uint16_t qp) const { return queue_pairs_[qp].target; }
  [[nodiscard]] unsigned nic_of(std::uint16_t qp) const { return queue_pairs_[qp].nic_at_node; }
  [[nodiscard]] std::uint16_t actor_of_thread(std::uint16_t thread) const { return threads_[thread]; }
  /// What the program step `action` will do: "starts", "stores 3 to ...".
  [[nodiscard]] std::string describe_step(const Action& action) const;
  [[nodiscard]] std::string address_name(const fabric::Node& node, fabric::RemoteAddress address) const;
  [[nodiscard]] const fabric::Node* node(std::uint16_t actor) const;

  // ---- World.

  [[nodiscard]] fabric::Reactor& reactor() noexcept override;
  [[nodiscard]] fabric::Node& add_node(std::string_view name, unsigned nics) override;
  [[nodiscard]] std::unique_ptr<fabric::QueuePair> connect(fabric::Node& from, fabric::Node& to, unsigned nic,
                                                           const fabric::QueuePairOptions& options) override;
  [[nodiscard]] fabric::Cpu& add_cpu(fabric::Node& node, std::string_view name) override;
  /// For Node::connect_pair().
  [[nodiscard]] std::pair<std::unique_ptr<fabric::QueuePair>, std::unique_ptr<fabric::QueuePair>> connect_pair(
      fabric::Node& from, fabric::Node& to, const fabric::QueuePairOptions& options);
  void spawn(fabric::Node& client, fabric::Task<void> task) override;
  void spawn(fabric::Cpu& cpu, fabric::Task<void> task) override;
  void may_crash(fabric::Node& client) override;
  void require_liveness_after_crash() override { liveness_after_crash_ = true; }
  void fail(Kind kind, std::string what) override;
  [[nodiscard]] Moment moment() const override;
  [[nodiscard]] Moment last_post() const override;
  [[nodiscard]] Moment last_retry() const override;
  void tag(std::uint64_t number) override;
  void at_end(std::function<void(const Order&)> judge) override;
  [[nodiscard]] bool crashed() const override;
  [[nodiscard]] bool judges_in_order() const override { return by_states_; }
  void order_matters() override { event_->judged = true; }
  void judges_with(const void* object) override;
  void observe(Observer observer) override;

 protected:
  void keep(Kept kept) override;
  void suspend(Step& step) override;
  void forget(const Step& step) noexcept override;

 private:
  friend class ModelCpu;
  friend class ModelNode;
  friend class ModelQueuePair;
  friend class ModelReactor;

  struct Suspended {
    std::uint32_t number = 0;
    Step::What what = Step::What::start;
    Step* step = nullptr;
    std::uint16_t qp = 0;  // completion; message: the sender's
    std::uint64_t sequence = 0;
    fabric::Cpu::Access* access = nullptr;
    fabric::Waiter* waiter = nullptr;  // retry, or a sleep
    std::uint64_t wait = 0;            // its number as a Parked, if it was one
    std::uint32_t slot = 0;            // no other one that waits has it
    bool is_parted = false;            // it waits behind a post, and may be destroyed there
  };
  // The end of an attempt that failed.
  struct AttemptEnd {
    ClientState state;
    std::uint64_t changes = 0;  // of the client, until then
    std::uint64_t looks = 0;    // of the client at moments
    fabric::Time clock{};       // of the client, but in the tail, where time only passes to let it try again
    std::uint32_t leases = 0;   // that have ended for the client, but in the tail
    std::uint64_t memory = 0;   // hash of all registered memory, in the tail
    bool in_tail = false;
    bool quiet = false;  // nothing of the client was under way
  };
  struct Loop {
    std::source_location place{};
    bool forgets = false;  // its frame keeps nothing of a failed attempt; its second retry is its head
    std::uint32_t retries_to_head = 0;
    std::vector<AttemptEnd> ends{};
    std::uint32_t silent = 0;  // failed attempts that changed nothing
    std::uint64_t changes_at_head = 0;
    std::uint64_t seen = 0;  // hash of the values read since the loop's head
    std::unordered_set<std::uint64_t> met{};
    std::uint32_t failed = 0;
    std::uint64_t seen_before = 0;  // the same for the last failed attempt
    Moment began = 0;               // when the attempt began
    struct Repetition {
      Moment began;
      Moment ended;
    };
    std::optional<Repetition> repeats{};  // the last attempt, if it was like the one before
  };
  struct Parked {
    fabric::Waiter* waiter = nullptr;
    std::uint64_t number = 0;               // of the wait
    fabric::Reactor::LoopId loop = 0;       // kNoLoop: a wait for a word, which looked in vain
    std::uint64_t progress = 0;             // the client's progress and changes then
    std::uint64_t state = 0;                // hash of the client's state
    fabric::Cpu::Access* access = nullptr;  // of a wait for a word
    [[nodiscard]] bool is_loop() const noexcept { return loop != fabric::Reactor::kNoLoop; }
  };
  struct Actor {
    std::string name;
    bool is_cpu = false;
    bool can_crash = false;
    bool has_begun = false;
    std::uint16_t machine_client = 0;  // of a node
    std::uint16_t machine_thread = 0;
    std::uint16_t node = 0;  // the actor of its node
    std::vector<fabric::Task<void>> tasks;
    std::vector<Suspended> suspended;
    std::vector<Parked> parked;
    std::vector<Loop> loops;
    std::uint32_t next_suspension = 0;
    std::uint32_t tasks_left = 0;
    std::uint32_t leases_used = 0;
    std::uint64_t at_last_lease = 0;  // lease_state()
    std::uint64_t progress = 0;       // tasks ended plus loops begun
    std::uint64_t changes = 0;        // what it did that others can see: placements, stores, new memory; it only grows
    mutable std::uint64_t looks = 0;  // at moments
    std::vector<std::span<const std::byte>> regions;
    std::vector<std::span<const std::byte>> shared;  // of these, what others reach by requests
    std::vector<std::span<const std::byte>> stored;  // words of the rest to which its Cpu has stored
    std::uint64_t tag = 0;
    std::int64_t spawned = 0;  // tasks that its tasks have spawned and that have not ended
    Moment last_post = 0;
    Moment last_retry = 0;
    fabric::Time clock{};
    bool has_waited = false;  // for more than a sleep
    bool by_cpu_alone = false;
  };
  struct QueuePairPart {
    ModelQueuePair* queue_pair = nullptr;
    std::uint16_t actor = 0;
    std::uint16_t target = 0;
    std::uint16_t nic = 0;
    unsigned nic_at_node = 0;
    std::uint32_t sends = 0;     // posted so far
    std::uint32_t receives = 0;  // buffers for them
    struct ReceiveBuffer {
      std::span<const std::byte> bytes;
      std::uint32_t behind = 0;  // stores of the target's CPU that drain first
    };
    std::vector<ReceiveBuffer> receive_buffers{};
    std::size_t received = 0;        // of these, how many hold messages that their owner knows of
    std::uint32_t next_message = 0;  // the request behind the last SEND that the receiver knows of
    bool is_alone = false;           // a task has destroyed the other end
  };
  struct RequestInfo {
    std::uint64_t tag = 0;
    bool signaled = false;
    std::int32_t snapshot = -1;
    std::uint64_t progress = 0;  // its client's progress when it was posted
    std::uint32_t behind = 0;    // stores of its client's CPU that drain first
    std::uint32_t send = 0;      // SENDs of its queue pair before it
  };
  // The payload of an in-flight WRITE at its post.
  struct Snapshot {
    std::uint16_t qp = 0;
    std::uint32_t index = 0;
    const std::byte* data = nullptr;
    std::vector<std::byte> bytes;
    std::vector<bool> fetched;  // by 64-byte line
    Moment posted = 0;
    bool live = false;
  };
  // The parts of the machine, in the order in which the program asked for them.
  struct Part {
    enum class Sort : std::uint8_t { node, cpu, queue_pair, region } sort;
    std::uint64_t a;
    std::uint64_t b;
    std::uint64_t c;
    std::uint16_t id;
    friend bool operator==(const Part&, const Part&) = default;
  };

  [[nodiscard]] std::uint16_t queue_pair_count() const noexcept {
    return static_cast<std::uint16_t>(queue_pairs_.size());
  }
  void end_execution() noexcept;
  void destroy_program() noexcept;
  [[nodiscard]] std::unique_ptr<ModelQueuePair> make_queue_pair(fabric::Node& from, fabric::Node& to, unsigned nic,
                                                                const fabric::QueuePairOptions& options);
  [[nodiscard]] std::uint64_t on_retry_by_states(Actor& actor, Loop& loop, fabric::Waiter& waiter);
  void tell_observers(const fabric::model::Step& step);
  [[nodiscard]] bool client_may_run_before(std::uint16_t of, std::uint16_t qp, std::uint32_t index) const;
  [[nodiscard]] bool overlaps_in_flight(std::uint16_t of, const fabric::model::Step& step) const;
  [[nodiscard]] bool is_in_flight(std::span<const std::byte> bytes) const;
  [[nodiscard]] std::uint64_t completed_of(std::uint16_t qp) const;
  struct StateWriter;
  Suspended& suspend_next(Actor& actor, Step::What what);
  void refuse_in_tasks(std::string_view what);
  [[nodiscard]] std::uint16_t part(Part wanted, const std::function<std::uint16_t()>& make);
  [[nodiscard]] std::uint16_t actor_of(const fabric::Node& node) const;
  // The frames around a program's task are no part of it: they are linked to those of other tasks. So they are made
  // outside of the program's heap, and wait there.
  struct FirstStep {
    Execution* execution;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> task) const noexcept { execution->started_ = task; }
    void await_resume() const noexcept {}
  };
  static fabric::Task<void> run_task(Execution* execution, std::uint16_t actor, fabric::Task<void> task);
  void task_ended(std::uint16_t actor);
  void task_failed(std::uint16_t actor, std::string what);
  [[nodiscard]] bool has_cpu(std::uint16_t of) const;

  void happen(const Action& action, bool described);
  void describe(const fabric::model::Step& step);
  void after_step(const fabric::model::Step& step);
  void count_change(const fabric::model::Step& step);
  void notify(std::uint16_t qp, std::uint64_t sequence, bool failed);
  void wake_later(std::uint16_t of, std::uint16_t qp, std::uint64_t sequence);
  [[nodiscard]] ModelQueuePair* receiver_of(std::uint16_t qp) const;
  void show_message_later(std::uint16_t qp);
  void show_message(std::uint16_t qp);
  void apply_client(const Action& action);
  void apply_access(std::uint16_t of, fabric::Cpu::Access& access);
  void apply_lease(const Action& action);
  void resume_parked_siblings(std::uint16_t actor);
  void set_may_crash(std::uint16_t actor);
  void forget_step(std::uint16_t of, const Suspended& step) noexcept;
  template <class Destroyed>
  void forget_steps(std::uint16_t of, const Destroyed& is_destroyed) noexcept {
    std::erase_if(actors_[of].suspended, [&](const Suspended& suspended) {
      const bool is_gone = is_destroyed(suspended);
      if (is_gone) {
        forget_step(of, suspended);
      }
      return is_gone;
    });
  }
  void remember_awaited();
  [[nodiscard]] bool waits_beside_this_step(std::uint16_t of) const;
  void run_ready(std::uint16_t actor);
  void resume_ready(std::uint16_t actor);
  [[nodiscard]] std::int64_t spawned_in_step() const;  // less those that have ended
  void watch(std::uint16_t actor);
  void note(std::uint16_t actor);
  void watch_shared_memory(const Actor& actor);
  void note_shared_memory(Actor& actor);
  void remember_stored(std::uint16_t of, std::span<const std::byte> word);
  [[nodiscard]] std::span<const std::byte> delivered_where_others_look(const fabric::model::Step& step) const;
  void renew_snapshots(const std::byte* data, std::uint64_t length);
  void renew_snapshots_after(const fabric::model::Step& step);
  void note_drained(const fabric::model::Step& step);
  void report_changed_buffer(std::string_view who, const Snapshot& snapshot, std::uint64_t begin, std::uint64_t end);
  void look_for_changed_buffers(std::uint16_t actor);
  void append_start(std::vector<std::uint64_t>& out);
  void note_leak() noexcept;
  void find_shared_objects();
  void find_made_objects();
  void add_changing(const Changing& object);
  [[nodiscard]] bool reaches_shared_objects(std::uint16_t of) const noexcept {
    return std::ranges::any_of(shared_objects_,
                               [&](const SharedObject& object) { return (object.reached_by & bit_of(of)) != 0; });
  }
  void set_objects_apart();
  void watch_shared_objects(std::uint16_t actor);
  void close_objects(std::uint16_t of);
  void remember_objects();
  void note_changed_objects(std::uint16_t actor);
  void look_beside_revocation(std::uint16_t of, std::uint64_t looked_at, bool reaches_any);
  void note_shared_objects(std::uint16_t actor);
  [[nodiscard]] bool part_behind_post(fabric::Waiter* waiter);
  [[nodiscard]] bool halt_the_dead(fabric::Waiter* waiter);
  void remember_the_dead(std::uint16_t of);
  void undo_stores_of_the_dead();
  void look_for_changes_by_the_dead();
  void look_for_changes_behind(std::uint16_t of);
  [[nodiscard]] std::string changes_behind(std::uint16_t of) const;
  void note_act_of_the_dead(std::uint16_t of);
  [[nodiscard]] bool still_waits(std::uint16_t of, const Suspended& suspended) const;
  void watch_after_post();
  void watch_buffers(std::uint16_t of);
  void note_buffers(std::uint16_t of);
  void watch_other_nodes(std::uint16_t of);
  void note_other_nodes(std::uint16_t of);
  void look_for_addresses(const fabric::model::Step& step);
  void look_for_addresses(std::uint16_t of, std::span<const std::byte> now, std::span<const std::byte> before);
  void note_blind_spot(std::string what) const;
  [[nodiscard]] std::uint64_t without_place(std::uint64_t word) const noexcept;
  [[nodiscard]] std::uint64_t digest_of(const fabric::WorkRequest& request) const noexcept;
  [[nodiscard]] std::span<const std::byte> filled_part_of(std::uint16_t of, std::span<const std::byte> region) const;
  void note_after_post(std::uint16_t of, std::string_view what) const;
  [[nodiscard]] std::string look_behind(std::uint16_t of, std::string_view what) const;
  void note_object_after_post(std::uint16_t of, std::uint32_t taken_as, bool changed_it = false);
  static void look_at_inlined(std::span<const fabric::CheckedRequest> chain);
  // A post. What the client looks at behind it, in the same step, may change between the two.
  class WatchAfterPost {
   public:
    explicit WatchAfterPost(Execution& execution) : execution_(&execution), pause_(std::in_place, execution.guard_) {}
    WatchAfterPost(const WatchAfterPost&) = delete;
    WatchAfterPost& operator=(const WatchAfterPost&) = delete;
    ~WatchAfterPost() {
      pause_.reset();
      execution_->watch_after_post();
    }

   private:
    Execution* execution_;
    std::optional<Guard::Pause> pause_;
  };
  [[nodiscard]] bool crashes_here(std::uint16_t actor);
  void crash_now(std::uint16_t actor);
  [[nodiscard]] std::uint64_t lease_state(const Actor& actor) const noexcept;
  [[nodiscard]] bool needs_a_lease(const Actor& actor) const noexcept;
  void note_leases_left();
  void refuse_more_actors() const;
  [[nodiscard]] bool lease_may_end(const std::vector<fabric::model::Step>& steps) const;
  [[nodiscard]] bool waits_for_a_lease() const;
  void pass_much_time(std::uint16_t of);
  static void begin_attempt(Actor& actor, const Parked& parked);
  [[nodiscard]] bool suspended_enabled(const Actor& actor, const Suspended& suspended) const;

  [[nodiscard]] fabric::RemoteAddress address_of(const Actor& actor, const fabric::LocalSpan& word) const;
  [[nodiscard]] bool looks_in_vain(const Actor& actor, const fabric::Cpu::Access& access) const;

  // From the queue pairs, the CPUs and the reactor.
  void on_access(std::uint16_t of, fabric::Cpu::Access& access);
  void on_access_cancelled(std::uint16_t of, const fabric::Cpu::Access& access) noexcept;
  void on_post(ModelQueuePair& queue_pair, std::span<const fabric::CheckedRequest> chain, std::uint64_t first);
  void check_remote(const ModelQueuePair& queue_pair, const fabric::WorkRequest& request);
  void on_receive_posted(const ModelQueuePair& queue_pair, const fabric::LocalSpan& into);
  void on_revoke(ModelQueuePair& queue_pair);
  void on_disconnect(const ModelQueuePair& queue_pair) noexcept;
  void on_end_of_pair(const ModelQueuePair& left) noexcept;
  void note_end_of_pair(std::uint16_t qp) noexcept;
  // A crashed client's task runs on to its next wait, but no longer counts as the client.
  [[nodiscard]] bool runs_the_dead() const noexcept { return running_ != Event::kNone && running_ == crashed_; }
  [[nodiscard]] fabric::Reactor::LoopId on_begin_loop(const std::source_location& place, bool forgets);
  void enter_tail() noexcept;
  [[nodiscard]] bool is_quiet(std::uint16_t of) const;
  [[nodiscard]] bool is_undisturbed(std::uint16_t of);
  void look_at(std::uint16_t of, const fabric::Waiter& waiter, bool leaves_out_frame, ClientState& state);
  [[nodiscard]] bool repeats_an_attempt(const Actor& actor, const Loop& loop, const AttemptEnd& end) const;
  void cut(std::uint16_t of, const Loop& loop, const AttemptEnd& end);
  void cut_because(const std::string& client, std::string why);
  [[nodiscard]] std::uint64_t state_of_parked() const;
  static void refuse_crash_with_shared_memory(const Actor& actor);
  void on_tally(std::span<const std::byte> tally);
  void on_spares(const fabric::Reactor::Spares& spares);
  void on_spares_end(const fabric::Reactor::Spares& spares) noexcept { std::erase(spares_, &spares); }
  void on_tally_read() const noexcept { tally_read_ = true; }
  void on_progress_read(const fabric::QueuePair* queue_pair, bool changes_alone) const;
  /// What the running client does is not explored, and what follows is void.
  void on_not_explored(std::string_view what) noexcept;
  [[nodiscard]] Moment shown(Moment moment) const;
  void spawned_task_failed(const std::exception_ptr& failure);
  /// What belongs to the actor's node, whose memory its CPU threads see, too.
  [[nodiscard]] const std::vector<std::span<const std::byte>>& regions_of(const Actor& actor) const {
    return actors_[actor.node].regions;
  }
  [[nodiscard]] const std::vector<std::span<const std::byte>>& shared_with(const Actor& actor) const {
    return actors_[actor.node].shared;
  }

  void on_region(std::uint16_t of, fabric::model::NodeId node, fabric::RemoteAddress address,
                 std::span<std::byte> bytes, bool for_others);
  void on_region_ended(std::span<const std::byte> bytes) noexcept;
  void look_for_ended_regions(const fabric::model::Step& step);
  /// Returns the number of the wait.
  std::uint64_t on_retry(fabric::Reactor::LoopId loop, fabric::Duration duration, fabric::Waiter& waiter);
  void on_retry_cancelled(std::uint64_t number) noexcept;
  /// The same.
  std::uint64_t on_sleep(fabric::Duration duration, fabric::Waiter& waiter);
  std::uint64_t go_on_later(Step::What what, fabric::Waiter& waiter);
  std::uint64_t go_on_at_once(Step::What what, fabric::Waiter& waiter);
  /// A coroutine of the running client has run to its next wait.
  void settle_what_goes_on();
  [[nodiscard]] bool is_alone_in_client() const;
  [[nodiscard]] std::uint64_t done_in_step() const;
  [[nodiscard]] fabric::Time now() const;
  [[nodiscard]] fabric::Time lease_clock() const;

  Program program_;
  fabric::model::Machine machine_;
  std::uint32_t writing_retries_;
  Arena arena_;
  Zone zone_;
  Zone world_zone_;  // nodes, queue pairs, and what else of the world a program can point to
  bool by_states_ = false;
  mutable const char* no_states_ = nullptr;
  std::vector<Observer> observers_;
  std::vector<std::uint64_t> awaited_before_;  // by queue pair: the last request for which somebody waited
  std::vector<std::uint32_t> known_;
  std::vector<std::uint32_t> ordinals_;
  std::vector<std::uint32_t> world_marks_;
  std::vector<std::pair<Zone::View, bool>> queue_;
  std::vector<const Suspended*> by_slot_;
  Step::What last_what_ = Step::What::start;  // of the last step of a client
  mutable bool clock_read_ = false;
  mutable bool asks_time_ = false;
  bool compares_clock_ = false;
  bool revokes_ = false;
  bool orders_revocations_ = false;
  bool revokes_of_the_living_ = false;
  struct Tally {
    std::span<const std::byte> bytes;
    std::uint32_t life;  // of its block; one that was freed since is another's
  };
  std::vector<Tally> tallies_;
  std::vector<const fabric::Reactor::Spares*> spares_;
  std::vector<std::span<const std::byte>> left_out_;       // tallies_, and what spares_ say
  std::vector<std::span<const std::byte>> left_out_here_;  // of these, those of the memory that is written down
  mutable bool tally_read_ = false;
  bool compares_tallies_ = false;
  std::uint64_t tasks_running_ = 0;  // of the world; the reactor may have more, which tasks have spawned
  std::uint64_t retries_ = 0;        // numbers of waits of loops
  std::vector<const void*> roots_;
  const void* stack_top_ = nullptr;
  // Of each thread that has run steps: the snapshots that are gone back to keep what it left in frames.
  struct Stack {
    std::uintptr_t low;
    std::uintptr_t top;
  };
  std::vector<Stack> stacks_;
  bool building_ = false;
  bool ends_tasks_ = false;  // they are destroyed
  std::string refused_;      // why a task's program is refused
  bool trusts_ = true;
  bool is_cut_ = false;
  bool is_void_ = false;
  // Objects in the middle of a step, where a client crashes or might have crashed.
  struct Seen {
    const std::byte* begin;
    std::uint32_t life;  // of its block
    std::vector<std::byte> bytes;
  };
  void add_roots_of_judges();
  void remember_reachable(std::vector<Seen>& seen);  // from roots_
  void remember_for_judges(std::uint16_t of);
  [[nodiscard]] bool shows_changes_to_judges();
  [[nodiscard]] bool is_changed(const std::vector<Seen>& seen);
  std::vector<Seen> seen_at_crash_;
  std::vector<Seen> seen_by_judges_;  // of one who may crash: since its step began, or its last post
  struct Memory {
    std::byte* begin;
    std::vector<std::byte> bytes;
  };
  std::vector<Memory> own_memory_;       // as seen_by_judges_
  std::vector<Memory> memory_at_crash_;  // of the node that crashed
  void remember_memory(std::uint16_t of, std::vector<Memory>& memory) const;
  std::optional<Cut> first_cut_;
  std::vector<std::span<const std::byte>> blocks_;
  struct Mapped {
    fabric::model::NodeId node;
    fabric::RemoteAddress address;
  };
  std::vector<Mapped> mapped_in_tasks_;
  struct EndedRegion {
    std::span<const std::byte> bytes;
    std::uint16_t by;
  };
  std::vector<EndedRegion> ended_regions_;  // by tasks, of those that others reach
  std::coroutine_handle<> started_;
  std::vector<std::byte> shared_before_;
  // A block of the program's heap that several clients can reach when the program begins, as a place in the zone.
  struct SharedObject {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t reached_by = 0;     // actors, one bit each
    std::uint64_t changed_by = 0;     // in any execution
    std::uint32_t taken_as = 0;       // its number among the blocks of the program
    std::uint64_t looked_behind = 0;  // actors that may have looked at it behind a post, one bit each
    std::span<std::byte> pages{};     // its own, if it is known to change; then looks at it are seen
  };
  // Of an actor, or an object. There are no more actors than that; the last objects share a bit.
  static constexpr std::size_t kMostActors = 62;
  static std::uint64_t bit_of(std::size_t number) noexcept {
    return std::uint64_t{1} << std::min<std::size_t>(number, kMostActors);
  }
  static constexpr std::uint64_t kMade = std::uint64_t{1} << 63;  // all that tasks have made and linked to such objects
  std::vector<SharedObject> shared_objects_;
  std::uint32_t builds_ = 0;
  struct Made {
    const std::byte* begin;
    std::uint64_t bytes;
  };
  std::vector<Made> made_;
  std::vector<std::byte> objects_before_;
  std::vector<Changing> changing_;  // in any execution
  bool sets_apart_ = false;         // since the last build there are more of them
  Guard guard_;                     // ranges: objects by number, then regions
  bool posted_in_step_ = false;
  bool goes_on_behind_ = false;   // the client's code runs on behind a post of this step
  bool watches_buffers_ = false;  // some are closed
  bool looks_closely_ = false;
  bool looks_at_other_nodes_ = false;  // how clients look at their memory
  bool parts_posts_ = false;
  bool parts_completions_ = false;
  std::uint64_t touched_ = 0;                       // objects, before a post of the step
  std::uint64_t altered_ = 0;                       // the same, changed in this step, also if it was taken back
  std::vector<std::span<std::byte>> closed_nodes_;  // memory of other nodes
  std::size_t closed_ranges_ = 0;                   // of the guard, of such memory
  mutable std::optional<BlindSpot> blind_spot_;
  bool stretches_moments_ = false;
  mutable bool asks_for_moments_ = false;
  mutable bool looks_at_progress_ = false;  // in this step, at how far its requests have got
  std::int64_t spawned_before_ = 0;         // when the step began
  std::uint64_t left_blocks_ = 0;           // by the executions before
  unsigned growths_ = 0;
  std::vector<LookBehind> looks_behind_;
  bool orders_objects_ = false;
  bool shares_objects_ = false;
  std::vector<const void*> of_judges_;  // objects that only judges look at
  std::vector<std::size_t> tasks_of_actors_;
  std::vector<Part> parts_;
  std::size_t next_part_ = 0;
  bool parts_known_ = false;

  std::unique_ptr<ModelReactor> reactor_;
  std::vector<std::unique_ptr<ModelNode>> nodes_;  // by actor; null for CPU threads
  std::vector<std::unique_ptr<ModelCpu>> cpus_;    // by actor; null for nodes
  std::vector<Actor> actors_;
  std::vector<QueuePairPart> queue_pairs_;  // by QpId
  std::vector<std::uint16_t> threads_;      // actors by ThreadId
  std::vector<Kept> kept_;
  std::vector<std::function<void(const Order&)>> judges_;
  std::vector<std::vector<RequestTimes>> times_;
  std::vector<std::vector<RequestInfo>> requests_;
  std::vector<Snapshot> snapshots_;
  std::size_t snapshots_used_ = 0;
  std::vector<const Snapshot*> by_request_;  // for append_state()
  std::size_t snapshots_live_ = 0;

  Moment moment_ = 0;
  Event* event_ = &scratch_;  // the event being described
  Event scratch_;
  std::uint16_t running_ = Event::kNone;
  std::uint16_t watched_ = Event::kNone;
  std::uint16_t crashed_ = Event::kNone;
  std::optional<std::uint32_t> posts_left_;  // until the running client crashes
  bool liveness_after_crash_ = false;
  std::uint32_t leases_ended_ = 0;
  bool in_tail_ = false;
  std::uint32_t calls_in_step_ = 0;
  std::uint32_t ended_in_step_ = 0;  // tasks of the client that ran
  // Coroutines that sleep or try again, and go on in the same step if nothing else of their client waits then.
  struct GoesOn {
    fabric::Waiter* waiter = nullptr;
    Step::What what = Step::What::yield;
    bool is_head = false;  // of a loop, which only shows what the client knows there
  };
  std::vector<GoesOn> going_on_;
  std::optional<std::uint64_t> done_at_head_;  // done_in_step() when a loop showed its head
  bool acted_in_step_ = false;                 // a store or load of the client, before it went on
  // When somebody made progress: a task ended, a loop began, or a request took effect whose client had moved on since
  // its post.
  std::vector<Moment> progress_;
  std::optional<Failure> failure_;
  std::vector<fabric::model::Step> steps_;
  std::vector<Action> tail_actions_;
};

}  // namespace sidelatch::explore

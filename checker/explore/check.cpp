#include <sidelatch/explore/check.h>

#include <sidelatch/checker/parallel.h>

#include "search.h"
#include "states.h"
#include "trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

namespace sidelatch::explore {

namespace {

// Large enough to make handing over work cheap, small enough to give all threads work.
constexpr std::uint64_t kExecutionsOfATask = 2000;
constexpr std::size_t kTasksOfARound = 16;
constexpr std::uint64_t kRandomExecutions = 10'000;
constexpr std::uint64_t kFewestWalks = 100;
// The two searches take turns. Each state of a search through states takes as long as so many events of executions.
// Each time that neither has decided, both go on to so many times as much.
constexpr std::uint64_t kEventsOfAState = 333;
constexpr std::uint64_t kMoreEachTurn = 4;
constexpr std::size_t kLongestWalk = 400;
constexpr std::uint64_t kMostWalkedEvents = 20'000;  // of all walks: those of loops that never end are long

class Coordinator {
 public:
  Coordinator(const Program& program, const Options& options, ObjectsSeen& objects)
      : program_(&program), options_(&options), objects_(&objects), began_(std::chrono::steady_clock::now()) {
    fabric::model::validate(options.rules);
    if (options.mode > Mode::pct) {
      throw std::invalid_argument(fmt::format("mode {} is none of explore::Mode", static_cast<unsigned>(options.mode)));
    }
    if (!(options.budget.count() >= 0)) {
      throw std::invalid_argument(
          fmt::format("budget is {} s: it must be 0 (no limit) or more", options.budget.count()));
    }
    if (options.max_events == 0) {
      throw std::invalid_argument("max_events is 0: an execution must have at least 1 event");
    }
    constexpr unsigned kMostThreads = 4096;
    if (options.threads > kMostThreads) {
      throw std::invalid_argument(
          fmt::format("threads is {}: it must be 0 (all cores) to {}", options.threads, kMostThreads));
    }
    const unsigned all = std::max(1U, std::thread::hardware_concurrency());
    threads_ = options.threads == 0 ? all : options.threads;
    if (options.budget.count() > 0) {
      deadline_ = began_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(options.budget);
    }
    workers_.resize(threads_);
    states_of_turn_ = std::min(options.states_for_loops, options.max_states);
    // The first worker finds faults of the program itself.
    workers_.front() = std::make_unique<Worker>(program, options, stop_, deadline_, objects.changing());
  }

  Verdict run() {
    if (options_->mode == Mode::states) {
      run_states(*options_);
      if (unable_ != nullptr) {
        return {};
      }
      look_again();
      return must_begin_again() ? Verdict{} : finish();
    }
    if (options_->mode == Mode::random || options_->mode == Mode::pct) {
      run_random();
    } else {
      run_all();
    }
    if (must_begin_again()) {
      return {};
    }
    const bool loops_alone =
        !found_ && verdict_.outcome == Outcome::safe && cut_ != 0 && first_cut_ && first_cut_->other.empty();
    const bool is_open = loops_alone || (too_long_ && !found_);
    if (options_->mode == Mode::exhaustive && is_open && may_try_states()) {
      try_states();  // once: a program whose loops never end should not take for ever to say so
    }
    look_again();
    return must_begin_again() ? Verdict{} : finish();
  }
  [[nodiscard]] bool must_begin_again() const {
    return must_look_at_counters() || must_order_objects() || must_know_objects() || must_part_posts() ||
           must_part_completions();
  }
  /// Whether the program has read counters that were left out of the comparison. The verdict says nothing then.
  [[nodiscard]] bool must_look_at_counters() const noexcept { return reads_counters_ && !options_->look_at_counters; }
  /// Why this program has no states that Mode::states could compare, or null. The verdict says nothing then.
  [[nodiscard]] const char* unable() const noexcept { return options_->mode == Mode::states ? unable_ : nullptr; }
  /// Whether clients share objects, so that the orders of their steps that were left out may matter.
  [[nodiscard]] bool must_order_objects() const noexcept {
    return shares_objects_ && !options_->order_objects && !found_ && !stop_ && options_->mode == Mode::exhaustive;
  }
  /// Whether objects have to be watched from the beginning, since it matters who looks at them.
  [[nodiscard]] bool must_know_objects() const {
    return knows_more_ && options_->order_objects && objects_->blind_spot() != nullptr && !found_ && !stop_ &&
           is_exhaustive();
  }
  /// Whether a client looks behind a post at what others may change.
  [[nodiscard]] bool must_part_posts() const {
    return !options_->part_posts && !found_ && !stop_ && is_exhaustive() && parting_helps();
  }
  /// Whether a client may be told of a completion behind a revocation that came behind the completion.
  [[nodiscard]] bool must_part_completions() const {
    return revokes_of_the_living_ && !options_->part_completions && !found_ && !stop_ && is_exhaustive();
  }

 private:
  [[nodiscard]] bool is_exhaustive() const { return options_->mode != Mode::random && options_->mode != Mode::pct; }
  [[nodiscard]] bool parting_helps() const { return has_blind_spot() && (!blind_spot_ || blind_spot_->parting_helps); }
  [[nodiscard]] bool has_blind_spot() const {
    return blind_spot_ || (!must_order_objects() && objects_->blind_spot() != nullptr);
  }

  Worker& worker(std::size_t slot) {
    if (workers_[slot] == nullptr) {
      workers_[slot] = std::make_unique<Worker>(*program_, *options_, stop_, deadline_, objects_->changing());
    }
    return *workers_[slot];
  }

  template <class Job>
  void in_parallel(std::size_t count, Job job) {
    std::atomic<std::size_t> next{0};
    const std::size_t slots = std::min<std::size_t>(threads_, count);
    const auto work = [&](std::size_t slot) {
      for (std::size_t i = next++; i < count; i = next++) {
        job(worker(slot), i);
      }
    };
    if (slots == 1) {
      work(0);
    } else {
      checker::for_each_index(slots, work);
    }
  }

  void run_all() {
    std::vector<SearchTask> tasks(1);
    std::uint64_t most = kExecutionsOfATask;
    while (!tasks.empty()) {
      if (options_->max_executions != 0) {
        const std::uint64_t done = verdict_.executions + verdict_.redundant;
        if (done >= options_->max_executions) {
          bound(fmt::format("{} executions", options_->max_executions));
          return;
        }
        most = std::min(most, (options_->max_executions - done + tasks.size() - 1) / tasks.size());
      }
      if (found_) {
        if (executions_since_found_ >= options_->look_for_shorter) {
          return;
        }
        most = std::min(most, options_->look_for_shorter);
      }
      std::vector<TaskResult> results(tasks.size());
      in_parallel(tasks.size(), [&](Worker& worker, std::size_t i) { results[i] = worker.run(tasks[i], most); });
      for (TaskResult& result : results) {
        merge(result);
      }
      if (must_begin_again()) {
        return;
      }
      if (stop_) {
        bound_by_time();
        return;
      }
      if (too_long_ && !found_) {
        return;
      }
      if (must_try_states()) {
        try_states();
        if (found_ || is_decided_) {
          return;
        }
      }
      tasks = next_tasks();
    }
  }

  // Executions may be few and long, or many because of loops; the states of the same program may be few. Nobody knows
  // before. So the searches take turns, and the one that needs less decides. The turns are counted in events, so they
  // do not depend on the machine.
  [[nodiscard]] bool may_try_states() const noexcept { return states_of_turn_ != 0 && unable_ == nullptr; }
  [[nodiscard]] bool must_try_states() const noexcept {
    return options_->mode == Mode::exhaustive && !found_ && may_try_states() &&
           verdict_.events - events_of_states_ > states_of_turn_ * kEventsOfAState;
  }
  void try_states() {
    Options options = *options_;
    options.max_states = states_of_turn_;
    const std::uint64_t before = verdict_.events;
    run_states(options);
    events_of_states_ += verdict_.events - before;
    const bool is_last = states_of_turn_ == options_->max_states;
    states_of_turn_ = is_last ? 0 : std::min(states_of_turn_ * kMoreEachTurn, options_->max_states);
  }

  void merge(TaskResult& result) {
    const bool had_found = found_.has_value();
    count(result);
    if (had_found) {
      executions_since_found_ += result.executions + result.redundant;
    }
    for (std::shared_ptr<FrozenNode>& node : result.left) {
      list(node);
    }
    for (Addition& addition : result.additions) {
      FrozenNode& node = *addition.node;
      if (std::ranges::none_of(addition.initials, [&](const Action& action) { return node.knows(action); })) {
        node.node.todo.push_back(addition.initials.front());
        list(addition.node);
      }
    }
    if (options_->progress) {
      options_->progress(verdict_.executions + verdict_.redundant);
    }
  }

  void count(TaskResult& result) {
    verdict_.executions += result.executions;
    judged_ += result.judged;
    cut_ += result.cut;
    reads_counters_ = reads_counters_ || result.reads_counters;
    shares_objects_ = shares_objects_ || result.shares_objects;
    revokes_of_the_living_ = revokes_of_the_living_ || result.revokes_of_the_living;
    note_objects(result);
    if (!first_cut_ || (first_cut_->other.empty() && result.first_cut && !result.first_cut->other.empty())) {
      first_cut_ = result.first_cut;  // another reason than a loop says more
    }
    if (result.too_long && !too_long_) {
      too_long_ = result.too_long;
      bound(
          fmt::format("one that takes more than {} events, in which {} never ends, or waits in a loop that does not "
                      "say so (sync::Attempts, Reactor::begin_retries),",
                      options_->max_events, *too_long_));
    }
    verdict_.redundant += result.redundant;
    verdict_.events += result.events;
    if (result.found && (!found_ || result.found->events < found_->events)) {
      found_ = std::move(result.found);
    }
  }

  void note_objects(const TaskResult& result) {
    if (!blind_spot_) {
      blind_spot_ = result.blind_spot;
    }
    knows_more_ = objects_->add(result.changing) || knows_more_;
    objects_->add(result.looks_behind);
  }

  void list(const std::shared_ptr<FrozenNode>& node) {
    if (!node->listed && !node->node.todo.empty()) {
      node->listed = true;
      open_.push_back(node);
    }
  }

  // The deepest tasks first, so that few nodes are open at a time.
  std::vector<SearchTask> next_tasks() {
    std::vector<SearchTask> tasks;
    while (tasks.size() < kTasksOfARound && !open_.empty()) {
      const std::shared_ptr<FrozenNode> node = open_.back();
      if (node->node.todo.empty()) {
        node->listed = false;
        open_.pop_back();
        continue;
      }
      const Action action = node->node.todo.front();
      node->node.todo.erase(node->node.todo.begin());
      const bool asleep =
          options_->mode == Mode::exhaustive &&
          std::ranges::any_of(node->node.sleep, [&](const auto& event) { return event->action == action; });
      if (!asleep && std::ranges::find(node->started, action) == node->started.end()) {
        tasks.push_back({node->parent, node, action, node->started});
        node->started.push_back(action);
      }
    }
    return tasks;
  }

  void run_random() {
    const std::uint64_t all = options_->max_executions == 0 ? kRandomExecutions : options_->max_executions;
    bound(fmt::format("{} executions by chance", all));
    const std::size_t usual_length = std::max<std::size_t>(1, worker(0).run_along({}, true).events);
    for (std::uint64_t first = 0; first < all && !stop_ && !found_; first += 256) {
      const std::size_t now = std::min<std::uint64_t>(256, all - first);
      std::vector<TaskResult> results(now);
      in_parallel(now, [&](Worker& worker, std::size_t i) {
        results[i] = worker.run_random(options_->seed * 0x9e3779b97f4a7c15ULL + first + i, usual_length);
      });
      for (TaskResult& result : results) {
        count(result);
      }
      if (must_look_at_counters()) {
        return;
      }
      if (deadline_ && std::chrono::steady_clock::now() > *deadline_) {
        bound_by_time();
        return;
      }
      if (options_->interrupted != nullptr && options_->interrupted->load()) {
        stop_ = true;
        bound_by_time();
      }
    }
  }

  // Both searches rest on promises that they cannot see through: that clients share no object, and keep nothing outside
  // of what is compared. Here nothing is left out, and no order stands for another: a promise that is not kept may
  // show.
  void look_again() {
    const bool is_exhaustive = options_->mode == Mode::exhaustive || options_->mode == Mode::states;
    const bool is_open = verdict_.outcome == Outcome::safe || verdict_.only_loops_bounded;
    if (!is_exhaustive || found_ || !is_open || options_->walks == 0 || stop_) {
      return;
    }
    Options options = *options_;
    options.mode = Mode::states;
    options.order_objects = options.order_objects || states_ordered_objects_;
    options.part_posts = options.part_posts || states_parted_posts_;
    options.part_completions = options.part_completions || states_parted_completions_;
    auto walker = std::make_unique<Worker>(*program_, options, stop_, deadline_, objects_->changing());
    static_cast<void>(walker->walk(0, 1));
    if (walker->may_crash()) {
      return;  // a lease ends only where clients are parked
    }
    const std::uint64_t most =
        std::min(options_->walks, std::max<std::uint64_t>(kFewestWalks, verdict_.executions + verdict_.states));
    std::uint64_t walked = 0;
    for (std::uint64_t i = 0;
         i < most && walked < kMostWalkedEvents && !(deadline_ && std::chrono::steady_clock::now() > *deadline_); ++i) {
      TaskResult result = walker->walk(i * 0x9e37'79b9'7f4a'7c15 + 1, kLongestWalk);
      verdict_.events += result.events;
      walked += result.events;
      note_objects(result);
      if (!result.found) {
        continue;
      }
      const TaskResult again = walker->run_along(result.found->choices, result.found->failure.at_end);
      if (!again.found || again.found->failure.what != result.found->failure.what) {
        throw std::logic_error(kDiffers);
      }
      if (!found_ || result.found->events < found_->events) {
        found_ = std::move(result.found);
      }
    }
  }

  // Decides what the other search leaves open because of loops.
  void run_states(const Options& options) {
    StateSearch search(*program_, options, threads_, deadline_, objects_->changing());
    StatesResult result = search.run();
    if (!blind_spot_) {
      blind_spot_ = result.blind_spot;
    }
    states_ordered_objects_ = result.orders_objects;
    states_parted_posts_ = result.parts_posts;
    states_parted_completions_ = result.parts_completions;
    verdict_.states = result.states;
    verdict_.events += result.events;
    if (result.found) {
      found_ = std::move(result.found);
      return;
    }
    const bool alone = options.mode == Mode::states;
    unable_ = result.unable;
    if (unable_ != nullptr) {
      return;
    }
    if (result.bound.empty()) {
      cut_ = 0;
      is_decided_ = true;
      judged_ = result.judged;
      verdict_.outcome = Outcome::safe;
      verdict_.bound.clear();
    } else if (alone) {
      bound(std::move(result.bound));
      verdict_.only_loops_bounded = result.only_loops;
    }
  }

  void bound(std::string by) {
    verdict_.outcome = Outcome::bounded;
    verdict_.bound = std::move(by);
  }
  void bound_by_time() {
    const bool interrupted = options_->interrupted != nullptr && options_->interrupted->load();
    bound(interrupted ? "an interrupt" : fmt::format("a budget of {:g} s", options_->budget.count()));
  }

  Verdict finish() {
    if (!found_ && has_blind_spot() && (verdict_.outcome == Outcome::safe || verdict_.only_loops_bounded)) {
      bound(blind_spot_ ? blind_spot_->what : *objects_->blind_spot());
      verdict_.only_loops_bounded = false;
    }
    if (!found_ && verdict_.outcome == Outcome::safe && cut_ != 0) {
      bound(to_string(*first_cut_));
      verdict_.only_loops_bounded = first_cut_->other.empty();
    } else if (!found_ && verdict_.outcome == Outcome::safe && judged_ == 0) {
      bound("clients that wait in every execution, so that none could be judged at its end,");
    }
    if (found_) {
      verdict_.outcome = Outcome::broken;
      verdict_.bound.clear();
      verdict_.violation = make_violation(*program_, *options_, *found_);
    }
    if (verdict_.outcome == Outcome::safe && !is_decided_) {
      verdict_.states = 0;  // they have decided nothing
    }
    verdict_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    return std::move(verdict_);
  }

  const Program* program_;
  const Options* options_;
  ObjectsSeen* objects_;
  std::chrono::steady_clock::time_point began_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  unsigned threads_ = 1;
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::shared_ptr<FrozenNode>> open_;
  Verdict verdict_;
  std::optional<Found> found_;
  std::uint64_t executions_since_found_ = 0;
  std::uint64_t judged_ = 0;
  std::uint64_t cut_ = 0;
  std::optional<Cut> first_cut_;
  std::optional<std::string> too_long_;
  bool reads_counters_ = false;
  bool shares_objects_ = false;
  bool revokes_of_the_living_ = false;
  std::optional<BlindSpot> blind_spot_;
  const char* unable_ = nullptr;
  bool states_ordered_objects_ = false;
  bool states_parted_posts_ = false;
  bool states_parted_completions_ = false;
  bool knows_more_ = false;           // objects that change
  std::uint64_t states_of_turn_ = 0;  // of the next search through states; 0: there is none
  std::uint64_t events_of_states_ = 0;
  bool is_decided_ = false;  // by states, while executions were left
};

// Along `actions`, of which those from `repeats_from` on lead back to the state before them, or no longer do.
Verdict replay_cycle(const Program& program, const Options& options, const std::vector<Action>& actions,
                     std::size_t repeats_from, Kind kind) {
  Execution execution(program, options.rules, options.writing_retries);
  execution.go_by_states();
  if (options.part_posts) {
    execution.part_posts();
  }
  if (options.part_completions) {
    execution.part_completions();
  }
  execution.runs_below(__builtin_frame_address(0));
  execution.begin();
  std::vector<std::uint64_t> before;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (i == repeats_from) {
      execution.append_state(before);
    }
    if (!execution.is_enabled(actions[i])) {
      throw std::invalid_argument(
          fmt::format("the step '{}' is not possible after {} steps of the trace", to_string(actions[i]), i));
    }
    execution.repeat(actions[i]);
  }
  std::vector<std::uint64_t> after;
  execution.append_state(after);
  Verdict verdict;
  verdict.executions = 1;
  verdict.events = actions.size();
  if (before == after) {
    Found found;
    found.failure.kind = kind;
    found.failure.what = "these steps can be repeated for ever";
    found.failure.at_end = found.by_states = true;
    found.choices = actions;
    found.repeats_from = repeats_from;
    verdict.outcome = Outcome::broken;
    verdict.violation = make_violation(program, options, found);
  } else {
    verdict.outcome = Outcome::bounded;
    verdict.bound = "one execution";
  }
  return verdict;
}

// One execution along `actions`; `more` is set to the options with which it has to be run again, if so.
Verdict replay_once(const Program& program, const Options& options, const std::vector<Action>& actions,
                    std::optional<Options>& more) {
  std::atomic<bool> stop{false};
  Worker worker(program, options, stop, std::nullopt);
  TaskResult result;
  const auto must_run_again = [&](bool fits) {
    Options next = options;
    next.look_at_counters = next.look_at_counters || worker.reads_counters();
    next.order_objects = next.order_objects || !fits;  // its choices may be those of such a search
    more.reset();
    if (next.look_at_counters != options.look_at_counters || next.order_objects != options.order_objects) {
      more = next;
    }
    return more.has_value();
  };
  try {
    result = worker.run_along(actions, true);
  } catch (const std::invalid_argument&) {
    if (must_run_again(false)) {
      return {};
    }
    throw;
  }
  Verdict verdict;
  verdict.outcome = result.found ? Outcome::broken : Outcome::bounded;
  verdict.bound = result.found ? "" : "one execution";
  verdict.executions = 1;
  verdict.events = result.events;
  if (!must_run_again(result.found.has_value()) && result.found) {
    verdict.violation = make_violation(program, options, *result.found);
  }
  return verdict;
}

// What a word among the choices says of the steps behind it.
std::optional<Kind> endless_kind(std::string_view word) {
  for (const Kind kind : {Kind::deadlock, Kind::livelock}) {
    if (word == name(kind)) {
      return kind;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::safe:
      return "safe";
    case Outcome::broken:
      return "broken";
    case Outcome::bounded:
      return "bounded";
  }
  return "unknown";
}

namespace {

void require_program(const Program& program) {
  if (!program) {
    throw std::invalid_argument("the program is empty: there is no function to call");
  }
}

// A search that begins again has what is left; 0 would be no limit.
std::chrono::duration<double> left_of(std::chrono::duration<double> budget, std::chrono::duration<double> passed) {
  constexpr std::chrono::duration<double> kLeast{0.001};
  return budget.count() == 0 ? budget : std::max(budget - passed, kLeast);
}

}  // namespace

Verdict check(const Program& program, const Options& options) {
  require_program(program);
  Options now = options;
  std::string note;
  std::vector<Execution::Changing> changing;
  const auto began = std::chrono::steady_clock::now();
  const auto passed = [began] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began); };
  for (;;) {
    ObjectsSeen objects;
    objects.add(changing);
    Coordinator coordinator(program, now, objects);
    Verdict verdict = coordinator.run();
    const bool counters = coordinator.must_look_at_counters();
    const bool order = coordinator.must_order_objects();
    const bool know = coordinator.must_know_objects();
    const bool part = coordinator.must_part_posts() && !know;
    const bool tell = coordinator.must_part_completions();
    if (coordinator.unable() != nullptr) {
      note = fmt::format("its executions were searched, since its states cannot be compared: {}", coordinator.unable());
      now.mode = Mode::exhaustive;
      now.states_for_loops = 0;
      now.budget = left_of(options.budget, passed());
      continue;
    }
    if (!counters && !order && !know && !part && !tell) {
      verdict.note = note;
      verdict.seconds = passed().count();
      if (verdict.bound.starts_with("a budget")) {  // of the last search
        verdict.bound = fmt::format("a budget of {:g} s", options.budget.count());
      }
      return verdict;
    }
    now.look_at_counters = now.look_at_counters || counters;
    now.order_objects = now.order_objects || order;
    now.part_posts = now.part_posts || part;
    now.part_completions = now.part_completions || tell;
    changing = objects.changing();
    now.budget = left_of(options.budget, passed());
  }
}

Verdict replay(const Program& program, const Options& options, const std::vector<std::string>& choices) {
  require_program(program);
  std::vector<Action> actions;
  actions.reserve(choices.size());
  Options now = options;
  now.mode = Mode::exhaustive;
  std::optional<std::pair<std::size_t, Kind>> cycle;
  for (const std::string& choice : choices) {
    if (const std::optional<Kind> kind = endless_kind(choice); kind && !cycle && now.mode == Mode::states) {
      cycle = {actions.size(), *kind};
      continue;
    }
    if (actions.empty() && choice == kByStates) {
      now.mode = Mode::states;
      continue;
    }
    if (actions.empty() && choice == kPartsCompletions) {
      now.part_completions = true;
      continue;
    }
    if (actions.empty() && choice == kPartsPosts) {
      now.part_posts = true;
      continue;
    }
    actions.push_back(parse_action(choice));
  }
  if (cycle) {
    return replay_cycle(program, now, actions, cycle->first, cycle->second);
  }
  for (;;) {
    std::optional<Options> more;
    Verdict verdict = replay_once(program, now, actions, more);
    if (!more) {
      return verdict;
    }
    now = *more;
  }
}

}  // namespace sidelatch::explore

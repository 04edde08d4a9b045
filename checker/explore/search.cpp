// The search through executions, depth first: paths, their ends, and the choices that are left (source_sets.cpp).
#include "search.h"

#include "mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace sidelatch::explore {

namespace {

constexpr std::uint64_t kRunAgain = 64;
constexpr std::uint64_t kLeavesWithNodes = 1024;
constexpr std::uint64_t kNodesAgain = 512;
constexpr std::uint64_t kEventsOfATask = 500'000;

bool contains(const std::vector<std::shared_ptr<const Event>>& events, const Action& action) {
  return std::ranges::any_of(events, [&](const auto& event) { return event->action == action; });
}

}  // namespace

bool SearchNode::knows(const Action& action) const {
  return event.action == action || std::ranges::find(todo, action) != todo.end() || contains(sleep, action);
}

bool FrozenNode::knows(const Action& action) const {
  return node.knows(action) || std::ranges::find(started, action) != started.end();
}

// ---- Objects.

bool ObjectsSeen::add(const std::vector<Execution::Changing>& changing) {
  bool is_new = false;
  for (const Execution::Changing& object : changing) {
    const auto known = std::ranges::find(changing_, object.taken_as, &Execution::Changing::taken_as);
    if (known == changing_.end()) {
      changing_.push_back(object);
      is_new = is_new || object.taken_as != Execution::kMadeInTasks;
    } else {
      known->changed_by |= object.changed_by;
    }
  }
  return is_new;
}

void ObjectsSeen::add(const std::vector<Execution::LookBehind>& looks) {
  for (const Execution::LookBehind& look : looks) {
    const auto known = std::ranges::find(looks_, look.taken_as, &Execution::LookBehind::taken_as);
    if (known == looks_.end()) {
      looks_.push_back(look);
    } else {
      known->by |= look.by;
    }
  }
}

const std::string* ObjectsSeen::blind_spot() const {
  for (const Execution::LookBehind& look : looks_) {
    const auto object = std::ranges::find(changing_, look.taken_as, &Execution::Changing::taken_as);
    // Two actors: one that looks and another one that changes it. Or one that changes it, and others reach it, or it
    // may crash between a post and a change.
    const bool by_others =
        object != changing_.end() && object->changed_by != 0 && (std::popcount(look.by | object->changed_by) > 1);
    if (by_others) {
      return &look.what;
    }
  }
  return nullptr;
}

Worker::Worker(const Program& program, const Options& options, std::atomic<bool>& stop,
               std::optional<std::chrono::steady_clock::time_point> deadline,
               const std::vector<Execution::Changing>& changing)
    : options_(&options),
      stop_(&stop),
      deadline_(deadline),
      reduce_(options.mode == Mode::exhaustive),
      dependence_(options.rules),
      execution_(program, options.rules, options.writing_retries) {
  if (options.look_at_all_frames) {
    execution_.trust_no_loop();
  }
  if (options.look_at_counters) {
    execution_.compare_tallies();
  }
  if (options.mode == Mode::states) {
    execution_.go_by_states();
  }
  if (options.order_objects) {
    execution_.order_objects(changing);
  }
  if (options.part_posts) {
    execution_.part_posts();
  }
  if (options.part_completions) {
    execution_.part_completions();
  }
}

bool Worker::should_stop() {
  constexpr std::uint32_t kLookEvery = 64;
  if (++looks_ % kLookEvery == 0) {
    const bool late = deadline_ && std::chrono::steady_clock::now() > *deadline_;
    const bool interrupted = options_->interrupted != nullptr && options_->interrupted->load(std::memory_order_relaxed);
    if (late || interrupted) {
      stop_->store(true, std::memory_order_relaxed);
    }
  }
  return stop_->load(std::memory_order_relaxed);
}

const std::vector<Order::Access>& PathOrder::list(std::vector<Access>& accesses, bool changes) const {
  if (accesses.empty()) {
    for (std::size_t i = 0; i < events_->size(); ++i) {
      const Event& event = *(*events_)[i];
      if (event.length != 0 && event.changes == changes) {
        accesses.push_back(
            {static_cast<Moment>(i), event.tag, event.address, event.length, execution_->node(event.node)});
      }
    }
  }
  return accesses;
}

// ---- The path to a task.

void Worker::load(const SearchTask& task) {
  frozen_.clear();
  events_.clear();
  rows_.clear();
  additions_.clear();
  for (std::shared_ptr<FrozenNode> node = task.parent; node != nullptr; node = node->parent) {
    frozen_.push_back(node);
  }
  std::ranges::reverse(frozen_);
  base_ = depth_ = frozen_.size();
  first_owner_ = task.at;
  for (const auto& node : frozen_) {
    events_.push_back(&node->node.event);
    rows_.push_back(&node->node.before);
  }
  while (nodes_.size() < base_) {
    nodes_.push_back(nullptr);
  }
}

void Worker::replay_to(std::size_t depth, const char* refusal) {
  execution_.begin();
  for (std::size_t i = 0; i < depth; ++i) {
    if (!execution_.repeats(event(i))) {
      throw std::logic_error(refusal);
    }
  }
}

bool Worker::runs_leaf_again() const { return leaves_ < kLeavesRunAgain || leaves_ % kRunAgain == 0; }

void Worker::note_leaf() {
  if (runs_leaf_again()) {
    leaf_memory_ = execution_.memory_hash();
    leaf_failed_ = execution_.failure() != nullptr;
  }
}

// The whole of an execution, and what became of it, must be the same again.
void Worker::run_leaf_again() {
  // Closing memory of other nodes at each step takes long, and a program that looks there does so again and again.
  execution_.look_closely(true, leaves_ < kLeavesWithNodes || leaves_ % kNodesAgain == 0);
  repeat_leaf(kDiffers);
  execution_.look_closely(false);
  if (execution_.asks_for_moments()) {
    execution_.stretch_moments(true);
    repeat_leaf(kDiffersByMoments);
    execution_.stretch_moments(false);
  }
}

void Worker::repeat_leaf(const char* refusal) {
  replay_to(depth_, refusal);
  if (execution_.memory_hash() != leaf_memory_ || (execution_.failure() != nullptr) != leaf_failed_) {
    throw std::logic_error(refusal);
  }
}

// Pushes a new node for the present state.
void Worker::push(const Action& action) {
  if (nodes_.size() == depth_) {
    nodes_.push_back(nullptr);
  }
  if (nodes_[depth_] == nullptr) {
    nodes_[depth_] = std::make_unique<SearchNode>();
  }
  SearchNode& node = *nodes_[depth_];
  node.sleep.clear();
  node.todo.clear();
  if (depth_ != 0 && reduces()) {
    const Event& last = event(depth_ - 1);
    const std::vector<std::shared_ptr<const Event>>& asleep =
        depth_ - 1 < base_ ? frozen_[depth_ - 1]->node.sleep : nodes_[depth_ - 1]->sleep;
    for (const std::shared_ptr<const Event>& sleeper : asleep) {
      if (!sleeper->action.same_step(last.action) &&
          (dependence_.between(*sleeper, last, execution_.times()) == Dependence::Relation::independent ||
           has(Mutation::sleepers_stay_asleep))) {
        node.sleep.push_back(sleeper);
      }
    }
  }
  node.event.action = action;
  events_.resize(depth_);
  rows_.resize(depth_);
  events_.push_back(&node.event);
  rows_.push_back(&node.before);
  ++depth_;
}

// ---- What happens.

// `enabled_` holds the actions that were enabled before.
void Worker::make_happen(std::size_t depth, const Action& action) {
  SearchNode& node = *nodes_[depth];
  execution_.apply(action, node.event);
  if (node.event.may_crash && action.crash == 0) {
    // Also before the first post: what the client has learned by then may matter, although it tells nobody.
    const std::size_t first = has(Mutation::crashes_after_all_posts) ? node.event.posted() + 1 : 1;
    for (std::size_t n = first; n <= node.event.posted() + 1; ++n) {
      Action crash = action;
      crash.crash = static_cast<std::uint16_t>(n);
      node.todo.push_back(crash);
    }
    if (node.event.begins && !has(Mutation::clients_begin)) {
      Action crash = action;
      crash.crash = Action::kNeverBegins;
      node.todo.push_back(crash);
    }
  }
  // A revocation, the end of a lease, and the destruction of a coroutine disable other actions. Therefore all
  // alternatives are explored.
  const bool everything = !reduces() || (node.event.global && !has(Mutation::revocations_are_reduced)) ||
                          (node.event.disables && !has(Mutation::destructions_are_reduced)) ||
                          action.sort == Action::Sort::lease;
  if (everything) {
    for (const Action& other : enabled_) {
      if (!node.knows(other) && !other.same_step(action)) {
        node.todo.push_back(other);
      }
    }
  }
  find_order(depth);
}

// ---- Executions.

void Worker::extend(TaskResult& result) {
  for (;;) {
    if (execution_.is_void()) {
      ++result.redundant;
      note_leaf();
      return;
    }
    if (execution_.failure() != nullptr) {
      end_execution(result);
      return;
    }
    execution_.enabled(enabled_);
    if (enabled_.empty()) {
      end_execution(result);
      return;
    }
    if (depth_ >= options_->max_events) {
      result.too_long = execution_.unended();
      note_leaf();
      ++result.executions;
      return;
    }
    push(Action{});
    SearchNode& node = *nodes_[depth_ - 1];
    const auto chosen = std::ranges::find_if(
        enabled_, [&](const Action& action) { return !reduces() || !contains(node.sleep, action); });
    if (chosen == enabled_.end()) {
      --depth_;
      ++result.redundant;
      note_leaf();
      return;
    }
    make_happen(depth_ - 1, *chosen);
  }
}

void Worker::end_execution(TaskResult& result) {
  ++result.executions;
  note_leaf();
  end_judged(result);
  result.reads_counters = execution_.reads_counters();
  result.shares_objects = execution_.shares_objects();
  if (execution_.is_cut()) {
    ++result.cut;
    result.first_cut = execution_.first_cut();
  }
}

void Worker::tell_what_was_seen(TaskResult& result) const {
  result.blind_spot = execution_.blind_spot();
  result.revokes_of_the_living = execution_.revokes_of_the_living();
  result.changing = execution_.changing_objects();
  result.looks_behind = execution_.looks_behind();
}

void Worker::end_judged(TaskResult& result) {
  std::vector<Action> tail;
  if (execution_.failure() == nullptr) {
    if (execution_.has_parked()) {
      events_.resize(depth_);
      rows_.resize(depth_);
      const bool livelock = execution_.judges_liveness() && !execution_.asks_time() &&  // then they may give up
                            execution_.is_livelock(PathOrder(execution_, events_, rows_));
      execution_.run_tail(&tail);
      if (livelock && execution_.failure() == nullptr) {
        // Each can make progress alone, but together they may not.
        Failure failure;
        failure.kind = Kind::livelock;
        failure.what = "clients make each other fail, undo what they did, and may repeat that for ever";
        failure.at_end = true;
        record(result, failure, {});
      }
      // They wait for a client that has crashed, for ever. Or they have ended because so much time has passed: no other
      // execution ends as this one.
      const bool is_an_end = execution_.has_parked() || execution_.asks_time();
      if (execution_.failure() == nullptr && is_an_end && !execution_.is_cut()) {
        execution_.judge(PathOrder(execution_, events_, rows_));
        ++result.judged;
      }
    } else {
      execution_.require_ended();
      events_.resize(depth_);
      rows_.resize(depth_);
      execution_.judge(PathOrder(execution_, events_, rows_));
      ++result.judged;
    }
  }
  if (execution_.failure() != nullptr) {
    record(result, *execution_.failure(), tail);
  }
}

void Worker::record(TaskResult& result, const Failure& failure, const std::vector<Action>& tail) {
  std::size_t count = depth_ + tail.size();
  if (!failure.at_end && tail.empty() && failure.moment < depth_) {
    Before needed = *rows_[failure.moment];
    needed.resize(depth_ / 64 + 1, 0);
    for (const Moment also : failure.also) {
      include(needed, *rows_[also]);
      set_bit(needed, also);
    }
    count = 1;
    for (const std::uint64_t word : needed) {
      count += static_cast<std::size_t>(std::popcount(word));
    }
  }
  if (result.found && result.found->events <= count) {
    return;
  }
  Found found;
  found.failure = failure;
  found.events = count;
  found.tail = tail;
  found.by_states = options_->mode == Mode::states;
  found.orders_objects = options_->order_objects;
  found.parts_posts = options_->part_posts;
  found.parts_completions = options_->part_completions;
  for (std::size_t i = 0; i < depth_; ++i) {
    found.choices.push_back(event(i).action);
  }
  result.found = std::move(found);
}

// Goes back to the deepest node with a choice left, and takes it. False if there is none.
bool Worker::next_choice() {
  const std::size_t bottom = base_ + (first_owner_ != nullptr ? 1 : 0);
  while (depth_ > bottom) {
    SearchNode& node = *nodes_[depth_ - 1];
    if (node.todo.empty()) {
      --depth_;
      continue;
    }
    node.sleep.push_back(std::make_shared<Event>(node.event));
    while (!node.todo.empty()) {
      const Action action = node.todo.front();
      node.todo.erase(node.todo.begin());
      if (reduces() && contains(node.sleep, action)) {
        continue;
      }
      replay_to(depth_ - 1);
      execution_.enabled(enabled_);
      if (is_early_lease(action)) {
        continue;
      }
      if (!execution_.is_enabled(action)) {
        throw std::logic_error(
            fmt::format("explorer: the step '{}' is not possible where it was to be tried", to_string(action)));
      }
      node.event.action = action;
      events_.resize(depth_);
      rows_.resize(depth_);
      make_happen(depth_ - 1, action);
      return true;
    }
    --depth_;
  }
  return false;
}

TaskResult Worker::run(const SearchTask& task, std::uint64_t most_executions) {
  execution_.runs_below(__builtin_frame_address(0));
  TaskResult result;
  execution_.forget_cuts();
  load(task);
  if (task.at != nullptr) {
    // The choices given out before this one are asleep. Their events are known once they happen.
    std::vector<std::shared_ptr<const Event>> asleep = task.at->node.sleep;
    for (const Action& action : task.asleep) {
      if (reduces() && !contains(asleep, action)) {
        replay_to(base_);
        if (is_early_lease(action)) {
          continue;
        }
        auto event = std::make_shared<Event>();
        execution_.apply(action, *event);
        asleep.push_back(std::move(event));
      }
    }
    replay_to(base_);
    execution_.enabled(enabled_);
    if (is_early_lease(task.first)) {
      ++result.redundant;
      tell_what_was_seen(result);
      return result;
    }
    if (!execution_.is_enabled(task.first)) {
      throw std::logic_error(
          fmt::format("explorer: the step '{}' is not possible where it was to be tried", to_string(task.first)));
    }
    push(task.first);
    SearchNode& node = *nodes_[depth_ - 1];
    node.sleep = std::move(asleep);
    make_happen(depth_ - 1, task.first);
    for (const Action& action : node.todo) {
      if (!task.at->knows(action)) {
        additions_.push_back({task.at, {action}});
      }
    }
    node.todo.clear();
  } else {
    execution_.require_same_builds();
    execution_.begin();
    extend(result);
    replay_to(depth_);  // checks that the program does the same again
    execution_.begin();
    result = {};
    load(task);
  }
  for (;;) {
    extend(result);
    result.events += depth_;
    if (runs_leaf_again()) {
      run_leaf_again();
    }
    ++leaves_;
    if (result.too_long) {
      break;
    }
    result.stopped = should_stop();
    if (result.stopped || result.executions + result.redundant >= most_executions || result.events >= kEventsOfATask) {
      freeze(result);
      break;
    }
    if (!next_choice()) {
      break;
    }
  }
  result.additions = std::move(additions_);
  additions_.clear();
  tell_what_was_seen(result);
  return result;
}

// Turns the stack into frozen nodes; other workers explore their remaining choices.
void Worker::freeze(TaskResult& result) {
  std::shared_ptr<FrozenNode> parent = frozen_.empty() ? nullptr : frozen_.back();
  for (std::size_t i = base_; i < depth_; ++i) {
    auto frozen = std::make_shared<FrozenNode>();
    SearchNode& node = *nodes_[i];
    frozen->node = std::move(node);
    node = SearchNode{};
    frozen->parent = parent;
    if (i == base_) {
      frozen->owner = first_owner_;
    }
    // Other workers explore the rest of this choice's subtree, too.
    frozen->node.sleep.push_back(std::make_shared<Event>(frozen->node.event));
    parent = frozen;
    result.left.push_back(std::move(frozen));
  }
  depth_ = base_;
}

TaskResult Worker::run_along(const std::vector<Action>& choices, bool to_the_end) {
  execution_.runs_below(__builtin_frame_address(0));
  TaskResult result;
  load({});
  execution_.begin();
  for (const Action& action : choices) {
    if (execution_.failure() != nullptr) {
      break;
    }
    execution_.enabled(enabled_);
    if (!execution_.is_enabled(action)) {
      throw std::invalid_argument(
          fmt::format("the step '{}' is not possible after {} steps of the trace", to_string(action), depth_));
    }
    push(action);
    make_happen(depth_ - 1, action);
    const SearchNode& node = *nodes_[depth_ - 1];
    const bool can_be = action.crash == Action::kNeverBegins
                            ? node.event.begins
                            : node.event.may_crash && action.crash <= node.event.posted() + 1;
    if (action.crash != 0 && !can_be) {
      throw std::invalid_argument(
          fmt::format("the crash in '{}' is not possible after {} steps of the trace", to_string(action), depth_ - 1));
    }
    nodes_[depth_ - 1]->todo.clear();
  }
  if (to_the_end) {
    extend(result);
  } else if (execution_.failure() != nullptr) {
    record(result, *execution_.failure(), {});
  }
  result.events += depth_;
  return result;
}

}  // namespace sidelatch::explore

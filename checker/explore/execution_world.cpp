// What a program asks of its World: nodes, queue pairs, CPU threads, tasks, judges.
#include "execution.h"
#include "model_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sidelatch::explore {

using namespace fabric;

std::uint16_t Execution::part(Part wanted, const std::function<std::uint16_t()>& make) {
  if (next_part_ == parts_.size() && !parts_known_) {
    wanted.id = make();
    parts_.push_back(wanted);
    ++next_part_;
    return wanted.id;
  }
  if (next_part_ < parts_.size()) {
    const Part& known = parts_[next_part_++];
    wanted.id = known.id;
    if (wanted == known) {
      return known.id;
    }
  }
  throw std::logic_error(
      "the program made other nodes, regions or queue pairs than before: it must do the same each "
      "time it is called");
}

// ---- Parts of the machine that the program creates.

Reactor& Execution::reactor() noexcept { return *reactor_; }

std::uint16_t Execution::actor_of(const Node& node) const {
  const auto* model_node = dynamic_cast<const ModelNode*>(&node);
  if (model_node == nullptr || &model_node->execution() != this) {
    throw std::invalid_argument(fmt::format("node {} is not a node of this world", node.name()));
  }
  return model_node->actor();
}

void Execution::refuse_more_actors() const {
  if (actors_.size() == kMostActors) {
    throw std::invalid_argument(
        fmt::format("the program makes more than {} nodes and CPU threads, which is not explored", kMostActors));
  }
}

Node& Execution::add_node(std::string_view name, unsigned nics) {
  const Zone::Use own(nullptr);
  refuse_in_tasks("added a node");
  refuse_more_actors();
  if (nics == 0 || nics > 64) {
    throw std::invalid_argument(fmt::format("node {} with {} NICs: it must have 1 to 64", name, nics));
  }
  const auto actor = static_cast<std::uint16_t>(actors_.size());
  std::uint16_t first_nic = 0;
  // A node's number is kept in the part; its NICs and its client follow from the order of creation.
  const std::uint16_t id = part({Part::Sort::node, nics, 0, 0, 0}, [&] { return machine_.add_node().value; });
  first_nic = part({Part::Sort::node, nics, 1, 0, 0}, [&] {
    const std::uint16_t first = machine_.add_nic({id}).value;
    for (unsigned i = 1; i < nics; ++i) {
      static_cast<void>(machine_.add_nic({id}));
    }
    return first;
  });
  const std::uint16_t thread = part({Part::Sort::node, nics, 2, 0, 0}, [&] { return machine_.add_thread({id}).value; });
  const std::uint16_t client =
      part({Part::Sort::node, nics, 3, 0, 0}, [&] { return machine_.add_client(model::ThreadId{thread}).value; });
  Actor& made = actors_.emplace_back();
  made.name = std::string(name);
  made.machine_client = client;
  made.machine_thread = thread;
  made.node = actor;
  threads_.push_back(actor);
  nodes_.emplace_back();
  cpus_.emplace_back();
  const Zone::Use use(&world_zone_);
  nodes_.back() =
      std::make_unique<ModelNode>(*this, std::string(name), actor, model::NodeId{id}, model::NicId{first_nic}, nics);
  static_cast<void>(nodes_.back()->cpu());  // now, so that it is at the same place each time
  return *nodes_.back();
}

std::unique_ptr<QueuePair> Execution::connect(Node& from, Node& to, unsigned nic, const QueuePairOptions& options) {
  return make_queue_pair(from, to, nic, options);
}

std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> Execution::connect_pair(
    Node& from, Node& to, const QueuePairOptions& options) {
  no_states_ = "it has two-sided queue pairs";  // what was received is not written down (append_state)
  auto here = make_queue_pair(from, to, 0, options);
  auto there = make_queue_pair(to, from, 0, options);
  ModelQueuePair::join(*here, *there);
  return {std::move(here), std::move(there)};
}

std::unique_ptr<ModelQueuePair> Execution::make_queue_pair(Node& from, Node& to, unsigned nic,
                                                           const QueuePairOptions& options) {
  const Zone::Use own(nullptr);
  refuse_in_tasks("connected a queue pair");
  const std::uint16_t initiator = actor_of(from);
  const std::uint16_t target = actor_of(to);
  ModelNode& target_node = *nodes_[target];
  if (nic >= target_node.nics()) {
    throw std::invalid_argument(
        fmt::format("connect to NIC {} of node {}: it has {}", nic, to.name(), target_node.nics()));
  }
  const model::NicId nic_id = target_node.nic(nic);
  const std::uint16_t client = actors_[initiator].machine_client;
  const std::uint16_t id = part({Part::Sort::queue_pair, client, nic_id.value, 0, 0},
                                [&] { return machine_.add_qp({client}, nic_id).value; });
  if (id >= times_.size()) {
    times_.resize(id + 1U);
    requests_.resize(id + 1U);
  }
  std::unique_ptr<ModelQueuePair> queue_pair;
  {
    const Zone::Use use(&world_zone_);
    queue_pair = std::make_unique<ModelQueuePair>(*this, *nodes_[initiator], target_node, model::QpId{id}, options);
  }
  queue_pairs_.push_back({queue_pair.get(), initiator, target, nic_id.value, nic, 0, 0});
  return queue_pair;
}

bool Execution::has_cpu(std::uint16_t of) const {
  return std::ranges::any_of(actors_, [of](const Actor& actor) { return actor.is_cpu && actor.node == of; });
}

Cpu& Execution::add_cpu(Node& node, std::string_view name) {
  const Zone::Use own(nullptr);
  refuse_in_tasks("added a CPU thread");
  refuse_more_actors();
  const std::uint16_t of = actor_of(node);
  const std::uint16_t thread =
      part({Part::Sort::cpu, of, 0, 0, 0}, [&] { return machine_.add_thread(nodes_[of]->id()).value; });
  Actor& actor = actors_.emplace_back();
  actor.name = std::string(name);
  actor.is_cpu = true;
  actor.machine_thread = thread;
  actor.node = of;
  actors_[of].shared = actors_[of].regions;
  nodes_.emplace_back();
  cpus_.emplace_back();
  {
    const Zone::Use use(&world_zone_);
    cpus_.back() = std::make_unique<ModelCpu>(*this, node, static_cast<std::uint16_t>(actors_.size() - 1));
  }
  threads_.push_back(static_cast<std::uint16_t>(actors_.size() - 1));
  return *cpus_.back();
}

namespace {

void require_task(const Task<void>& task) {
  if (!task.valid()) {
    throw std::invalid_argument("World::spawn: the task is empty: none was made, or it was moved from");
  }
}

}  // namespace

void Execution::spawn(Node& client, Task<void> task) {
  const Zone::Use own(nullptr);
  require_task(task);
  refuse_in_tasks("spawned another one by World::spawn (Reactor::spawn does it)");
  Actor& actor = actors_[actor_of(client)];
  actor.tasks.push_back(std::move(task));
  ++actor.tasks_left;
}

void Execution::spawn(Cpu& cpu, Task<void> task) {
  const Zone::Use own(nullptr);
  require_task(task);
  refuse_in_tasks("spawned another one by World::spawn (Reactor::spawn does it)");
  const auto found = std::ranges::find(cpus_, &cpu, &std::unique_ptr<ModelCpu>::get);
  if (found == cpus_.end()) {
    throw std::invalid_argument(
        "spawn: the CPU is none of add_cpu() of this world; a task on node.cpu() is spawned on the node");
  }
  Actor& actor = actors_[static_cast<std::size_t>(found - cpus_.begin())];
  if (!actor.tasks.empty()) {
    throw std::invalid_argument(
        fmt::format("spawn: the CPU thread {} has a task already: make another thread", actor.name));
  }
  actor.tasks.push_back(std::move(task));
  ++actor.tasks_left;
}

void Execution::may_crash(Node& client) {
  actors_[actor_of(client)].can_crash = true;
  no_states_ = "a client may crash";
}

bool Execution::crashed() const {
  const bool may_crash = std::ranges::any_of(actors_, &Actor::can_crash);
  if (running_ != Event::kNone && may_crash && !blind_spot_) {
    const Zone::Use own(nullptr);
    note_blind_spot(
        fmt::format("{}, which asks World::crashed() (a judge may, when all has ended),", actors_[running_].name));
  }
  return crashed_ != Event::kNone;
}

void Execution::fail(Kind kind, std::string what) {
  // No destructor of the dead runs, nor of those who wait for them.
  const bool is_of_the_dead = runs_the_dead() || (ends_tasks_ && crashed_ != Event::kNone);
  if (!failure_ && !is_of_the_dead && !is_void_) {
    const Zone::Use own(nullptr);
    // A copy: the program's heap ends with the execution.
    failure_ = Failure{kind, std::string(what), moment_, {}, false};  // NOLINT(performance-unnecessary-value-param)
  }
}

// An attempt in which a task asks for moments cannot be left out: they would be others.
Moment Execution::moment() const {
  no_states_ = "it asks for moments";
  asks_for_moments_ = true;
  if (running_ != Event::kNone) {
    ++actors_[running_].looks;
  }
  return shown(moment_);
}

Moment Execution::last_post() const {
  no_states_ = "it asks for moments";
  if (running_ == Event::kNone) {
    return 0;
  }
  asks_for_moments_ = true;
  ++actors_[running_].looks;
  return shown(actors_[running_].last_post);
}

Moment Execution::last_retry() const {
  no_states_ = "it asks for moments";
  if (running_ == Event::kNone) {
    return 0;
  }
  asks_for_moments_ = true;
  ++actors_[running_].looks;
  return shown(actors_[running_].last_retry);
}

// Odd numbers become even, and distances grow; 0 stays what it is.
Moment Execution::shown(Moment moment) const {
  constexpr Moment kStretch = 5;
  constexpr Moment kShift = 3;
  return stretches_moments_ && moment != 0 ? kStretch * moment + kShift : moment;
}

void Execution::at_end(std::function<void(const Order&)> judge) {
  const Zone::Use own(nullptr);
  judges_.push_back(std::move(judge));
}

void Execution::judges_with(const void* object) {
  const Zone::Use own(nullptr);
  if (!building_ || zone_.block_at(object).empty()) {
    throw std::invalid_argument(
        "judges_with: it takes an object of World::make, while the program is built, before its tasks run");
  }
  of_judges_.push_back(object);
}

void Execution::keep(Kept kept) {
  const Zone::Use own(nullptr);
  kept_.push_back(kept);
}

void Execution::tag(std::uint64_t number) {
  if (running_ != Event::kNone) {
    actors_[running_].tag = number;
  }
}

// ---- Tasks.

Task<void> Execution::run_task(Execution* execution, std::uint16_t actor, Task<void> task) {
  co_await FirstStep{execution};
  try {
    co_await task;
  } catch (const std::exception& error) {
    execution->task_failed(actor, error.what());
  } catch (...) {
    execution->task_failed(actor, "an exception that is no std::exception");
  }
  execution->task_ended(actor);
}

void Execution::task_ended(std::uint16_t actor) {
  const Zone::Use own(nullptr);
  --tasks_running_;
  --actors_[actor].tasks_left;
  ++ended_in_step_;
  ++actors_[actor].progress;
  progress_.push_back(moment_);
}

void Execution::task_failed(std::uint16_t actor, std::string what) {
  fail(Kind::exception, fmt::format("{}: {}", actors_[actor].name, what));
}

void Execution::spawned_task_failed(const std::exception_ptr& failure) {
  const Zone::Use own(nullptr);
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    task_failed(running_, error.what());
  } catch (...) {
    task_failed(running_, "a task has thrown something that is no std::exception");
  }
}

Execution::Suspended& Execution::suspend_next(Actor& actor, Step::What what) {
  Suspended next{.number = actor.next_suspension++, .what = what};
  while (std::ranges::find(actor.suspended, next.slot, &Suspended::slot) != actor.suspended.end()) {
    ++next.slot;
  }
  return actor.suspended.emplace_back(next);
}

void Execution::suspend(Step& step) {
  const Zone::Use own(nullptr);
  Actor& actor = actors_[actor_of(step.client())];
  suspend_next(actor, step.what()).step = &step;
  event_->suspensions.push_back({actor_of(step.client()), actor.suspended.back().number});
}

// A coroutine that waits for a step is destroyed. If the running client does that, the step could have come before.
void Execution::forget_step(std::uint16_t of, const Suspended& step) noexcept {
  const bool is_of_this_step =
      std::ranges::find(event_->suspensions, Event::Suspension{of, step.number}) != event_->suspensions.end();
  if (running_ == Event::kNone || ends_tasks_ || runs_the_dead() || of == crashed_ || is_of_this_step) {
    return;
  }
  event_->disables = true;
  if (of != running_) {
    const Zone::Use own(nullptr);
    note_blind_spot(fmt::format("{}, which destroys a coroutine of {} that waits for a step,", actors_[running_].name,
                                actors_[of].name));
  }
}

// Its coroutine is destroyed.
void Execution::forget(const Step& step) noexcept {
  for (std::uint16_t i = 0; i < actor_count(); ++i) {
    forget_steps(i, [&](const Suspended& one) { return one.step == &step; });
  }
}

void Execution::on_access(std::uint16_t of, Cpu::Access& access) {
  const Zone::Use own(nullptr);
  Actor& actor = actors_[of];
  if (running_ != of) {
    throw std::logic_error(fmt::format("a task of {} used the CPU of {}: each task has that of its own node or thread",
                                       running_ == Event::kNone ? "nobody" : actors_[running_].name, actor.name));
  }
  actor.has_waited = true;
  suspend_next(actor, Step::What::access).access = &access;
  event_->suspensions.push_back({of, actor.suspended.back().number});
}

void Execution::on_access_cancelled(std::uint16_t of, const Cpu::Access& access) noexcept {
  if (of < actors_.size()) {
    forget_steps(of, [&](const Suspended& one) { return one.access == &access; });
    std::erase_if(actors_[of].parked, [&](const Parked& one) { return one.access == &access; });
  }
}

}  // namespace sidelatch::explore

#include "execution.h"

#include "model_fabric.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/model/effects.h>
#include <sidelatch/fabric/model/pieces.h>
#include <sidelatch/fabric/object_number.h>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

namespace {

// A client step with more calls into the fabric than this, and no wait between them, will never wait.
constexpr std::uint32_t kMostCallsInAStep = 100'000;
// A client that sleeps more often in one step may wait for what another client does to an object of the process.
constexpr std::uint32_t kMostSleepsInAStep = 100;
// The number of a wait that has ended already.
constexpr std::uint64_t kNeverWaits = ~std::uint64_t{0};

bool writes(const WorkRequest& request) { return is_write(request.opcode) || is_send(request.opcode); }

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
  return hash ^ hash >> 29;
}

}  // namespace

// An address of the program's heap becomes the number of its block, and its place there.
std::uint64_t Execution::without_place(std::uint64_t word) const noexcept {
  constexpr std::uint64_t kHeap = std::uint64_t{0x4ea9} << 48;
  if (!zone_.holds(word)) [[likely]] {
    return word;
  }
  const Zone::View view = zone_.view_at(word);
  if (view.number == Zone::kNone) {
    return kHeap;
  }
  const std::byte* const block = zone_.base() + view.offset;
  return kHeap | std::uint64_t{zone_.taken_as(block)} << 24 | (word - reinterpret_cast<std::uintptr_t>(block));
}

std::uint64_t Execution::memory_hash() const noexcept {
  std::uint64_t hash = 0;
  arena_.for_each([&](std::uint64_t offset, std::span<const std::byte> bytes) {
    hash = mixed(hash, offset);
    for (std::uint64_t i = 0; i < bytes.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min<std::uint64_t>(8, bytes.size() - i));
      hash = mixed(hash, without_place(word));
    }
  });
  return hash;
}

// What a request asks for, to tell a program that asks for something else each time.
std::uint64_t Execution::digest_of(const WorkRequest& request) const noexcept {
  std::uint64_t hash = static_cast<std::uint64_t>(request.opcode);
  for (const std::uint64_t word :
       {request.remote.value, std::uint64_t{request.rkey.value}, request.local.length, without_place(request.compare),
        without_place(request.swap_or_add), std::uint64_t{request.signaled}, std::uint64_t{request.fence}}) {
    hash = mixed(hash, word);
  }
  if (writes(request) && request.local.data != nullptr) {
    for (std::uint64_t i = 0; i < request.local.length; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, request.local.data + i, std::min<std::uint64_t>(8, request.local.length - i));
      hash = mixed(hash, without_place(word));
    }
  }
  return hash;
}

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::torn_read:
      return "torn-read";
    case Kind::lost_update:
      return "lost-update";
    case Kind::mutual_exclusion:
      return "mutual-exclusion";
    case Kind::linearizability:
      return "linearizability";
    case Kind::deadlock:
      return "deadlock";
    case Kind::livelock:
      return "livelock";
    case Kind::buffer_race:
      return "buffer-race";
    case Kind::assertion:
      return "assertion";
    case Kind::exception:
      return "exception";
  }
  return "unknown";
}

// ---- Arena.

Arena::Arena() {
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(fmt::format("cannot map {} bytes for an exploration: {}", kBytes, std::strerror(errno)));
  }
  base_ = static_cast<std::byte*>(memory);
}

Arena::~Arena() { ::munmap(base_, kBytes); }

std::span<std::byte> Arena::pages_of(std::span<const std::byte> bytes) const noexcept {
  const auto begin = static_cast<std::uint64_t>(bytes.data() - base_);
  const std::uint64_t first = begin / kPage * kPage;
  const std::uint64_t end = (begin + bytes.size() + kPage - 1) / kPage * kPage;
  return {base_ + first, std::min(end, kBytes) - first};
}

std::byte* Arena::take(std::uint64_t bytes) {
  if (bytes > kBytes - used_) {
    throw std::length_error(
        fmt::format("the program registers more than {} MiB of memory in one execution; {} bytes "
                    "more were asked for",
                    kBytes >> 20, bytes));
  }
  std::byte* const memory = base_ + used_;
  taken_.push_back({used_, bytes});
  used_ += std::min((bytes + kPage - 1) / kPage * kPage, kBytes - used_);
  return memory;
}

void Arena::reset() noexcept {
  for (const Taken& taken : taken_) {
    std::memset(base_ + taken.offset, 0, taken.bytes);
  }
  taken_.clear();
  used_ = 0;
}

std::uint64_t Arena::hash() const noexcept {
  std::uint64_t hash = taken_.size();
  for (const Taken& taken : taken_) {
    for (std::uint64_t i = 0; i < taken.bytes; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, base_ + taken.offset + i, std::min<std::uint64_t>(8, taken.bytes - i));
      hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

// ---- Beginning and ending.

Execution::Execution(Program program, const model::Rules& rules, std::uint32_t writing_retries)
    : program_(std::move(program)), machine_(rules), writing_retries_(writing_retries) {}

Execution::~Execution() { end_execution(); }

// What the program has made, in the order in which it ends.
void Execution::destroy_program() noexcept {
  const Zone::Use use(&zone_);
  ends_tasks_ = true;
  reactor_->destroy_spawned();
  for (Actor& actor : actors_) {
    actor.tasks.clear();
  }
  ends_tasks_ = false;
  judges_.clear();
  of_judges_.clear();
  while (!kept_.empty()) {
    kept_.back().destroy(kept_.back().object);
    kept_.pop_back();
  }
}

void Execution::end_execution() noexcept {
  guard_.open();
  if (reactor_ == nullptr) {
    return;
  }
  destroy_program();
  const Zone::Use use(&zone_);
  cpus_.clear();
  nodes_.clear();
  actors_.clear();
  observers_.clear();
  queue_pairs_.clear();
  threads_.clear();
  reactor_.reset();
  arena_.reset();
  for (const Mapped& mapped : mapped_in_tasks_) {
    machine_.unmap(mapped.node, mapped.address);
  }
  mapped_in_tasks_.clear();
  tallies_.clear();
  spares_.clear();
  note_leak();
  zone_.reset();
  world_zone_.reset();
}

// A static object may keep a few blocks, and then all is at its place again. If more and more stay, nothing is.
void Execution::note_leak() noexcept {
  constexpr unsigned kMostGrowths = 3;
  const Zone::Use own(nullptr);
  if (zone_.live_blocks() <= left_blocks_) {
    return;
  }
  left_blocks_ = zone_.live_blocks();
  if (++growths_ > kMostGrowths && !blind_spot_) {
    no_states_ = "its tasks leave objects on the heap";
    // What a static object keeps may be all there when the program is searched again.
    blind_spot_ = BlindSpot{
        "a task that leaves an object on the heap, which moves what clients share (let a smart pointer own it),", true};
  }
}

void Execution::begin(std::vector<std::uint64_t>* start) {
  end_execution();
  machine_.reset();
  {
    const Zone::Use use(&world_zone_);
    reactor_ = std::make_unique<ModelReactor>(*this);
  }
  for (std::vector<RequestTimes>& times : times_) {
    times.clear();
  }
  for (std::vector<RequestInfo>& requests : requests_) {
    requests.clear();
  }
  snapshots_used_ = snapshots_live_ = 0;
  moment_ = 0;
  next_part_ = 0;
  running_ = crashed_ = watched_ = Event::kNone;
  leases_ended_ = 0;
  posts_left_.reset();
  in_tail_ = liveness_after_crash_ = false;
  progress_.clear();
  failure_.reset();
  is_cut_ = is_void_ = false;
  seen_at_crash_.clear();
  seen_by_judges_.clear();
  own_memory_.clear();
  memory_at_crash_.clear();
  refused_.clear();
  tasks_running_ = retries_ = 0;
  building_ = true;
  set_objects_apart();
  {
    const Zone::Use use(&zone_);
    const fabric::CountAnew numbers;
    program_(*this);
  }
  building_ = false;
  if (start != nullptr) {
    append_start(*start);
  }
  find_shared_objects();
  zone_.fix_live_blocks();
  world_zone_.fix_live_blocks();
  if (parts_known_ && next_part_ != parts_.size()) {
    throw std::logic_error(
        "the program made fewer nodes, regions or queue pairs than before: it must do the same each "
        "time it is called");
  }
  std::vector<std::size_t> tasks;
  tasks.reserve(actors_.size());
  for (const Actor& actor : actors_) {
    tasks.push_back(actor.tasks.size());
  }
  if (!parts_known_) {
    tasks_of_actors_ = std::move(tasks);
  } else if (tasks != tasks_of_actors_) {
    throw std::logic_error(
        "the program gave its clients other tasks than before: it must do the same each time it is called");
  }
  parts_known_ = true;
  for (const Actor& actor : actors_) {
    refuse_crash_with_shared_memory(actor);
  }
  for (Actor& actor : actors_) {
    // Each task starts as a step of its own: a task that waits for another must be able to begin after it.
    for (std::size_t i = 0; i < actor.tasks.size(); ++i) {
      suspend_next(actor, Step::What::start);
    }
  }
}

void Execution::require_same_builds() {
  // Once for objects that the program makes only the first time. Then a program that counts differs nearly each time;
  // bytes that nobody has set may differ once.
  constexpr int kBuilds = 8;
  begin();
  std::vector<std::uint64_t> last;
  std::uint64_t last_memory = 0;
  std::vector<std::string> last_names;
  int changes = 0;
  for (int i = 0; i < kBuilds; ++i) {
    std::vector<std::uint64_t> now;
    begin(&now);
    std::vector<std::string> names;
    names.reserve(actors_.size());
    for (const Actor& actor : actors_) {
      names.push_back(actor.name);
    }
    const std::uint64_t memory = arena_.hash();
    if (i != 0 && (memory != last_memory || names != last_names)) {
      throw std::logic_error(fmt::format(
          "the program {} than before: it must do the same each time it is called",
          names != last_names ? "gave its nodes other names" : "put something else into its registered memory"));
    }
    changes += i != 0 && now != last ? 1 : 0;
    last = std::move(now);
    last_memory = memory;
    last_names = std::move(names);
  }
  if (changes + 1 >= kBuilds - 1) {
    throw std::logic_error(
        "the program made other objects, or gave its tasks other arguments, than before: it must do the same each time "
        "it is called (no clock, no chance, no variable that outlives it)");
  }
}

// A task cannot be told that its program is refused: it might catch that.
void Execution::refuse_in_tasks(std::string_view what) {
  if (!building_) {
    refused_ = fmt::format(
        "a task {}, which is not explored: let the program that World is given to make its nodes, CPU threads, queue "
        "pairs and tasks",
        what);
    throw std::logic_error(refused_);
  }
}

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
  if (!failure_ && !is_of_the_dead) {
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

// Its coroutine is destroyed.
void Execution::forget(const Step& step) noexcept {
  for (Actor& actor : actors_) {
    std::erase_if(actor.suspended, [&](const Suspended& one) { return one.step == &step; });
  }
}

void Execution::on_access(std::uint16_t of, Cpu::Access& access) {
  const Zone::Use own(nullptr);
  Actor& actor = actors_[of];
  if (running_ != of) {
    throw std::logic_error(fmt::format("a task of {} used the CPU of {}: each task has that of its own node or thread",
                                       running_ == Event::kNone ? "nobody" : actors_[running_].name, actor.name));
  }
  suspend_next(actor, Step::What::access).access = &access;
  event_->suspensions.push_back({of, actor.suspended.back().number});
}

void Execution::on_access_cancelled(std::uint16_t of, const Cpu::Access& access) noexcept {
  if (of < actors_.size()) {
    std::erase_if(actors_[of].suspended, [&](const Suspended& one) { return one.access == &access; });
    std::erase_if(actors_[of].parked, [&](const Parked& one) { return one.access == &access; });
  }
}

Time Execution::now() const {
  clock_read_ = true;
  return running_ == Event::kNone ? Time{} : actors_[running_].clock;
}

// A client sleeps in no time, unless what it can look at may change meanwhile: then others may come before it goes on.
std::uint64_t Execution::on_sleep(Duration duration, Waiter& waiter) {
  const Zone::Use own(nullptr);
  if (running_ != Event::kNone) {
    actors_[running_].clock += duration;
    const bool waits_for_another = !shared_objects_.empty() && calls_in_step_ > kMostSleepsInAStep;
    if (waits_for_another || !is_undisturbed(running_)) {
      return go_on_later(Step::What::yield, waiter);
    }
    note_changed_objects(running_);
  }
  if (++calls_in_step_ > kMostCallsInAStep) {
    fail(Kind::livelock,
         "a task slept again and again and waited for nothing else: a loop that waits for others must "
         "say so (Reactor::begin_retries, retry)");
    return kNeverWaits;  // it is not resumed
  }
  reactor_->ready(waiter);
  return kNeverWaits;
}

// The running client goes on in a step of its own. Returns what on_retry_cancelled() takes.
std::uint64_t Execution::go_on_later(Step::What what, Waiter& waiter) {
  suspend_next(actors_[running_], what).waiter = &waiter;
  event_->suspensions.push_back({running_, actors_[running_].suspended.back().number});
  return reinterpret_cast<std::uintptr_t>(&waiter);
}

// What a task has stored to its own memory after its last post before a crash would stay, which need not be so.
void Execution::refuse_crash_with_shared_memory(const Actor& actor) {
  if (actor.can_crash && !actor.shared.empty()) {
    throw std::invalid_argument(fmt::format(
        "{} may crash, and others can reach its memory, which is not explored: let that memory belong to another node",
        actor.name));
  }
}

// How many requests of a client have completed is its NIC's doing, and nobody else's business.
void Execution::on_progress_read(const QueuePair* queue_pair, bool changes_alone) const {
  if (running_ == Event::kNone || runs_the_dead() || Zone::current() != &zone_) {
    return;  // a judge at the end, or the explorer itself
  }
  const Zone::Use own(nullptr);
  const auto found =
      std::ranges::find_if(queue_pairs_, [&](const QueuePairPart& part) { return part.queue_pair == queue_pair; });
  if (queue_pair == nullptr || found == queue_pairs_.end()) {
    note_blind_spot(
        fmt::format("{}, which asks how many tasks or requests all clients have together "
                    "(Reactor::spawned(), completion_queue_free()),",
                    actors_[running_].name));
  } else if (found->actor != running_) {
    note_blind_spot(
        fmt::format("{}, which asks how far the requests of {} have got (each client has its own queue "
                    "pairs),",
                    actors_[running_].name, actors_[found->actor].name));
  } else if (changes_alone) {
    looks_at_progress_ = true;
    if (!event_->posts.empty() || !event_->receives.empty()) {
      note_after_post(running_, "at how many of its requests have completed");
    }
  }
}

void Execution::on_tally(std::span<const std::byte> tally) {
  const Zone::Use own(nullptr);
  tallies_.push_back({tally, zone_.life_at(tally.data())});
}

void Execution::on_spares(const Reactor::Spares& spares) {
  const Zone::Use own(nullptr);
  spares_.push_back(&spares);
}

// Memory that the program registers while it is built is a part of its machine. What its tasks register ends with the
// execution.
void Execution::on_region(std::uint16_t of, model::NodeId node, RemoteAddress address, std::span<std::byte> bytes,
                          bool for_others) {
  const Zone::Use own(nullptr);
  actors_[of].regions.emplace_back(bytes);
  // The threads of a node reach all its memory.
  if (for_others || has_cpu(of)) {
    actors_[of].shared.emplace_back(bytes);
    if (!building_) {
      refuse_crash_with_shared_memory(actors_[of]);
    }
  }
  if (!building_) {
    if (runs_the_dead()) {
      note_act_of_the_dead(running_);
    }
    if (running_ != Event::kNone) {
      ++actors_[running_].changes;
      event_->allocates_at = of;
    }
    machine_.map(node, address, bytes);
    mapped_in_tasks_.push_back({node, address});
  } else {
    static_cast<void>(
        part({Part::Sort::region, node.value, reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0}, [&] {
          machine_.map(node, address, bytes);
          return std::uint16_t{0};
        }));
  }
}

// ---- Posting.

void Execution::check_remote(const ModelQueuePair& queue_pair, const WorkRequest& request) {
  const std::uint64_t length = request.length();
  if (length == 0 || is_send(request.opcode)) {
    return;
  }
  const Node::Registration* region = queue_pair.to().find(request.rkey);
  const Access needed = is_atomic(request.opcode)        ? Access::remote_atomic
                        : request.opcode == Opcode::read ? Access::remote_read
                                                         : Access::remote_write;
  if (region == nullptr) {
    throw FabricError(
        Status::remote_access, request,
        fmt::format("rkey {:#x} names no live region of node {}", request.rkey.value, queue_pair.to().name()));
  }
  if (!allows(region->access, needed)) {
    throw FabricError(Status::remote_access, request,
                      fmt::format("the region has access {}", fabric::to_string(region->access)));
  }
  if (request.remote < region->address || length > region->length ||
      request.remote - region->address > region->length - length) {
    throw FabricError(
        Status::remote_access, request,
        fmt::format("the region is [{:#x}, {:#x})", region->address.value, region->address.value + region->length));
  }
}

void Execution::on_post(ModelQueuePair& queue_pair, std::span<const CheckedRequest> chain, std::uint64_t first) {
  look_at_inlined(chain);
  const Zone::Use own(nullptr);
  const WatchAfterPost after(*this);
  const std::uint16_t qp = queue_pair.id().value;
  const std::uint16_t of = queue_pairs_[qp].actor;
  if (queue_pairs_[qp].is_alone) {
    note_end_of_pair(qp);
    return;
  }
  Actor& actor = actors_[of];
  if (running_ != of) {
    if (running_ == Event::kNone) {
      throw std::logic_error(fmt::format(
          "a request was posted on a queue pair of {} by no task of it: what a client does is in its tasks, "
          "which World::spawn takes",
          actor.name));
    }
    fail(Kind::exception,
         fmt::format("{} posted on a queue pair of {}: each client has its own", actors_[running_].name, actor.name));
    return;
  }
  for (const CheckedRequest& checked : chain) {
    if (crashed_ == of || failure_) {
      return;
    }
    const WorkRequest request = checked.final_form();
    if (crashes_here(of)) {
      return;
    }
    if (++calls_in_step_ > kMostCallsInAStep) {
      fail(Kind::livelock, fmt::format("{} posts request after request and never waits", actor.name));
      return;
    }
    model::WrId id;
    try {
      check_remote(queue_pair, request);
      id = machine_.post(queue_pair.id(), request);
    } catch (const std::exception& error) {
      fail(Kind::exception, fmt::format("{}: {}", actor.name, error.what()));
      return;
    }
    if (first_request_number(qp) + id.index + 1 != first) {
      throw std::logic_error("explorer: a queue pair counts its requests otherwise than the model");
    }
    ++first;
    times_[qp].push_back({moment_});
    requests_[qp].push_back({actor.tag, request.signaled, -1, actor.progress, machine_.stores({actor.machine_thread}),
                             queue_pairs_[qp].sends});
    queue_pairs_[qp].sends += is_send(request.opcode) ? 1U : 0U;
    const bool bound = request.inlined && writes(request);
    event_->posts.push_back(
        {qp,
         queue_pairs_[qp].nic,
         id.index,
         request.opcode == Opcode::read || (is_atomic(request.opcode) && machine_.rules().atomics_see_writes),
         {}});
    event_->posts.back().digest = digest_of(request);
    if (bound && arena_.holds(request.local.data)) {
      event_->posts.back().bound = arena_.range(request.local.data, request.local.length, false);
    }
    actor.last_post = moment_;
    if (!observers_.empty()) {
      const Zone::Use use(&zone_);
      for (const Observer& observer : observers_) {
        event_->judged = observer.posted(actor.tag) || event_->judged;
      }
    }
    if (writes(request) && !bound && request.local.length != 0) {
      if (snapshots_used_ == snapshots_.size()) {
        snapshots_.emplace_back();
      }
      requests_[qp].back().snapshot = static_cast<std::int32_t>(snapshots_used_);
      Snapshot& snapshot = snapshots_[snapshots_used_++];
      snapshot.qp = qp;
      snapshot.index = id.index;
      snapshot.data = request.local.data;
      snapshot.bytes.assign(request.local.data, request.local.data + request.local.length);
      snapshot.fetched.assign(
          model::piece_count(reinterpret_cast<std::uintptr_t>(request.local.data), request.local.length, kLineBytes),
          false);
      snapshot.posted = moment_;
      snapshot.live = true;
      ++snapshots_live_;
    }
  }
}

// The model has a queue of buffers for each direction: that of the peer's SENDs.
void Execution::on_receive_posted(const ModelQueuePair& queue_pair, const LocalSpan& into) {
  const Zone::Use own(nullptr);
  const WatchAfterPost after(*this);  // a message may come between
  if (queue_pair.peer() == nullptr) {
    if (queue_pairs_[queue_pair.id().value].is_alone) {
      note_end_of_pair(queue_pair.id().value);
    }
    return;
  }
  const std::uint16_t qp = queue_pair.peer()->id().value;
  const std::uint16_t of = queue_pairs_[qp].target;
  if (crashed_ == of || failure_) {
    return;
  }
  if (!building_ && running_ != of) {
    fail(Kind::exception, fmt::format("{} posted a receive buffer of {}: each client has its own",
                                      running_ == Event::kNone ? "nobody" : actors_[running_].name, actors_[of].name));
    return;
  }
  if (crashes_here(of)) {
    return;
  }
  try {
    machine_.post_receive({qp}, recv(into));
  } catch (const std::invalid_argument& error) {
    fail(Kind::exception, fmt::format("{}: {}", actors_[of].name, error.what()));
    return;
  }
  ++actors_[of].changes;
  event_->receives.push_back({qp, queue_pairs_[qp].receives++});
  queue_pairs_[qp].receive_buffers.emplace_back(into.bytes());
}

// Whether the step has done nothing so far that depends on what others do.
bool Execution::may_revoke_in_this_step() const {
  return running_ == Event::kNone || (event_->posts.empty() && event_->receives.empty() && !event_->global &&
                                      !acted_in_step_ && shared_with(actors_[running_]).empty());
}

void Execution::on_revoke(ModelQueuePair& queue_pair) {
  if (queue_pair.peer() != nullptr) {
    throw std::invalid_argument(
        "revoke: the explorer does not revoke an end of a pair (connect_pair); revoke queue pairs of connect()");
  }

  if (runs_the_dead()) {
    return;
  }
  const Zone::Use own(nullptr);
  revokes_ = true;
  machine_.revoke(queue_pair.id());
  if (running_ != Event::kNone) {
    note_changed_objects(running_);  // also what is taken back behind the revocation
    Actor& actor = actors_[running_];
    ++actor.changes;
    // What others did between the rest of this step and the revocation cannot be explored.
    if (!may_revoke_in_this_step()) {
      cut_because(actor.name, fmt::format("{}, which revokes a queue pair in one step with something else (let "
                                          "World::yield come before Node::revoke),",
                                          actor.name));
    }
  }
  event_->global = true;
}

// The other end is not told, as it would be elsewhere. Where it still has something to do, this is no execution.
void Execution::on_end_of_pair(const ModelQueuePair& left) noexcept {
  QueuePairPart& part = queue_pairs_[left.id().value];
  part.is_alone = true;
  const QueuePairPart& incoming = queue_pairs_[left.peer()->id().value];
  if (!machine_.idle(left.id()) || incoming.received < incoming.receive_buffers.size()) {
    note_end_of_pair(left.id().value);
  }
}

void Execution::note_end_of_pair(std::uint16_t qp) noexcept {
  is_void_ = true;
  note_blind_spot(
      fmt::format("{}, which uses its end of a pair (connect_pair) after a task has destroyed the other one (keep both "
                  "to the end),",
                  actors_[queue_pairs_[qp].actor].name));
}

// No rule defines the fate of requests that are in flight then.
void Execution::on_disconnect(const ModelQueuePair& queue_pair) noexcept {
  const std::uint16_t qp = queue_pair.id().value;
  queue_pairs_[qp].queue_pair = nullptr;
  if (runs_the_dead()) {
    note_act_of_the_dead(running_);
  }
  if (queue_pair.peer() != nullptr && running_ != Event::kNone) {
    on_end_of_pair(*queue_pair.peer());
  }
  const auto in_flight = [](const RequestTimes& times) { return times.completed == RequestTimes{}.completed; };
  if (running_ != Event::kNone && std::ranges::any_of(times_[qp], in_flight)) {
    fail(Kind::exception,
         fmt::format("{} destroyed queue pair qp{} with requests in flight, and the model does not say what becomes of "
                     "them: wait for them first (co_await qp.drain())",
                     actors_[queue_pairs_[qp].actor].name, qp));
  }
}

// At each request, and each receive buffer, that the client posts.
bool Execution::crashes_here(std::uint16_t of) {
  if (!posts_left_) {
    return false;
  }
  if (*posts_left_ != 0) {
    --*posts_left_;
    return false;
  }
  crash_now(of);
  remember_the_dead(of);
  return true;
}

// The rest of the chain, and all later steps of the client, never happen.
void Execution::crash_now(std::uint16_t of) {
  crashed_ = of;
  Actor& actor = actors_[of];
  machine_.crash({actor.machine_client});
  posts_left_.reset();
}

// ---- For traces.

const Node* Execution::node(std::uint16_t actor) const { return nodes_[actors_[actor].node].get(); }

std::string Execution::describe_step(const Action& action) const {
  const Actor& actor = actors_[action.owner];
  if (action.sort == Action::Sort::lease) {
    return action.owner == crashed_ ? "is dead for so long that its lease ends" : "tries again after much time";
  }
  const auto found = std::ranges::find(actor.suspended, action.index, &Suspended::number);
  if (found == actor.suspended.end()) {
    return "goes on";
  }
  switch (found->what) {
    case Step::What::start:
      return "starts";
    case Step::What::yield:
      return "goes on";
    case Step::What::access: {
      const Cpu::Access& access = *found->access;
      if (access.what() == Cpu::What::fence) {
        return "passes its fence";
      }
      const std::uint64_t address = address_of(actor, access.word()).value;
      return access.what() == Cpu::What::store  ? fmt::format("stores {} to {:#x}", access.value(), address)
             : access.what() == Cpu::What::load ? fmt::format("loads {:#x}", address)
             : looks_in_vain(actor, access)     ? fmt::format("waits for {:#x}", address)
             : access.limit()                   ? fmt::format("waits for {:#x} no longer", address)
                                                : fmt::format("sees {:#x}", address);
    }
    case Step::What::local_store:
      return fmt::format("stores {} to its buffer", found->step->value);
    case Step::What::retry:
      return "tries again";
    case Step::What::completion:
      return fmt::format("sees the completion of qp{}[{}]", found->qp, found->sequence - 1);
    case Step::What::message:
      return fmt::format("sees a message of qp{}", found->qp);
  }
  return "goes on";
}

}  // namespace sidelatch::explore

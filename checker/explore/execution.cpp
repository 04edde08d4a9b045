// How an execution begins and ends: its program is built, compared with other builds, and destroyed.
#include "execution.h"

#include "model_fabric.h"
#include "word_hash.h"

#include <sidelatch/fabric/object_number.h>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sidelatch::explore {

using namespace fabric;

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
    hash = mixed(hash, bytes, [this](std::uint64_t word) { return without_place(word); });
  });
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

// ---- Beginning and ending.

Execution::Execution(Program program, const model::Rules& rules, std::uint32_t writing_retries)
    : program_(std::move(program)), machine_(rules), writing_retries_(writing_retries) {}

Execution::~Execution() { end_execution(); }

// What the program has made, in the order in which it ends.
void Execution::destroy_program() noexcept {
  const Zone::Use use(&zone_);
  event_ = &scratch_;  // an exception may have left another one, which is gone
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
  ended_regions_.clear();
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
  going_on_.clear();
  done_at_head_.reset();
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

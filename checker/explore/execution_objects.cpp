// What clients may learn of each other beside requests: objects of the process that several of them can reach; and what
// a client looks at behind a post, in the same step.
//
// In a first search each step's changes of such objects are seen by comparison. If a client has changed one that
// another can reach, the search begins again (order_objects). Then two steps are dependent if one changes what the
// other changes or looks at. Looks are seen by page protection (Guard): an object that is known to change gets pages of
// its own in the next build. Until then each step of a client counts as a look at all objects that the client reaches.
#include "execution.h"
#include "model_fabric.h"
#include "mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::explore {

using namespace fabric;
using model::StepKind;

namespace {

constexpr std::size_t kMostGuarded = 62;  // of the guard's ranges; regions come behind

// Regions that others reach, a client's other ones, and those of other nodes.
std::size_t number_of_shared(std::size_t region) { return kMostGuarded + 3 * region; }
std::size_t number_of_own(std::size_t region) { return kMostGuarded + 3 * region + 1; }
std::size_t number_of_others(std::size_t region) { return kMostGuarded + 3 * region + 2; }

}  // namespace

// A program may make objects at other places the first time, so its first builds are looked at.
void Execution::find_shared_objects() {
  constexpr std::uint32_t kLookedAt = 4;
  made_.clear();
  if (++builds_ > kLookedAt) {
    return;
  }
  shared_objects_.clear();
  std::vector<std::uint64_t> reached_by(zone_.block_count(), 0);
  for (std::uint16_t of = 0; of < actor_count(); ++of) {
    roots_.clear();
    for (const Task<void>& task : actors_[of].tasks) {
      roots_.push_back(frame_of(task));
    }
    zone_.reachable(roots_, blocks_, of_judges_);
    for (const std::span<const std::byte> block : blocks_) {
      reached_by[zone_.view_at(reinterpret_cast<std::uintptr_t>(block.data())).number] |= bit_of(of);
    }
  }
  for (std::uint32_t i = 0; i < zone_.block_count(); ++i) {
    const Zone::View view = zone_.view(i);
    if ((reached_by[i] & (reached_by[i] - 1)) == 0 || view.number == Zone::kNone) {
      continue;
    }
    const std::byte* const begin = zone_.base() + view.offset;
    SharedObject object{view.offset, view.bytes, reached_by[i], 0, zone_.taken_as(begin), 0, {}};
    const auto known = std::ranges::find(changing_, object.taken_as, &Changing::taken_as);
    if (known != changing_.end()) {
      object.changed_by = known->changed_by;
      object.pages = shared_objects_.size() < kMostGuarded ? zone_.own_pages(begin) : std::span<std::byte>{};
    }
    shared_objects_.push_back(object);
  }
}

// States are compared across builds, so their layout is the same in all builds of one search through states.
void Execution::add_changing(const Changing& object) {
  const auto known = std::ranges::find(changing_, object.taken_as, &Changing::taken_as);
  if (known == changing_.end()) {
    changing_.push_back(object);
    sets_apart_ = sets_apart_ || (orders_objects_ && !by_states_ && object.taken_as != kMadeInTasks);
  } else {
    known->changed_by |= object.changed_by;
  }
}

void Execution::order_objects(const std::vector<Changing>& known) {
  orders_objects_ = true;
  changing_ = known;
  sets_apart_ = !known.empty();
}

// Objects that are known to change get pages of their own in the next build.
void Execution::set_objects_apart() {
  if (!sets_apart_) {
    return;
  }
  sets_apart_ = false;
  builds_ = 0;
  std::vector<std::uint32_t> numbers;
  numbers.reserve(changing_.size());
  for (const Changing& object : changing_) {
    numbers.push_back(object.taken_as);
  }
  zone_.set_apart(std::move(numbers));
}

// What tasks have linked to shared objects is shared, too.
void Execution::find_made_objects() {
  roots_.clear();
  for (const SharedObject& object : shared_objects_) {
    roots_.push_back(zone_.base() + object.offset);
  }
  zone_.reachable(roots_, blocks_, of_judges_);
  for (const std::span<const std::byte> block : blocks_) {
    const auto offset = static_cast<std::uint64_t>(block.data() - zone_.base());
    if (!std::ranges::binary_search(shared_objects_, offset, {}, &SharedObject::offset)) {
      // Who has seen it may reach it still when it is linked no more, so none is forgotten.
      const auto known = std::ranges::find(made_, block.data(), &Made::begin);
      if (known == made_.end()) {
        made_.push_back({block.data(), block.size()});
      } else {
        known->bytes = std::max(known->bytes, block.size());
      }
    }
  }
}

void Execution::watch_shared_objects(std::uint16_t of) {
  posted_in_step_ = !event_->posts.empty();  // a chain that waited for room
  goes_on_behind_ = false;
  touched_ = altered_ = 0;
  remember_for_judges(of);
  watch_other_nodes(of);
  remember_objects();
  close_objects(of);
}

void Execution::close_objects(std::uint16_t of) {
  for (std::size_t i = 0; i < shared_objects_.size(); ++i) {
    if (!shared_objects_[i].pages.empty() && (shared_objects_[i].reached_by & bit_of(of)) != 0) {
      guard_.close(i, shared_objects_[i].pages);
    }
  }
}

void Execution::remember_objects() {
  objects_before_.clear();
  for (const SharedObject& object : shared_objects_) {
    const std::byte* const begin = zone_.base() + object.offset;
    objects_before_.insert(objects_before_.end(), begin, begin + object.bytes);
  }
  for (const Made& made : made_) {
    objects_before_.insert(objects_before_.end(), made.begin, made.begin + made.bytes);
  }
}

// What the client has changed since the last time that this was asked: at the end of its step, and wherever others
// may come before it goes on. They see it also if the client takes it back later.
void Execution::note_changed_objects(std::uint16_t of) {
  const bool is_behind = goes_on_behind_ || posted_in_step_;
  std::uint64_t altered = 0;
  const std::byte* before = objects_before_.data();
  for (std::size_t i = 0; i < shared_objects_.size(); ++i) {
    SharedObject& object = shared_objects_[i];
    const bool is_untouched = !object.pages.empty() && guard_.is_closed(i);
    const bool changed = !is_untouched && std::memcmp(zone_.base() + object.offset, before, object.bytes) != 0;
    before += object.bytes;
    if (!changed) {
      continue;
    }
    altered |= bit_of(i);
    shares_objects_ = shares_objects_ || (object.reached_by & ~bit_of(of)) != 0;
    object.changed_by |= bit_of(of);
    add_changing({object.taken_as, object.changed_by});
    if (is_behind && (object.reached_by & ~bit_of(of)) != 0) {
      note_object_after_post(of, object.taken_as, true);
    }
  }
  for (const Made& made : made_) {
    if (std::memcmp(made.begin, before, made.bytes) != 0) {
      altered |= kMade;
      shares_objects_ = true;
      add_changing({kMadeInTasks, bit_of(of)});
      if (is_behind) {
        note_object_after_post(of, kMadeInTasks, true);
      }
    }
    before += made.bytes;
  }
  if (altered != 0) {
    const Guard::Pause looks(guard_);
    altered_ |= altered;
    ++actors_[of].changes;
    find_made_objects();
    remember_objects();
  }
}

void Execution::note_shared_objects(std::uint16_t of) {
  note_other_nodes(of);
  const std::vector<std::span<const std::byte>>& regions = shared_with(actors_[of]);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (guard_.open(number_of_shared(i))) {
      note_after_post(of, "at memory that others reach");
    }
  }
  note_buffers(of);
  const auto was_touched = [&](std::size_t i) {
    SharedObject& object = shared_objects_[i];
    if (object.pages.empty()) {
      if (goes_on_behind_ && (object.reached_by & bit_of(of) & ~object.looked_behind) != 0) {
        object.looked_behind |= bit_of(of);
        note_object_after_post(of, object.taken_as);
      }
      return true;  // perhaps
    }
    const bool touched = guard_.open(i);
    if (touched && posted_in_step_) {
      note_object_after_post(of, object.taken_as);
    }
    return touched || (touched_ & bit_of(i)) != 0;
  };
  std::uint64_t looked_at = 0;
  bool reaches_any = false;
  for (std::size_t i = 0; i < shared_objects_.size(); ++i) {
    const bool touched = was_touched(i);
    if ((shared_objects_[i].reached_by & bit_of(of)) != 0) {
      reaches_any = true;
      looked_at |= touched ? bit_of(i) : 0;
    }
  }
  if (goes_on_behind_ && reaches_any) {
    note_object_after_post(of, kMadeInTasks);
  }
  note_changed_objects(of);
  look_for_changes_behind(of);
  if (!orders_objects_) {
    return;
  }
  if (event_->global) {
    look_beside_revocation(of, looked_at, reaches_any);
  }
  // A search through states asks what may ever happen before the step, so no order is left out.
  event_->judged = event_->judged || (by_states_ && reaches_any);
  event_->altered |= altered_;
  event_->looked_at |= looked_at | (reaches_any ? kMade : 0);
}

// A revocation disables steps of others, so it does not commute with what the client does in the same step.
void Execution::look_beside_revocation(std::uint16_t of, std::uint64_t looked_at, bool reaches_any) {
  bool matters = altered_ != 0;
  for (std::size_t i = 0; i < shared_objects_.size() && !matters; ++i) {
    const SharedObject& object = shared_objects_[i];
    matters = (looked_at & bit_of(i)) != 0 && (object.changed_by & ~bit_of(of)) != 0;
  }
  const auto made = std::ranges::find(changing_, kMadeInTasks, &Changing::taken_as);
  matters = matters || (reaches_any && made != changing_.end() && (made->changed_by & ~bit_of(of)) != 0);
  if (matters && !blind_spot_) {
    note_blind_spot(fmt::format(
        "{}, which revokes a queue pair in one step with a look at an object that clients share, or a change of it "
        "(let World::yield come before Node::revoke, and behind it),",
        actors_[of].name));
  }
}

// ---- Behind a post.

void Execution::watch_after_post() {
  if (running_ == Event::kNone || runs_the_dead()) {
    return;
  }
  const std::uint16_t of = running_;
  look_for_changes_behind(of);
  const std::vector<std::span<const std::byte>>& regions = shared_with(actors_[of]);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (guard_.open(number_of_shared(i))) {
      note_after_post(of, "at memory that others reach");
    }
    guard_.close(number_of_shared(i), arena_.pages_of(regions[i]));
  }
  if (looks_closely_) {
    watch_buffers(of);
  }
  for (std::size_t i = 0; i < shared_objects_.size(); ++i) {
    const SharedObject& object = shared_objects_[i];
    if (object.pages.empty() || (object.reached_by & bit_of(of)) == 0) {
      continue;
    }
    if (guard_.open(i)) {
      touched_ |= bit_of(i);
      if (posted_in_step_) {
        note_object_after_post(of, object.taken_as);
      }
    }
  }
  note_changed_objects(of);
  close_objects(of);
  posted_in_step_ = true;
}

// A task goes on behind a post of the same step: behind one for whose end it does not wait, behind a task that it has
// spawned, or because another task of its client has posted before it. Or it goes on behind a load or a store, which
// had its own moment. What others do between the two is explored if it goes on in a step of its own. This takes longer,
// so first the explorer sees whether it looks at anything that others may have changed.
bool Execution::part_behind_post(Waiter* waiter) {
  if (runs_the_dead()) {
    return halt_the_dead(waiter);
  }
  const bool has_posted = !event_->posts.empty() || !event_->receives.empty();
  if (running_ == Event::kNone || (!has_posted && !acted_in_step_)) {
    return false;
  }
  // What the explorer notes lasts longer than the program's heap: a block of it that stays would move all later ones.
  const Zone::Use own(nullptr);
  if (parts_posts_ && waiter != nullptr) {
    reactor_->parted(running_).push_back(*waiter);
    static_cast<void>(go_on_later(Step::What::yield, *waiter));
    actors_[running_].suspended.back().is_parted = true;
    return true;
  }
  goes_on_behind_ = true;
  if (acted_in_step_) {
    watch_after_post();
  }
  watch_buffers(running_);
  if (seen_by_judges_.empty() && own_memory_.empty()) {
    remember_for_judges(running_);
  }
  return false;
}

bool Execution::still_waits(std::uint16_t of, const Suspended& suspended) const {
  if (!suspended.is_parted) {
    return true;
  }
  const WaitList& parted = reactor_->parted(of);
  const Waiter* waiter = parted.empty() ? nullptr : &parted.front();
  while (waiter != nullptr && waiter != suspended.waiter) {
    waiter = parted.after(*waiter);
  }
  return waiter != nullptr;
}

// From the first to the last byte of the region that requests in flight, messages, or its Cpu's stores may still fill.
std::span<const std::byte> Execution::filled_part_of(std::uint16_t of, std::span<const std::byte> region) const {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  const auto add = [&](std::span<const std::byte> bytes) {
    if (bytes.data() < region.data() || bytes.data() >= region.data() + region.size() || bytes.empty()) {
      return;
    }
    begin = begin == nullptr ? bytes.data() : std::min(begin, bytes.data());
    end = std::max(end, bytes.data() + bytes.size());
  };
  if (!machine_.drained({actors_[of].machine_thread})) {
    std::ranges::for_each(actors_[of].stored, add);
  }
  for (std::uint16_t qp = 0; qp < queue_pair_count(); ++qp) {
    const QueuePairPart& part = queue_pairs_[qp];
    if (part.target == of) {
      for (std::size_t i = part.received; i < part.receive_buffers.size(); ++i) {
        add(part.receive_buffers[i].bytes);
      }
    }
    if (part.actor != of) {
      continue;
    }
    const std::uint32_t posted = machine_.posted({qp});
    for (auto i = static_cast<std::uint32_t>(completed_of(qp)); i < posted; ++i) {
      const WorkRequest& request = machine_.request({{qp}, i});
      if (request.opcode == Opcode::read || is_atomic(request.opcode)) {
        add(request.local.bytes());
      }
    }
  }
  return begin == nullptr ? std::span<const std::byte>{} : std::span(begin, end);
}

void Execution::watch_buffers(std::uint16_t of) {
  const std::vector<std::span<const std::byte>>& regions = regions_of(actors_[of]);
  const std::vector<std::span<const std::byte>>& shared = shared_with(actors_[of]);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (guard_.open(number_of_own(i))) {
      note_after_post(of, "at a buffer that a request fills");
    }
    const bool is_shared = std::ranges::find(shared, regions[i].data(), &std::span<const std::byte>::data) !=
                           shared.end();  // it is closed as a whole
    const std::span<const std::byte> filled = is_shared ? std::span<const std::byte>{} : filled_part_of(of, regions[i]);
    if (!filled.empty()) {
      guard_.close(number_of_own(i), arena_.pages_of(filled), filled);
      watches_buffers_ = true;
    }
  }
}

void Execution::note_buffers(std::uint16_t of) {
  if (!watches_buffers_) {
    return;
  }
  watches_buffers_ = false;
  for (std::size_t i = 0; i < regions_of(actors_[of]).size(); ++i) {
    if (guard_.open(number_of_own(i))) {
      note_after_post(of, "at a buffer that a request fills");
    }
  }
}

// Memory of other nodes, at which a client should look by requests only.
void Execution::watch_other_nodes(std::uint16_t of) {
  if (!looks_at_other_nodes_ || blind_spot_) {
    return;
  }
  closed_nodes_.clear();
  for (std::uint16_t other = 0; other < actor_count(); ++other) {
    for (std::size_t i = 0; i < actors_[other].regions.size() && actors_[other].node != actors_[of].node; ++i) {
      closed_nodes_.push_back(arena_.pages_of(actors_[other].regions[i]));
    }
  }
  std::ranges::sort(closed_nodes_, {}, [](const std::span<std::byte> pages) { return pages.data(); });
  // Neighbours are closed by one call.
  std::size_t number = 0;
  for (std::size_t i = 0; i < closed_nodes_.size(); ++i) {
    std::span<std::byte> pages = closed_nodes_[i];
    while (i + 1 < closed_nodes_.size() && closed_nodes_[i + 1].data() <= pages.data() + pages.size()) {
      const std::span<std::byte> next = closed_nodes_[++i];
      pages = {pages.data(), std::max(pages.data() + pages.size(), next.data() + next.size())};
    }
    guard_.close(number_of_others(number++), pages);
  }
  closed_ranges_ = number;
}

void Execution::note_other_nodes(std::uint16_t of) {
  while (closed_ranges_ != 0) {
    if (guard_.open(number_of_others(--closed_ranges_)) && !runs_the_dead()) {
      note_blind_spot(fmt::format("{}, which looks at memory of another node by a pointer of its own (let it READ it),",
                                  actors_[of].name));
    }
  }
}

// An address of the program's heap that is told through registered memory: what lies there is common to those who know
// it, and nobody watches it.
void Execution::look_for_addresses(const model::Step& step) {
  const bool writes = step.kind == StepKind::place || step.kind == StepKind::store ||
                      step.kind == StepKind::load_store || step.kind == StepKind::execute ||
                      step.kind == StepKind::deliver || step.kind == StepKind::drain;
  if (!writes) {
    return;
  }
  const model::Footprint print = machine_.footprint(step);
  const std::uint16_t of = step.kind == StepKind::drain ? threads_[step.owner] : queue_pairs_[step.owner].actor;
  for (const auto& touched : {print.target, print.local}) {
    if (touched.writes && touched.length >= sizeof(void*) && arena_.holds(touched.data)) {
      look_for_addresses(of, {touched.data, touched.length}, {});
    }
  }
}

// Words at places where a pointer can lie that are not the same as before.
void Execution::look_for_addresses(std::uint16_t of, std::span<const std::byte> now,
                                   std::span<const std::byte> before) {
  const std::size_t skipped = (0 - reinterpret_cast<std::uintptr_t>(now.data())) % alignof(void*);
  for (std::size_t at = skipped; at + sizeof(void*) <= now.size(); at += sizeof(void*)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, now.data() + at, sizeof word);
    if (!zone_.holds(word)) [[likely]] {
      continue;
    }
    const bool is_old = !before.empty() && std::memcmp(now.data() + at, before.data() + at, sizeof word) == 0;
    if (!is_old && zone_.view_at(word).number != Zone::kNone) {
      note_blind_spot(
          fmt::format("{}, which moves the address of an object on the heap through registered memory (let "
                      "clients that share an object get it when they are spawned),",
                      actors_[of].name));
      return;
    }
  }
}

void Execution::note_blind_spot(std::string what) const {
  if (!blind_spot_) {
    const Zone::Use own(nullptr);
    blind_spot_ = BlindSpot{std::move(what), false};
  }
}

// An inlined payload is read at the post: a look of the client, also where nothing of the world is watched.
void Execution::look_at_inlined(std::span<const CheckedRequest> chain) {
  constexpr std::uint64_t kPage = 4096;
  for (const CheckedRequest& checked : chain) {
    if (!checked.posted->inlined || checked.length == 0) {
      continue;
    }
    for (std::uint32_t i = 0; i < checked.length; i += kPage) {
      static_cast<void>(*static_cast<const volatile std::byte*>(checked.data + i));
    }
    static_cast<void>(*static_cast<const volatile std::byte*>(checked.data + checked.length - 1));
  }
}

// A change behind a post is seen by another client also if that one looks in front of its own posts.
void Execution::note_object_after_post(std::uint16_t of, std::uint32_t taken_as, bool changed_it) {
  if (has(Mutation::looks_after_posts_are_unseen)) {
    return;
  }
  const std::uint64_t by = bit_of(of) | (changed_it ? LookBehind::kEnough : 0);
  const auto known = std::ranges::find(looks_behind_, taken_as, &LookBehind::taken_as);
  if (known != looks_behind_.end()) {
    known->by |= by;
    return;
  }
  looks_behind_.push_back({taken_as, by, look_behind(of, "at an object that clients share")});
}

std::string Execution::look_behind(std::uint16_t of, std::string_view what) const {
  return fmt::format(
      "{}, which looks {} behind a post, with no wait between them (let World::yield come between, or use the node's "
      "Cpu),",
      actors_[of].name, what);
}

void Execution::note_after_post(std::uint16_t of, std::string_view what) const {
  if (!blind_spot_ && !has(Mutation::looks_after_posts_are_unseen)) {
    blind_spot_ = BlindSpot{look_behind(of, what), true};
  }
}

}  // namespace sidelatch::explore

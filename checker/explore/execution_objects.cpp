// What clients may learn of each other beside requests: objects of the process that several of them can reach; and what
// a client looks at behind a post, in the same step.
//
// In a first search each step's changes of such objects are seen by comparison. If a client has changed one that
// another can reach, the search begins again (order_objects). Then two steps are dependent if one changes what the
// other changes or looks at. Looks are seen by page protection (Guard): an object that is known to change gets pages of
// its own in the next build. Until then each step of a client counts as a look at all objects that the client reaches.
#include "execution.h"
#include "mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sidelatch::explore {

using namespace fabric;

namespace {

constexpr std::size_t kMostGuarded = 62;  // of the guard's ranges; regions come behind

}  // namespace

// A program may make objects at other places the first time, so its first builds are looked at.
void Execution::find_shared_objects() {
  constexpr std::uint32_t kLookedAt = 4;
  made_.clear();
  if (!watches_objects() || ++builds_ > kLookedAt) {
    return;
  }
  shared_objects_.clear();
  std::vector<std::uint64_t> reached_by(zone_.block_count(), 0);
  for (std::uint16_t of = 0; of < actor_count(); ++of) {
    roots_.clear();
    for (const Task<void>& task : actors_[of].tasks) {
      roots_.push_back(frame_of(task));
    }
    zone_.reachable(roots_, blocks_);
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
    SharedObject object{view.offset, view.bytes, reached_by[i], 0, zone_.taken_as(begin), {}};
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
    sets_apart_ = orders_objects_ && !by_states_;
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
  zone_.reachable(roots_, blocks_);
  made_.clear();
  for (const std::span<const std::byte> block : blocks_) {
    const auto offset = static_cast<std::uint64_t>(block.data() - zone_.base());
    if (!std::ranges::binary_search(shared_objects_, offset, {}, &SharedObject::offset)) {
      made_.push_back({block.data(), block.size()});
    }
  }
}

void Execution::watch_shared_objects(std::uint16_t of) {
  posted_in_step_ = false;
  touched_ = 0;
  if (!watches_objects()) {
    return;
  }
  objects_before_.clear();
  for (const SharedObject& object : shared_objects_) {
    const std::byte* const begin = zone_.base() + object.offset;
    objects_before_.insert(objects_before_.end(), begin, begin + object.bytes);
  }
  for (const Made& made : made_) {
    objects_before_.insert(objects_before_.end(), made.begin, made.begin + made.bytes);
  }
  for (std::size_t i = 0; i < shared_objects_.size(); ++i) {
    if (!shared_objects_[i].pages.empty() && (shared_objects_[i].reached_by & bit_of(of)) != 0) {
      guard_.close(i, shared_objects_[i].pages);
    }
  }
}

void Execution::note_shared_objects(std::uint16_t of) {
  const std::vector<std::span<const std::byte>>& regions = shared_with(actors_[of]);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (guard_.open(kMostGuarded + i)) {
      note_after_post(of, "at memory that others reach");
    }
  }
  const auto was_touched = [&](std::size_t i) {
    if (shared_objects_[i].pages.empty()) {
      return true;  // perhaps
    }
    const bool touched = guard_.open(i);
    if (touched && posted_in_step_ && (shared_objects_[i].changed_by & ~bit_of(of)) != 0) {
      note_after_post(of, "at an object that another client changes");
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
  event_->judged = event_->judged || orders_clients_;
  if (!watches_objects()) {
    return;
  }
  std::uint64_t altered = 0;
  const std::byte* before = objects_before_.data();
  for (std::size_t i = 0; i < shared_objects_.size(); ++i) {
    SharedObject& object = shared_objects_[i];
    const bool changed = std::memcmp(zone_.base() + object.offset, before, object.bytes) != 0;
    before += object.bytes;
    if (!changed) {
      continue;
    }
    altered |= bit_of(i);
    shares_objects_ = shares_objects_ || (object.reached_by & ~bit_of(of)) != 0;
    object.changed_by |= bit_of(of);
    add_changing({object.taken_as, object.changed_by});
  }
  for (const Made& made : made_) {
    if (std::memcmp(made.begin, before, made.bytes) != 0) {
      altered |= kMade;
      shares_objects_ = true;
    }
    before += made.bytes;
  }
  if (altered != 0) {
    find_made_objects();
  }
  if (!orders_objects_) {
    return;
  }
  // A search through states asks what may ever happen before the step, so no order is left out.
  event_->judged = event_->judged || (by_states_ && reaches_any);
  event_->altered |= altered;
  event_->looked_at |= looked_at | (reaches_any ? kMade : 0);
}

// ---- Behind a post.

void Execution::watch_after_post() {
  if (running_ == Event::kNone || runs_the_dead()) {
    return;
  }
  const std::uint16_t of = running_;
  const std::vector<std::span<const std::byte>>& regions = shared_with(actors_[of]);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (guard_.open(kMostGuarded + i)) {
      note_after_post(of, "at memory that others reach");
    }
    guard_.close(kMostGuarded + i, arena_.pages_of(regions[i]));
  }
  for (std::size_t i = 0; i < shared_objects_.size() && watches_objects(); ++i) {
    const SharedObject& object = shared_objects_[i];
    if (object.pages.empty() || (object.reached_by & bit_of(of)) == 0) {
      continue;
    }
    if (guard_.open(i)) {
      touched_ |= bit_of(i);
      if (posted_in_step_ && (object.changed_by & ~bit_of(of)) != 0) {
        note_after_post(of, "at an object that another client changes");
      }
    }
    guard_.close(i, object.pages);
  }
  posted_in_step_ = true;
}

void Execution::note_after_post(std::uint16_t of, std::string_view what) {
  if (!blind_spot_ && !has(Mutation::looks_after_posts_are_unseen)) {
    blind_spot_ = fmt::format(
        "{}, which looks {} behind a post, with no wait between them (let World::yield come between, or use the "
        "node's Cpu),",
        actors_[of].name, what);
  }
}

}  // namespace sidelatch::explore

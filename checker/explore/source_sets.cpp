// Which orders of events have to be run: races, and the choices that reverse them. Source: Abdulla, Aronsson, Jonsson
// and Sagonas, "Optimal dynamic partial order reduction", POPL 2014, algorithm 1 (source sets).
#include "mutation.h"
#include "search.h"

#include <algorithm>
#include <bit>

namespace sidelatch::explore {

using fabric::model::StepKind;

namespace {

bool is_load(const Event& event) {
  return event.action.sort == Action::Sort::machine && event.action.kind == StepKind::load;
}

}  // namespace

void Worker::find_order(std::size_t depth) {
  Before& before = nodes_[depth]->before;
  before.assign(depth / 64 + 1, 0);
  const Event& own = event(depth);
  std::size_t opened_by = depth;  // rule 8: the store that unlocked the word for this load
  for (std::size_t i = depth; i-- > 0;) {
    if (has_bit(before, static_cast<Moment>(i))) {
      // Skip to the next event that is not known to be before.
      const std::uint64_t unknown = ~before[i / 64] << (63 - i % 64);
      i -= unknown == 0 ? i % 64 : static_cast<std::size_t>(std::countl_zero(unknown)) - 1;
      continue;
    }
    const Dependence::Relation relation = dependence_.between(event(i), own, execution_.times());
    if (relation == Dependence::Relation::independent) {
      continue;
    }
    // All alternatives to a revocation or to the end of a lease are explored anyway.
    const bool open = event(i).global || event(i).action.sort == Action::Sort::lease;
    if (reduces() && relation == Dependence::Relation::race && !open) {
      reverse(i, depth);
    }
    if (is_load(own) && opened_by == depth && relation == Dependence::Relation::forced &&
        event(i).action.sort == Action::Sort::machine && event(i).action.kind == StepKind::store &&
        event(i).word == own.word && event(i).action.owner != own.action.owner) {
      opened_by = i;
    }
    set_bit(before, static_cast<Moment>(i));
    include(before, *rows_[i]);
  }
  if (reduces() && own.lease_of != Event::kNone) {
    let_start_later(depth);
  }
  if (reduces() && own.fence && !has(Mutation::fences_are_not_reversed)) {
    reverse_fence(depth);
  }
  if (reduces() && opened_by != depth && !has(Mutation::locks_are_not_reversed)) {
    for (std::size_t i = opened_by; i-- > 0;) {
      if (is_load(event(i)) && event(i).action.owner == event(opened_by).action.owner &&
          event(i).action.index == event(opened_by).action.index) {
        reverse_lock(i, opened_by, depth);
        break;
      }
    }
  }
}

// A lease ends where all who have begun are at rest. Its end comes behind all that they did; but a task that began
// before could have begun after it, if nobody else has seen anything of its client. The same holds for a client that
// went on with a message of the dead: it could have come later.
void Worker::let_start_later(std::size_t lease) {
  const std::uint16_t dead = event(lease).lease_of;
  for (std::size_t i = 0; i < lease; ++i) {
    const Event& start = event(i);
    const bool is_message = start.action.sort == Action::Sort::machine && start.initiator == dead;
    if ((!start.starts && !is_message) || start.client == dead || start.client == Event::kNone) {
      continue;
    }
    const auto is_of_it = [&](const Event& other) {
      const bool drains = other.action.sort == Action::Sort::machine && other.action.kind == StepKind::drain;
      return other.client == start.client || other.initiator == start.client ||
             (drains && execution_.actor_of_thread(other.action.owner) == start.client) ||
             (is_message && other.initiator == dead && other.client == Event::kNone);
    };
    bool is_alone = true;
    for (std::size_t k = i + 1; k < lease && is_alone; ++k) {
      is_alone = !has_bit(*rows_[k], static_cast<Moment>(i)) || is_of_it(event(k));
    }
    if (is_alone) {
      reverse(i, lease);
    }
  }
}

// What let_start_later() left out may have made the end of the lease possible.
bool Worker::is_early_lease(const Action& action) {
  return action.sort == Action::Sort::lease && !execution_.is_enabled(action);
}

// `second` could happen before `first`. One of the events that may begin the path to that must be a choice there.
void Worker::reverse(std::size_t first, std::size_t second) {
  members_.clear();
  initials_.clear();
  for (std::size_t k = first + 1; k <= second; ++k) {
    if (k != second && has_bit(*rows_[k], static_cast<Moment>(first))) {
      continue;
    }
    const Before& row = *rows_[k];
    const bool initial = std::ranges::none_of(members_, [&](Moment member) { return has_bit(row, member); });
    members_.push_back(static_cast<Moment>(k));
    if (initial) {
      initials_.push_back(event(k).action);
    }
  }
  add_choice(first, initials_);
}

// An atomic waited until another one unlocked its word. It could have been first if nothing else that it needs follows
// from the other's load.
void Worker::reverse_lock(std::size_t holder_load, std::size_t holder_store, std::size_t second) {
  const Event& own = event(second);
  for (std::size_t k = holder_load + 1; k < second; ++k) {
    if (k != holder_store && has_bit(*rows_[k], static_cast<Moment>(holder_load)) &&
        dependence_.between(event(k), own, execution_.times()) != Dependence::Relation::independent) {
      return;
    }
  }
  reverse(holder_load, second);
}

// A fence waits until the stores of its thread have drained, and one of them may be of another task. Then the fence
// could have passed before that store, if nothing but the store's drain joins the two. The last store alone is looked
// at: where the fence passes before it, the one before is the last.
void Worker::reverse_fence(std::size_t fence) {
  const Event& own = event(fence);
  const auto is_store = [&own](const Event& other) {
    return other.action.sort == Action::Sort::client && other.stored != Event{}.stored && other.thread == own.thread;
  };
  std::size_t store = fence;
  while (store-- > 0) {
    if (is_store(event(store))) {
      break;
    }
  }
  if (store >= fence) {
    return;  // it has stored nothing
  }
  for (std::size_t k = store; k < fence; ++k) {
    const bool is_its_drain = k != store && event(k).action.sort == Action::Sort::machine &&
                              event(k).action.kind == StepKind::drain && event(k).thread == own.thread &&
                              event(k).stored == event(store).stored;
    const bool is_behind = k == store || has_bit(*rows_[k], static_cast<Moment>(store));
    if (is_behind && !is_its_drain &&
        dependence_.between(event(k), own, execution_.times()) == Dependence::Relation::forced) {
      return;  // the fence, or another drain that it waits for, follows from the store
    }
  }
  reverse(store, fence);
}

void Worker::add_choice(std::size_t depth, const std::vector<Action>& initials) {
  if (depth > base_ || (depth == base_ && first_owner_ == nullptr)) {
    SearchNode& node = *nodes_[depth];
    if (std::ranges::none_of(initials, [&](const Action& action) { return node.knows(action); })) {
      node.todo.push_back(initials.front());
    }
    return;
  }
  const std::shared_ptr<FrozenNode>& frozen = depth == base_                     ? first_owner_
                                              : frozen_[depth]->owner != nullptr ? frozen_[depth]->owner
                                                                                 : frozen_[depth];
  if (std::ranges::any_of(initials, [&](const Action& action) { return frozen->knows(action); })) {
    return;
  }
  for (const Addition& addition : additions_) {
    if (addition.node == frozen && std::ranges::find(initials, addition.initials.front()) != initials.end()) {
      return;
    }
  }
  additions_.push_back({frozen, initials});
}

}  // namespace sidelatch::explore

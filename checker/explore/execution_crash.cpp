// What a client that may crash, or has crashed, changes behind a post: judges must not see it, and nothing of it may
// last.
#include "execution.h"
#include "model_fabric.h"
#include "mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace sidelatch::explore {

using namespace fabric;

// Nothing that a client does behind its crash happens. Where it can wait, it waits for ever. Else its code runs on to
// its next wait, and what comes of that execution is no end of the program if others could see it.
bool Execution::halt_the_dead(Waiter* waiter) {
  if (waiter == nullptr || has(Mutation::the_dead_go_on)) {
    return false;
  }
  reactor_->parted(running_).push_back(*waiter);
  return true;
}

void Execution::add_roots_of_judges() {
  for (const auto& judge : judges_) {
    std::array<const void*, sizeof judge / sizeof(void*)> words{};
    std::memcpy(words.data(), static_cast<const void*>(&judge), sizeof words);
    roots_.insert(roots_.end(), words.begin(), words.end());
  }
}

// What judges would see if the client, which may crash, crashed here: objects, and its own memory if they have a
// pointer to it, or to its node.
void Execution::remember_for_judges(std::uint16_t of) {
  seen_by_judges_.clear();
  own_memory_.clear();
  if (!actors_[of].can_crash || crashed_ != Event::kNone) {
    return;
  }
  const Guard::Pause looks(guard_);
  roots_.clear();
  add_roots_of_judges();
  remember_reachable(seen_by_judges_);
  const auto leads_to_memory = [&](const void* pointer) {
    const auto* const byte = static_cast<const std::byte*>(pointer);
    return pointer == node(of) ||
           (arena_.holds(byte) && std::ranges::any_of(regions_of(actors_[of]), [&](const auto& region) {
              return byte >= region.data() && byte < region.data() + region.size();
            }));
  };
  const auto has_such_a_word = [&](std::span<const std::byte> block) {
    for (std::size_t at = 0; at + sizeof(void*) <= block.size(); at += sizeof(void*)) {
      const void* word = nullptr;
      std::memcpy(&word, block.data() + at, sizeof word);
      if (leads_to_memory(word)) {
        return true;
      }
    }
    return false;
  };
  if (std::ranges::any_of(roots_, leads_to_memory) || std::ranges::any_of(blocks_, has_such_a_word)) {
    remember_memory(of, own_memory_);
  }
}

bool Execution::shows_changes_to_judges() {
  if (seen_by_judges_.empty() && own_memory_.empty()) {
    return false;
  }
  const Guard::Pause looks(guard_);
  return is_changed(seen_by_judges_) || std::ranges::any_of(own_memory_, [](const Memory& memory) {
           return std::memcmp(memory.begin, memory.bytes.data(), memory.bytes.size()) != 0;
         });
}

void Execution::remember_memory(std::uint16_t of, std::vector<Memory>& memory) const {
  for (const std::span<const std::byte> region : regions_of(actors_[of])) {
    memory.push_back({arena_.at(region.data()), {region.begin(), region.end()}});
  }
}

void Execution::remember_reachable(std::vector<Seen>& seen) {
  zone_.reachable(roots_, blocks_);
  for (const std::span<const std::byte> block : blocks_) {
    seen.push_back({block.data(), zone_.life_at(block.data()), {block.begin(), block.end()}});
  }
}

bool Execution::is_changed(const std::vector<Seen>& seen) {
  if (seen.empty()) {
    return false;
  }
  const Guard::Pause looks(guard_);
  return std::ranges::any_of(seen, [&](const Seen& one) {
    return zone_.life_at(one.begin) != one.life || std::memcmp(one.begin, one.bytes.data(), one.bytes.size()) != 0;
  });
}

// Here the client crashes, and its code runs on to its next wait. Others may see what the program has made for all,
// what clients share, and what judges keep.
void Execution::remember_the_dead(std::uint16_t of) {
  if (has(Mutation::the_dead_go_on)) {
    return;
  }
  roots_.clear();
  for (const Kept& kept : kept_) {
    roots_.push_back(kept.object);
  }
  for (const SharedObject& object : shared_objects_) {
    roots_.push_back(zone_.base() + object.offset);
  }
  for (const Made& made : made_) {
    roots_.push_back(made.begin);
  }
  add_roots_of_judges();
  remember_reachable(seen_at_crash_);
  remember_memory(of, memory_at_crash_);
}

// Its own memory is as it was: its NIC still fetches from there, and at_end may look.
void Execution::undo_stores_of_the_dead() {
  if (memory_at_crash_.empty()) {
    return;
  }
  const Guard::Pause looks(guard_);
  for (const Memory& memory : memory_at_crash_) {
    std::memcpy(memory.begin, memory.bytes.data(), memory.bytes.size());
  }
  memory_at_crash_.clear();
}

void Execution::look_for_changes_by_the_dead() {
  const bool changed = is_changed(seen_at_crash_);
  seen_at_crash_.clear();
  if (changed) {
    note_act_of_the_dead(crashed_);
  }
}

// Behind a post of one who may crash: after a crash between the two, judges would not see the change. Until the next
// post, or the end of the step.
void Execution::look_for_changes_behind(std::uint16_t of) {
  if ((goes_on_behind_ || event_->global) && !blind_spot_ && !has(Mutation::crashes_after_all_posts) &&
      shows_changes_to_judges()) {
    blind_spot_ = BlindSpot{changes_behind(of), true};
  }
  seen_by_judges_.clear();
  own_memory_.clear();
}

std::string Execution::changes_behind(std::uint16_t of) const {
  return fmt::format(
      "{}, which may crash at a post, and changes behind it, with no wait between them, what others look at "
      "(post by enqueue(), or let World::yield come between),",
      actors_[of].name);
}

void Execution::note_act_of_the_dead(std::uint16_t of) {
  is_void_ = true;
  const Zone::Use own(nullptr);
  note_blind_spot(changes_behind(of));
}

}  // namespace sidelatch::explore

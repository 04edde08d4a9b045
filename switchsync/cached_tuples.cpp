// OptimisticSwitch with p4/switch_cached.p4: tuples that become hot and cold. The steps at the memory node between are
// those of tuple_moves.cpp.
#include <sidelatch/switchsync/optimistic_switch.h>

#include "switchsync/tuple_registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace sidelatch::switchsync {

namespace {

constexpr std::uint32_t kGroups = 4096;  // GROUPS of the program
// Of a tuple that becomes hot: odd, so that nobody latches it and no READ of it is good, and not kColdWord.
constexpr std::uint64_t kNotYet = ~std::uint64_t{0} - 2;

}  // namespace

void OptimisticSwitch::begin_cache(p4::State& state) {
  const auto is_table = [](const auto& table) { return table.name == "Serve.hot_tuples"; };
  if (std::ranges::none_of(state.info().tables, is_table)) {
    return;
  }
  hot_tuples_ = &state.table("Serve.hot_tuples");
  moves_ = &state.reg("Serve.moves");
  asked_ = &state.reg("Serve.asked");
  // The last number stands for tuples that are cold again: no READ that asked for one is good.
  const auto numbers = static_cast<std::uint32_t>(registers_->tuples());
  registers_->write_version(numbers - 1, kColdWord);
  for (std::uint32_t number = numbers - 1; number > 0; --number) {
    free_numbers_.push_back(number - 1);
  }
}

void OptimisticSwitch::limit_hot(std::size_t most) {
  if (!is_cache() || !hot_.empty()) {
    throw std::logic_error("limit_hot: a switch that caches, before any tuple is hot");
  }
  if (most == 0 || most > room()) {
    throw std::invalid_argument(
        fmt::format("{} hot tuples: the switch's program has versions for 1 to {}", most, room()));
  }
  free_numbers_.erase(free_numbers_.begin(), free_numbers_.end() - static_cast<std::ptrdiff_t>(most));
}

std::uint32_t OptimisticSwitch::number_of(std::uint32_t tuple) const {
  if (!is_cache()) {
    return tuple;
  }
  const auto found = hot_.find(tuple);
  if (found == hot_.end()) {
    throw std::logic_error(fmt::format("tuple {} is cold: its version is in memory", tuple));
  }
  return found->second.number;
}

std::vector<std::uint32_t> OptimisticSwitch::take_asked() {
  std::vector<std::uint32_t> all;
  for (std::size_t connection = 0; is_cache() && connection < asked_->size(); ++connection) {
    const auto asked = static_cast<std::uint32_t>(asked_->read(connection));
    if (asked != 0 && has_tuple(asked - 1)) {
      all.push_back(asked - 1);
    }
    asked_->write(connection, 0);
  }
  std::ranges::sort(all);
  const auto twice = std::ranges::unique(all);
  all.erase(twice.begin(), twice.end());
  return all;
}

std::optional<std::uint32_t> OptimisticSwitch::next_hot(std::uint32_t from) const {
  const auto found =
      std::find_if(hot_.lower_bound(from), hot_.end(), [&](const auto& one) { return !is_moving(one.first); });
  return found == hot_.end() ? std::nullopt : std::optional(found->first);
}

void OptimisticSwitch::require_cached(std::uint32_t tuple, bool moves, const char* what) const {
  if (!is_cache()) {
    throw std::logic_error(
        fmt::format("{}: the switch keeps the versions of all tuples (p4/switch_optimistic.p4)", what));
  }
  if (!has_tuple(tuple)) {
    throw std::invalid_argument(fmt::format("{}: there is no tuple {}", what, tuple));
  }
  if (moves != is_moving(tuple)) {
    throw std::logic_error(fmt::format("{}: tuple {} {}", what, tuple, moves ? "does not move" : "moves already"));
  }
}

bool OptimisticSwitch::begin_to_heat(std::uint32_t tuple) {
  require_cached(tuple, false, "begin_to_heat");
  if (is_hot(tuple)) {
    throw std::logic_error(fmt::format("begin_to_heat: tuple {} is hot already", tuple));
  }
  if (std::ranges::any_of(rows_, [&](const Row& row) {
        return !row.is_ready && tuple >= row.first && tuple - row.first < row.tuples.count;
      })) {
    throw std::logic_error(fmt::format("begin_to_heat: tuple {} is to be recovered first", tuple));
  }
  if (free_numbers_.empty()) {
    return false;
  }
  const std::uint32_t number = free_numbers_.back();
  registers_->write_version(number, kNotYet);
  registers_->write_holder(number, 0);
  const p4::EntryHandle entry = hot_tuples_->add({{.value = tuple}}, "hot", {number});
  free_numbers_.pop_back();
  hot_[tuple] = {.number = number, .entry = entry};
  moving_[tuple] = std::nullopt;
  // After the entry: a READ that passes in between is cold, and not good any more.
  moves_->write(tuple % kGroups, moves_->read(tuple % kGroups) + 1);
  return true;
}

void OptimisticSwitch::end_to_heat(std::uint32_t tuple, std::uint64_t version, bool in_doubt) {
  require_cached(tuple, true, "end_to_heat");
  if (moving_.at(tuple)) {
    throw std::logic_error(fmt::format("end_to_heat: tuple {} becomes cold", tuple));
  }
  if (version % 2 != 0) {
    throw std::invalid_argument(
        fmt::format("end_to_heat: version {} of tuple {} is odd. A cold tuple is latched by nobody: somebody else "
                    "writes this memory",
                    version, tuple));
  }
  registers_->write_version(number_of(tuple), version + (in_doubt ? 1 : 0));
  moving_.erase(tuple);
}

std::optional<std::uint64_t> OptimisticSwitch::begin_to_cool(std::uint32_t tuple) {
  require_cached(tuple, false, "begin_to_cool");
  const std::uint64_t version = this->version(tuple);
  if (version % 2 != 0) {
    return std::nullopt;
  }
  registers_->write_version(number_of(tuple), version + 1);
  moving_[tuple] = version;
  return version;
}

void OptimisticSwitch::end_to_cool(std::uint32_t tuple) {
  require_cached(tuple, true, "end_to_cool");
  if (!moving_.at(tuple)) {
    throw std::logic_error(fmt::format("end_to_cool: tuple {} becomes hot", tuple));
  }
  forget_hot(tuple);
}

void OptimisticSwitch::give_up_move(std::uint32_t tuple) {
  require_cached(tuple, true, "give_up_move");
  if (const std::optional<std::uint64_t> version = moving_.at(tuple)) {
    registers_->write_version(number_of(tuple), *version);
    moving_.erase(tuple);
  } else {
    forget_hot(tuple);
  }
}

void OptimisticSwitch::forget_hot(std::uint32_t tuple) {
  const Hot hot = hot_.at(tuple);
  hot_tuples_->remove(hot.entry);
  // Another tuple gets the number. The answer to a READ of this one must not be judged by the other's version.
  const auto none = static_cast<std::uint32_t>(registers_->tuples() - 1);
  for (std::uint32_t connection = 0; connection < slots_.size(); ++connection) {
    if (registers_->wanted(connection) == hot.number) {
      // Of memory that has ended: the acknowledgement that is still to come would make the version of none even.
      if (registers_->is_writing(connection, hot.number)) {
        registers_->take_for_other_write(connection);
      }
      registers_->write_wanted(connection, none);
    }
  }
  registers_->write_version(hot.number, kNotYet);
  registers_->write_holder(hot.number, 0);
  hot_.erase(tuple);
  moving_.erase(tuple);
  free_numbers_.push_back(hot.number);
}

}  // namespace sidelatch::switchsync

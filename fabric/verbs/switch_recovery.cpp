#include "switch_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace sidelatch::fabric::verbs {

namespace {

constexpr auto kTryAgain = std::chrono::milliseconds(500);

}  // namespace

void SwitchRecovery::keep(const SwitchedTuples& tuples) {
  const std::scoped_lock lock(mutex_);
  if (std::ranges::any_of(rows_, [&](const Row& row) { return is_same_row(row.tuples, tuples); })) {
    return;
  }
  // Before other switches end.
  shared_->with([&](SwitchControl& control) { control.check_tuples(tuples); });
  reach("before");
  const auto cut_off = server_.ask<exchange::TakenOver>(exchange::TakeOver{});
  reach("taken");
  std::vector<std::uint64_t> found = server_.read_words(tuples);
  reach("read");
  std::uint64_t latest = cut_off.latest_epoch;
  for (const std::uint64_t word : found) {
    constexpr auto kLast = std::numeric_limits<std::uint64_t>::max();
    latest = std::max(latest, is_in_doubt(word) && word != kLast ? word + 1 : word);  // of the WRITE in doubt
  }
  const RecoveredTuples recovered = shared_->recover(tuples, latest);
  reach("latched");
  try {
    static_cast<void>(server_.ask<exchange::Noted>(
        exchange::NoteEpoch{tuples.memory, tuples.slot_bytes, tuples.count, recovered.version}));
  } catch (const std::exception&) {
    shared_->forget(tuples.memory);  // as if nobody had asked
    throw;
  }
  reach("noted");
  rows_.push_back(
      {.tuples = tuples, .first = recovered.first, .version = recovered.version, .found = std::move(found)});
  owners_.insert(cut_off.owners.begin(), cut_off.owners.end());
  has_others_ = has_others_ || cut_off.others != 0;
  if (is_awaited()) {
    due_ = std::max(due_.value_or(Clock::time_point{}), Clock::now() + options_->grace);
  } else {
    open_all();
  }
}

SwitchRecovery::Row* SwitchRecovery::row_of(const RemoteSpan& at) {
  for (Row& row : rows_) {
    const std::uint64_t offset = at.address.value - row.tuples.memory.address.value;
    if (row.tuples.memory.rkey == at.rkey && at.address.value >= row.tuples.memory.address.value &&
        offset % row.tuples.slot_bytes == 0 && offset / row.tuples.slot_bytes < row.tuples.count) {
      return &row;
    }
  }
  return nullptr;
}

std::optional<std::vector<exchange::NoteHeir>> SwitchRecovery::notes_of_heir(SwitchControl::ConnectionId connection,
                                                                             const RemoteSpan& at,
                                                                             std::uint32_t tuple) {
  const std::scoped_lock lock(mutex_);
  const Row* const row = row_of(at);
  if (row == nullptr) {
    return std::vector<exchange::NoteHeir>();  // memory that ends with this switch
  }
  std::uint64_t version = 0;
  const bool in_doubt = shared_->with([&](SwitchControl& control) {
    version = control.version(tuple);
    return control.in_doubt(tuple);
  });
  if (!row->is_open || !in_doubt) {
    return std::nullopt;
  }
  const std::uint16_t owner = shared_->owner_of(connection);
  if (owner == 0) {
    throw std::invalid_argument(
        "inherit: a client that inherits a tuple of shared memory must have a RemoteOptions::owner, by which the next "
        "switch knows whose WRITE it was");
  }
  std::vector<exchange::NoteHeir> notes{{at, version + 1, owner}};
  if (const std::uint64_t found = row->found[place_in(*row, at)]; is_in_doubt(found)) {  // since before this switch
    notes.push_back({at, found + 1, owner});
  }
  return notes;
}

std::vector<exchange::Mark> SwitchRecovery::marks_of(std::span<const SwitchControl::ConnectionId> connections) {
  const std::scoped_lock lock(mutex_);
  std::vector<exchange::Mark> marks;
  for (const SwitchControl::ConnectionId connection : connections) {
    for (const HeldTuple& held : shared_->held(connection)) {
      const std::optional<RemoteSpan> word = shared_->word_of(held.tuple);
      if (word && row_of(*word) != nullptr) {
        marks.push_back({*word, held.version, static_cast<std::uint8_t>(held.in_doubt ? 1 : 0)});
      }
    }
  }
  return marks;
}

void SwitchRecovery::throw_inherited(const RemoteSpan& at) {
  throw std::runtime_error(fmt::format(
      "another owner has inherited the tuple at {:#x} while this WRITE was in doubt, and nobody knows whether it has "
      "found it there: read the tuple, or inherit() it if it is in doubt again. An heir asks with the owner id that it "
      "had",
      at.address.value));
}

// Throws std::runtime_error if nobody can know.
Recalled SwitchRecovery::recall(const RemoteSpan& at, std::uint64_t version, std::uint16_t owner) {
  const auto answer = server_.ask<exchange::Recalled>(exchange::Recall{at, version, owner});
  const Recalled recalled{static_cast<Fate>(answer.fate), answer.version};
  if (recalled.fate == Fate::unknown) {
    throw_inherited(at);
  }
  return recalled;
}

// A WRITE through this switch itself, whose client was cut off from it.
Resumption SwitchRecovery::resume_here(SwitchControl::ConnectionId connection, const RemoteSpan& at,
                                       std::uint32_t tuple, std::uint64_t version) {
  const Fate known = recall(at, version, shared_->owner_of(connection)).fate;
  if (shared_->with([&](SwitchControl& control) { return control.version(tuple); }) >= version) {
    return known == Fate::lost ? Resumption::lost : Resumption::happened;
  }
  if (!shared_->with([&](SwitchControl& control) { return control.inherit(connection, tuple); })) {
    throw std::runtime_error("the connection that this WRITE was made through has not ended yet: ask again");
  }
  return Resumption::granted;
}

Resumption SwitchRecovery::resume(SwitchControl::ConnectionId connection, const RemoteSpan& at, std::uint64_t version) {
  const std::scoped_lock lock(mutex_);
  Row* const row = row_of(at);
  if (row == nullptr) {
    throw std::invalid_argument(fmt::format(
        "this switch has not recovered a tuple at {:#x}: keep_versions() of the server's region comes first",
        at.address.value));
  }
  const std::uint64_t place = place_in(*row, at);
  if (version > row->version) {
    return resume_here(connection, at, row->first + static_cast<std::uint32_t>(place), version);
  }
  const std::uint16_t owner = shared_->owner_of(connection);
  const Recalled recalled = recall(at, version, owner);
  version = recalled.version;
  const auto granted = row->granted.find(place);
  Fate fate = recalled.fate;
  if (fate == Fate::undecided) {
    fate = fate_now({.epoch = row->version,
                     .word = row->found[place],
                     .granted = granted == row->granted.end() ? 0 : granted->second.version},
                    row->is_open, version);
  }
  if (fate != Fate::undecided) {
    return fate == Fate::happened ? Resumption::happened : Resumption::lost;
  }
  const std::uint32_t tuple = row->first + static_cast<std::uint32_t>(place);
  // Its client may have been cut off once more, and ask again: after the WRITE that was granted, or before it.
  static_cast<void>(recall(at, row->version + 2, owner));
  if (shared_->with([&](SwitchControl& control) { return control.version(tuple); }) != row->version + 1) {
    if (granted != row->granted.end()) {
      return Resumption::happened;
    }
    throw_inherited(at);
  }
  // Before it can be written. From here on others are told that it is, so it stays latched, also if this ends early.
  Grant& grant = row->granted[place];
  grant.version = version;
  static_cast<void>(server_.ask<exchange::Noted>(exchange::NoteGrant{at, row->version, version}));
  reach("grant-noted");
  if (shared_->with([&](SwitchControl& control) { return control.inherit(connection, tuple); })) {
    grant.to = connection;
    reach("granted");
  } else if (grant.to != connection) {
    throw std::runtime_error(fmt::format(
        "the connection that was given the latch of the tuple at {:#x} has not ended yet, nor written it: ask again",
        at.address.value));
  }
  return Resumption::granted;
}

void SwitchRecovery::settle(std::uint16_t owner) {
  const std::scoped_lock lock(mutex_);
  static_cast<void>(server_.ask<exchange::Noted>(exchange::Settle{owner}));
  owners_.erase(owner);
  if (!is_awaited()) {
    open_all();
  }
}

std::optional<SwitchRecovery::Clock::time_point> SwitchRecovery::due() {
  const std::scoped_lock lock(mutex_);
  return due_;
}

void SwitchRecovery::look() noexcept {
  const std::scoped_lock lock(mutex_);
  if (!due_ || Clock::now() < *due_) {
    return;
  }
  try {
    static_cast<void>(server_.ask<exchange::Noted>(exchange::Settle{0}));
    owners_.clear();
    has_others_ = false;
    open_all();
  } catch (const std::exception& error) {
    shared_->report(fmt::format("tuples stay latched after a recovery: {}", error.what()));
    due_ = Clock::now() + kTryAgain;
  }
}

void SwitchRecovery::open_all() {
  due_ = Clock::now();  // if it fails, look() tries again
  for (Row& row : rows_) {
    if (!row.is_open) {
      open(row);
    }
  }
  due_.reset();
}

// What was granted is its holder's, or in doubt. So is what was in doubt before. The rest nobody can hold, as long as
// it waits.
void SwitchRecovery::open(Row& row) {
  const SwitchedTuples& tuples = row.tuples;
  reach("opening");
  for (std::uint64_t begin = 0; begin < tuples.count;) {
    const auto next = row.granted.lower_bound(begin);
    const std::uint64_t granted = next == row.granted.end() ? tuples.count : next->first;
    const std::uint64_t end =
        static_cast<std::uint64_t>(std::find_if(row.found.begin() + static_cast<std::ptrdiff_t>(begin),
                                                row.found.begin() + static_cast<std::ptrdiff_t>(granted), is_in_doubt) -
                                   row.found.begin());
    if (end > begin) {
      const std::uint64_t count = end - begin;
      static_cast<void>(server_.ask<exchange::Noted>(
          exchange::WriteWords{tuples.memory.subspan(begin * tuples.slot_bytes, count * tuples.slot_bytes),
                               tuples.slot_bytes, count, row.version}));
    }
    begin = end + 1;
  }
  reach("written");
  shared_->with([&](SwitchControl& control) {
    for (std::uint64_t i = 0; i < tuples.count; ++i) {
      if (!row.granted.contains(i) && !is_in_doubt(row.found[i])) {
        control.unlatch(row.first + static_cast<std::uint32_t>(i));
      }
    }
  });
  row.is_open = true;
  reach("open");
}

}  // namespace sidelatch::fabric::verbs

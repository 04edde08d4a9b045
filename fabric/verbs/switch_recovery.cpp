#include "switch_recovery.h"

#include "epoch_notes.h"

#include <fmt/format.h>

#include <algorithm>
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
  const RecoveredTuples recovered = shared_->recover(tuples, found);
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

bool SwitchRecovery::waits(const RemoteSpan& at) {
  const std::scoped_lock lock(mutex_);
  const Row* const row = row_of(at);
  return row != nullptr && !row->is_open;
}

// A WRITE through this switch itself, whose client was cut off from it.
Resumption SwitchRecovery::resume_here(SwitchControl::ConnectionId connection, std::uint32_t tuple,
                                       std::uint64_t version) {
  if (shared_->with([&](SwitchControl& control) { return control.version(tuple); }) >= version) {
    return shared_->is_given(tuple, version) ? Resumption::lost : Resumption::happened;
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
  const std::uint64_t place = (at.address.value - row->tuples.memory.address.value) / row->tuples.slot_bytes;
  if (version > row->version) {
    return resume_here(connection, row->first + static_cast<std::uint32_t>(place), version);
  }
  const auto answer = server_.ask<exchange::Recalled>(exchange::Recall{at, version});
  version = answer.version;
  const auto granted = row->granted.find(place);
  auto fate = static_cast<Fate>(answer.fate);
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
  if (granted != row->granted.end() &&
      shared_->with([&](SwitchControl& control) { return control.version(tuple); }) != row->version + 1) {
    return Resumption::happened;
  }
  // Before it can be written.
  static_cast<void>(server_.ask<exchange::Noted>(exchange::NoteGrant{at, row->version, version}));
  reach("grant-noted");
  if (!shared_->with([&](SwitchControl& control) { return control.inherit(connection, tuple); })) {
    if (granted == row->granted.end() || granted->second.to != connection) {
      throw std::runtime_error(fmt::format(
          "the connection that was given the latch of the tuple at {:#x} has not ended yet, nor written it: ask again",
          at.address.value));
    }
    return Resumption::granted;
  }
  row->granted[place] = {.version = version, .to = connection};
  reach("granted");
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

// What was granted is its holder's, or in doubt. The rest nobody can hold, as long as it waits.
void SwitchRecovery::open(Row& row) {
  const SwitchedTuples& tuples = row.tuples;
  reach("opening");
  for (std::uint64_t begin = 0; begin < tuples.count;) {
    const auto next = row.granted.lower_bound(begin);
    const std::uint64_t end = next == row.granted.end() ? tuples.count : next->first;
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
      if (!row.granted.contains(i)) {
        control.unlatch(row.first + static_cast<std::uint32_t>(i));
      }
    }
  });
  row.is_open = true;
  reach("open");
}

}  // namespace sidelatch::fabric::verbs

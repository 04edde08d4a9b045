#include "epoch_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sidelatch::fabric::verbs {

namespace {

// A later holder has read the tuple, with this WRITE in it.
bool is_followed(const TupleNote& note, std::uint64_t version) { return version < note.word || note.granted > version; }

}  // namespace

Fate fate_now(const TupleNote& note, bool is_open, std::uint64_t version) {
  if (is_followed(note, version)) {
    return Fate::happened;
  }
  const bool stays_latched = is_in_doubt(note.word) && version == note.word + 1;
  const bool is_decided = (is_open && !stays_latched) || note.granted != 0;
  if (note.granted != version && is_decided) {
    return version == note.word ? Fate::happened : Fate::lost;
  }
  return Fate::undecided;
}

Recalled recall(std::span<const TupleNote> notes, const Fates& decided, std::uint64_t version, std::uint16_t owner) {
  // Its heir asks of its own WRITE.
  const auto is_decided = [&](std::uint64_t of) {
    const auto known = decided.find(of);
    return known != decided.end() && (known->second.fate != Fate::unknown || owner == 0 || known->second.heir != owner);
  };
  for (std::size_t i = 0; i + 1 < notes.size(); ++i) {
    const TupleNote& note = notes[i];
    if (is_decided(version)) {
      return {decided.at(version).fate, version};
    }
    if (note.epoch <= version) {
      continue;
    }
    if (notes[i + 1].word == note.word && !is_followed(note, version)) {
      continue;  // this switch has ended before anybody wrote the tuple: the next one has decided
    }
    constexpr bool kIsOpen = true;  // it waits no more
    if (const Fate fate = fate_now(note, kIsOpen, version); fate != Fate::undecided) {
      return {fate, version};
    }
    version = note.epoch + 2;  // made again. The WRITE may be torn, as any other
  }
  return {is_decided(version) ? decided.at(version).fate : Fate::undecided, version};
}

std::optional<std::uint64_t> EpochNotes::Epoch::place_of(const RemoteSpan& tuple) const {
  const std::uint64_t offset = tuple.address.value - memory.address.value;
  const bool is_here = tuple.rkey == memory.rkey && tuple.address.value >= memory.address.value &&
                       offset % stride == 0 && offset / stride < words.size();
  return is_here ? std::optional(offset / stride) : std::nullopt;
}

void EpochNotes::begin(const RemoteSpan& memory, std::uint64_t stride, std::uint64_t epoch,
                       std::vector<std::uint64_t> words) {
  const auto is_of_row = [&](const Epoch& one) {
    return one.memory.rkey == memory.rkey && one.memory.address == memory.address && one.stride == stride &&
           one.words.size() == words.size();
  };
  std::uint64_t forgotten = 0;
  if (static_cast<std::size_t>(std::ranges::count_if(epochs_, is_of_row)) == kMostEpochs) {
    const auto oldest = std::ranges::find_if(epochs_, is_of_row);
    forgotten = oldest->first;
    for (auto& [at, decided] : decided_) {
      if (oldest->place_of({{at.second}, 0, {at.first}})) {
        decided.erase(decided.begin(), decided.lower_bound(forgotten));  // recall() throws
      }
    }
    epochs_.erase(oldest);
  }
  latest_ = std::max(latest_, epoch);
  epochs_.push_back(
      {.memory = memory, .stride = stride, .first = epoch, .forgotten = forgotten, .words = std::move(words)});
}

void EpochNotes::grant(const RemoteSpan& tuple, std::uint64_t epoch, std::uint64_t version) {
  const auto latest =
      std::find_if(epochs_.rbegin(), epochs_.rend(), [&](const Epoch& one) { return one.place_of(tuple).has_value(); });
  if (latest == epochs_.rend() || latest->first != epoch) {
    throw std::invalid_argument(
        fmt::format("the tuple at {:#x} was not recovered to version {}", tuple.address.value, epoch));
  }
  latest->granted[*latest->place_of(tuple)] = version;
}

void EpochNotes::decide(const RemoteSpan& tuple, std::uint64_t version, const Decided& decided) {
  if (decided.fate != Fate::lost && decided.fate != Fate::unknown) {
    throw std::invalid_argument(fmt::format("fate {}: it is lost or unknown", static_cast<unsigned>(decided.fate)));
  }
  decided_[{tuple.rkey.value, tuple.address.value}][version] = decided;
}

Recalled EpochNotes::recall(const RemoteSpan& tuple, std::uint64_t version, std::uint16_t owner) const {
  std::vector<TupleNote> notes;
  for (const Epoch& one : epochs_) {
    if (const auto place = one.place_of(tuple)) {
      if (version < one.forgotten) {
        throw std::out_of_range(
            fmt::format("what became of version {} of the tuple at {:#x} is forgotten: a switch "
                        "has recovered more than {} times since",
                        version, tuple.address.value, kMostEpochs));
      }
      const auto granted = one.granted.find(*place);
      notes.push_back({.epoch = one.first,
                       .word = one.words[*place],
                       .granted = granted == one.granted.end() ? 0 : granted->second});
    }
  }
  const auto decided = decided_.find({tuple.rkey.value, tuple.address.value});
  static const Fates kNone;
  return verbs::recall(notes, decided == decided_.end() ? kNone : decided->second, version, owner);
}

}  // namespace sidelatch::fabric::verbs

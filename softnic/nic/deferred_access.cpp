#include "deferred_access.h"

#include "shared_bytes.h"

#include <sidelatch/fabric/model/effects.h>
#include <sidelatch/fabric/model/pieces.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace sidelatch::softnic::nic {

namespace {

constexpr std::size_t kSlots = 1024;
/// The delay of the late part of a torn packet, in spreads.
constexpr Time kTornSpreads = 10;
/// Any number that makes the two generators of a seed differ.
constexpr std::uint64_t kTearsSeed = 0x9e3779b97f4a7c15;
constexpr std::array kKinds{fabric::model::Kind::write, fabric::model::Kind::read, fabric::model::Kind::atomic,
                            fabric::model::Kind::send};

std::size_t slot_of(const std::byte* word) { return reinterpret_cast<std::uintptr_t>(word) / 8 % kSlots; }

}  // namespace

DeferredAccess::DeferredAccess(const DeferredOptions& options)
    : options_(options), random_(options.seed), tears_(options.seed ^ kTearsSeed), slots_(kSlots) {
  fabric::model::validate(options.rules);
  if (!(options.torn_bias >= 0 && options.torn_bias <= 1)) {
    throw std::invalid_argument(
        fmt::format("the torn bias of a deferred access is {}: it is a chance, from 0 to 1", options.torn_bias));
  }
  if (options.spread == 0) {
    throw std::invalid_argument("the spread of a deferred access is 0 ns: use ImmediateAccess, or at least 1");
  }
}

// The earliest time of a request's first step.
Time DeferredAccess::earliest(const AccessSource& source, const Stream& stream) const {
  Time time = now_ + 1;
  for (const fabric::model::Kind first : kKinds) {
    // The slots serve in the order of arrival and so keep Order::same_word; the requester waits for fences.
    if (fabric::model::order_between(options_.rules, first, source.kind, false) == fabric::model::Order::executed) {
      time = std::max(time, stream.until[static_cast<std::size_t>(first)] + 1);  // rule 5
    }
  }
  const bool sees_writes = source.kind == fabric::model::Kind::read ||
                           (source.kind == fabric::model::Kind::atomic && options_.rules.atomics_see_writes);
  return sees_writes ? std::max(time, acknowledged_ + 1) : time;  // rule 2
}

DeferredAccess::Stream& DeferredAccess::stream_of(const AccessSource& source) {
  Stream& stream = streams_[source.queue_pair];
  if (!stream.has_message || stream.message != source.message) {
    stream.not_before = earliest(source, stream);
    stream.message = source.message;
    stream.has_message = true;
    stream.last = 0;
  }
  return stream;
}

DeferredAccess::Job& DeferredAccess::new_job(const AccessSource& source, Operation* operation) {
  if (free_jobs_.empty()) {
    jobs_.push_back(std::make_unique<Job>());
    free_jobs_.push_back(jobs_.back().get());
  }
  Job& job = *free_jobs_.back();
  free_jobs_.pop_back();
  job.source = source;
  job.is_live = true;
  job.is_dropped = false;
  job.into = nullptr;
  job.operation = operation;
  job.steps_left = 0;
  return job;
}

void DeferredAccess::add(Time at, Job& job, Step step, std::uint64_t piece) {
  ++job.steps_left;
  agenda_.push_back({at, ++order_, &job, step, piece});
  std::ranges::push_heap(agenda_, std::greater<>());
}

std::uint64_t DeferredAccess::pieces_of(const Job& job) const {
  // The pieces of a SEND are counted from the start of its buffer, others are cut at multiples of their address.
  const auto address = job.source.kind == fabric::model::Kind::send ? 0 : reinterpret_cast<std::uintptr_t>(job.memory);
  return fabric::model::piece_count(address, job.length, options_.rules.atom);
}

// Always makes two draws, so that a hit of the bias does not change later draws.
DeferredAccess::Tear DeferredAccess::draw_tear(std::uint64_t pieces) {
  const bool hits = static_cast<double>(tears_() >> 11) * 0x1p-53 < options_.torn_bias;
  const std::uint64_t which = tears_();
  if (!hits || pieces < 2 || options_.rules.one_step_requests) {
    return {};
  }
  return {1 + (which >> 1) % (pieces - 1), (which & 1) != 0};
}

void DeferredAccess::plan_pieces(Job& job, Stream& stream) {
  const std::uint64_t pieces = pieces_of(job);
  const bool is_read = job.source.kind == fabric::model::Kind::read;
  const bool ascends =
      options_.rules.one_step_requests || (job.source.kind == fabric::model::Kind::write &&
                                           options_.rules.placement == fabric::model::PlacementOrder::ascending);
  Time& until = stream.until[static_cast<std::size_t>(job.source.kind)];
  const Time first = std::max(now_ + 1, stream.not_before);
  // For ascending pieces the gaps are drawn, for others the times.
  const Time gap = std::max<Time>(2 * options_.spread / std::max<std::uint64_t>(pieces, 1), 1);
  const Time much_later = kTornSpreads * options_.spread;
  const Tear tear = draw_tear(pieces);
  Time at = std::max(first, stream.last + 1) + draw(options_.spread);
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    if (!ascends) {
      const bool is_late = tear.cut != 0 && (piece < tear.cut) == tear.lower_is_late;
      at = first + draw(options_.spread) + (is_late ? much_later : 0);  // rules 3 and 4
    } else if (piece != 0 && !options_.rules.one_step_requests) {
      at += 1 + draw(gap) + (piece == tear.cut ? much_later : 0);
    }
    stream.last = std::max(stream.last, at);
    add(at, job, Step::touch, piece);
  }
  until = std::max(until, stream.last);
  if (!is_read) {
    stream.placed = std::max(stream.placed, stream.last);
  }
}

const std::byte* DeferredAccess::place(const AccessSource& source, std::byte* to, std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return nullptr;  // touches nothing and holds nothing back
  }
  Job& job = new_job(source, nullptr);
  job.memory = to;
  job.length = bytes.size();
  job.bytes.assign(bytes.begin(), bytes.end());
  plan_pieces(job, stream_of(source));
  return nullptr;
}

void DeferredAccess::sample(const AccessSource& source, const std::byte* from, std::span<std::byte> into,
                            Operation& operation) {
  Job& job = new_job(source, &operation);
  job.memory = const_cast<std::byte*>(from);  // NOLINT(cppcoreguidelines-pro-type-const-cast): never written
  job.length = into.size();
  job.into = into.data();
  plan_pieces(job, stream_of(source));
}

void DeferredAccess::atomic(const AccessSource& source, std::byte* word, const AtomicStep& step, Operation& operation) {
  Stream& stream = stream_of(source);
  Time& slot = slots_[slot_of(word)];
  Job& job = new_job(source, &operation);
  job.memory = word;
  job.length = fabric::model::kWordBytes;
  job.step = step;
  const Time loaded = std::max(stream.not_before, slot + 1) + draw(options_.spread);
  const bool is_one_step = options_.rules.atomic_scope == fabric::model::AtomicScope::global;
  const Time stored = is_one_step ? loaded : loaded + 1 + draw(options_.spread);
  if (!is_one_step) {
    add(loaded, job, Step::load);
  }
  add(stored, job, Step::store);
  slot = stored;  // rule 8
  Time& until = stream.until[static_cast<std::size_t>(fabric::model::Kind::atomic)];
  until = std::max(until, stored);
}

void DeferredAccess::receive(const AccessSource& source, Operation& operation) {
  const Stream& stream = streams_[source.queue_pair];
  const Time placed = source.key == 0 ? stream.placed : std::max(stream.placed, std::ranges::max(stream.until));
  if (placed <= now_) {
    operation.finish();
    if (observer_ != nullptr) {
      observer_->on_step({DeferredStep::Kind::receive, source, nullptr, 0});
    }
    return;
  }
  add(placed + 1, new_job(source, &operation), Step::finish);
}

void DeferredAccess::acknowledged(std::uint32_t queue_pair) {
  if (const auto found = streams_.find(queue_pair); found != streams_.end()) {
    acknowledged_ = std::max(acknowledged_, found->second.placed);
  }
}

void DeferredAccess::end_queue_pair(std::uint32_t queue_pair) {
  for (const std::unique_ptr<Job>& job : jobs_) {
    if (job->is_live && job->source.queue_pair == queue_pair) {
      job->is_dropped = true;
      job->operation = nullptr;
    }
  }
  streams_.erase(queue_pair);
}

void DeferredAccess::end_region(std::uint32_t key) {
  for (const std::unique_ptr<Job>& job : jobs_) {
    if (job->is_live && !job->is_dropped && job->source.key == key) {
      job->is_dropped = true;
      if (job->operation != nullptr) {
        job->operation->fail(nullptr);
      }
    }
  }
}

bool DeferredAccess::advance(Time now) {
  has_finished_ = false;
  while (!agenda_.empty() && agenda_.front().at <= now) {
    const Entry entry = agenda_.front();
    std::ranges::pop_heap(agenda_, std::greater<>());
    agenda_.pop_back();
    now_ = std::max(now_, entry.at);
    take_step(entry);
  }
  now_ = std::max(now_, now);
  return has_finished_;
}

std::optional<GonePlace> DeferredAccess::next_gone_place() {
  if (gone_places_.empty()) {
    return std::nullopt;
  }
  const GonePlace first = gone_places_.front();
  gone_places_.pop_front();
  return first;
}

void DeferredAccess::take_step(const Entry& entry) {
  Job& job = *entry.job;
  const std::byte* const gone = job.is_dropped ? nullptr : carry_out(job, entry);
  if (gone != nullptr) {
    job.is_dropped = true;
    if (job.operation != nullptr) {
      job.operation->fail(gone);
      has_finished_ = true;
    } else {
      gone_places_.push_back({job.source, gone});
    }
  }
  if (--job.steps_left != 0) {
    return;
  }
  if (!job.is_dropped && job.operation != nullptr) {
    job.operation->finish();
    has_finished_ = true;
  }
  job.is_live = false;
  free_jobs_.push_back(&job);
}

const std::byte* DeferredAccess::carry_out(Job& job, const Entry& entry) {
  const std::byte* gone = nullptr;
  switch (entry.step) {
    case Step::touch:
      return touch(job, entry.piece);
    case Step::load:
      gone = load_shared(std::as_writable_bytes(std::span(&job.loaded, 1)), job.memory);
      if (gone == nullptr) {
        report(DeferredStep::Kind::load, job, job.memory, job.length);
      }
      return gone;
    case Step::store:
      return store(job);
    case Step::finish:
      report(DeferredStep::Kind::receive, job, nullptr, 0);
      break;
  }
  return gone;
}

const std::byte* DeferredAccess::touch(const Job& job, std::uint64_t piece) const {
  const auto address = job.source.kind == fabric::model::Kind::send ? 0 : reinterpret_cast<std::uintptr_t>(job.memory);
  const fabric::model::Piece part = fabric::model::piece_at(address, job.length, options_.rules.atom, piece);
  std::byte* const memory = job.memory + part.offset;
  const bool is_read = job.into != nullptr;
  const std::byte* const gone = is_read ? load_shared({job.into + part.offset, part.length}, memory)
                                        : store_shared(memory, std::span(job.bytes).subspan(part.offset, part.length));
  if (gone == nullptr) {
    report(is_read ? DeferredStep::Kind::sample : DeferredStep::Kind::place, job, memory, part.length);
  }
  return gone;
}

const std::byte* DeferredAccess::store(const Job& job) const {
  if (options_.rules.atomic_scope == fabric::model::AtomicScope::global) {
    const std::optional<std::uint64_t> old = apply_shared(job.memory, job.step);
    if (!old) {
      return job.memory;
    }
    job.operation->original = *old;
    report(DeferredStep::Kind::load_store, job, job.memory, job.length);
    return nullptr;
  }
  fabric::model::AtomicEffect effect{.old = job.loaded, .stores = true, .value = job.step.swap_or_add};
  if (!job.step.is_swap) {
    fabric::WorkRequest request;
    request.opcode = job.step.is_compare_swap ? fabric::Opcode::compare_swap : fabric::Opcode::fetch_add;
    request.compare = job.step.compare;
    request.swap_or_add = job.step.swap_or_add;
    effect = fabric::model::apply_atomic(request, job.loaded);
  }
  if (effect.stores) {
    if (const std::byte* const gone = store_shared(job.memory, std::as_bytes(std::span(&effect.value, 1)))) {
      return gone;
    }
    report(DeferredStep::Kind::store, job, job.memory, job.length);
  }
  job.operation->original = effect.old;
  return nullptr;
}

void DeferredAccess::report(DeferredStep::Kind kind, const Job& job, const std::byte* memory,
                            std::size_t length) const {
  if (observer_ != nullptr) {
    observer_->on_step({kind, job.source, memory, length});
  }
}

}  // namespace sidelatch::softnic::nic

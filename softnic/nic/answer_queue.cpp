#include "answer_queue.h"

#include "queue_pair.h"

#include <algorithm>

namespace sidelatch::softnic::nic {

namespace {

/// The most READ packets that a queue pair samples ahead, if sampling takes time.
constexpr std::size_t kMostSamples = 64;

std::uint32_t part_length(const Answer& answer, std::uint32_t packet, PathMtu mtu) {
  const auto bytes = static_cast<std::uint32_t>(bytes_of(mtu));
  return std::min(bytes, answer.length - packet * bytes);
}

}  // namespace

void AnswerQueue::start(std::uint32_t most_unanswered) {
  // An acknowledgement before each, one after all of them, and a NAK; twice.
  answers_.assign(std::size_t{4} * most_unanswered + 8, Answer{});
}

void AnswerQueue::reset() noexcept {
  for (Sample* const sample : samples_) {
    core_.device.give_back(*sample);
  }
  samples_.clear();
  begin_ = size_ = 0;
  unanswered_ = 0;
  is_placing_ = false;
}

void AnswerQueue::push(const Answer& answer) {
  at(size_) = answer;
  ++size_;
  core_.device.wake(core_.owner);
}

void AnswerQueue::add_acknowledge(Psn psn, std::uint32_t msn) {
  const bool is_frozen = size_ == 1 && is_placing_;
  if (size_ != 0 && at(size_ - 1).is_positive() && !is_frozen) {
    at(size_ - 1).psn = psn;
    at(size_ - 1).msn = msn;
    return;
  }
  push({.psn = psn, .msn = msn, .syndrome = Syndrome::ack()});
}

void AnswerQueue::add_nak(Psn psn, std::uint32_t msn, Syndrome syndrome) {
  push({.psn = psn, .msn = msn, .syndrome = syndrome});
}

void AnswerQueue::add(const Answer& answer) {
  push(answer);
  unanswered_ += answer.is_repeated ? 0U : 1U;
  if (!core_.device.memory.is_immediate()) {
    sample_ahead();
    core_.device.wait_for_memory(core_.owner);
  }
}

bool AnswerQueue::resume_from(Psn from, std::uint32_t packets) {
  const auto until = [](Psn first, Psn next) { return (next.value() - first.value()) & Psn::kMask; };
  for (std::size_t i = 0; i < size_; ++i) {
    Answer& answer = at(i);
    const std::uint32_t skipped = until(answer.psn, from);
    if (answer.kind != Answer::Kind::read || skipped >= answer.packets || answer.packets - skipped != packets) {
      continue;
    }
    if (answer.sent <= skipped) {
      return true;
    }
    if (!core_.device.memory.is_immediate()) {
      return false;
    }
    const std::uint32_t bytes = skipped * static_cast<std::uint32_t>(bytes_of(core_.attributes.path_mtu));
    answer.psn = from;
    answer.address += bytes;
    answer.length -= bytes;
    answer.packets = packets;
    answer.sent = 0;
    return true;
  }
  return false;
}

bool AnswerQueue::begin_sample(const Answer& answer, Sample& sample) {
  const std::uint64_t offset = std::uint64_t{answer.sampled} * bytes_of(core_.attributes.path_mtu);
  const std::uint32_t bytes = part_length(answer, answer.sampled, core_.attributes.path_mtu);
  if (bytes == 0) {
    sample.finish();
    return true;
  }
  const std::byte* const from = core_.device.table.remote(answer.key, answer.domain, core_.number,
                                                          answer.address + offset, bytes, Rights::remote_read);
  if (from == nullptr) {
    return false;
  }
  core_.device.memory.sample({core_.number, answer.message, fabric::model::Kind::read, answer.key}, from,
                             std::span(sample.bytes).first(bytes), sample);
  return true;
}

void AnswerQueue::sample_ahead() {
  for (std::size_t i = 0; i < size_; ++i) {
    Answer& answer = at(i);
    if (answer.kind != Answer::Kind::read) {
      continue;
    }
    for (; answer.sampled < answer.packets; ++answer.sampled) {
      if (samples_.size() == kMostSamples) {
        return;
      }
      Sample& sample = core_.device.take_sample();
      samples_.push_back(&sample);
      if (!begin_sample(answer, sample)) {
        sample.fail(nullptr);
      }
    }
  }
}

Answer* AnswerQueue::ready(const Resource* atomic_of_first) {
  if (size_ == 0) {
    return nullptr;
  }
  Answer& answer = at(0);
  const bool is_immediate = core_.device.memory.is_immediate();
  switch (answer.kind) {
    case Answer::Kind::acknowledge:
      if (!answer.is_positive() || !core_.device.memory.acknowledges_placed()) {
        return &answer;
      }
      if (!is_placing_) {
        is_placing_ = true;
        placed_.begin();
        core_.device.memory.receive({core_.number, answer.message, fabric::model::Kind::write, 0}, placed_);
        core_.device.wait_for_memory(core_.owner);
      }
      return placed_.is_done() ? &answer : nullptr;
    case Answer::Kind::read:
      return is_immediate || (!samples_.empty() && samples_.front()->is_done()) ? &answer : nullptr;
    case Answer::Kind::atomic:
      return atomic_of_first == nullptr || atomic_of_first->operation.is_done() ? &answer : nullptr;
  }
  return nullptr;
}

bool AnswerQueue::take_sample(std::span<std::byte> into) {
  return core_.device.memory.is_immediate() ? sample_now(into) : take_sampled(into);
}

bool AnswerQueue::sample_now(std::span<std::byte> into) {
  const Answer& answer = at(0);
  if (into.empty()) {
    return true;
  }
  const std::uint64_t offset = std::uint64_t{answer.sent} * bytes_of(core_.attributes.path_mtu);
  const std::byte* const from = core_.device.table.remote(answer.key, answer.domain, core_.number,
                                                          answer.address + offset, into.size(), Rights::remote_read);
  if (from == nullptr) {
    return false;
  }
  Operation operation;
  core_.device.memory.sample({core_.number, answer.message, fabric::model::Kind::read, answer.key}, from, into,
                             operation);
  return !operation.failed || is_needless(operation, into);
}

// A READ that is asked for again has perhaps been answered already, and a program that has its bytes may unmap the
// memory before it deregisters it, as UCX does. A NIC would go on to read the pages that it has pinned; here they are
// zeros.
bool AnswerQueue::is_needless(const Operation& operation, std::span<std::byte> into) {
  if (operation.gone != nullptr && at(0).is_repeated) {
    std::ranges::fill(into, std::byte{0});
    return true;
  }
  core_.gone = operation.gone;
  return false;
}

bool AnswerQueue::take_sampled(std::span<std::byte> into) {
  Sample& sample = *samples_.front();
  samples_.pop_front();
  const bool is_there = !sample.failed || is_needless(sample, into);
  if (!sample.failed) {
    std::copy_n(sample.bytes.begin(), into.size(), into.begin());
  }
  core_.device.give_back(sample);
  sample_ahead();
  return is_there;
}

void AnswerQueue::pop() {
  const Answer& answer = at(0);
  if (answer.kind != Answer::Kind::acknowledge && !answer.is_repeated) {
    --unanswered_;
  }
  is_placing_ = false;
  begin_ = (begin_ + 1) % answers_.size();
  --size_;
}

void AnswerQueue::drop_all() noexcept { size_ = 0; }

}  // namespace sidelatch::softnic::nic

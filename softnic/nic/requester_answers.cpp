// Answers, timeouts and retries of a requester.
#include "queue_pair.h"
#include "requester.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>

namespace sidelatch::softnic::nic {

namespace {

constexpr Time kTimeoutUnit = 4096;  // ns (local ACK timeout: 4.096 us times 2 to the power)
constexpr std::uint8_t kWithoutEnd = 7;
// The requester asks again after this time in nanoseconds, or this many times what answers take; then after twice that,
// and so on. A packet that is lost among others is missed by the receiver; this is for the last ones.
constexpr Time kAskAfter = 2'000'000;
constexpr Time kAnswerTimes = 8;

std::optional<CompletionStatus> status_of(NakCode code) {
  switch (code) {
    case NakCode::psn_sequence_error:
      return std::nullopt;
    case NakCode::invalid_request:
    case NakCode::invalid_rd_request:
      return CompletionStatus::remote_invalid_request;
    case NakCode::remote_access_error:
      return CompletionStatus::remote_access;
    case NakCode::remote_operational_error:
      return CompletionStatus::remote_operation;
  }
  return CompletionStatus::bad_response;
}

bool is_last_response(Opcode opcode) {
  const Opcode operation = operation_of(opcode);
  return operation == Opcode::read_response_last || operation == Opcode::read_response_only;
}

}  // namespace

Time Requester::timeout() const noexcept {
  return core_.attributes.timeout == 0
             ? kNever
             : std::max(kTimeoutUnit << core_.attributes.timeout, core_.device.options.shortest_attempt);
}

void Requester::restart_timer(Time now) noexcept {
  if (rnr_until_ != kNever) {
    ack_deadline_ = ask_at_ = kNever;  // nothing that could be answered is out (9.7.5.2.8)
    return;
  }
  ack_deadline_ = sent_end_ == unacked_ ? kNever : after(now, timeout());
  waits_since_ = now;
  ask_after_ = std::max(kAskAfter, kAnswerTimes * answer_time_);
  ask_later(now);
}

void Requester::ask_later(Time now) noexcept {
  // A program that wants no timeout gets no second attempt either.
  const bool is_early = ack_deadline_ != kNever && after(now, 2 * ask_after_) < ack_deadline_;
  ask_at_ = is_early ? after(now, ask_after_) : kNever;
}

void Requester::on_answer(const Packet& packet, Time now) {
  const bool is_running = core_.state() == QueuePairState::rts || core_.state() == QueuePairState::sqd;
  if (!is_running || offset_of(packet.bth.psn) >= offset_of(sent_end_)) {
    ++core_.device.counters.stray;
    return;
  }
  switch (operation_of(packet.bth.opcode)) {
    case Opcode::acknowledge:
      on_acknowledge(packet, now);
      break;
    case Opcode::atomic_acknowledge:
      on_atomic_acknowledge(packet, now);
      break;
    default:
      on_read_response(packet, now);
      break;
  }
}

void Requester::on_acknowledge(const Packet& packet, Time now) {
  switch (packet.aeth.syndrome.kind()) {
    case Syndrome::Kind::ack:
      static_cast<void>(acknowledge_before(packet.bth.psn + 1, now));
      break;
    case Syndrome::Kind::rnr_nak:
      on_rnr_nak(packet, now);
      break;
    case Syndrome::Kind::nak:
      on_nak(packet, now);
      break;
    case Syndrome::Kind::reserved:
      ++core_.device.counters.stray;
      break;
  }
}

SendEntry* Requester::entry_of(Psn psn) noexcept {
  for (std::uint64_t i = core_.sends.first(); i != core_.sends.end(); ++i) {
    SendEntry& entry = core_.sends.at(i);
    if (!entry.has_begun) {
      break;
    }
    if (((psn.value() - entry.first.value()) & Psn::kMask) < entry.packets) {
      return &entry;
    }
  }
  return nullptr;
}

bool Requester::acknowledge_before(Psn psn, Time now) {
  const Psn before = unacked_;
  std::uint32_t left = offset_of(psn);  // packets to treat as acknowledged
  while (left != 0) {
    const SendEntry& entry = core_.sends.at(core_.sends.first());
    if (has_answer(entry.request.kind)) {
      // A later packet has been answered: the answer to this one must be lost (an implied NAK).
      break;
    }
    const std::uint32_t rest = offset_of(entry.first + entry.packets);
    const std::uint32_t taken = std::min(rest, left);
    unacked_ = unacked_ + taken;
    left -= taken;
    if (taken == rest) {
      complete_first(CompletionStatus::success);
    }
  }
  if (unacked_ != before) {
    note_progress(now);
  }
  if (left != 0) {
    recover(now);
  }
  return left == 0;
}

void Requester::note_progress(Time now) noexcept {
  retries_left_ = core_.attributes.retry_count;
  rnr_retries_left_ = core_.attributes.rnr_retry;
  if (!is_recovering_) {
    answer_time_ = std::max(now - waits_since_, answer_time_ - answer_time_ / 8);
  }
  is_recovering_ = false;
  rnr_until_ = kNever;  // an earlier copy was refused, and a later one has been taken
  const std::uint64_t first = core_.sends.first();
  if (cursor_ < first) {
    // The packets to be sent again have been acknowledged.
    cursor_ = first;
    cursor_packet_ = 0;
  }
  if (cursor_ == first && cursor_ != core_.sends.end() && current().has_begun && !has_answer(current().request.kind)) {
    cursor_packet_ = std::max(cursor_packet_, acknowledged_of(current()));
  }
  restart_timer(now);
  core_.device.wake(core_.owner);
}

void Requester::on_nak(const Packet& packet, Time now) {
  const std::optional<NakCode> code = packet.aeth.syndrome.nak_code();
  if (!acknowledge_before(packet.bth.psn, now)) {
    return;
  }
  if (code == NakCode::psn_sequence_error) {
    recover(now);
    return;
  }
  // The earlier requests have completed, so the refused one is the first.
  complete_first(code ? *status_of(*code) : CompletionStatus::bad_response);
}

void Requester::on_rnr_nak(const Packet& packet, Time now) {
  if (rnr_until_ != kNever || !acknowledge_before(packet.bth.psn, now)) {
    return;  // already handled
  }
  ++core_.device.counters.receiver_not_ready;
  if (rnr_retries_left_ == 0) {
    complete_first(CompletionStatus::rnr_retry_exceeded);
    return;
  }
  if (core_.attributes.rnr_retry != kWithoutEnd) {
    --rnr_retries_left_;
  }
  using std::chrono::nanoseconds;
  rnr_until_ = after(now, static_cast<Time>(nanoseconds(*packet.aeth.syndrome.rnr_delay()).count()));
  ack_deadline_ = ask_at_ = kNever;
  go_back();
}

void Requester::on_read_response(const Packet& packet, Time now) {
  const Psn psn = packet.bth.psn;
  const SendEntry* const asked = entry_of(psn);
  if (asked == nullptr || !has_answer(asked->request.kind) || is_atomic(asked->request.kind)) {
    ++core_.device.counters.stray;
    return;
  }
  // Acknowledges everything before it.
  if (!acknowledge_before(psn, now)) {
    return;
  }
  const std::uint64_t number = core_.sends.first();
  SendEntry& entry = core_.sends.at(number);
  const std::uint64_t mtu = bytes_of(core_.attributes.path_mtu);
  const std::uint64_t offset = entry.answered * mtu;
  const bool is_last = entry.answered + 1 == entry.packets;
  const std::uint64_t expected = entry.request.kind == WorkKind::read ? std::min(mtu, entry.length - offset) : 0;
  if (is_last != is_last_response(packet.bth.opcode) || packet.payload.size() != expected) {
    complete_first(CompletionStatus::bad_response);
    return;
  }
  if (!core_.sends.scatter(number, offset, packet.payload, core_.device.table, core_.options.domain,
                           core_.device.memory, core_.gone)) {
    complete_first(CompletionStatus::local_protection);
    return;
  }
  ++entry.answered;
  unacked_ = psn + 1;
  if (is_last) {
    complete_first(CompletionStatus::success);
  }
  note_progress(now);
}

void Requester::on_atomic_acknowledge(const Packet& packet, Time now) {
  const Psn psn = packet.bth.psn;
  const SendEntry* const asked = entry_of(psn);
  if (asked == nullptr || !is_atomic(asked->request.kind)) {
    ++core_.device.counters.stray;
    return;
  }
  if (!acknowledge_before(psn, now)) {
    return;
  }
  // Converts the value to a word of this machine.
  std::array<std::byte, sizeof(std::uint64_t)> word{};
  std::memcpy(word.data(), &packet.atomic_ack.original, word.size());
  if (!core_.sends.scatter(core_.sends.first(), 0, word, core_.device.table, core_.options.domain, core_.device.memory,
                           core_.gone)) {
    complete_first(CompletionStatus::local_protection);
    return;
  }
  unacked_ = psn + 1;
  complete_first(CompletionStatus::success);
  note_progress(now);
}

void Requester::recover(Time now) {
  if (!is_recovering_) {
    retry(now);
  }
}

void Requester::retry(Time now) {
  if (retries_left_ == 0) {
    complete_first(CompletionStatus::retry_exceeded);
    return;
  }
  --retries_left_;
  is_recovering_ = true;
  go_back();
  restart_timer(now);
}

void Requester::go_back() noexcept {
  ++core_.device.counters.retransmissions;
  cursor_ = core_.sends.first();
  cursor_packet_ = has_answer(current().request.kind) ? 0 : acknowledged_of(current());
  unasked_ = 0;
  core_.device.wake(core_.owner);
}

void Requester::advance(Time now) {
  if (rnr_until_ <= now) {
    rnr_until_ = kNever;
    restart_timer(now);
    core_.device.wake(core_.owner);
  }
  if (ask_at_ <= now && now < ack_deadline_) {
    ++core_.device.counters.asked_again;
    is_recovering_ = true;
    go_back();
    ask_after_ *= 2;
    ask_later(now);
  }
  if (ack_deadline_ <= now) {
    ++core_.device.counters.timeouts;
    retry(now);
  }
}

void Requester::fail() {
  if (!core_.sends.is_empty()) {
    complete_first(CompletionStatus::retry_exceeded);
  }
}

void Requester::complete_first(CompletionStatus status) {
  if (status == CompletionStatus::success) {
    pop_first(status);
    complete_local();
    return;
  }
  const SendEntry entry = core_.sends.at(core_.sends.first());
  pop_first(status);
  if (is_acknowledged()) {
    core_.enter_error([&] { return explained(entry, status); });
  } else {
    core_.enter_send_error([&] { return explained(entry, status); });
  }
  stop_timers();
}

void Requester::pop_first(CompletionStatus status) {
  const SendEntry& entry = core_.sends.at(core_.sends.first());
  if (entry.has_begun && has_answer(entry.request.kind)) {
    --answers_due_;
  }
  core_.complete_send(entry, status);
  core_.sends.pop();
}

std::string Requester::explained(const SendEntry& entry, CompletionStatus status) const {
  std::string request = fmt::format("the request with wr_id {:#x} failed: {}", entry.request.id, text(status));
  switch (status) {
    case CompletionStatus::retry_exceeded:
      return fmt::format("{}; nothing was heard in {} attempts of {} ms each (retry_cnt, timeout)", request,
                         core_.attributes.retry_count + 1, static_cast<double>(timeout()) / 1e6);
    case CompletionStatus::rnr_retry_exceeded:
      return fmt::format("{}; the other side had posted no receive request, {} times (rnr_retry)", request,
                         core_.attributes.rnr_retry + 1);
    case CompletionStatus::remote_access:
      return fmt::format("{}; rkey {:#x}, address {:#x}, {} bytes", request, entry.request.rkey,
                         entry.request.remote_address, entry.length);
    case CompletionStatus::local_protection:
      return fmt::format("{}; a key, an address or the rights of its own buffer are wrong", request);
    default:
      return request;
  }
}

}  // namespace sidelatch::softnic::nic

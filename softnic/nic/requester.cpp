// Turns requests into packets.
#include "requester.h"

#include "queue_pair.h"

#include <algorithm>

namespace sidelatch::softnic::nic {

namespace {

/// Fewer than this many numbers may be in flight; otherwise old and new ones could not be distinguished (chapter 9,
/// packet sequence numbers).
constexpr std::uint32_t kMostInFlight = 1U << (Psn::kBits - 1);

std::uint32_t packets_for(std::uint64_t length, PathMtu mtu) {
  const std::uint64_t bytes = bytes_of(mtu);
  return length == 0 ? 1 : static_cast<std::uint32_t>((length + bytes - 1) / bytes);
}

Opcode opcode_of(WorkKind kind, bool is_first, bool is_last) {
  const bool writes = is_write(kind);
  if (!is_last) {
    return is_first ? (writes ? Opcode::write_first : Opcode::send_first)
                    : (writes ? Opcode::write_middle : Opcode::send_middle);
  }
  switch (kind) {
    case WorkKind::send_with_immediate:
      return is_first ? Opcode::send_only_with_immediate : Opcode::send_last_with_immediate;
    case WorkKind::send_with_invalidate:
      return is_first ? Opcode::send_only_with_invalidate : Opcode::send_last_with_invalidate;
    case WorkKind::write:
      return is_first ? Opcode::write_only : Opcode::write_last;
    case WorkKind::write_with_immediate:
      return is_first ? Opcode::write_only_with_immediate : Opcode::write_last_with_immediate;
    default:
      return is_first ? Opcode::send_only : Opcode::send_last;
  }
}

}  // namespace

void Requester::reset() noexcept {
  cursor_ = core_.sends.end();
  cursor_packet_ = answers_due_ = unasked_ = 0;
  is_recovering_ = false;
  stop_timers();
}

void Requester::start() noexcept {
  next_ = unacked_ = sent_end_ = core_.attributes.send_psn;
  cursor_ = core_.sends.first();
  retries_left_ = core_.attributes.retry_count;
  rnr_retries_left_ = core_.attributes.rnr_retry;
}

bool Requester::is_drained() noexcept {
  return core_.sends.is_empty() || !core_.sends.at(core_.sends.first()).has_begun;
}

std::optional<CompletionStatus> Requester::find_local_error(const SendEntry& entry) {
  const bool is_short = is_atomic(entry.request.kind) && entry.length < kAtomicBytes;
  const bool is_odd = entry.request.kind == WorkKind::atomic_write && entry.length != kAtomicBytes;
  if (entry.length > kMostMessageBytes || is_short || is_odd) {
    return CompletionStatus::local_length;
  }
  if (has_answer(entry.request.kind) && core_.attributes.max_rd_atomic == 0) {
    return CompletionStatus::local_operation;  // it could never begin
  }
  const Rights needed = fills_buffer(entry.request.kind) ? Rights::local_write : Rights::none;
  if (!core_.sends.may_touch(cursor_, core_.device.table, core_.options.domain, needed)) {
    return CompletionStatus::local_protection;
  }
  return std::nullopt;
}

bool Requester::may_begin(const SendEntry& entry) const noexcept {
  if (core_.state() != QueuePairState::rts) {
    return false;  // SQD: only begun requests are finished
  }
  if (entry.request.fence && answers_due_ != 0) {
    return false;
  }
  // With max_rd_atomic 0 the request begins, and fails.
  return !has_answer(entry.request.kind) || answers_due_ < std::max<std::uint8_t>(core_.attributes.max_rd_atomic, 1);
}

// Gives the request its packet numbers. False if it has to wait.
bool Requester::begin(SendEntry& entry) {
  const bool is_one_packet = is_atomic(entry.request.kind) || entry.request.kind == WorkKind::atomic_write;
  const std::uint32_t packets = is_one_packet ? 1 : packets_for(entry.length, core_.attributes.path_mtu);
  if (offset_of(next_) != 0 && offset_of(next_) + packets > kMostInFlight) {
    return false;
  }
  entry.first = next_;
  entry.packets = packets;
  entry.has_begun = true;
  next_ = next_ + packets;
  answers_due_ += has_answer(entry.request.kind) ? 1U : 0U;
  return true;
}

Psn Requester::psn_to_send(const SendEntry& entry) const noexcept {
  return entry.first + (has_answer(entry.request.kind) ? entry.answered : cursor_packet_);
}

std::size_t Requester::produce(std::span<std::byte> out, Time now) {
  const bool is_running = core_.state() == QueuePairState::rts || core_.state() == QueuePairState::sqd;
  if (!is_running || rnr_until_ != kNever) {
    return 0;
  }
  while (cursor_ != core_.sends.end() && is_local(current().request.kind)) {
    if (!do_local()) {
      return 0;
    }
  }
  if (cursor_ == core_.sends.end()) {
    return 0;
  }
  SendEntry& entry = current();
  if (!entry.has_begun) {
    if (!may_begin(entry)) {
      return 0;
    }
    entry.failure = find_local_error(entry);
  }
  if (entry.failure) {
    fail_current();
    return 0;
  }
  if (!entry.has_begun && !begin(entry)) {
    return 0;
  }
  if (offset_of(psn_to_send(entry)) >= core_.device.options.window_packets && is_acknowledged()) {
    return 0;
  }
  const Psn psn = psn_to_send(entry);
  const std::size_t bytes = build_request(entry, out);
  if (bytes != 0) {
    note_sent(entry, psn, now);
  }
  return bytes;
}

std::size_t Requester::build_request(SendEntry& entry, std::span<std::byte> out) {
  const SendRequest& request = entry.request;
  Packet packet = core_.path.packet();
  packet.bth.psn = psn_to_send(entry);
  packet.bth.ack_request = true;
  if (request.kind == WorkKind::read) {
    // Packets already received are not requested again: address and length are those of the rest.
    const std::uint64_t done = std::uint64_t{entry.answered} * bytes_of(core_.attributes.path_mtu);
    packet.bth.opcode = Opcode::read_request;
    packet.reth = {.virtual_address = request.remote_address + done,
                   .r_key = request.rkey,
                   .dma_length = static_cast<std::uint32_t>(entry.length - done)};
  } else if (request.kind == WorkKind::atomic_write) {
    packet.bth.opcode = Opcode::atomic_write;
    packet.reth = {.virtual_address = request.remote_address, .r_key = request.rkey, .dma_length = kAtomicBytes};
  } else if (is_atomic(request.kind)) {
    packet.bth.opcode = request.kind == WorkKind::compare_swap ? Opcode::compare_swap : Opcode::fetch_add;
    packet.atomic = {.virtual_address = request.remote_address,
                     .r_key = request.rkey,
                     .swap_or_add = request.swap_or_add,
                     .compare = request.compare};
  } else {
    describe_part(entry, packet);
  }
  packet.bth.opcode = in(core_.service, packet.bth.opcode);
  packet.xrceth = {.srq = request.remote_srq};
  if (!fills_buffer(request.kind)) {
    const std::uint64_t offset =
        has_answer(request.kind) ? 0 : std::uint64_t{cursor_packet_} * bytes_of(core_.attributes.path_mtu);
    const auto length =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes_of(core_.attributes.path_mtu), entry.length - offset));
    const std::span<std::byte> payload = out.subspan(payload_offset(packet), length);
    if (!core_.sends.gather(cursor_, offset, payload, core_.device.table, core_.options.domain, core_.device.memory,
                            core_.gone)) {
      // The region has ended since the request began, or a page of it is gone.
      entry.failure = CompletionStatus::local_protection;
      fail_current();
      return 0;
    }
    packet.payload = payload;
  }
  const auto built = build(packet, out, core_.attributes.path_mtu);
  const auto* const bytes = std::get_if<std::size_t>(&built);
  return bytes == nullptr ? 0 : *bytes;
}

void Requester::describe_part(const SendEntry& entry, Packet& packet) noexcept {
  const SendRequest& request = entry.request;
  const bool is_first = cursor_packet_ == 0;
  const bool is_last = cursor_packet_ + 1 == entry.packets;
  packet.bth.opcode = opcode_of(request.kind, is_first, is_last);
  packet.bth.solicited_event = is_last && request.solicited && request.kind != WorkKind::write;
  // Ask often enough that the window does not close before an answer comes.
  packet.bth.ack_request =
      is_acknowledged() && (is_last || unasked_ + 1 >= std::max(core_.device.options.window_packets / 4, 1U));
  packet.reth = {.virtual_address = request.remote_address,
                 .r_key = request.rkey,
                 .dma_length = static_cast<std::uint32_t>(entry.length)};
  packet.immediate = {.data = request.immediate};
  packet.ieth = {.r_key = request.invalidate_key};
  unasked_ = packet.bth.ack_request ? 0 : unasked_ + 1;
}

void Requester::note_sent(const SendEntry& entry, Psn psn, Time now) {
  Psn end = psn + 1;
  if (has_answer(entry.request.kind)) {
    end = entry.first + entry.packets;
    ++cursor_;
  } else if (++cursor_packet_ == entry.packets) {
    cursor_packet_ = 0;
    ++cursor_;
  }
  if (!is_acknowledged()) {
    unacked_ = sent_end_ = end;
    if (cursor_packet_ == 0) {
      complete_first(CompletionStatus::success);
    }
    return;
  }
  // The packet is farther than any before; packets sent again are not.
  if (offset_of(end) > offset_of(sent_end_)) {
    sent_end_ = end;
  }
  if (ack_deadline_ == kNever) {
    restart_timer(now);
  }
}

bool Requester::do_local() {
  SendEntry& entry = current();
  if (!entry.has_begun) {
    const bool must_wait = entry.request.kind == WorkKind::invalidate && core_.sends.first() != cursor_;
    if (must_wait || !may_begin(entry)) {
      return false;
    }
    entry.has_begun = true;
    entry.first = next_;
    if (!carry_out(entry.request)) {
      // As Linux's rxe tells them apart.
      entry.failure = entry.request.kind == WorkKind::bind_window ? CompletionStatus::window_bind
                                                                  : CompletionStatus::local_operation;
    }
  }
  if (entry.failure) {
    fail_current();
    return false;
  }
  ++cursor_;
  complete_local();
  return true;
}

bool Requester::carry_out(const SendRequest& request) {
  const bool binds = request.kind == WorkKind::bind_window;
  const std::uint32_t ended = binds ? core_.device.table.window_key(request.binding.window) : request.invalidate_key;
  const bool done = binds ? core_.device.table.bind(request.binding, core_.options.domain, core_.number)
                          : core_.device.table.invalidate(request.invalidate_key, core_.options.domain, core_.number);
  if (done) {
    core_.device.memory.end_region(ended);
  }
  return done;
}

// Completes what needed no packet, and was done while earlier requests had not completed.
void Requester::complete_local() {
  // Also if requests before it were to be sent again, so that the cursor is not behind it any more.
  const auto is_done = [](const SendEntry& entry) {
    return is_local(entry.request.kind) && entry.has_begun && !entry.failure;
  };
  while (!core_.sends.is_empty() && is_done(core_.sends.at(core_.sends.first()))) {
    pop_first(CompletionStatus::success);
  }
}

// The next request cannot be sent: it completes with its failure when all earlier requests have completed.
void Requester::fail_current() {
  if (core_.sends.first() == cursor_) {
    complete_first(*current().failure);
  }
}

}  // namespace sidelatch::softnic::nic

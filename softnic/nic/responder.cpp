// Decides which requests are accepted, and does the bookkeeping.
#include "responder.h"

#include "queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace sidelatch::softnic::nic {

namespace {

std::string refusal_of(NakCode code, CompletionStatus receive) {
  switch (code) {
    case NakCode::remote_access_error:
      return "its key, address, length or rights do not fit a region or window of this side's";
    case NakCode::remote_operational_error:
      return "the receive request's buffer may not be written";
    default:
      return receive == CompletionStatus::local_length
                 ? "it is longer than the receive request's buffer"
                 : "the queue pair does not allow it (rights, max_dest_rd_atomic), or it breaks the protocol";
  }
}

}  // namespace

std::string Responder::explained(const Fault& fault) {
  return fmt::format("a request of the other side is refused: {}",
                     refusal_of(fault.nak.nak_code().value_or(NakCode::invalid_request), fault.receive));
}

void Responder::reset() noexcept {
  core_.device.memory.end_queue_pair(core_.number);
  answers_.reset();
  resources_.clear();
  resource_end_ = 0;
  msn_ = 0;
  if (has_buffer_) {
    core_.inbox.receives->retire();  // of a message that has not ended, and is not reported
  }
  gap_is_told_ = is_established_ = is_synchronized_ = has_buffer_ = false;
  message_ = Message::none;
}

void Responder::start() {
  expected_ = core_.attributes.receive_psn;
  acknowledged_ = expected_ - 1;
  resource_end_ = 0;
  resize();
}

void Responder::resize() {
  answers_.start(core_.attributes.max_dest_rd_atomic);
  // Do not use assign(): operations cannot be copied. All are done.
  std::vector<Resource> resources(core_.attributes.max_dest_rd_atomic);
  const std::uint64_t kept = std::min<std::uint64_t>({resource_end_, resources_.size(), resources.size()});
  for (std::uint64_t number = resource_end_ - kept; number < resource_end_; ++number) {
    resources[number % resources.size()].take(resources_[number % resources_.size()]);
  }
  resources_ = std::move(resources);
}

void Responder::forget(const ReceiveQueue& queue) {
  if (core_.inbox.receives == &queue) {
    has_buffer_ = false;
    message_ = Message::none;
  }
  core_.forget_inbox(queue);
}

void Responder::flush_receive() {
  if (has_buffer_) {
    has_buffer_ = false;
    core_.fail_receive(buffer_.id, CompletionStatus::flushed);
  }
}

void Responder::on_request(const Packet& packet, Time /*now*/) {
  const RequestShape shape = shape_of(packet.bth.opcode);
  if (!core_.receives_packets() || answers_.is_full()) {
    ++core_.device.counters.dropped;
    return;
  }
  if (core_.state() == QueuePairState::rtr && !is_established_) {
    is_established_ = true;
    core_.device.events.add(Event::Kind::communication_established, core_.number);
  }
  if (!is_reliable(core_.options.type)) {
    on_unreliable(packet, shape);
    return;
  }
  const std::int32_t ahead = distance(expected_, packet.bth.psn);
  if (ahead == 0) {
    gap_is_told_ = false;
    on_expected(packet, shape);
  } else if (ahead > 0) {
    ++core_.device.counters.out_of_sequence;
    on_gap();
  } else {
    ++core_.device.counters.duplicates;
    on_repeated(packet, shape);
  }
}

void Responder::on_malformed(const Packet& packet) {
  const std::int32_t ahead = distance(expected_, packet.bth.psn);
  if (answers_.is_full()) {
    ++core_.device.counters.dropped;
  } else if (ahead == 0) {
    fail(Fault{Syndrome::nak(NakCode::invalid_request), CompletionStatus::remote_invalid_request}, expected_);
  } else if (ahead > 0) {
    ++core_.device.counters.out_of_sequence;
    on_gap();
  }
}

// Nobody sends anything again. The first packet of a message begins anew, whatever was before it (9.8.2): also far
// behind, where a sender that was reset begins. Near by, it is late or doubled.
void Responder::on_unreliable(const Packet& packet, RequestShape shape) {
  constexpr std::int32_t kLate = 1 << 14;  // some ten milliseconds of small messages
  const std::int32_t ahead = distance(expected_, packet.bth.psn);
  if (is_synchronized_ && ahead < 0 && (ahead >= -kLate || !shape.starts)) {
    ++core_.device.counters.duplicates;
    return;
  }
  core_.device.counters.out_of_sequence += ahead != 0 ? 1U : 0U;
  if (ahead != 0 || shape.starts) {
    message_ = Message::none;
  }
  expected_ = packet.bth.psn;
  if (!shape.starts && message_ == Message::none) {
    ++core_.device.counters.dropped;  // its beginning is lost
    ++expected_;
    return;
  }
  is_synchronized_ = true;
  on_expected(packet, shape);
}

// Sends one NAK until the missing packet has come.
void Responder::on_gap() {
  if (!gap_is_told_) {
    gap_is_told_ = true;
    answers_.add_nak(expected_, msn_, Syndrome::nak(NakCode::psn_sequence_error));
  }
}

void Responder::on_expected(const Packet& packet, RequestShape shape) {
  Checked fault = check_sequence(packet, shape);
  if (!fault && shape.starts && core_.options.type == QueuePairType::xrc_target &&
      !core_.find_inbox(packet.xrceth.srq)) {
    fault = Fault{Syndrome::nak(NakCode::invalid_request), CompletionStatus::remote_invalid_request};
  }
  if (!fault) {
    switch (shape.kind) {
      case RequestShape::Kind::send:
        fault = take_send(packet, shape);
        break;
      case RequestShape::Kind::write:
        fault = take_write(packet, shape);
        break;
      case RequestShape::Kind::read:
        fault = take_read(packet);
        break;
      case RequestShape::Kind::atomic_write:
        fault = take_atomic_write(packet);
        break;
      default:
        fault = take_atomic(packet);
        break;
    }
  }
  if (fault) {
    fail(*fault, expected_);
  }
}

void Responder::fail(const Fault& fault, Psn psn) {
  if (!is_reliable(core_.options.type)) {
    ++core_.device.counters.dropped;
    ++expected_;
    message_ = Message::none;
    if (fault.receive != CompletionStatus::local_protection) {
      core_.gone = nullptr;  // nobody hears of it
    }
    if (fault.receive == CompletionStatus::local_protection && has_buffer_) {
      has_buffer_ = false;
      core_.fail_receive(buffer_.id, fault.receive);
      core_.enter_error([] { return std::string("a receive request's buffer may not be written"); });
    }
    return;
  }
  answers_.add_nak(psn, msn_, fault.nak);
  if (fault.nak.kind() == Syndrome::Kind::rnr_nak) {
    gap_is_told_ = true;  // later packets are too early, which this NAK has already reported
    return;
  }
  if (has_buffer_) {
    has_buffer_ = false;
    core_.fail_receive(buffer_.id, fault.receive);
  }
  if (fault.nak.nak_code() == NakCode::invalid_request) {
    core_.device.events.add(Event::Kind::request_error, core_.number);
  } else if (fault.nak.nak_code() == NakCode::remote_access_error) {
    core_.device.events.add(Event::Kind::access_error, core_.number);
  }
  message_ = Message::none;
  core_.enter_error([&] { return explained(fault); });
}

// The refusal has the number of the next request, as if this one had been answered.
void Responder::fail_place(const GonePlace& place) {
  if (!core_.receives_packets()) {
    return;
  }
  const bool is_send = place.source.kind == fabric::model::Kind::send;
  const Fault fault = is_send
                          ? Fault{Syndrome::nak(NakCode::remote_operational_error), CompletionStatus::local_protection}
                          : Fault{Syndrome::nak(NakCode::remote_access_error), CompletionStatus::local_access};
  const bool was_received = core_.fail_pending_receive(place.source.message, fault.receive);
  core_.gone = place.gone;
  if (is_reliable(core_.options.type)) {
    fail(was_received ? Fault{fault.nak, CompletionStatus::flushed} : fault, expected_);
  } else if (is_send || was_received) {
    if (has_buffer_ && !was_received) {
      has_buffer_ = false;
      core_.fail_receive(buffer_.id, fault.receive);
    }
    core_.enter_error([&] { return explained(fault); });
  } else {
    ++core_.device.counters.dropped;
    core_.gone = nullptr;
  }
}

void Responder::on_repeated(const Packet& packet, RequestShape shape) {
  if (shape.kind == RequestShape::Kind::send || shape.kind == RequestShape::Kind::write) {
    // Acknowledge only up to the last SEND or WRITE: a later READ or atomic is acknowledged only by its own answer.
    // Linux's rxe takes an acknowledgement with the number of its READ or atomic for that answer, and completes the
    // request without a value.
    answers_.add_acknowledge(acknowledged_, msn_);
    return;
  }
  const std::uint64_t kept = std::min<std::uint64_t>(resource_end_, resources_.size());
  for (std::uint64_t number = resource_end_; number-- > resource_end_ - kept;) {
    const Resource& resource = resources_[number % resources_.size()];
    if (((packet.bth.psn.value() - resource.first.value()) & Psn::kMask) < resource.packets) {
      answer_again(resource, number, packet);
      return;
    }
  }
}

// Answers only a part of the earlier request; anything else is no repetition of it.
void Responder::answer_again(const Resource& resource, std::uint64_t number, const Packet& packet) {
  const bool wants_atomic = operation_of(packet.bth.opcode) != Opcode::read_request;
  if (wants_atomic != resource.is_atomic || !answers_.has_room_for_repeated()) {
    return;
  }
  if (wants_atomic) {
    const bool writes = operation_of(packet.bth.opcode) == Opcode::atomic_write;
    const std::uint64_t address = writes ? packet.reth.virtual_address : packet.atomic.virtual_address;
    const std::uint32_t key = writes ? packet.reth.r_key : packet.atomic.r_key;
    if (resource.address != address || resource.key != key || resource.step != step_of(packet)) {
      return;
    }
    answers_.add(
        {.kind = Answer::Kind::atomic, .psn = packet.bth.psn, .msn = msn_, .is_repeated = true, .resource = number});
    return;
  }
  const std::uint32_t skipped = (packet.bth.psn.value() - resource.first.value()) & Psn::kMask;
  const std::uint64_t mtu = bytes_of(core_.attributes.path_mtu);
  const std::uint64_t rest = resource.length - skipped * mtu;
  const Reth& reth = packet.reth;
  if (reth.r_key != resource.key || reth.virtual_address != resource.address + skipped * mtu ||
      reth.dma_length > rest || (reth.dma_length == 0 && rest != 0)) {
    return;
  }
  // It may end before the earlier one did, as for Linux's rxe.
  const auto packets = static_cast<std::uint32_t>(std::max<std::uint64_t>((reth.dma_length + mtu - 1) / mtu, 1));
  if (reth.dma_length == rest && answers_.resume_from(packet.bth.psn, packets)) {
    return;
  }
  answers_.add({.kind = Answer::Kind::read,
                .psn = packet.bth.psn,
                .msn = msn_,
                .is_repeated = true,
                .address = reth.virtual_address,
                .key = reth.r_key,
                .domain = resource.domain,
                .length = reth.dma_length,
                .packets = packets,
                .message = ++messages_});
}

const Resource* Responder::resource_of_first() const noexcept {
  const Answer* const first = answers_.first();
  if (first == nullptr || first->kind != Answer::Kind::atomic || first->resource + resources_.size() < resource_end_ ||
      first->resource >= resource_end_) {
    return nullptr;
  }
  return &resources_[first->resource % resources_.size()];
}

std::size_t Responder::produce(std::span<std::byte> out) {
  for (;;) {
    const Resource* const resource = resource_of_first();
    Answer* const answer = answers_.ready(resource);
    if (answer == nullptr) {
      return 0;
    }
    Packet packet = core_.path.packet();
    packet.bth.psn = answer->psn + answer->sent;
    packet.aeth = {.syndrome = Syndrome::ack(), .msn = answer->msn};
    if (answer->kind == Answer::Kind::read) {
      return produce_read(*answer, packet, out);
    }
    if (answer->kind == Answer::Kind::acknowledge) {
      packet.bth.opcode = Opcode::acknowledge;
      packet.aeth.syndrome = answer->syndrome;
    } else if (resource == nullptr) {
      // So many requests have come since that this one is no longer kept: nobody waits for its answer.
      answers_.pop();
      continue;
    } else if (resource->operation.failed) {
      const Psn psn = answer->psn;
      core_.gone = resource->operation.gone;
      answers_.drop_all();
      fail({Syndrome::nak(NakCode::remote_access_error), CompletionStatus::flushed}, psn);
      continue;
    } else {
      packet.bth.opcode = resource->is_write ? Opcode::read_response_only : Opcode::atomic_acknowledge;
      packet.atomic_ack = {.original = resource->operation.original};
    }
    packet.bth.opcode = in(core_.service, packet.bth.opcode);
    core_.device.memory.acknowledged(core_.number);
    answers_.pop();
    return std::get<std::size_t>(build(packet, out));
  }
}

std::size_t Responder::produce_read(Answer& answer, Packet& packet, std::span<std::byte> out) {
  const std::size_t mtu = bytes_of(core_.attributes.path_mtu);
  const bool is_first = answer.sent == 0;
  const bool is_last = answer.sent + 1 == answer.packets;
  packet.bth.opcode = is_first  ? (is_last ? Opcode::read_response_only : Opcode::read_response_first)
                      : is_last ? Opcode::read_response_last
                                : Opcode::read_response_middle;
  packet.bth.opcode = in(core_.service, packet.bth.opcode);
  const std::size_t length = std::min(mtu, answer.length - answer.sent * mtu);
  const std::span<std::byte> payload = out.subspan(payload_offset(packet), length);
  if (!answers_.take_sample(payload)) {
    // The region has ended since the request was checked, or a page of it is gone: this packet and all later ones are
    // not answered.
    const Psn psn = packet.bth.psn;
    answers_.drop_all();
    fail({Syndrome::nak(NakCode::remote_access_error), CompletionStatus::flushed}, psn);
    return produce(out);
  }
  packet.payload = payload;
  core_.device.memory.acknowledged(core_.number);
  if (++answer.sent == answer.packets) {
    answers_.pop();
  }
  return std::get<std::size_t>(build(packet, out, core_.attributes.path_mtu));
}

}  // namespace sidelatch::softnic::nic

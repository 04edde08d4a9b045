// Checks and executes requests that arrive in order.
#include "queue_pair.h"
#include "responder.h"

#include <algorithm>
#include <cstring>

namespace sidelatch::softnic::nic {

namespace {

constexpr Syndrome kInvalid = Syndrome::nak(NakCode::invalid_request);
constexpr Syndrome kAccess = Syndrome::nak(NakCode::remote_access_error);
constexpr Syndrome kOperational = Syndrome::nak(NakCode::remote_operational_error);

}  // namespace

// Checks the sequence of opcodes, and the length of a packet.
Responder::Checked Responder::check_sequence(const Packet& packet, RequestShape shape) const {
  const Message needed = shape.starts                             ? Message::none
                         : shape.kind == RequestShape::Kind::send ? Message::send
                                                                  : Message::write;
  const bool fits =
      message_ == needed && !check_payload(packet.bth.opcode, packet.payload.size(), core_.attributes.path_mtu);
  return fits ? std::nullopt : Checked({kInvalid, CompletionStatus::remote_invalid_request});
}

bool Responder::is_outside(std::uint64_t address, std::uint32_t key, std::uint64_t length, Rights needed) const {
  // No key is checked if there are no bytes.
  return length != 0 &&
         core_.device.table.remote(key, core_.inbox.domain, core_.number, address, length, needed) == nullptr;
}

bool Responder::has_buffer() {
  if (!has_buffer_) {
    has_buffer_ = core_.take_receive(buffer_);
  }
  return has_buffer_;
}

Responder::Checked Responder::take_send(const Packet& packet, RequestShape shape) {
  if (!has_buffer()) {
    return Fault{Syndrome::rnr_nak(core_.attributes.min_rnr_timer), CompletionStatus::flushed};
  }
  if (shape.starts) {
    ++messages_;
    received_ = 0;
  }
  if (received_ + packet.payload.size() > std::min<std::uint64_t>(buffer_.length, kMostMessageBytes)) {
    return Fault{kInvalid, CompletionStatus::local_length};
  }
  if (!core_.place_received(buffer_, received_, packet.payload, messages_)) {
    return Fault{kOperational, CompletionStatus::local_protection};
  }
  // The window serves this queue pair alone: all that touches it still are earlier requests. They go on, and the
  // receiver hears of the message when they are over.
  if (shape.has_invalidate && !core_.device.table.invalidate(packet.ieth.r_key, core_.inbox.domain, core_.number)) {
    return Fault{kAccess, CompletionStatus::local_access};
  }
  received_ += packet.payload.size();
  message_ = Message::send;
  end_message(packet, shape, static_cast<std::uint32_t>(received_), CompletionKind::receive);
  return std::nullopt;
}

Responder::Checked Responder::take_write(const Packet& packet, RequestShape shape) {
  const Fault invalid{kInvalid, CompletionStatus::remote_invalid_request};
  if (!allows(core_.attributes.rights, Rights::remote_write)) {
    return invalid;
  }
  const Reth& reth = shape.starts ? packet.reth : write_;
  const std::uint64_t before = shape.starts ? 0 : received_;
  const std::uint64_t now = before + packet.payload.size();
  if (reth.dma_length > kMostMessageBytes || (shape.ends ? now != reth.dma_length : now >= reth.dma_length)) {
    return invalid;
  }
  if (shape.starts && is_outside(reth.virtual_address, reth.r_key, reth.dma_length, Rights::remote_write)) {
    return Fault{kAccess, CompletionStatus::local_access};
  }
  if (shape.has_immediate && !has_buffer()) {
    return Fault{Syndrome::rnr_nak(core_.attributes.min_rnr_timer), CompletionStatus::flushed};
  }
  if (!packet.payload.empty()) {
    // The region may have ended since the message began.
    std::byte* const to =
        core_.device.table.remote(reth.r_key, core_.inbox.domain, core_.number, reth.virtual_address + before,
                                  packet.payload.size(), Rights::remote_write);
    if (to == nullptr) {
      return Fault{kAccess, CompletionStatus::local_access};
    }
    messages_ += shape.starts ? 1U : 0U;
    core_.gone = core_.device.memory.place({core_.number, messages_, fabric::model::Kind::write, reth.r_key}, to,
                                           packet.payload);
    if (core_.gone != nullptr) {
      return Fault{kAccess, CompletionStatus::local_access};
    }
  }
  write_ = reth;
  received_ = now;
  message_ = Message::write;
  end_message(packet, shape, reth.dma_length, CompletionKind::receive_write);
  return std::nullopt;
}

// Ends a SEND or WRITE whose last packet has been executed.
void Responder::end_message(const Packet& packet, RequestShape shape, std::uint32_t bytes, CompletionKind kind) {
  acknowledged_ = expected_;
  ++expected_;
  if (shape.ends) {
    message_ = Message::none;
    msn_ = (msn_ + 1) & Psn::kMask;
    // On an unreliable connection there may be the buffer of a SEND that was dropped.
    if (has_buffer_ && (kind == CompletionKind::receive || shape.has_immediate)) {
      has_buffer_ = false;
      core_.complete_receive({.id = buffer_.id,
                              .kind = kind,
                              .has_immediate = shape.has_immediate,
                              .has_invalidated = shape.has_invalidate,
                              .bytes = bytes,
                              .immediate = packet.immediate.data,
                              .invalidated_key = packet.ieth.r_key,
                              .queue_pair = core_.number},
                             packet.bth.solicited_event, messages_);
    }
  }
  if (packet.bth.ack_request && is_reliable(core_.options.type)) {
    answers_.add_acknowledge(acknowledged_, msn_);
  }
}

Resource& Responder::new_resource(const Packet& packet, std::uint32_t packets) {
  Resource& resource = resources_[resource_end_ % resources_.size()];
  ++resource_end_;
  resource.first = packet.bth.psn;
  resource.packets = packets;
  resource.operation.begin();
  expected_ = expected_ + packets;
  msn_ = (msn_ + 1) & Psn::kMask;
  ++messages_;
  return resource;
}

Responder::Checked Responder::take_read(const Packet& packet) {
  const Reth& reth = packet.reth;
  const std::size_t mtu = bytes_of(core_.attributes.path_mtu);
  // Refuses READs without the right, and more than were agreed on.
  if (!allows(core_.attributes.rights, Rights::remote_read) || answers_.unanswered() >= resources_.size() ||
      reth.dma_length > kMostMessageBytes) {
    return Fault{kInvalid, CompletionStatus::remote_invalid_request};
  }
  if (is_outside(reth.virtual_address, reth.r_key, reth.dma_length, Rights::remote_read)) {
    return Fault{kAccess, CompletionStatus::local_access};
  }
  const auto packets = static_cast<std::uint32_t>(std::max<std::size_t>((reth.dma_length + mtu - 1) / mtu, 1));
  Resource& resource = new_resource(packet, packets);
  resource.is_atomic = resource.is_write = false;
  resource.domain = core_.inbox.domain;
  resource.address = reth.virtual_address;
  resource.key = reth.r_key;
  resource.length = reth.dma_length;
  answers_.add({.kind = Answer::Kind::read,
                .psn = packet.bth.psn,
                .msn = msn_,
                .address = reth.virtual_address,
                .key = reth.r_key,
                .domain = core_.inbox.domain,
                .length = reth.dma_length,
                .packets = packets,
                .message = messages_});
  return std::nullopt;
}

AtomicStep Responder::step_of(const Packet& packet) {
  if (operation_of(packet.bth.opcode) == Opcode::atomic_write) {
    AtomicStep step{.is_swap = true};
    std::memcpy(&step.swap_or_add, packet.payload.data(), kAtomicBytes);
    return step;
  }
  const bool swaps = operation_of(packet.bth.opcode) == Opcode::compare_swap;
  // A FETCH-ADD has no meaning for `compare`, and Linux's rxe leaves there what was in memory.
  return {
      .is_compare_swap = swaps, .compare = swaps ? packet.atomic.compare : 0, .swap_or_add = packet.atomic.swap_or_add};
}

Responder::Checked Responder::take_atomic(const Packet& packet) {
  const AtomicEth& atomic = packet.atomic;
  if (!allows(core_.attributes.rights, Rights::remote_atomic) || answers_.unanswered() >= resources_.size() ||
      atomic.virtual_address % kAtomicBytes != 0) {
    return Fault{kInvalid, CompletionStatus::remote_invalid_request};
  }
  std::byte* const word = core_.device.table.remote(atomic.r_key, core_.inbox.domain, core_.number,
                                                    atomic.virtual_address, kAtomicBytes, Rights::remote_atomic);
  // The other side's address may be aligned although the memory is not.
  if (word == nullptr || reinterpret_cast<std::uintptr_t>(word) % kAtomicBytes != 0) {
    return Fault{kAccess, CompletionStatus::local_access};
  }
  Resource& resource = new_resource(packet, 1);
  resource.is_atomic = true;
  resource.is_write = false;
  resource.address = atomic.virtual_address;
  resource.key = atomic.r_key;
  resource.step = step_of(packet);
  core_.device.memory.atomic({core_.number, messages_, fabric::model::Kind::atomic, atomic.r_key}, word, resource.step,
                             resource.operation);
  answers_.add({.kind = Answer::Kind::atomic, .psn = packet.bth.psn, .msn = msn_, .resource = resource_end_ - 1});
  return std::nullopt;
}

// An aligned word is written at once, like by an atomic; the answer has no value.
Responder::Checked Responder::take_atomic_write(const Packet& packet) {
  const Reth& reth = packet.reth;
  if (!allows(core_.attributes.rights, Rights::remote_write) || answers_.unanswered() >= resources_.size() ||
      reth.virtual_address % kAtomicBytes != 0 || reth.dma_length != kAtomicBytes) {
    return Fault{kInvalid, CompletionStatus::remote_invalid_request};
  }
  std::byte* const word = core_.device.table.remote(reth.r_key, core_.inbox.domain, core_.number, reth.virtual_address,
                                                    kAtomicBytes, Rights::remote_write);
  if (word == nullptr || reinterpret_cast<std::uintptr_t>(word) % kAtomicBytes != 0) {
    return Fault{kAccess, CompletionStatus::local_access};
  }
  Resource& resource = new_resource(packet, 1);
  resource.is_atomic = resource.is_write = true;
  resource.address = reth.virtual_address;
  resource.key = reth.r_key;
  resource.step = step_of(packet);
  core_.device.memory.atomic({core_.number, messages_, fabric::model::Kind::atomic, reth.r_key}, word, resource.step,
                             resource.operation);
  answers_.add({.kind = Answer::Kind::atomic, .psn = packet.bth.psn, .msn = msn_, .resource = resource_end_ - 1});
  return std::nullopt;
}

}  // namespace sidelatch::softnic::nic

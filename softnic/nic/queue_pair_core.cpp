#include "queue_pair_core.h"

#include "scatter.h"

#include <fmt/format.h>

#include <utility>

namespace sidelatch::softnic::nic {

namespace {

CompletionKind kind_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::send:
    case WorkKind::send_with_immediate:
    case WorkKind::send_with_invalidate:
      return CompletionKind::send;
    case WorkKind::write:
    case WorkKind::write_with_immediate:
      return CompletionKind::write;
    case WorkKind::read:
      return CompletionKind::read;
    case WorkKind::compare_swap:
      return CompletionKind::compare_swap;
    case WorkKind::fetch_add:
      return CompletionKind::fetch_add;
    case WorkKind::atomic_write:
      return CompletionKind::atomic_write;
    case WorkKind::bind_window:
      return CompletionKind::bind_window;
    case WorkKind::invalidate:
      return CompletionKind::invalidate;
  }
  return CompletionKind::send;
}

}  // namespace

QueuePairCore::QueuePairCore(Device& its_device, QueuePair& its_owner, const QueuePairOptions& given,
                             std::uint32_t its_number)
    : device(its_device),
      owner(its_owner),
      options(given),
      number(its_number),
      service(service_of(given.type)),
      sends(given.send_depth, given.most_send_sges, given.most_inline),
      own_receives(given.shared_receives == nullptr ? given.receive_depth : 0, given.most_receive_sges),
      receives(given.shared_receives == nullptr ? own_receives : *given.shared_receives),
      inbox(own_inbox()) {
  if (given.holds_until_polled) {
    sends.hold_until_polled();
    own_receives.hold_until_polled();
  }
}

Inbox QueuePairCore::own_inbox() noexcept {
  const ReceiveQueue* const shared = options.shared_receives;
  return {&receives, options.receive_completions, options.domain, shared == nullptr ? options.domain : shared->domain};
}

void QueuePairCore::add(CompletionQueue& queue, const Completion& completion, bool is_solicited,
                        const HeldEntry& held) {
  const bool was_broken = queue.has_overrun();
  Completion stamped = completion;
  stamped.time = device.now;
  if (queue.add(stamped, is_solicited, held)) {
    return;
  }
  if (held.receives != nullptr) {
    held.receives->retire();  // nobody can poll it, and a shared queue serves others
  }
  if (!was_broken) {
    if (device.explains) {
      device.explanations.push_back(
          fmt::format("completion queue {:#x} overruns: it has room for {} completions, which nobody has polled: poll "
                      "more often, or make it deeper",
                      queue.number(), queue.depth()));
    }
    device.events.add(Event::Kind::completion_queue_error, queue.number());
  }
  if (state() != QueuePairState::error) {
    enter_error([&] { return fmt::format("completion queue {:#x} has overrun", queue.number()); });
    device.events.add(Event::Kind::queue_pair_fatal, number);
  }
}

void QueuePairCore::note(std::string_view what, const std::string& why) {
  const std::string page = gone == nullptr ? std::string() : "; " + device.describe_gone(gone);
  device.explanations.push_back(fmt::format("queue pair {:#x} {}: {}{}", number, what, why, page));
}

void QueuePairCore::complete_send(const SendEntry& entry, CompletionStatus status) {
  const SendRequest& request = entry.request;
  if (status == CompletionStatus::success && !request.signaled && !options.signal_all) {
    return;
  }
  const std::uint64_t bytes = is_atomic(request.kind) ? 8 : request.kind == WorkKind::read ? entry.length : 0;
  add(*options.send_completions,
      {.id = request.id,
       .status = status,
       .kind = kind_of(request.kind),
       .bytes = static_cast<std::uint32_t>(bytes),
       .queue_pair = number},
      false, {.sends = &sends, .number = sends.first()});
}

bool QueuePairCore::take_receive(ReceiveBuffer& into) {
  if (!inbox.receives->take(into)) {
    return false;
  }
  if (inbox.receives->has_reached_limit()) {
    device.events.add(Event::Kind::shared_receive_limit, inbox.receives->number());
  }
  return true;
}

bool QueuePairCore::find_inbox(std::uint32_t srq) {
  const auto found = device.xrc_queues.find(srq);
  if (found == device.xrc_queues.end() || found->second->xrc_domain != options.xrc_domain) {
    return false;
  }
  ReceiveQueue& queue = *found->second;
  inbox = {&queue, queue.completions, queue.domain, queue.domain};
  return true;
}

bool QueuePairCore::place_received(const ReceiveBuffer& buffer, std::uint64_t offset, std::span<const std::byte> bytes,
                                   std::uint64_t message) {
  const auto find = [&](const Sge& sge, std::uint64_t from, std::uint64_t length) {
    return device.table.local(sge.lkey, inbox.receive_domain, sge.address + from, length, Rights::local_write);
  };
  const bool is_allowed = for_each_part(
      buffer.parts(), offset, bytes.size(),
      [&](const Sge& sge, std::uint64_t from, std::uint64_t length) { return find(sge, from, length) != nullptr; });
  const std::byte* next = bytes.data();
  return is_allowed && for_each_part(buffer.parts(), offset, bytes.size(),
                                     [&](const Sge& sge, std::uint64_t from, std::uint64_t length) {
                                       gone =
                                           device.memory.place({number, message, fabric::model::Kind::send, sge.lkey},
                                                               find(sge, from, length), {next, length});
                                       next += length;
                                       return gone == nullptr;
                                     });
}

void QueuePairCore::complete_receive(const Completion& completion, bool is_solicited, std::uint64_t message) {
  if (device.memory.is_immediate()) {
    add(*inbox.completions, completion, is_solicited, {.receives = inbox.receives});
    return;
  }
  PendingReceive& pending = pending_.emplace_back();
  pending.inbox = inbox;
  pending.message = message;
  pending.completion = completion;
  pending.is_solicited = is_solicited;
  const std::uint32_t ended = completion.has_invalidated ? completion.invalidated_key : 0;
  device.memory.receive({number, message, fabric::model::Kind::send, ended}, pending.placed);
  poll_receives();
  if (has_pending_receives()) {
    device.wait_for_memory(owner);
  }
}

void QueuePairCore::fail_receive(std::uint64_t id, CompletionStatus status) {
  const Completion failed{.id = id, .status = status, .kind = CompletionKind::receive, .queue_pair = number};
  if (!has_pending_receives()) {
    add(*inbox.completions, failed, false, {.receives = inbox.receives});
    return;
  }
  // Earlier requests were received, and wait for memory: a receive queue completes in order (10.8.3.1).
  PendingReceive& pending = pending_.emplace_back();
  pending.inbox = inbox;
  pending.completion = failed;
  pending.placed.finish();
}

bool QueuePairCore::fail_pending_receive(std::uint64_t message, CompletionStatus status) {
  bool is_found = false;
  for (PendingReceive& pending : pending_) {
    if (pending.message >= message && pending.completion.status == CompletionStatus::success) {
      is_found = is_found || pending.message == message;
      pending.completion.status = pending.message == message ? status : CompletionStatus::flushed;
    }
  }
  return is_found;
}

void QueuePairCore::poll_receives() {
  while (!pending_.empty() && pending_.front().placed.is_done()) {
    if (CompletionQueue* const queue = pending_.front().inbox.completions; queue != nullptr) {
      add(*queue, pending_.front().completion, pending_.front().is_solicited,
          {.receives = pending_.front().inbox.receives});
    }
    pending_.pop_front();
  }
}

void QueuePairCore::forget_pending_receives() noexcept {
  for (const PendingReceive& pending : pending_) {
    if (pending.inbox.receives != nullptr) {
      pending.inbox.receives->retire();
    }
  }
  pending_.clear();
}

void QueuePairCore::flush_pending_receives() {
  const std::deque<PendingReceive> flushed = std::exchange(pending_, {});
  const Inbox now = inbox;
  for (const PendingReceive& pending : flushed) {
    if (pending.inbox.completions != nullptr) {
      const CompletionStatus status = pending.completion.status;
      inbox = pending.inbox;
      fail_receive(pending.completion.id, status == CompletionStatus::success ? CompletionStatus::flushed : status);
    }
  }
  inbox = now;
}

void QueuePairCore::forget_inbox(const ReceiveQueue& queue) {
  for (PendingReceive& pending : pending_) {
    if (pending.inbox.receives == &queue) {
      pending.inbox = {};
    }
  }
  if (inbox.receives == &queue) {
    inbox = own_inbox();
  }
}

void QueuePairCore::flush_own_receives() {
  if (own_receives.size() == 0) {
    return;
  }
  ReceiveBuffer buffer = make_buffer();
  while (own_receives.take(buffer)) {
    fail_receive(buffer.id, CompletionStatus::flushed);
  }
}

ReceiveBuffer QueuePairCore::make_buffer() const {
  ReceiveBuffer buffer;
  const bool is_target = options.type == QueuePairType::xrc_target;
  buffer.sges.resize(is_target ? device.options.most_sges : receives.most_sges());
  return buffer;
}

}  // namespace sidelatch::softnic::nic

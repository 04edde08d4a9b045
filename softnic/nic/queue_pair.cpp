#include "queue_pair.h"

#include "nic_error.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <variant>

namespace sidelatch::softnic::nic {

namespace {

using S = QueuePairState;
using A = Attributes;

AttributeLimits limits_of(const NicOptions& options) {
  return {.gids = options.gids.size(),
          .mtu = options.mtu,
          .max_rd_atomic = options.max_rd_atomic,
          .max_dest_rd_atomic = options.max_dest_rd_atomic};
}

[[noreturn]] void refuse(std::uint32_t number, const std::string& reason) {
  throw NicError(NicError::Kind::invalid, fmt::format("queue pair {:#x}: {}", number, reason));
}

constexpr Time kBetweenNotifications = 50'000;  // ns, of one queue pair

// By a switch with a long queue: both bits of ECN (RFC 3168).
bool is_marked(const Packet& packet) {
  const auto* const ip = std::get_if<Ipv4>(&packet.ip);
  const std::uint8_t bits = ip != nullptr ? ip->type_of_service : std::get<Ipv6>(packet.ip).traffic_class;
  return (bits & 3U) == 3;
}

}  // namespace

bool is_taken(WorkKind kind, QueuePairType type, bool inlined) {
  switch (type) {
    case QueuePairType::ud:
      return kind == WorkKind::send || kind == WorkKind::send_with_immediate;
    case QueuePairType::uc:
      return kind == WorkKind::send || kind == WorkKind::send_with_immediate || is_write(kind) || is_local(kind);
    case QueuePairType::xrc_target:
      return false;
    default:
      return !inlined || !fills_buffer(kind);
  }
}

QueuePair::QueuePair(Device& device, const QueuePairOptions& options, std::uint32_t number)
    : core_(device, *this, options, number), requester_(core_), responder_(core_), datagrams_(core_) {}

QueuePair::~QueuePair() {
  reset();
  core_.device.forget(*this);
}

void QueuePair::check(const QueuePairAttributes& values, Attributes given) const {
  const S to = has(given, A::state) ? values.state : state();
  const NicOptions& options = core_.device.options;
  if (has(given, A::current_state) && values.current_state != state()) {
    refuse(number(), fmt::format("it is in {}, not in {}", name(state()), name(values.current_state)));
  }
  if (const auto reason = refuse_transition(core_.options.type, state(), to, given)) {
    refuse(number(), *reason);
  }
  if (const auto reason = refuse_values(values, given, limits_of(options))) {
    refuse(number(), *reason);
  }
  if (has(given, A::address) && !Path::is_possible(values.address, options.gids[values.address.gid_index])) {
    refuse(number(), "of the two GIDs one is IPv4 and one IPv6");
  }
  if (has(given, A::max_dest_rd_atomic) && responder_.has_answers()) {
    throw NicError(NicError::Kind::busy, "max_dest_rd_atomic cannot change while answers have not left yet");
  }
}

void QueuePair::modify(const QueuePairAttributes& values, Attributes given) {
  const S from = state();
  const S to = has(given, A::state) ? values.state : from;
  check(values, given);
  take(values, given);
  enter(from, to);
  settle();
}

void QueuePair::take(const QueuePairAttributes& values, Attributes given) {
  QueuePairAttributes& own = core_.attributes;
  const auto copy = [&](A attribute, auto member) {
    if (has(given, attribute)) {
      own.*member = values.*member;
    }
  };
  using Q = QueuePairAttributes;
  own.notify_drained = has(given, A::notify_drained) && values.notify_drained;  // of this transition
  copy(A::rights, &Q::rights);
  copy(A::p_key_index, &Q::p_key_index);
  copy(A::port, &Q::port);
  copy(A::q_key, &Q::q_key);
  copy(A::address, &Q::address);
  copy(A::path_mtu, &Q::path_mtu);
  copy(A::timeout, &Q::timeout);
  copy(A::retry_count, &Q::retry_count);
  copy(A::rnr_retry, &Q::rnr_retry);
  copy(A::receive_psn, &Q::receive_psn);
  copy(A::max_rd_atomic, &Q::max_rd_atomic);
  copy(A::min_rnr_timer, &Q::min_rnr_timer);
  copy(A::send_psn, &Q::send_psn);
  copy(A::max_dest_rd_atomic, &Q::max_dest_rd_atomic);
  copy(A::remote_qp, &Q::remote_qp);
  if (is_connected() && has(given, A::address)) {
    const NicOptions& options = core_.device.options;
    core_.path = Path(own.address, options.mac, options.gids[own.address.gid_index], number(), own.remote_qp);
  }
  if (has(given, A::max_dest_rd_atomic)) {
    responder_.resize();
  }
}

void QueuePair::enter(QueuePairState from, QueuePairState to) {
  core_.attributes.state = to;
  if (to == S::reset) {
    reset();
  } else if (to == S::rtr && from == S::init) {
    responder_.start();
  } else if (to == S::rts && from == S::rtr) {
    requester_.start();
    datagrams_.start();
  } else if (to == S::sqd && from == S::rts) {
    drained_is_due_ = core_.attributes.notify_drained;
  } else if (to == S::error && from != S::error) {
    // The program requested it: no more requests of the other side take effect (rule 10).
    core_.flush_pending_receives();
    responder_.flush_receive();
    responder_.reset();
  }
  core_.device.wake(*this);
}

void QueuePair::reset() {
  core_.attributes = QueuePairAttributes{};
  core_.gone = nullptr;
  core_.sends.clear();
  core_.own_receives.clear();
  requester_.reset();
  responder_.reset();
  core_.forget_pending_receives();
  drained_is_due_ = error_is_settled_ = false;
  for (CompletionQueue* const queue : {core_.options.send_completions, core_.options.receive_completions}) {
    if (queue != nullptr) {
      queue->forget(number());
    }
  }
}

QueuePairAttributes QueuePair::query() const {
  QueuePairAttributes attributes = core_.attributes;
  attributes.current_state = state();
  if (state() >= S::rtr && is_connected()) {
    attributes.receive_psn = responder_.expected();
  }
  if (state() >= S::rts) {
    attributes.send_psn = is_connected() ? requester_.next_psn() : datagrams_.next_psn();
  }
  return attributes;
}

Post QueuePair::post_send(const SendRequest& request) {
  if (state() < S::rts) {
    return Post::wrong_state;
  }
  if (!is_taken(request.kind, core_.options.type, request.inlined)) {
    return Post::wrong_kind;
  }
  const Post post = core_.sends.post(request);
  if (post == Post::done) {
    core_.device.wake(*this);
    settle();
  }
  return post;
}

Post QueuePair::post_receive(const ReceiveRequest& request) {
  if (core_.options.shared_receives != nullptr) {
    return Post::has_srq;
  }
  if (service_of(core_.options.type) == Service::xrc) {
    return Post::wrong_kind;
  }
  if (state() == S::reset) {
    return Post::wrong_state;
  }
  const Post post = core_.own_receives.post(request);
  settle();
  return post;
}

void QueuePair::on_packet(const Packet& packet, Time now) {
  const bool is_answer = shape_of(packet.bth.opcode).kind == RequestShape::Kind::none;
  const bool is_refused = core_.options.type == (is_answer ? QueuePairType::xrc_target : QueuePairType::xrc_initiator);
  const bool is_notification = packet.bth.opcode == Opcode::congestion_notification;
  const bool fits = is_notification ? is_connected()
                                    : service_of(packet.bth.opcode) == core_.service && !(is_connected() && is_refused);
  if (!fits || (is_connected() && core_.receives_packets() && !core_.path.accepts(packet))) {
    ++core_.device.counters.misdirected;
    return;
  }
  if (is_notification) {
    ++core_.device.counters.congestion_heard;
    return;
  }
  if (is_connected() && is_marked(packet) && core_.receives_packets()) {
    ++core_.device.counters.marked;
    if (now >= next_notification_) {
      next_notification_ = now + kBetweenNotifications;
      notification_is_due_ = true;
      core_.device.wake(*this);
    }
  }
  if (!is_connected()) {
    datagrams_.on_packet(packet);
  } else if (is_answer) {
    requester_.on_answer(packet, now);
  } else {
    responder_.on_request(packet, now);
  }
  settle();
}

void QueuePair::on_malformed(const Packet& packet) {
  const bool responds = is_reliable(core_.options.type) && core_.options.type != QueuePairType::xrc_initiator;
  if (responds && service_of(packet.bth.opcode) == core_.service && !is_answer(packet.bth.opcode) &&
      core_.receives_packets() && core_.path.accepts(packet)) {
    responder_.on_malformed(packet);
    settle();
  }
}

std::size_t QueuePair::produce(std::span<std::byte> out, Time now) {
  std::size_t bytes = 0;
  if (is_connected()) {
    if (std::exchange(notification_is_due_, false) && core_.receives_packets()) {
      return tell_of_congestion(out);
    }
    // The halves take turns, so that neither keeps the other waiting for ever.
    answers_first_ = !answers_first_;
    bytes = answers_first_ ? responder_.produce(out) : requester_.produce(out, now);
    if (bytes == 0) {
      bytes = answers_first_ ? requester_.produce(out, now) : responder_.produce(out);
    }
  } else {
    bytes = datagrams_.produce(out);
  }
  settle();
  return bytes;
}

// To who sends too fast: BECN is set, nothing is numbered, and 16 bytes are reserved (A17.9.3).
std::size_t QueuePair::tell_of_congestion(std::span<std::byte> out) {
  constexpr std::uint8_t kBecn = 0x40;
  constexpr std::array<std::byte, 16> kReserved{};
  Packet packet = core_.path.packet();
  packet.bth.opcode = Opcode::congestion_notification;
  packet.bth.resv8a = kBecn;
  packet.payload = kReserved;
  ++core_.device.counters.congestion_told;
  return std::get<std::size_t>(build(packet, out));
}

void QueuePair::advance(Time now) {
  requester_.advance(now);
  settle();
}

void QueuePair::poll() {
  core_.poll_receives();
  if (responder_.is_ready()) {
    core_.device.wake(*this);
  }
  settle();
}

void QueuePair::fail_place(const GonePlace& place) {
  responder_.fail_place(place);
  settle();
}

void QueuePair::flush_sends() {
  while (!core_.sends.is_empty()) {
    core_.complete_send(core_.sends.at(core_.sends.first()), CompletionStatus::flushed);
    core_.sends.pop();
  }
  requester_.reset();
}

void QueuePair::flush_receives() {
  if (core_.has_pending_receives()) {
    return;  // received messages come first
  }
  responder_.flush_receive();
  core_.flush_own_receives();
  if (!std::exchange(error_is_settled_, true) && core_.options.shared_receives != nullptr) {
    core_.device.events.add(Event::Kind::last_receive_reached, number());
  }
}

void QueuePair::fail() {
  const S from = state();
  if (from == S::reset || from == S::error) {
    return;
  }
  if (is_connected() && from != S::init) {
    requester_.fail();
  }
  enter(from, S::error);
  settle();
}

void QueuePair::settle() {
  if (core_.device.is_broken && state() != S::error) {
    fail();
  }
  switch (state()) {
    case S::error:
      flush_sends();
      flush_receives();
      break;
    case S::sqe:
      flush_sends();
      break;
    case S::sqd:
      if (drained_is_due_ && (!is_connected() || requester_.is_drained())) {
        drained_is_due_ = false;
        core_.device.events.add(Event::Kind::send_queue_drained, number());
      }
      break;
    default:
      break;
  }
}

}  // namespace sidelatch::softnic::nic

#include <sidelatch/p4/switch.h>

#include "p4/switch/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace sidelatch::p4 {

namespace {

constexpr std::uint64_t kDropPort = 511;

struct Aligned {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{alignof(U128)}); }
};

std::unique_ptr<std::byte[], Aligned> make_frame(std::size_t bytes) {
  auto* made = new (std::align_val_t{alignof(U128)}) std::byte[bytes == 0 ? 1 : bytes];
  std::memset(made, 0, bytes);
  return std::unique_ptr<std::byte[], Aligned>(made);
}

}  // namespace

std::string_view name(Drop reason) noexcept {
  static constexpr std::array<std::string_view, kDrops> kNames{
      "ingress",    "egress",   "no-such-port", "empty-multicast", "no-clone-session",
      "queue-full", "too-long", "assertion",    "bad-icrc",        "bad-priority"};
  return kNames[static_cast<std::size_t>(reason)];
}

struct Switch::Packet {
  std::unique_ptr<std::byte[], Aligned> frame;
  std::vector<std::byte> bytes;  // as they came to the parser, or as they leave
  std::uint16_t ingress_port = 0;
  std::uint16_t egress_port = 0;
  Instance instance = Instance::normal;
  bool marked = false;  // Congestion Experienced
  PacketContext context;
  std::uint64_t enqueued = 0;
};

// A queue of packets that grows when it must.
class Switch::Fifo {
 public:
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  void push(Packet* packet) {
    if (count_ == ring_.size()) {
      std::vector<Packet*> larger(std::max<std::size_t>(8, 2 * ring_.size()));
      for (std::size_t i = 0; i < count_; ++i) {
        larger[i] = ring_[(first_ + i) & (ring_.size() - 1)];
      }
      ring_ = std::move(larger);
      first_ = 0;
    }
    ring_[(first_ + count_++) & (ring_.size() - 1)] = packet;
    bytes_ += packet->bytes.size();
  }

  Packet* pop() {
    Packet* packet = ring_[first_];
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
    bytes_ -= packet->bytes.size();
    return packet;
  }

 private:
  std::vector<Packet*> ring_;  // its size is a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

namespace {

std::shared_ptr<const Program> required(std::shared_ptr<const Program> program) {
  if (program == nullptr) {
    throw ControlError("a switch needs a program: compile_file() makes one");
  }
  return program;
}

}  // namespace

Switch::Switch(std::shared_ptr<const Program> program, SwitchOptions options)
    : program_(required(std::move(program))),
      options_(options),
      state_(program_->info()),
      random_state_(options.seed),
      arrived_(std::make_unique<Fifo>()),
      queues_(options.ports),
      paused_(options.ports),
      departed_(std::make_unique<Fifo>()),
      headers_(options.packet_bytes) {
  if (options.ports == 0 || options.ports > kDropPort) {
    throw ControlError(fmt::format("a switch has 1 to {} ports, not {}", kDropPort, options.ports));
  }
}

Switch::~Switch() = default;

Switch::Packet* Switch::take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Packet>());
    free_.reserve(all_.size());
    all_.back()->frame = make_frame(program_->frame_bytes());
    all_.back()->bytes.reserve(options_.packet_bytes);
    return all_.back().get();
  }
  Packet* packet = free_.back();
  free_.pop_back();
  return packet;
}

void Switch::give(Packet* packet) { free_.push_back(packet); }

Switch::Packet* Switch::copy(const Packet& packet, bool frame) {
  Packet* made = take();
  made->bytes.assign(packet.bytes.begin(), packet.bytes.end());
  made->ingress_port = packet.ingress_port;
  made->egress_port = packet.egress_port;
  made->instance = packet.instance;
  made->marked = packet.marked;
  made->context = packet.context;
  made->context.packet = made->bytes;
  made->enqueued = packet.enqueued;
  if (frame) {
    std::memcpy(made->frame.get(), packet.frame.get(), program_->kept_bytes());
  }
  return made;
}

std::uint64_t Switch::get(const Packet& packet, MetadataField field) const {
  return program_->get(packet.frame.get(), field);
}

void Switch::set(Packet& packet, MetadataField field, std::uint64_t value) const {
  program_->set(packet.frame.get(), field, value);
}

void Switch::set_multicast_group(std::uint16_t group, std::vector<MulticastMember> members) {
  if (group == 0) {
    throw ControlError("multicast group 0 means none; use another number");
  }
  if (members.empty()) {
    groups_.erase(group);
  } else {
    groups_[group] = std::move(members);
  }
}

void Switch::set_clone_session(std::uint32_t session, CloneSession clone) {
  if (!clone.port && !clone.group) {
    sessions_.erase(session);
  } else {
    sessions_[session] = clone;
  }
}

std::size_t Switch::arrived() const { return arrived_->size(); }
std::size_t Switch::queued(std::uint16_t port) const { return port < queues_.size() ? queues_[port].size() : 0; }

void Switch::set_paused(std::uint16_t port, bool paused) {
  if (port >= options_.ports) {
    throw ControlError(fmt::format("the switch has no port {}; its ports are 0 to {}", port, options_.ports - 1));
  }
  if (paused == paused_[port]) {
    return;
  }
  paused_[port] = paused;
  queued_ = paused ? queued_ - queues_[port].size() : queued_ + queues_[port].size();
}

void Switch::drop(Packet* packet, Drop reason) {
  ++drops_[static_cast<std::size_t>(reason)];
  give(packet);
}

void Switch::receive(std::uint16_t port, std::span<const std::byte> bytes) {
  if (port >= options_.ports) {
    throw ControlError(fmt::format("the switch has no port {}; its ports are 0 to {}", port, options_.ports - 1));
  }
  if (bytes.size() > options_.packet_bytes) {
    ++drops_[static_cast<std::size_t>(Drop::too_long)];
    return;
  }
  if (options_.icrc && has_wrong_icrc(bytes)) {
    ++drops_[static_cast<std::size_t>(Drop::bad_icrc)];
    return;
  }
  arrive(port, bytes);
}

void Switch::arrive(std::uint16_t port, std::span<const std::byte> bytes) {
  Packet* packet = take();
  packet->bytes.assign(bytes.begin(), bytes.end());
  packet->ingress_port = port;
  packet->instance = Instance::normal;
  packet->marked = false;
  program_->clear(packet->frame.get());
  set(*packet, MetadataField::ingress_port, port);
  set(*packet, MetadataField::packet_length, bytes.size());
  set(*packet, MetadataField::ingress_global_timestamp, time_ / 1000);
  arrived_->push(packet);
}

void Switch::set_generator(std::uint32_t number, Generator generator) {
  if (generator.interval == 0) {
    throw ControlError(fmt::format("generator {} has no interval: it is 1 nanosecond or more", number));
  }
  if (generator.port >= kDropPort) {
    throw ControlError(
        fmt::format("generator {} has port {}; ports are 0 to {}", number, generator.port, kDropPort - 1));
  }
  if (generator.packet.empty() || generator.packet.size() > options_.packet_bytes) {
    throw ControlError(fmt::format("generator {} has a packet of {} bytes; a packet of this switch has 1 to {}", number,
                                   generator.packet.size(), options_.packet_bytes));
  }
  if (options_.icrc) {
    write_icrc(generator.packet);
  }
  const std::uint64_t due = time_ + generator.interval;
  generators_[number] = {std::move(generator), due};
  find_due();
}

void Switch::remove_generator(std::uint32_t number) noexcept {
  generators_.erase(number);
  find_due();
}

std::optional<std::uint64_t> Switch::next_generated() const noexcept {
  return due_ == kNeverDue ? std::nullopt : std::optional(due_);
}

void Switch::find_due() noexcept {
  due_ = kNeverDue;
  for (const auto& [number, one] : generators_) {
    due_ = std::min(due_, one.due);
  }
}

void Switch::generate() {
  for (auto at = generators_.begin(); at != generators_.end();) {
    Generating& one = at->second;
    if (one.due <= time_) {
      if (one.generator.pace) {
        one.generator.interval = one.generator.pace();
        if (one.generator.interval == 0) {
          at = generators_.erase(at);
          continue;
        }
      }
      arrive(one.generator.port, one.generator.packet);
      one.due += one.generator.interval;
      one.due = one.due <= time_ ? time_ + one.generator.interval : one.due;
    }
    ++at;
  }
  find_due();
}

bool Switch::step() {
  if (!arrived_->empty() && (queued_ == 0 || ingress_credit_ > 0)) {
    ingress_credit_ -= ingress_credit_ > 0 ? 1 : 0;
    ingress(arrived_->pop());
    return true;
  }
  if (queued_ == 0) {
    return false;
  }
  ingress_credit_ = std::min(ingress_credit_ + 1, kIngressInARow);
  while (queues_[next_queue_].empty() || paused_[next_queue_]) {
    next_queue_ = (next_queue_ + 1) % queues_.size();
  }
  Packet* packet = queues_[next_queue_].pop();
  next_queue_ = (next_queue_ + 1) % queues_.size();
  --queued_;
  egress(packet);
  return true;
}

bool Switch::run(std::size_t most) {
  for (std::size_t i = 0; i < most; ++i) {
    if (!step()) {
      return true;
    }
  }
  return arrived_->empty() && queued_ == 0;
}

std::optional<Departure> Switch::departed() {
  if (departing_ != nullptr) {
    give(std::exchange(departing_, nullptr));
  }
  if (departed_->empty()) {
    return std::nullopt;
  }
  departing_ = departed_->pop();
  return Departure{departing_->egress_port, departing_->bytes};
}

void Switch::ingress(Packet* packet) {
  std::byte* frame = packet->frame.get();
  packet->context = PacketContext{};
  PacketContext& context = packet->context;
  context.packet = packet->bytes;
  context.length = static_cast<std::uint32_t>(packet->bytes.size());
  context.random_state = &random_state_;
  program_->parse(state_, frame, context);
  program_->ingress(state_, frame, context);
  if (context.assertion_failed) {
    drop(packet, Drop::assertion);
    return;
  }
  if (std::exchange(context.clone, false)) {
    clone_to_egress(*packet);
  }
  if (context.resubmit) {
    again(packet, Instance::resubmitted, context.resubmit_list);
    return;
  }
  if (const std::uint64_t group = get(*packet, MetadataField::mcast_grp); group != 0) {
    packet->instance = Instance::replicated;
    set(*packet, MetadataField::instance_type, static_cast<std::uint64_t>(packet->instance));
    multicast(packet, group);
    return;
  }
  const std::uint64_t port = get(*packet, MetadataField::egress_spec);
  if (port == kDropPort) {
    drop(packet, Drop::ingress);
    return;
  }
  packet->instance = Instance::normal;
  set(*packet, MetadataField::instance_type, static_cast<std::uint64_t>(packet->instance));
  enqueue(packet, port);
}

// The packet as it came to the parser, with new metadata; it goes through the parser again for its headers.
void Switch::clone_to_egress(const Packet& packet) {
  const auto session = sessions_.find(packet.context.clone_session);
  if (session == sessions_.end()) {
    ++drops_[static_cast<std::size_t>(Drop::no_clone_session)];
    return;
  }
  Packet* clone = copy(packet, false);
  std::byte* frame = clone->frame.get();
  program_->clear(frame);
  set(*clone, MetadataField::ingress_port, packet.ingress_port);
  clone->context = PacketContext{};
  clone->context.packet = clone->bytes;
  clone->context.length = static_cast<std::uint32_t>(clone->bytes.size());
  clone->context.random_state = &random_state_;
  program_->parse(state_, frame, clone->context);
  program_->keep_metadata(frame, packet.frame.get(), packet.context.clone_list);
  clone->instance = Instance::ingress_clone;
  set(*clone, MetadataField::instance_type, static_cast<std::uint64_t>(clone->instance));
  place_clone(clone, session->second);
}

// The headers as egress left them, with new metadata.
void Switch::clone_from_egress(const Packet& packet) {
  const auto session = sessions_.find(packet.context.clone_session);
  if (session == sessions_.end()) {
    ++drops_[static_cast<std::size_t>(Drop::no_clone_session)];
    return;
  }
  Packet* clone = copy(packet, true);
  program_->keep_metadata(clone->frame.get(), packet.frame.get(), packet.context.clone_list);
  clone->context.truncate = false;
  clone->context.recirculate = false;
  clone->instance = Instance::egress_clone;
  set(*clone, MetadataField::instance_type, static_cast<std::uint64_t>(clone->instance));
  place_clone(clone, session->second);
}

void Switch::place_clone(Packet* clone, const CloneSession& session) {
  if (session.group) {
    multicast(session.port ? copy(*clone, true) : clone, *session.group);
  }
  if (session.port) {
    enqueue(clone, *session.port);
  }
}

void Switch::multicast(Packet* packet, std::uint64_t group) {
  const auto found = groups_.find(static_cast<std::uint16_t>(group));
  if (found == groups_.end()) {
    drop(packet, Drop::empty_multicast);
    return;
  }
  const std::vector<MulticastMember>& members = found->second;
  for (std::size_t i = 0; i < members.size(); ++i) {
    Packet* one = i + 1 < members.size() ? copy(*packet, true) : packet;
    one->context.truncate = false;  // the reference switch truncates the packet itself, and no copy
    set(*one, MetadataField::egress_rid, members[i].rid);
    enqueue(one, members[i].port);
  }
}

void Switch::enqueue(Packet* packet, std::uint64_t port) {
  if (port >= queues_.size()) {
    drop(packet, Drop::no_such_port);
    return;
  }
  if (get(*packet, MetadataField::priority) != 0) {
    drop(packet, Drop::bad_priority);
    return;
  }
  Fifo& queue = queues_[port];
  if (options_.queue_bytes != 0 && queue.bytes() + packet->bytes.size() > options_.queue_bytes) {
    drop(packet, Drop::queue_full);
    return;
  }
  packet->marked = packet->marked || (options_.ecn_bytes != 0 && queue.bytes() >= options_.ecn_bytes);
  packet->egress_port = static_cast<std::uint16_t>(port);
  packet->enqueued = time_;
  set(*packet, MetadataField::enq_timestamp, time_ / 1000);
  set(*packet, MetadataField::enq_qdepth, queue.size());
  queue.push(packet);
  if (!paused_[port]) {
    ++queued_;
  }
}

void Switch::egress(Packet* packet) {
  std::byte* frame = packet->frame.get();
  PacketContext& context = packet->context;
  set(*packet, MetadataField::egress_port, packet->egress_port);
  set(*packet, MetadataField::egress_global_timestamp, time_ / 1000);
  set(*packet, MetadataField::deq_timedelta, (time_ - packet->enqueued) / 1000);
  set(*packet, MetadataField::deq_qdepth, queues_[packet->egress_port].size());
  set(*packet, MetadataField::packet_length, context.length);
  // The reference switch begins egress with a value that is not the one for a drop.
  set(*packet, MetadataField::egress_spec, 0);
  program_->egress(state_, frame, context);
  if (context.assertion_failed) {
    drop(packet, Drop::assertion);
    return;
  }
  if (std::exchange(context.clone, false)) {
    clone_from_egress(*packet);
  }
  if (get(*packet, MetadataField::egress_spec) == kDropPort) {
    drop(packet, Drop::egress);
    return;
  }
  std::size_t header_bytes = 0;
  try {
    header_bytes = program_->deparse(state_, frame, context, headers_);
  } catch (const std::length_error&) {
    drop(packet, Drop::too_long);
    return;
  }
  if (context.assertion_failed) {
    drop(packet, Drop::assertion);
    return;
  }
  const std::size_t payload = packet->bytes.size() - context.parsed_bytes;
  if (header_bytes + payload > options_.packet_bytes) {
    drop(packet, Drop::too_long);
    return;
  }
  std::uint32_t icrc_change = 0;
  if (options_.icrc) {
    icrc_change = icrc_difference(packet->bytes, context.parsed_bytes, std::span(headers_).first(header_bytes));
  }
  if (header_bytes > context.parsed_bytes) {
    packet->bytes.resize(header_bytes + payload);
  }
  std::memmove(packet->bytes.data() + header_bytes, packet->bytes.data() + context.parsed_bytes, payload);
  packet->bytes.resize(header_bytes + payload);
  std::memcpy(packet->bytes.data(), headers_.data(), header_bytes);
  mend_icrc(packet->bytes, icrc_change);
  if (packet->marked) {
    mark_congestion(packet->bytes);
  }
  if (context.recirculate) {  // whole, also if it is truncated
    again(packet, Instance::recirculated, context.recirculate_list);
    return;
  }
  if (context.truncate && context.truncate_bytes < packet->bytes.size()) {
    packet->bytes.resize(context.truncate_bytes);
  }
  departed_->push(packet);
}

// To the parser with the bytes that it has, and the metadata of a field list.
void Switch::again(Packet* packet, Instance instance, int list) {
  std::byte* frame = packet->frame.get();
  program_->keep_metadata(frame, frame, list);
  program_->clear_headers(frame);
  packet->instance = instance;
  set(*packet, MetadataField::instance_type, static_cast<std::uint64_t>(instance));
  set(*packet, MetadataField::packet_length, packet->bytes.size());
  arrived_->push(packet);
}

}  // namespace sidelatch::p4

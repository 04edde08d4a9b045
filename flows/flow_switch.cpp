#include "flows/flow_program.h"

#include <fmt/format.h>
#include <p4/zero_sided.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace sidelatch::flows {

using namespace program;

namespace {

constexpr std::uint32_t kMostEnds = 1U << 24;
constexpr std::uint32_t kMostPsn = 0xff'ffff;
constexpr std::uint16_t kFirstGroup = 0x8000;    // of multicast, by thread
constexpr std::uint64_t kFirstBatch = 64 << 10;  // bytes

p4::U128 is_little(const RingShape& shape) { return shape.order == ByteOrder::little ? 1 : 0; }

std::vector<p4::U128> arguments_of(const FlowRing& ring) {
  return {p4::address_number(ring.mac),
          p4::address_number(ring.ip),
          ring.port,
          ring.queue_pair,
          ring.rkey,
          ring.address + RingShape::head_offset(),
          ring.address + RingShape::tail_offset(),
          ring.address + ring.shape.items_offset(),
          ring.shape.slots,
          is_little(ring.shape)};
}

std::uint16_t ipv4_checksum(std::span<const std::byte> header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) {
    sum += std::to_integer<std::uint32_t>(header[i]) << 8 | std::to_integer<std::uint32_t>(header[i + 1]);
  }
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

std::uint32_t program::take_free(std::vector<bool>& used, const char* what) {
  const auto free = std::ranges::find(used, false);
  if (free == used.end()) {
    throw p4::ControlError(fmt::format("the switch has no room for more than {} {}", used.size(), what));
  }
  *free = true;
  return static_cast<std::uint32_t>(free - used.begin());
}

std::shared_ptr<const p4::Program> zero_sided_program() { return p4::programs::zero_sided(); }

namespace {

// Another program lacks its registers; that one of them is missing would say little to who mixed the programs up.
p4::Switch& zero_sided(p4::Switch& device) {
  const auto& registers = device.program().info().registers;
  if (std::ranges::none_of(registers, [](const auto& reg) { return reg.name == "Move.phases"; })) {
    throw p4::ControlError("the switch runs another program than p4/zero_sided.p4: make it with zero_sided_program()");
  }
  return device;
}

}  // namespace

FlowSwitch::FlowSwitch(p4::Switch& device, const SwitchAddress& own)
    : device_(&zero_sided(device)),
      own_(own),
      threads_(device.state().reg("Move.phases").size()),
      consumers_(device.state().reg("Move.reached").size()),
      producers_(device.state().reg("Move.producer_psns").size()),
      own_threads_(device.state().reg("Move.positions").size()),
      own_producers_(device.state().reg("Move.locks").size()) {
  if (!device.options().icrc) {
    throw std::invalid_argument(
        "the switch does not mend the ICRC of what it rewrites, and units' NICs would drop it: make it with "
        "SwitchOptions::icrc");
  }
  if (device.options().ports > kGeneratorPort) {
    throw std::invalid_argument(fmt::format(
        "the switch has {} ports: the program needs port {} for its packet generator. Make it with {} at most",
        device.options().ports, kGeneratorPort, kGeneratorPort));
  }
  if (device.state().table("Move.own_addresses").size() != 0) {
    throw std::invalid_argument("the switch has a FlowSwitch already: set all flows up through that one");
  }
  next_flow_ = FlowId{get("latest_flow", 0)} + 1;  // what is on its way of an earlier control plane's has other numbers
  add_own("Move.own_addresses", p4::address_number(own.ip), "is_own", p4::address_number(own.mac));
  // The acknowledgement of a bell leaves where the bell came from.
  for (std::uint16_t port = 0; port < device.options().ports; ++port) {
    device.set_clone_session(port + 1U, {.port = port, .group = std::nullopt});
  }
}

FlowSwitch::~FlowSwitch() {
  for (Running& running : flows_) {
    remove(running);
  }
  for (const auto& [table, handle] : own_entries_) {
    table->remove(handle);
  }
  for (std::uint16_t port = 0; port < device_->options().ports; ++port) {
    device_->set_clone_session(port + 1U, {});
  }
}

void FlowSwitch::add_station(const MacAddress& mac, std::uint16_t port) {
  add_own("Move.stations", p4::address_number(mac), "forward", port);
}

// An entry that is not of a flow.
void FlowSwitch::add_own(const char* table, p4::U128 key, const char* action, p4::U128 argument) {
  p4::TableState& where = device_->state().table(table);
  own_entries_.emplace_back(&where, where.add({{.value = key}}, action, {argument}));
}

SwitchEnd FlowSwitch::new_end() {
  if (are_ends_used_.size() == kMostEnds - kFirstEnd) {
    throw p4::ControlError("all queue pair numbers of the switch have been used: begin with a new switch");
  }
  are_ends_used_.push_back(false);
  return {.queue_pair = kFirstEnd + static_cast<std::uint32_t>(are_ends_used_.size()) - 1,
          .psn = static_cast<std::uint32_t>(random_() & kMostPsn)};
}

std::vector<SwitchEnd> FlowSwitch::new_ends(std::size_t count) {
  std::vector<SwitchEnd> ends;
  while (ends.size() < count) {
    ends.push_back(new_end());
    ends.back().psn = ends.front().psn;
  }
  return ends;
}

FlowSwitch::FlowId FlowSwitch::start(const Flow& flow) {
  check(flow, 0, 0);
  check_apart(flow);
  check_connections(flow, 0, 0);
  return begin(flow);
}

FlowSwitch::FlowId FlowSwitch::begin(const Flow& flow) {
  Running running;
  running.id = next_flow_++;
  set("latest_flow", 0, static_cast<std::uint32_t>(running.id));
  running.flow = flow;
  try {
    install(running);
  } catch (...) {
    remove(running);
    throw;
  }
  use_ends(flow.producers);
  use_ends(flow.consumers);
  flows_.push_back(std::move(running));
  return flows_.back().id;
}

void FlowSwitch::use_ends(const std::vector<FlowRing>& rings) {
  for (const FlowRing& ring : rings) {
    are_ends_used_[ring.end.queue_pair - kFirstEnd] = true;
  }
}

p4::RegisterState& FlowSwitch::reg(const char* name) const { return device_->state().reg(std::string("Move.") + name); }
std::uint32_t FlowSwitch::get(const char* name, std::uint64_t index) const {
  return static_cast<std::uint32_t>(reg(name).read(index));
}
void FlowSwitch::set(const char* name, std::uint64_t index, std::uint64_t value) const {
  reg(name).write(index, value);
}
// Of who has no own number the value is always 0.
std::uint32_t FlowSwitch::get_own(const char* name, std::uint16_t own) const {
  return own == 0 ? 0 : get(name, own - 1U);
}
void FlowSwitch::set_own(const char* name, std::uint16_t own, std::uint64_t value) const {
  if (own != 0) {
    set(name, own - 1U, value);
  }
}

bool program::is_shared(const Flow& flow) {
  return flow.kind != FlowKind::shuffle || flow.is_open || flow.producers.size() != flow.consumers.size();
}

void FlowSwitch::install(Running& running) {
  const Flow& flow = running.flow;
  running.stride = flow.producers.front().shape.stride();
  running.most_items = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, flow.batch_bytes / running.stride));
  for (const FlowRing& ring : flow.producers) {
    install_producer(running, ring);
  }
  // A thread for each consumer, but for a replicated flow one for all.
  const std::size_t copies = flow.kind == FlowKind::replicate ? flow.consumers.size() : 1;
  for (std::size_t i = 0; i < flow.consumers.size(); i += copies) {
    install_thread(running, i, copies);
  }
  if (flow.kind == FlowKind::balance) {
    set_own("living", running.threads.front().own, running.threads.size());  // they are counted together
  }
  link_threads(running);
  for (const Thread& thread : running.threads) {
    set("phases", thread.number, kIdle);
    set_timer(running, thread);
  }
}

// Its threads must know it before they meet it.
std::size_t FlowSwitch::install_producer(Running& running, const FlowRing& ring) {
  p4::State& state = device_->state();
  // Before it is in the list: of one without a number nothing is to be given back.
  const std::uint32_t number = take_free(producers_, "producers' rings");
  running.producers.push_back({.number = number});
  Member& member = running.producers.back();
  for (const char* const name : kProducerRegisters) {
    set(name, member.number, 0);
  }
  if (is_shared(running.flow)) {
    member.own =
        static_cast<std::uint16_t>(take_free(own_producers_, "producers' rings of flows that are not 1:1") + 1);
  }
  for (const char* const name : kSharedProducerRegisters) {
    set_own(name, member.own, 0);
  }
  set("producer_psns", member.number, ring.end.psn);
  set("taken", member.number, running.flow.first_count);
  install_ring(running, running.producers.size() - 1, ring, state);
  return running.producers.size() - 1;
}

void FlowSwitch::install_ring(Running& running, std::size_t producer, const FlowRing& ring, p4::State& state) {
  Member& member = running.producers[producer];
  const auto add = [&](const char* name, const std::vector<p4::Match>& keys, const char* action,
                       const std::vector<p4::U128>& arguments) {
    p4::TableState& table = state.table(name);
    member.entries.emplace_back(&table, table.add(keys, action, arguments));
  };
  std::vector<p4::U128> arguments = arguments_of(ring);
  arguments.emplace_back(producer + 1);
  add("Move.producers", {{.value = member.number}}, "is_producer", arguments);
  // The thread for which it rings: of a shuffle the only one that has it.
  const std::size_t thread =
      running.flow.kind == FlowKind::shuffle ? producer % running.flow.consumers.size() : std::size_t{0};
  const std::uint16_t first = thread < running.threads.size() ? running.threads[thread].number : std::uint16_t{0};
  add("Move.ends_of_switch", {{.value = p4::address_number(own_.ip)}, {.value = ring.end.queue_pair}}, "of_producer",
      {member.number, p4::address_number(ring.ip), ring.queue_pair, first, member.own});
}

// For consumers from the first one on.
void FlowSwitch::install_thread(Running& running, std::size_t first, std::size_t count) {
  const Flow& flow = running.flow;
  p4::State& state = device_->state();
  const auto number = static_cast<std::uint16_t>(take_free(threads_, "consumers"));
  running.threads.push_back({.number = number});
  Thread& thread = running.threads.back();
  if (is_shared(flow)) {
    thread.own = static_cast<std::uint16_t>(take_free(own_threads_, "consumers of flows that are not 1:1") + 1);
  }
  for (const char* const name : kThreadRegisters) {
    set(name, number, 0);
  }
  for (const char* const name : kSharedThreadRegisters) {
    set_own(name, thread.own, 0);
  }
  // A long first batch would be lost on a network that loses packets.
  std::uint32_t shrinks = 0;
  while ((running.most_items >> shrinks) > 1 &&
         (running.most_items >> shrinks) * std::uint64_t{running.stride} > kFirstBatch) {
    ++shrinks;
  }
  set("shrinks", number, shrinks);
  set("consumer_psns", number, flow.consumers[first].end.psn);
  set("heads", number, flow.first_count);
  set("tails", number, flow.first_count);
  set("begun", number, microseconds());  // nothing holds the first batch back
  *thread.debt = {.head = flow.first_count, .at = device_->time()};
  set_own("living", thread.own, 1);
  const std::size_t step = flow.kind == FlowKind::shuffle ? flow.consumers.size() : 1;
  for (std::size_t p = flow.kind == FlowKind::shuffle ? first : 0; p < running.producers.size(); p += step) {
    if (running.producers[p].is_there) {
      add_member(thread, p, running.producers[p]);
    }
  }
  if (!thread.members.empty()) {
    set_own("positions", thread.own,
            first % thread.members.size());  // else all would READ from the same producer at a time
  }
  const std::size_t first_number = running.consumers.size();
  std::vector<p4::MulticastMember> group;
  for (std::size_t c = first; c < first + count; ++c) {
    group.push_back(install_consumer(running, c, first, number));
  }
  const auto group_number = static_cast<std::uint16_t>(kFirstGroup | number);
  device_->set_multicast_group(group_number, std::move(group));
  const std::uint16_t shared = flow.kind == FlowKind::balance ? running.threads.front().own : thread.own;
  thread.arguments = {p4::address_number(own_.mac),
                      p4::address_number(own_.ip),
                      shared,
                      thread.members.size(),
                      running.most_items,
                      running.stride,
                      static_cast<unsigned>(std::countr_zero(flow.path_mtu)),
                      static_cast<std::uint64_t>(flow.time_out.count()),
                      flow.most_retries,
                      (std::uint64_t{1} << count) - 1,
                      running.consumers[first_number],
                      count > 1 ? group_number : std::uint16_t{0},
                      static_cast<std::uint32_t>(running.id),
                      flow.is_open ? 1U : 0U,
                      0U,
                      number,
                      thread.own,
                      std::max(flow.poll_interval, flow.idle_interval) > flow.time_out ? 1U : 0U};
  p4::TableState& threads = state.table("Move.threads");
  thread.entry = threads.add({{.value = number}}, "is_thread", thread.arguments);
  running.entries.emplace_back(&threads, thread.entry);
  p4::TableState& consumers = state.table("Move.consumers");
  running.entries.emplace_back(&consumers,
                               consumers.add({{.value = number}}, "is_consumer", arguments_of(flow.consumers[first])));
}

p4::MulticastMember FlowSwitch::install_consumer(Running& running, std::size_t consumer, std::size_t first,
                                                 std::uint16_t thread) {
  const FlowRing& ring = running.flow.consumers[consumer];
  const std::uint32_t number = take_free(consumers_, "consumers");
  running.consumers.push_back(number);
  set("reached", number, ring.end.psn);
  const std::uint32_t own_bit = std::uint32_t{1} << (consumer - first);
  const auto add = [&](const char* name, const std::vector<p4::Match>& keys, const char* action,
                       const std::vector<p4::U128>& arguments) {
    p4::TableState& table = device_->state().table(name);
    running.entries.emplace_back(&table, table.add(keys, action, arguments));
  };
  add("Move.ends_of_switch", {{.value = p4::address_number(own_.ip)}, {.value = ring.end.queue_pair}}, "of_consumer",
      {thread, p4::address_number(ring.ip), ring.queue_pair, number, own_bit});
  const auto rid = static_cast<std::uint16_t>(number + 1);
  add("Finish.consumers_of_copies", {{.value = rid}, {.value = static_cast<std::uint32_t>(running.id)}}, "is_copy",
      {p4::address_number(ring.mac), p4::address_number(ring.ip), ring.queue_pair, ring.rkey,
       ring.address - running.flow.consumers[first].address, own_bit});
  return {.rid = rid, .port = ring.port};
}

// As the program counts them. They wrap: a time that is not of the last half hour seems to be to come.
std::uint32_t FlowSwitch::microseconds() const { return static_cast<std::uint32_t>(device_->time() / 1000); }

// What the thread has asked for is asked again at once.
void FlowSwitch::let_ask(const Running& running, std::uint16_t thread) {
  set("sent", thread, microseconds() - static_cast<std::uint32_t>(running.flow.time_out.count()));
}

// At the place of one that has left, or behind the others.
void FlowSwitch::add_member(Thread& thread, std::size_t producer, const Member& member) {
  p4::TableState& members = device_->state().table("Move.members");
  const auto free = std::ranges::find(thread.producers, kNobody);
  const auto place = static_cast<std::size_t>(free - thread.producers.begin());
  if (free != thread.producers.end()) {
    members.modify(thread.members[place], "is_member", {member.number, member.own});
    *free = producer;
    (*thread.own_producers)[place] = member.own;
    return;
  }
  thread.members.push_back(
      members.add({{.value = thread.number}, {.value = place}}, "is_member", {member.number, member.own}));
  thread.producers.push_back(producer);
  thread.own_producers->push_back(member.own);
}

// A bell goes from a busy thread to the next one that has the same producers.
void FlowSwitch::link_threads(Running& running) {
  for (std::size_t i = 0; i < running.threads.size(); ++i) {
    Thread& thread = running.threads[i];
    if (running.flow.kind == FlowKind::balance) {
      thread.arguments[kThreadNext] = running.threads[(i + 1) % running.threads.size()].number;
    }
    tell(thread);
  }
  for (std::size_t p = 0; p < running.producers.size(); ++p) {
    Member& member = running.producers[p];
    const std::size_t thread =
        running.flow.kind == FlowKind::shuffle ? p % running.flow.consumers.size() : std::size_t{0};
    const FlowRing& ring = running.flow.producers[p];
    if (member.is_there) {
      member.entries.back().first->modify(
          member.entries.back().second, "of_producer",
          {member.number, p4::address_number(ring.ip), ring.queue_pair, running.threads[thread].number, member.own});
    }
  }
}

void FlowSwitch::tell(const Thread& thread) {
  device_->state().table("Move.threads").modify(thread.entry, "is_thread", thread.arguments);
}

void FlowSwitch::remove(Running& running) noexcept {
  for (const Thread& thread : running.threads) {
    device_->remove_generator(thread.number);
    device_->set_multicast_group(static_cast<std::uint16_t>(kFirstGroup | thread.number), {});
    set("phases", thread.number, 0);
    threads_[thread.number] = false;
    if (thread.own != 0) {
      own_threads_[thread.own - 1U] = false;
    }
    for (const p4::EntryHandle member : thread.members) {
      device_->state().table("Move.members").remove(member);
    }
  }
  for (const std::uint32_t consumer : running.consumers) {
    consumers_[consumer] = false;
  }
  for (Member& producer : running.producers) {
    remove(producer);
  }
  for (const auto& [table, handle] : running.entries) {
    table->remove(handle);
  }
}

void FlowSwitch::remove(Member& member) noexcept {
  if (!std::exchange(member.is_there, false)) {
    return;
  }
  producers_[member.number] = false;
  if (member.own != 0) {
    own_producers_[member.own - 1U] = false;
  }
  for (const auto& [table, handle] : member.entries) {
    table->remove(handle);
  }
  member.entries.clear();
}

void FlowSwitch::stop(FlowId flow) {
  static_cast<void>(find(flow, "stop"));
  const auto found = std::ranges::find(flows_, flow, &Running::id);
  remove(*found);
  flows_.erase(found);
}

bool FlowSwitch::has(FlowId flow) const noexcept {
  return std::ranges::find(flows_, flow, &Running::id) != flows_.end();
}

const FlowSwitch::Running& FlowSwitch::find(FlowId flow, const char* what) const {
  const auto found = std::ranges::find(flows_, flow, &Running::id);
  if (found == flows_.end()) {
    throw std::invalid_argument(fmt::format("{}: there is no flow {}; it may have been stopped", what, flow));
  }
  return *found;
}

// No producer was given up, or is at work.
bool FlowSwitch::have_all_ended(const Running& running) const {
  return std::ranges::all_of(running.producers, [&](const Member& member) {
    return !member.is_there || get("gone", member.number) == kProducerEnded;
  });
}

FlowState FlowSwitch::state(FlowId flow) const {
  const Running& running = find(flow, "state");
  FlowState result{.is_broken = running.has_lost_earlier_producer || running.has_lost_earlier_consumer,
                   .has_lost_earlier_producer = running.has_lost_earlier_producer,
                   .has_lost_earlier_consumer = running.has_lost_earlier_consumer};
  bool are_over = true;
  bool has_one_ended = false;
  const bool is_replicated = running.flow.kind == FlowKind::replicate;
  const bool is_at_end = have_all_ended(running);
  for (const Thread& thread : running.threads) {
    const std::uint32_t phase = get("phases", thread.number);
    // The last one that leaves a closed flow would have told the producers, but all had ended.
    const bool has_told_nobody = phase == kDead && thread.leaves && is_at_end && get_own("lost", thread.own) == 0;
    const bool has_lost_its_consumer = (phase == kDead && !has_told_nobody) || phase == kTell || phase == kDrain;
    const std::uint32_t lost =
        thread.own == 0 ? (has_lost_its_consumer ? 1U : 0U) : get_own("lost", thread.own) & ~running.left;
    are_over = are_over && (phase == kDone || phase == kDead);
    has_one_ended = has_one_ended || (phase == kDone && !thread.leaves) || has_told_nobody;
    result.is_broken =
        result.is_broken || has_lost_its_consumer || (get("marks", thread.number) & kLost) != 0 || lost != 0;
    result.delivered.push_back(get("heads", thread.number));
    result.batch_items.push_back(running.most_items >> get("shrinks", thread.number));
    result.rate_shares.push_back(std::exp2(-static_cast<double>(get("slownesses", thread.number) >> 2U)));
    for (std::size_t c = 0; c < (is_replicated ? running.consumers.size() : 1); ++c) {
      result.lost_consumers.push_back((lost >> c & 1U) != 0);
      result.left_consumers.push_back(is_replicated ? (running.left >> c & 1U) != 0 : thread.leaves);
    }
  }
  result.has_ended = are_over && has_one_ended;
  for (const Member& producer : running.producers) {
    const bool is_lost = producer.is_there ? get("gone", producer.number) == kProducerLost : producer.was_lost;
    result.is_broken = result.is_broken || is_lost;
    result.lost_producers.push_back(is_lost);
    result.taken.push_back(producer.is_there ? get("taken", producer.number) : producer.taken);
  }
  return result;
}

// What the generator makes: a READ request of the switch to itself, for the program to turn into requests. Its queue
// pair is the thread, and its PSN says of which flow: it may wait in the switch until another one has the thread.
std::vector<std::byte> FlowSwitch::control_packet(FlowId flow, std::uint16_t thread) const {
  std::vector<std::byte> packet;
  const auto put = [&](std::uint64_t value, unsigned bytes) {  // at most 8
    for (unsigned i = bytes; i-- > 0;) {
      packet.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  };
  // Ethernet.
  put(p4::address_number(own_.mac), 6);
  put(p4::address_number(own_.mac), 6);
  put(0x0800, 2);
  // IPv4: 20 bytes, UDP's 8, BTH's 12, RETH's 16, the ICRC's 4.
  put(0x4502, 2);
  put(60, 2);
  put(0x0000'4000, 4);  // do not fragment
  put(0x4011, 2);       // 64 hops, UDP
  put(0, 2);
  put(p4::address_number(own_.ip), 4);
  put(p4::address_number(own_.ip), 4);
  const std::uint16_t sum = ipv4_checksum(std::span(packet).last(20));
  packet[packet.size() - 10] = static_cast<std::byte>(sum >> 8);
  packet[packet.size() - 9] = static_cast<std::byte>(sum & 0xff);
  // UDP.
  put(0xc000U | thread, 2);
  put(4791, 2);
  put(40, 2);
  put(0, 2);
  // BTH: RC READ request; migrated; the default partition.
  put(0x0c40'ffff, 4);
  put(thread, 4);
  put(flow & kMostPsn, 4);
  // RETH, and the ICRC, which the switch computes.
  put(0, 8);
  put(0, 8);
  put(0, 4);
  return packet;
}

}  // namespace sidelatch::flows

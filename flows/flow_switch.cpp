#include <sidelatch/flows/flow_switch.h>

#include "common/check_24_bits.h"

#include <fmt/format.h>
#include <p4/zero_sided.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace sidelatch::flows {

namespace {

// As in the program.
constexpr std::uint16_t kGeneratorPort = 510;
constexpr std::uint32_t kIdle = 1;
constexpr std::uint32_t kDone = 2;
constexpr std::uint32_t kDead = 3;
constexpr std::uint32_t kTell = 7;
constexpr std::uint32_t kDrain = 12;
constexpr std::uint32_t kLost = 1;
constexpr std::uint32_t kProducerLost = 2;
constexpr std::array kThreadRegisters{"phases", "retries", "sent",          "positions", "misses",  "ends",  "heads",
                                      "tails",  "items",   "packets",       "starts",    "passed",  "marks", "answers",
                                      "lost",   "fullest", "consumer_psns", "silences",  "shrinks", "paces"};
constexpr std::array kProducerRegisters{"producer_psns", "known", "taken", "locks", "gone", "owed"};

constexpr double kMostCreditNs = 1e6;     // of a limited rate
constexpr double kLongestPauseNs = 1e12;  // a quarter of an hour
constexpr std::uint32_t kMostEnds = 1U << 24;
constexpr std::uint32_t kFirstEnd = 16;
constexpr std::uint32_t kMostPsn = 0xff'ffff;
constexpr std::size_t kMostCopies = 32;        // bits of a register
constexpr std::uint16_t kFirstGroup = 0x8000;  // of multicast, by thread
// Of the data in a packet: Ethernet's 14 bytes, IPv4's 20, UDP's 8, BTH's 12, RETH's 16, the ICRC's 4.
constexpr std::size_t kMostAround = 74;
constexpr std::int64_t kLongestTimeOut = std::int64_t{1}
                                         << 44;  // the program counts to 2^48, and waits eight times as long
constexpr std::uint32_t kPollsBeforeIdle = 1000;
constexpr std::uint64_t kFirstBatch = 64 << 10;  // bytes
constexpr std::uint64_t kMostBatchBytes = std::uint64_t{1} << 30;

p4::U128 is_little(const RingShape& shape) { return shape.order == ByteOrder::little ? 1 : 0; }

const char* name_of(ByteOrder order) { return order == ByteOrder::little ? "little" : "big"; }

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

// No two rings share memory, as far as one key says.
void check_apart(const char* name, const std::vector<FlowRing>& rings) {
  std::vector<std::size_t> order(rings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto place = [&](std::size_t i) { return std::tie(rings[i].mac, rings[i].rkey, rings[i].address); };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const FlowRing& one = rings[order[i - 1]];
    const FlowRing& next = rings[order[i]];
    if (one.mac == next.mac && one.rkey == next.rkey && next.address - one.address < one.shape.bytes()) {
      throw std::invalid_argument(fmt::format("{}[{}]: its memory is also that of {}[{}]", name,
                                              std::max(order[i - 1], order[i]), name,
                                              std::min(order[i - 1], order[i])));
    }
  }
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

std::uint32_t take_free(std::vector<bool>& used, const char* what) {
  const auto free = std::ranges::find(used, false);
  if (free == used.end()) {
    throw p4::ControlError(fmt::format("the switch has no room for more than {} {}", used.size(), what));
  }
  *free = true;
  return static_cast<std::uint32_t>(free - used.begin());
}

}  // namespace

std::shared_ptr<const p4::Program> zero_sided_program() { return p4::programs::zero_sided(); }

FlowSwitch::FlowSwitch(p4::Switch& device, const SwitchAddress& own)
    : device_(&device),
      own_(own),
      threads_(device.state().reg("Move.phases").size()),
      consumers_(device.state().reg("Move.reached").size()),
      producers_(device.state().reg("Move.producer_psns").size()) {
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
  add_own("Move.own_addresses", p4::address_number(own.ip), "is_own", p4::address_number(own.mac));
}

FlowSwitch::~FlowSwitch() {
  for (Running& running : flows_) {
    remove(running);
  }
  for (const auto& [table, handle] : own_entries_) {
    table->remove(handle);
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

void FlowSwitch::check(const Flow& flow) const {
  if (flow.producers.empty() || flow.consumers.empty()) {
    throw std::invalid_argument(fmt::format("a flow of {} producers and {} consumers: it has one of each at least",
                                            flow.producers.size(), flow.consumers.size()));
  }
  if (flow.kind == FlowKind::shuffle && flow.producers.size() % flow.consumers.size() != 0) {
    throw std::invalid_argument(
        fmt::format("{} producers' rings for {} consumers: in a shuffle each producer has a ring for each consumer",
                    flow.producers.size(), flow.consumers.size()));
  }
  if (flow.kind == FlowKind::replicate) {
    if (flow.consumers.size() > kMostCopies) {
      throw std::invalid_argument(
          fmt::format("{} consumers: a flow is replicated to {} at most", flow.consumers.size(), kMostCopies));
    }
    const FlowRing& one = flow.consumers.front();
    for (std::size_t i = 1; i < flow.consumers.size(); ++i) {
      const FlowRing& other = flow.consumers[i];
      // Copies of a packet differ by where the ring is, and by nothing else.
      if (other.shape.slots != one.shape.slots || other.shape.order != one.shape.order ||
          other.shape.alignment != one.shape.alignment || other.end.psn != one.end.psn) {
        throw std::invalid_argument(fmt::format(
            "consumers[{}] of a replicated flow: slots {}, alignment {}, {} endian, end.psn {:#x}; those of "
            "consumers[0] are {}, {}, {} and {:#x}. Give them the same, and ends of one new_ends()",
            i, other.shape.slots, other.shape.alignment, name_of(other.shape.order), other.end.psn, one.shape.slots,
            one.shape.alignment, name_of(one.shape.order), one.end.psn));
      }
    }
  }
  if (flow.path_mtu < 256 || flow.path_mtu > 4096 || !std::has_single_bit(flow.path_mtu)) {
    throw std::invalid_argument(fmt::format("path_mtu {}: it is 256, 512, 1024, 2048 or 4096", flow.path_mtu));
  }
  if (const std::size_t most = device_->options().packet_bytes; flow.path_mtu + kMostAround > most) {
    throw std::invalid_argument(
        fmt::format("path_mtu {}: its packets have up to {} bytes, and the switch takes {} at most "
                    "(SwitchOptions::packet_bytes)",
                    flow.path_mtu, flow.path_mtu + kMostAround, most));
  }
  if (flow.batch_bytes == 0 || flow.batch_bytes > kMostBatchBytes) {
    throw std::invalid_argument(fmt::format("batch_bytes {}: 1 to {}", flow.batch_bytes, kMostBatchBytes));
  }
  if (flow.poll_interval <= std::chrono::nanoseconds(0)) {
    throw std::invalid_argument(fmt::format("poll_interval {} ns: 1 at least", flow.poll_interval.count()));
  }
  if (flow.time_out < std::chrono::microseconds(0) || flow.time_out.count() > kLongestTimeOut) {
    throw std::invalid_argument(fmt::format("time_out {} us: 0 to {}", flow.time_out.count(), kLongestTimeOut));
  }
  if (flow.first_count > kCount) {
    throw std::invalid_argument(fmt::format("first_count {}: 0 to {}", flow.first_count, kCount));
  }
  const RingShape& first = flow.producers.front().shape;
  std::set<std::uint32_t> ends;
  const auto check_ring = [&](const std::string& name, const FlowRing& ring) {
    try {
      ring.shape.check();
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("{}: {}", name, error.what()));
    }
    if (ring.shape.item_bytes != first.item_bytes || ring.shape.stride() != first.stride()) {
      throw std::invalid_argument(fmt::format(
          "{}: items of {} bytes, {} from one to the next; those of producers[0] are {} and {}. A flow has one size",
          name, ring.shape.item_bytes, ring.shape.stride(), first.item_bytes, first.stride()));
    }
    if (ring.address % sizeof(std::uint32_t) != 0) {
      throw std::invalid_argument(fmt::format("{}: address {:#x}: it must be a multiple of 4", name, ring.address));
    }
    if (ring.address + (ring.shape.bytes() - 1) < ring.address) {
      throw std::invalid_argument(
          fmt::format("{}: address {:#x}: a ring of {} bytes there goes beyond the end of memory", name, ring.address,
                      ring.shape.bytes()));
    }
    if (ring.port >= device_->options().ports) {
      throw std::invalid_argument(
          fmt::format("{}: port {}: those of the switch are 0 to {}", name, ring.port, device_->options().ports - 1));
    }
    check_24_bits(name + ": queue_pair", ring.queue_pair);
    check_24_bits(name + ": end.queue_pair", ring.end.queue_pair);
    check_24_bits(name + ": end.psn", ring.end.psn);
    const std::uint32_t end = ring.end.queue_pair;
    if (end < kFirstEnd || end - kFirstEnd >= are_ends_used_.size()) {
      throw std::invalid_argument(fmt::format("{}: end.queue_pair {} is none that new_end() has given", name, end));
    }
    if (are_ends_used_[end - kFirstEnd] || !ends.insert(end).second) {
      throw std::invalid_argument(fmt::format(
          "{}: end.queue_pair {} has been used by an earlier ring: take another one from new_end()", name, end));
    }
  };
  for (std::size_t i = 0; i < flow.producers.size(); ++i) {
    check_ring(fmt::format("producers[{}]", i), flow.producers[i]);
  }
  for (std::size_t i = 0; i < flow.consumers.size(); ++i) {
    check_ring(fmt::format("consumers[{}]", i), flow.consumers[i]);
  }
  check_apart("producers", flow.producers);
  check_apart("consumers", flow.consumers);
}

FlowSwitch::FlowId FlowSwitch::start(const Flow& flow) {
  check(flow);
  Running running;
  running.id = next_flow_++;
  try {
    install(running, flow);
  } catch (...) {
    remove(running);
    throw;
  }
  for (const auto* const rings : {&flow.producers, &flow.consumers}) {
    for (const FlowRing& ring : *rings) {
      are_ends_used_[ring.end.queue_pair - kFirstEnd] = true;
    }
  }
  flows_.push_back(std::move(running));
  return flows_.back().id;
}

void FlowSwitch::install(Running& running, const Flow& flow) {
  p4::State& state = device_->state();
  const auto add = [&](const char* table, const std::vector<p4::Match>& keys, const char* action,
                       const std::vector<p4::U128>& arguments) {
    p4::TableState& where = state.table(std::string("Move.") + table);
    running.entries.emplace_back(&where, where.add(keys, action, arguments));
  };
  const auto set = [&](const char* name, std::uint64_t index, std::uint64_t value) {
    state.reg(std::string("Move.") + name).write(index, value);
  };
  for (const FlowRing& ring : flow.producers) {
    running.producers.push_back(take_free(producers_, "producers' rings"));
    const std::uint32_t number = running.producers.back();
    for (const char* const name : kProducerRegisters) {
      set(name, number, 0);
    }
    set("producer_psns", number, ring.end.psn);
    set("taken", number, flow.first_count);
    add("producers", {{.value = number}}, "is_producer", arguments_of(ring));
    add("ends_of_switch", {{.value = p4::address_number(own_.ip)}, {.value = ring.end.queue_pair}}, "of_producer",
        {number, p4::address_number(ring.ip)});
  }
  const std::uint32_t stride = flow.producers.front().shape.stride();
  running.most_items = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, flow.batch_bytes / stride));
  running.stride = stride;
  running.poll_interval = flow.poll_interval;
  running.idle_interval = flow.idle_interval;
  // A long first batch would be lost on a network that loses packets.
  std::uint32_t shrinks = 0;
  while ((running.most_items >> shrinks) > 1 && (running.most_items >> shrinks) * std::uint64_t{stride} > kFirstBatch) {
    ++shrinks;
  }
  const auto generation = static_cast<std::uint32_t>(running.id);
  // A thread for each consumer, but for a replicated flow one for all.
  const std::uint64_t consumers = flow.consumers.size();
  const std::uint64_t copies = flow.kind == FlowKind::replicate ? consumers : 1;
  const std::uint64_t threads = consumers / copies;
  for (std::uint64_t i = 0; i < threads; ++i) {
    const auto thread = static_cast<std::uint16_t>(take_free(threads_, "consumers"));
    running.threads.push_back(thread);
    for (const char* const name : kThreadRegisters) {
      set(name, thread, 0);
    }
    set("shrinks", thread, shrinks);
    set("consumer_psns", thread, flow.consumers[i].end.psn);
    set("heads", thread, flow.first_count);
    set("tails", thread, flow.first_count);
    // Those who share producers are counted together.
    const bool shares = flow.kind == FlowKind::balance;
    set("living", thread, shares ? consumers : 1);
    std::uint32_t members = 0;
    const std::uint64_t step = flow.kind == FlowKind::shuffle ? consumers : 1;
    for (std::size_t p = flow.kind == FlowKind::shuffle ? i : 0; p < flow.producers.size(); p += step) {
      add("members", {{.value = thread}, {.value = members++}}, "is_member", {running.producers[p]});
    }
    std::vector<p4::MulticastMember> group;
    const std::uint64_t first_address = flow.consumers[i].address;
    for (std::uint64_t c = i * copies; c < (i + 1) * copies; ++c) {
      const FlowRing& ring = flow.consumers[c];
      const std::uint32_t number = take_free(consumers_, "consumers");
      running.consumers.push_back(number);
      set("reached", number, ring.end.psn);
      const std::uint32_t own_bit = std::uint32_t{1} << (c - i * copies);
      add("ends_of_switch", {{.value = p4::address_number(own_.ip)}, {.value = ring.end.queue_pair}}, "of_consumer",
          {thread, p4::address_number(ring.ip), number, own_bit});
      const auto rid = static_cast<std::uint16_t>(number + 1);
      running.entries.emplace_back(&state.table("Finish.consumers_of_copies"),
                                   state.table("Finish.consumers_of_copies")
                                       .add({{.value = rid}, {.value = generation}}, "is_copy",
                                            {p4::address_number(ring.mac), p4::address_number(ring.ip), ring.queue_pair,
                                             ring.rkey, ring.address - first_address, own_bit}));
      group.push_back({.rid = rid, .port = ring.port});
    }
    const auto group_number = static_cast<std::uint16_t>(kFirstGroup | thread);
    device_->set_multicast_group(group_number, std::move(group));
    add("threads", {{.value = thread}}, "is_thread",
        {p4::address_number(own_.mac), p4::address_number(own_.ip), shares ? running.threads.front() : thread, members,
         running.most_items, stride, static_cast<unsigned>(std::countr_zero(flow.path_mtu)),
         static_cast<std::uint64_t>(flow.time_out.count()), flow.most_retries, (std::uint64_t{1} << copies) - 1,
         running.consumers[i * copies], copies > 1 ? group_number : std::uint16_t{0}, generation});
    add("consumers", {{.value = thread}}, "is_consumer", arguments_of(flow.consumers[i]));
  }
  for (const std::uint16_t thread : running.threads) {
    set("phases", thread, kIdle);
    set_timer(running, thread, 0);
  }
}

void FlowSwitch::set_timer(const Running& running, std::uint16_t thread, std::uint64_t bytes_per_second) {
  device_->state().reg("Move.paces").write(thread, bytes_per_second == 0 ? 0 : 1);
  device_->set_generator(thread, {.port = kGeneratorPort,
                                  .interval = static_cast<std::uint64_t>(running.poll_interval.count()),
                                  .packet = control_packet(thread),
                                  .pace = pace_of(running, thread, bytes_per_second)});
}

void FlowSwitch::limit_rate(FlowId flow, std::uint64_t bytes_per_second) {
  const Running& running = find(flow, "limit_rate");
  for (const std::uint16_t thread : running.threads) {
    set_timer(running, thread, bytes_per_second);
  }
}

// No timer for a thread that is done. For an idle one a slow timer. For one whose rate is limited, a timer that fires
// when what has moved is paid for: until then the thread is idle, so it has no answer to wait for.
std::function<std::uint64_t()> FlowSwitch::pace_of(const Running& running, std::uint16_t thread,
                                                   std::uint64_t bytes_per_second) const {
  const auto least = static_cast<std::uint64_t>(running.poll_interval.count());
  const auto most = static_cast<std::uint64_t>(std::max(running.idle_interval, running.poll_interval).count());
  const double item_ns = bytes_per_second == 0 ? 0 : running.stride * 1e9 / static_cast<double>(bytes_per_second);
  p4::State& state = device_->state();
  p4::RegisterState& all_heads = state.reg("Move.heads");
  return [least, most, item_ns, thread, &phases = state.reg("Move.phases"), &heads = all_heads, interval = least,
          last = least, owed_ns = 0.0, polls = std::uint32_t{0},
          before = static_cast<std::uint32_t>(all_heads.read(thread))]() mutable -> std::uint64_t {
    const p4::U128 phase = phases.read(thread);
    if (phase == kDone || phase == kDead) {
      return 0;
    }
    const auto head = static_cast<std::uint32_t>(heads.read(thread));
    const std::uint32_t moved = (head - before) & kCount;
    before = head;
    if (moved != 0) {
      polls = 0;
      interval = least;
    } else if (polls < kPollsBeforeIdle) {
      ++polls;
    } else {
      interval = std::min(2 * interval, most);
    }
    // The time that a batch takes pays for it, too, and so does a short time without items.
    owed_ns = std::max(owed_ns - static_cast<double>(last), -kMostCreditNs) + moved * item_ns;
    last = std::max(interval, static_cast<std::uint64_t>(std::clamp(owed_ns, 0.0, kLongestPauseNs)));
    return last;
  };
}

void FlowSwitch::remove(Running& running) noexcept {
  for (const std::uint16_t thread : running.threads) {
    device_->remove_generator(thread);
    device_->set_multicast_group(static_cast<std::uint16_t>(kFirstGroup | thread), {});
    device_->state().reg("Move.phases").write(thread, 0);
    threads_[thread] = false;
  }
  for (const std::uint32_t consumer : running.consumers) {
    consumers_[consumer] = false;
  }
  for (const std::uint32_t producer : running.producers) {
    producers_[producer] = false;
  }
  for (const auto& [table, handle] : running.entries) {
    table->remove(handle);
  }
}

void FlowSwitch::stop(FlowId flow) {
  static_cast<void>(find(flow, "stop"));
  const auto found = std::ranges::find(flows_, flow, &Running::id);
  remove(*found);
  flows_.erase(found);
}

const FlowSwitch::Running& FlowSwitch::find(FlowId flow, const char* what) const {
  const auto found = std::ranges::find(flows_, flow, &Running::id);
  if (found == flows_.end()) {
    throw std::invalid_argument(fmt::format("{}: there is no flow {}; it may have been stopped", what, flow));
  }
  return *found;
}

FlowState FlowSwitch::state(FlowId flow) const {
  const Running& running = find(flow, "state");
  p4::State& state = device_->state();
  const auto get = [&](const char* name, std::uint64_t index) {
    return static_cast<std::uint32_t>(state.reg(std::string("Move.") + name).read(index));
  };
  FlowState result;
  bool are_over = true;
  bool has_one_ended = false;
  for (const std::uint16_t thread : running.threads) {
    const std::uint32_t phase = get("phases", thread);
    are_over = are_over && (phase == kDone || phase == kDead);
    has_one_ended = has_one_ended || phase == kDone;
    result.is_broken = result.is_broken || phase == kDead || phase == kTell || phase == kDrain ||
                       (get("marks", thread) & kLost) != 0 || get("lost", thread) != 0;
    result.delivered.push_back(get("heads", thread));
    result.batch_items.push_back(running.most_items >> get("shrinks", thread));
  }
  result.has_ended = are_over && has_one_ended;
  for (const std::uint32_t producer : running.producers) {
    result.is_broken = result.is_broken || get("gone", producer) == kProducerLost;
    result.taken.push_back(get("taken", producer));
  }
  return result;
}

// What the generator makes: a READ request of the switch to itself, for the program to turn into requests. Its queue
// pair is the thread.
std::vector<std::byte> FlowSwitch::control_packet(std::uint16_t thread) const {
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
  put(0, 4);
  // RETH, and the ICRC, which the switch computes.
  put(0, 8);
  put(0, 8);
  put(0, 4);
  return packet;
}

}  // namespace sidelatch::flows

#include "flow_network.h"

#include "softnic/nic/deferred_access.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace sidelatch::flows {

using namespace softnic::nic;

namespace {

constexpr SwitchAddress kFirstSwitch{.mac = {2, 0, 0, 0, 1, 0}, .ip = {10, 0, 1, 0}};

std::vector<std::unique_ptr<Host>> hosts_of(const FlowNetworkOptions& options) {
  std::vector<std::unique_ptr<Host>> hosts;
  for (std::size_t i = 0; i < options.producers + options.consumers; ++i) {
    std::unique_ptr<MemoryAccess> access = std::make_unique<ImmediateAccess>();
    if (options.defers) {
      access = std::make_unique<DeferredAccess>(
          DeferredOptions{.rules = fabric::model::rules_of(options.is_relaxed ? fabric::model::Preset::relaxed
                                                                              : fabric::model::Preset::observed),
                          .seed = options.seed + i,
                          .spread = 3000,
                          .torn_bias = 0.3});
    }
    hosts.push_back(std::make_unique<Host>(static_cast<std::uint8_t>(i + 1), std::move(access)));
  }
  return hosts;
}

PathMtu mtu_of(std::uint32_t bytes) {
  switch (bytes) {
    case 256:
      return PathMtu::b256;
    case 512:
      return PathMtu::b512;
    case 1024:
      return PathMtu::b1024;
    case 2048:
      return PathMtu::b2048;
    default:
      return PathMtu::b4096;
  }
}

std::span<std::byte> memory_of(const FlowRing& ring) {
  return {reinterpret_cast<std::byte*>(ring.address), ring.shape.bytes()};  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

FlowNetwork::FlowNetwork(std::shared_ptr<const p4::Program> program, const FlowNetworkOptions& options)
    : SwitchedNics(std::move(program), hosts_of(options), options.faults, options.seed, options.ecn_bytes),
      options_(options),
      used_(options.producers + options.consumers) {
  own_ = kFirstSwitch;
  control_.emplace(device(), own_);
  pass_time(options.begins_at);
  start();
}

void FlowNetwork::start_anew() {
  control_->stop(flow_);
  for (std::size_t i = 0; i < rings(); ++i) {
    kill_ring(i);
  }
  for (std::size_t i = 0; i < consumers(); ++i) {
    kill_consumer(i);
  }
  std::ranges::fill(used_, 0);
  start();
}

void FlowNetwork::start() {
  const FlowNetworkOptions& options = options_;
  Flow flow{.kind = options.kind,
            .path_mtu = options.path_mtu,
            .batch_bytes = options.batch_bytes,
            .poll_interval = options.poll_interval,
            .idle_interval = options.idle_interval,
            .time_out = options.time_out,
            .most_retries = options.most_retries,
            .first_count = options.first_count,
            .is_open = options.is_open};
  const std::size_t rings = options.producers * (options.kind == FlowKind::shuffle ? options.consumers : 1);
  hosts_of_rings_.clear();
  hosts_of_consumers_.clear();
  producers_.clear();
  consumers_.clear();
  producers_.resize(rings);
  consumers_.resize(options.consumers);
  producer_pairs_.resize(rings);
  consumer_pairs_.resize(options.consumers);
  pushed_.assign(rings, 0);
  for (std::size_t i = 0; i < rings; ++i) {
    hosts_of_rings_.push_back(options.kind == FlowKind::shuffle ? i / options.consumers : i);
    flow.producers.push_back(connect(host_of_ring(i), options.producer_shape, producer_pairs_[i]));
    producers_[i].emplace(memory_of(flow.producers.back()), options.producer_shape);
  }
  for (std::size_t i = 0; i < options.consumers; ++i) {
    hosts_of_consumers_.push_back(options.producers + i);
    flow.consumers.push_back(connect(host_of_consumer(i), options.consumer_shape, consumer_pairs_[i]));
    consumers_[i].emplace(memory_of(flow.consumers.back()), options.consumer_shape);
  }
  flow_options_ = flow;
  flow_ = control_->start(flow);
}

void FlowNetwork::fail_over(bool had_another_producer) {
  // First the old switch is cut off.
  for (std::size_t i = 0; i < rings(); ++i) {
    kill_ring(i);
  }
  for (std::size_t i = 0; i < consumers(); ++i) {
    kill_consumer(i);
  }
  FlowState before = state();
  before.taken.clear();  // what is in the rings must do
  before.has_lost_earlier_producer = had_another_producer;
  control_.reset();
  replace_switch();
  ++own_.ip[3];
  ++own_.mac[5];
  control_.emplace(device(), own_);
  std::vector<RingState> producers;
  std::vector<RingState> consumers;
  for (std::size_t i = 0; i < rings(); ++i) {
    FlowRing& ring = flow_options_.producers[i];
    producers.push_back(producer(i).state());
    const std::size_t offset = ring.address - host(host_of_ring(i)).address(0);
    ring = connect_memory(host_of_ring(i), options_.producer_shape, offset, producer_pairs_[i]);
  }
  for (std::size_t i = 0; i < this->consumers(); ++i) {
    FlowRing& ring = flow_options_.consumers[i];
    consumers.push_back(consumer(i).state());
    const std::size_t offset = ring.address - host(host_of_consumer(i)).address(0);
    ring = connect_memory(host_of_consumer(i), options_.consumer_shape, offset, consumer_pairs_[i]);
  }
  flow_ = control_->take_over(flow_options_, producers, consumers, before);
}

std::size_t FlowNetwork::join_producer(std::size_t like) {
  const std::size_t number = host_of_ring(like);
  const std::size_t first = rings();
  std::vector<FlowRing> joining;
  for (std::size_t i = 0; i < (options_.kind == FlowKind::shuffle ? consumers() : 1); ++i) {
    producer_pairs_.push_back(nullptr);
    hosts_of_rings_.push_back(number);
    joining.push_back(connect(number, options_.producer_shape, producer_pairs_.back()));
    producers_.emplace_back(std::in_place, memory_of(joining.back()), options_.producer_shape);
    pushed_.push_back(0);
  }
  EXPECT_EQ(control_->join_producer(flow_, joining), first);
  flow_options_.producers.insert(flow_options_.producers.end(), joining.begin(), joining.end());
  return first;
}

void FlowNetwork::rejoin_producer(std::size_t number) {
  FlowRing& ring = flow_options_.producers.at(number);
  if (producer_pairs_[number] != nullptr) {
    kill_ring(number);
  }
  const std::size_t offset = ring.address - host(host_of_ring(number)).address(0);
  ring = connect_memory(host_of_ring(number), options_.producer_shape, offset, producer_pairs_[number]);
  control_->rejoin_producer(flow_, number, ring);
}

std::size_t FlowNetwork::join_consumer(std::size_t like) {
  const std::size_t number = consumers();
  consumer_pairs_.push_back(nullptr);
  hosts_of_consumers_.push_back(host_of_consumer(like));
  flow_options_.consumers.push_back(
      connect(hosts_of_consumers_.back(), options_.consumer_shape, consumer_pairs_.back()));
  consumers_.emplace_back(std::in_place, memory_of(flow_options_.consumers.back()), options_.consumer_shape);
  EXPECT_EQ(control_->join_consumer(flow_, flow_options_.consumers.back()), number);
  return number;
}

void FlowNetwork::ring_bell(QueuePair* pair, bool sends) {
  if (pair == nullptr) {
    return;
  }
  // With as many bells on their way as there is room for, another one is not needed.
  static_cast<void>(pair->post_send({.kind = sends ? WorkKind::send : WorkKind::write, .signaled = true, .sges = {}}));
}

std::uint32_t FlowNetwork::head_of(std::size_t i) {
  std::uint32_t head = 0;
  std::memcpy(&head, host(host_of_consumer(i)).at(RingShape::head_offset()), sizeof head);
  return head & kCount;
}

FlowRing FlowNetwork::connect(std::size_t number, const RingShape& shape, QueuePair*& pair) {
  Host& unit = host(number);
  const std::size_t offset = used_[number];
  used_[number] += (shape.bytes() + 63) / 64 * 64;
  EXPECT_LE(used_[number], Host::kMemoryBytes);
  clear_ring(unit.bytes(offset, shape.bytes()), shape);
  const std::uint32_t count =
      shape.order == ByteOrder::little ? options_.first_count : __builtin_bswap32(options_.first_count);
  std::memcpy(unit.at(offset + RingShape::head_offset()), &count, sizeof count);
  std::memcpy(unit.at(offset + RingShape::tail_offset()), &count, sizeof count);
  return connect_memory(number, shape, offset, pair);
}

FlowRing FlowNetwork::connect_memory(std::size_t number, const RingShape& shape, std::size_t offset, QueuePair*& pair) {
  Host& unit = host(number);
  const SwitchEnd end{.queue_pair = control_->new_end().queue_pair,
                      .psn = options_.first_psn.value_or(0x2b3c4d + static_cast<std::uint32_t>(options_.seed))};
  pair = &unit.nic.make_queue_pair(unit.options());
  const AddressVector to{.mac = own_.mac, .gid = roce::gid_of(own_.ip), .gid_index = 0};
  bring_up(*pair, {.mtu = mtu_of(options_.path_mtu), .dest_rd_atomic = options_.dest_rd_atomic}, to, end.queue_pair,
           Psn{end.psn}, Psn{0});
  return {.mac = unit.nic.options().mac,
          .ip = switchsync::address_of_host(number),
          .port = static_cast<std::uint16_t>(number),
          .queue_pair = pair->number(),
          .end = end,
          .rkey = unit.key,
          .address = unit.address(offset),
          .shape = shape};
}

std::vector<std::byte> FlowNetwork::item(const ItemName& name) const {
  std::vector<std::byte> bytes(options_.producer_shape.item_bytes);
  std::vector<std::byte> head(6);
  std::memcpy(head.data(), &name.producer, 2);
  std::memcpy(head.data() + 2, &name.number, 4);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = i < head.size() ? head[i] : static_cast<std::byte>(name.producer * 7 + name.number * 31 + i);
  }
  return bytes;
}

bool FlowNetwork::push(std::size_t ring) {
  if (!producer(ring).try_push(item({static_cast<std::uint16_t>(ring), pushed_[ring]}))) {
    return false;
  }
  ++pushed_[ring];
  if (options_.rings && producer(ring).shall_ring()) {
    ring_of_producer(ring);
  }
  return true;
}

std::optional<ItemName> FlowNetwork::pop(std::size_t number) {
  std::vector<std::byte> bytes(options_.consumer_shape.item_bytes);
  if (consumer(number).try_pop(bytes) != Consumer::Popped::item) {
    return std::nullopt;
  }
  if (options_.rings && consumer(number).shall_ring()) {
    ring_of_consumer(number);
  }
  ItemName name;
  std::memcpy(&name.producer, bytes.data(), 2);
  std::memcpy(&name.number, bytes.data() + 2, 4);
  const bool is_right = bytes == item(name);
  wrong_items_ += is_right ? 0U : 1U;
  EXPECT_TRUE(is_right || options_.is_relaxed) << "an item is torn, or was not there yet";
  return name;
}

std::vector<std::vector<ItemName>> FlowNetwork::move(std::uint32_t items) {
  std::vector<std::vector<ItemName>> arrived(consumers());
  std::vector<bool> is_at_end(consumers());
  std::vector<bool> is_given_up(rings());
  run([&] {
    count_bells();
    for (std::size_t i = 0; i < rings(); ++i) {
      if (is_given_up[i]) {
        continue;
      }
      try {
        while (pushed_[i] < items && push(i)) {
        }
        if (pushed_[i] == items) {
          producer(i).end();
        }
      } catch (const FlowBroken&) {
        is_given_up[i] = true;
      }
    }
    for (std::size_t i = 0; i < consumers(); ++i) {
      try {
        while (const auto name = pop(i)) {
          arrived[i].push_back(*name);
        }
        is_at_end[i] = is_at_end[i] || consumer(i).has_ended();
      } catch (const FlowBroken&) {
        is_at_end[i] = true;
      }
    }
    return std::ranges::all_of(is_at_end, [](bool end) { return end; }) || testing::Test::HasFailure();
  });
  return arrived;
}

void FlowNetwork::count_bells() {
  for (std::size_t i = 0; i < options_.producers + options_.consumers; ++i) {
    for (const Completion& completion : host(i).sent()) {
      EXPECT_EQ(completion.status, CompletionStatus::success);
      ++bells_;
    }
  }
}

void FlowNetwork::kill_ring(std::size_t ring) {
  host(host_of_ring(ring)).nic.destroy(*std::exchange(producer_pairs_.at(ring), nullptr));
}

void FlowNetwork::kill_consumer(std::size_t number) {
  host(host_of_consumer(number)).nic.destroy(*std::exchange(consumer_pairs_.at(number), nullptr));
}

void expect_soon(FlowNetwork& network, const std::function<bool()>& done) {
  const Time begun = network.now();
  network.run([&] { return done() || network.now() > begun + 2 * kRarePoll; });
  EXPECT_LT(network.now() - begun, kRarePoll / 10);
}

void pass(FlowNetwork& network, Time time) {
  const Time end = network.now() + time;
  network.run([&] { return network.now() >= end; });
}

std::function<bool()> pops(FlowNetwork& network, std::size_t consumer, std::uint32_t wanted) {
  return [&network, consumer, wanted, popped = std::uint32_t{0}]() mutable {
    while (popped < wanted && network.pop(consumer)) {
      ++popped;
    }
    return popped == wanted;
  };
}

std::string judge(const std::vector<std::vector<ItemName>>& arrived, std::size_t rings, std::uint32_t items,
                  const std::vector<std::size_t>& lost_rings) {
  std::vector<std::vector<std::uint32_t>> times(rings, std::vector<std::uint32_t>(items));
  for (std::size_t c = 0; c < arrived.size(); ++c) {
    std::vector<std::int64_t> latest(rings, -1);
    for (const ItemName& name : arrived[c]) {
      if (name.producer >= rings || name.number >= items) {
        return fmt::format("consumer {} has an item {} of ring {}, which nobody pushed", c, name.number, name.producer);
      }
      if (name.number <= latest[name.producer]) {
        return fmt::format("consumer {} has item {} of ring {} after {}", c, name.number, name.producer,
                           latest[name.producer]);
      }
      latest[name.producer] = name.number;
      ++times[name.producer][name.number];
    }
  }
  for (std::size_t ring = 0; ring < rings; ++ring) {
    const bool may_end_early = std::ranges::find(lost_rings, ring) != lost_rings.end();
    bool is_over = false;
    for (std::uint32_t number = 0; number < items; ++number) {
      if (times[ring][number] > 1) {
        return fmt::format("item {} of ring {} came {} times", number, ring, times[ring][number]);
      }
      if (times[ring][number] == 0 && !may_end_early) {
        return fmt::format("item {} of ring {} is lost", number, ring);
      }
      if (times[ring][number] == 1 && is_over) {
        return fmt::format("item {} of ring {} came, and one before it did not", number, ring);
      }
      is_over = is_over || times[ring][number] == 0;
    }
  }
  return {};
}

}  // namespace sidelatch::flows

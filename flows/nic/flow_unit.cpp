#include "lines.h"

#include "common/tcp.h"

#include <sidelatch/flows/nic/flow_nic.h>
#include <sidelatch/flows/nic/flow_unit.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace sidelatch::flows {

using exchange::Words;
using std::chrono::milliseconds;
using Reason = FlowJoinError::Reason;

namespace {

constexpr milliseconds kLook{100};  // at the connection, when nothing moves

}  // namespace

// The connection with the switch's process, the NIC and its rings.
class FlowMembership {
 public:
  FlowMembership(const FlowJoin& join, bool is_producer)
      : address_(HostAndPort::parse(join.address)), deadline_(Clock::now() + join.patience) {
    join.shape.check();
    call(join, is_producer);
    try {
      connect_rings(join);
    } catch (const exchange::WrongLine& error) {
      throw not_ours(error.what());
    }
    await_begin();
    for (std::size_t i = 0; i < nic_->rings(); ++i) {
      if (is_producer) {
        producers.emplace_back(nic_->memory(i), join.shape);
      } else {
        consumers.emplace_back(nic_->memory(i), join.shape);
      }
    }
  }

  void check_switch() {
    if (lines_.is_gone()) {
      throw FlowSwitchGone(fmt::format("the switch at {} has ended before the flow", address_.to_string()));
    }
  }
  // The unit may leave.
  void finish() { static_cast<void>(lines_.send("done")); }

  std::vector<Producer> producers;
  std::vector<Consumer> consumers;

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] milliseconds left() const {
    return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now()));
  }
  [[nodiscard]] FlowJoinError not_ours(const std::string& what) const {
    return {Reason::no_switch, fmt::format("what is at {} is no flow of this version: {}", address_.to_string(), what)};
  }

  void call(const FlowJoin& join, bool is_producer) {
    int error = 0;
    FileDescriptor socket;
    try {
      socket = connect_to(address_, deadline_, error);
    } catch (const SocketError& unknown) {
      throw FlowJoinError(Reason::no_switch, unknown.what());
    }
    if (!socket.valid()) {
      throw FlowJoinError(Reason::no_switch,
                          fmt::format("no switch answers at {}: {}; does it run, and is this its flow's address?",
                                      address_.to_string(), std::strerror(error)));
    }
    lines_ = exchange::Lines(std::move(socket));
    lines_.send(fmt::format("{} {} {} {} {} {} {}", exchange::kGreeting, is_producer ? "producer" : "consumer",
                            join.port, join.shape.slots, join.shape.item_bytes, join.shape.alignment,
                            join.shape.order == ByteOrder::little ? "little" : "big"));
  }

  std::string answer() {
    const auto line = lines_.await(left());
    if (!line && lines_.is_gone()) {
      throw FlowJoinError(Reason::switch_gone,
                          fmt::format("the switch at {} has ended before the flow has begun", address_.to_string()));
    }
    if (!line) {
      throw FlowJoinError(
          Reason::timeout,
          waiting_.empty() ? fmt::format("the switch at {} does not answer", address_.to_string())
                           : fmt::format("the flow at {} has not begun: there are {}", address_.to_string(), waiting_));
    }
    if (line->starts_with("no ")) {
      throw FlowJoinError(Reason::refused,
                          fmt::format("the switch at {} refuses: {}", address_.to_string(), line->substr(3)));
    }
    return *line;
  }

  void connect_rings(const FlowJoin& join) {
    const std::string line = answer();
    Words words(line);
    if (words.word() != "ends") {
      throw exchange::WrongLine(fmt::format("it says '{}'", line));
    }
    const auto path_mtu = static_cast<std::uint32_t>(words.number(4096));
    const Ipv4Address switch_ip = p4::address_of<4>(words.number(0xffff'ffff));
    const std::uint64_t count = words.number(exchange::kMost24);
    std::string offer;
    std::string where;
    try {
      nic_.emplace(join.device);
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto end = words.numbers(2, exchange::kMost24);
        const FlowRing& ring = nic_->add_ring(
            join.shape, {.queue_pair = static_cast<std::uint32_t>(end[0]), .psn = static_cast<std::uint32_t>(end[1])},
            switch_ip, path_mtu);
        offer += fmt::format(" {}:{}:{}", ring.queue_pair, ring.rkey, ring.address);
      }
      where = fmt::format("{} {}", p4::address_number(nic_->mac()), p4::address_number(nic_->ip()));
    } catch (const exchange::WrongLine&) {
      throw;
    } catch (const std::runtime_error& error) {
      throw FlowJoinError(Reason::nic, error.what());
    }
    words.end();
    lines_.send(fmt::format("rings {}{}", where, offer));
  }

  void await_begin() {
    for (std::string line = answer(); line != "begin"; line = answer()) {
      if (!line.starts_with("wait ")) {
        throw not_ours(fmt::format("it says '{}'", line));
      }
      waiting_ = line.substr(5);
    }
  }

  HostAndPort address_;
  Clock::time_point deadline_;
  exchange::Lines lines_;
  std::optional<FlowNic> nic_;
  std::string waiting_;
};

FlowProducer::FlowProducer(const FlowJoin& join) : membership_(std::make_unique<FlowMembership>(join, true)) {}
FlowProducer::~FlowProducer() = default;
std::size_t FlowProducer::rings() const noexcept { return membership_->producers.size(); }
Producer& FlowProducer::ring(std::size_t i) { return membership_->producers.at(i); }

void FlowProducer::push(std::span<const std::byte> item, std::size_t ring) {
  Producer& to = membership_->producers.at(ring);
  while (!to.push_for(item, kLook)) {
    membership_->check_switch();
  }
}

void FlowProducer::end() {
  std::optional<FlowBroken> broken;
  const auto unless_broken = [&](const auto& what) {
    try {
      return what();
    } catch (const FlowBroken& error) {
      broken = error;
      return true;
    }
  };
  for (Producer& ring : membership_->producers) {
    unless_broken([&] {
      ring.end();
      return true;
    });
  }
  for (Producer& ring : membership_->producers) {
    while (!unless_broken([&] { return ring.is_drained(); })) {
      membership_->check_switch();
      std::this_thread::sleep_for(milliseconds(1));  // nothing to do but to stay
    }
  }
  membership_->finish();
  if (broken) {
    throw FlowBroken(*broken);
  }
}

FlowConsumer::FlowConsumer(const FlowJoin& join) : membership_(std::make_unique<FlowMembership>(join, false)) {}
FlowConsumer::~FlowConsumer() = default;
Consumer& FlowConsumer::ring() { return membership_->consumers.front(); }

bool FlowConsumer::pop(std::span<std::byte> item) {
  for (;;) {
    switch (membership_->consumers.front().pop_for(item, kLook)) {
      case Consumer::Popped::item:
        return true;
      case Consumer::Popped::ended:
        membership_->finish();
        return false;
      case Consumer::Popped::empty:
        membership_->check_switch();
    }
  }
}

}  // namespace sidelatch::flows

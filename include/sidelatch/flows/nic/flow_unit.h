// FlowProducer and FlowConsumer: a process joins a flow of a running switch by an address, and pushes or pops.
//
//   FlowProducer producer({.address = "10.0.0.9:18517", .shape = {.slots = 256, .item_bytes = 64}});
//   while (next(item)) {
//     producer.push(item);
//   }
//   producer.end();                       // all has been delivered
//
//   FlowConsumer consumer({.address = "10.0.0.9:18517", .port = 1, .shape = {.slots = 256, .item_bytes = 64}});
//   while (consumer.pop(item)) {
//     use(item);
//   }
//
// At the address is a FlowHost (flow_host.h), in the process that runs the switch. The unit's NIC is an RDMA device, or
// the software NIC if the process was started with softnic::set_environment() or `sidelatch softnic run`, with a cable
// to the switch ("switch:NAME,ADDRESS").
//
// The address is for joining and for telling that somebody is gone; items never go there. While they move these classes
// make no system call, but look at the connection each 100 ms that nothing moves. Whoever reaches the address may join.
//
// A unit that ends without end() or before pop() has returned false has died: docs/flows.md says what the others see.
// Nothing of it is left in the switch after the flow.
//
// Thread-safety: none.
#pragma once

#include <sidelatch/flows/ring.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace sidelatch::flows {

struct FlowJoin {
  std::string address{};   ///< HOST:PORT of the flow at the switch
  std::uint16_t port = 0;  ///< of the switch, to which this NIC's link leads
  RingShape shape{};
  std::string device{};  ///< as libibverbs calls it; empty: the first one
  /// For the switch to answer, and for the other units to be there.
  std::chrono::milliseconds patience{30'000};
};

/// The process is not in the flow.
class FlowJoinError : public std::runtime_error {
 public:
  enum class Reason : std::uint8_t {
    no_switch,   ///< nobody is at the address, or something else
    refused,     ///< another item size, all units are there, no such port: the switch says what
    nic,         ///< this machine's NIC
    timeout,     ///< other units did not come, or the switch does not answer
    switch_gone  ///< it ended meanwhile
  };
  FlowJoinError(Reason reason, const std::string& what) : std::runtime_error(what), reason_(reason) {}
  [[nodiscard]] Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

/// The switch has ended, or died, before the flow. What a consumer has popped is right.
class FlowSwitchGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FlowMembership;

class FlowProducer {
 public:
  /// Returns when the flow has begun. Throws FlowJoinError, and std::invalid_argument for an address or a shape that is
  /// none.
  explicit FlowProducer(const FlowJoin& join);
  FlowProducer(const FlowProducer&) = delete;
  FlowProducer& operator=(const FlowProducer&) = delete;
  ~FlowProducer();

  /// In a shuffle one for each consumer, else 1.
  [[nodiscard]] std::size_t rings() const noexcept;
  [[nodiscard]] Producer& ring(std::size_t i = 0);
  /// Waits for room. Throws FlowSwitchGone, and as Producer::push().
  void push(std::span<const std::byte> item, std::size_t ring = 0);
  /// Ends all rings and waits until all has been delivered. Throws as push(); FlowBroken when all rings are ended.
  void end();

 private:
  std::unique_ptr<FlowMembership> membership_;
};

class FlowConsumer {
 public:
  /// As FlowProducer.
  explicit FlowConsumer(const FlowJoin& join);
  FlowConsumer(const FlowConsumer&) = delete;
  FlowConsumer& operator=(const FlowConsumer&) = delete;
  ~FlowConsumer();

  [[nodiscard]] Consumer& ring();
  /// Waits for an item. False: the flow has ended. Throws FlowSwitchGone, and as Consumer::pop().
  bool pop(std::span<std::byte> item);

 private:
  std::unique_ptr<FlowMembership> membership_;
};

}  // namespace sidelatch::flows

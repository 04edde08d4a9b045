// NetworkDevice: a device on the way between two simulated nodes, which sees requests and answers as they pass and may
// change or answer them: a programmable switch, say.
//
//   simulation.pass_through(*queue_pair, device);    // before its first request
//   simulation.put_before(storage, device);          // or: all queue pairs that connect to storage from now on
//
// A queue pair's requests then take the device's way instead of the link's propagation: cable, device, cable. The NICs
// at both ends are those of their profiles.
//
// Thread-safety: a device belongs to the simulation's thread.
#pragma once

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/fabric/work_request.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::fabric::sim {

class NetworkDevice {
 public:
  /// One request, or its answer. Requests of one queue pair come in posting order, and so do their answers. A request
  /// is at the device when its first byte is, an answer when its last byte is. Both still come after the queue pair has
  /// ended, as packets do that are on their way.
  struct Message {
    std::uint64_t connection = 0;  ///< the queue pair, as pass_through() has returned it
    const WorkRequest& request;    ///< as posted
    /// The bytes that the packet carries, which the device may change: a WRITE's in the request, a READ's in the
    /// answer. A device that answers a READ fills them.
    std::span<std::byte> payload;
    std::uint64_t old_value = 0;  ///< an atomic's answer; the device may change it
    std::uint64_t tag = 0;        ///< what the device has set in the request it gets back with the answer
    Time now{};                   ///< when the message is at the device
  };
  enum class Verdict : std::uint8_t {
    forward,  ///< goes on to its target
    answer,   ///< the device has answered it; the target does not see it
    refuse,   ///< completes with Status::remote_access, and ends the connection
    drop,     ///< nobody gets it: completes with Status::retry_exceeded, and ends the connection
  };

  NetworkDevice() = default;
  NetworkDevice(const NetworkDevice&) = delete;
  NetworkDevice& operator=(const NetworkDevice&) = delete;
  virtual ~NetworkDevice() = default;

  /// A queue pair of `from` passes the device because of Simulation::put_before(): it has connected, or reconnected.
  /// What of its earlier requests was still on the way has come.
  virtual void connected(std::uint64_t connection, const Node& from) {
    (void)connection;
    (void)from;
  }

  /// From a node to the device, one way.
  [[nodiscard]] virtual Duration cable() const = 0;
  /// From a packet's arrival at the device to its departure.
  [[nodiscard]] virtual Duration latency() const = 0;
  [[nodiscard]] virtual Verdict request(Message& message) = 0;
  /// The answer of a request that was forwarded, and not refused by its target.
  virtual void answer(Message& message) = 0;
};

}  // namespace sidelatch::fabric::sim

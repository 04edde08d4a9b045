// A provider for libibverbs without a device. A program that contains it takes the ibv_* functions from here instead of
// libibverbs. There is one device, stub0, as described by stub_device(). Requests are executed on memory of this
// process when they are posted, and can fail in every way that the interface knows. A send queue has as many places as
// were asked for; a request frees its place when its completion, or that of a later one, is polled. Receives are only
// flushed.
//
// Thread-safety: none.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <vector>

namespace sidelatch::fabric::verbs {

struct StubDevice {
  // The device's properties. Defaults: RoCE, one active port with one GID, atomics, MTU 4096.
  StubDevice();
  static constexpr int kAll = 1 << 20;
  bool present = true;
  ibv_device_attr limits{};
  std::vector<ibv_port_attr> ports;                 ///< the first is port 1
  std::vector<ibv_gid_entry> gids;                  ///< of every port, by index; one of zeroes is empty
  std::vector<std::uint32_t> ports_without_gids{};  ///< their tables are empty
  std::uint32_t most_inline = 1024;                 ///< ibv_create_qp() refuses more

  // Faults. Requests count from 1, over all queue pairs, from the construction of this object on.
  std::uint64_t failing_request = 0;  ///< completes with `failure`, and its queue pair goes to the error state
  ibv_wc_status failure = IBV_WC_GENERAL_ERR;
  std::uint64_t refused_request = 0;  ///< ibv_post_send() returns `refusal` at it
  int refusal = 0;
  bool failure_is_late = false;           ///< a failure is reported only behind the receives that it flushes
  std::uint64_t lost_request = 0;         ///< never completes, nor does what its queue pair has behind it
  int registration_error = 0;             ///< ibv_reg_mr() fails with it
  int completion_queue_error = 0;         ///< ibv_create_cq() fails with it
  int deregistration_error = 0;           ///< ibv_dereg_mr() fails with it
  bool poll_fails = false;                ///< ibv_poll_cq() returns -1
  int most_polled = kAll;                 ///< completions per ibv_poll_cq()
  int most_reported = kAll;               ///< completions from now on; then ibv_poll_cq() finds none
  std::deque<ibv_async_event> events;     ///< what ibv_get_async_event() gives; see raise()
  void raise(ibv_event_type type) const;  ///< the kernel has news

  // Records of events.
  std::uint64_t requests = 0;
  std::uint64_t fences = 0;  ///< requests with IBV_SEND_FENCE
  std::uint64_t events_acknowledged = 0;
  std::uint64_t regions_ended = 0;
  std::uint32_t most_rd_atomic = 0;  ///< of the last queue pair that became ready to send
  ibv_mtu path_mtu{};                ///< of the last queue pair that became ready to receive
  std::uint8_t gid_index = 0;        ///< the same
  std::uint8_t port_number = 0;      ///< the same
};

/// The only device. A test begins by assigning a new one.
StubDevice& stub_device();

}  // namespace sidelatch::fabric::verbs

// A request's entry into the provider and a completion's exit, as names for callgrind.
extern "C" {
int stub_post_send(ibv_qp* queue_pair, ibv_send_wr* request, ibv_send_wr** refused);
int stub_poll_cq(ibv_cq* queue, int most, ibv_wc* completions);
}

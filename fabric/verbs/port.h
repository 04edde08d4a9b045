// Port: an opened device, and the port and address that its connections use.
#pragma once

#include "events.h"
#include "placement.h"

#include <sidelatch/fabric/verbs/device.h>

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sidelatch::fabric::verbs {

/// Whether a call that should end an object of the NIC failed because the device, and with it the object, is gone.
[[nodiscard]] constexpr bool is_gone(int error) noexcept { return error == EIO || error == ENODEV; }

/// "WHAT: what errno `error` means; ADVICE".
[[nodiscard]] std::string failure_text(std::string_view what, int error, std::string_view advice = {});

/// A GID or an IPv6 address that stands for an IPv4 one.
[[nodiscard]] bool is_mapped_ipv4(const ibv_gid& ip) noexcept;

/// Ends the process: the NIC continues with `what`, and would write into memory that is given back.
[[noreturn]] void abort_for(const char* what) noexcept;

template <class T, int (*Function)(T*)>
struct Destroy {
  void operator()(T* object) const noexcept { Function(object); }
};
using Context = std::unique_ptr<ibv_context, Destroy<ibv_context, ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroy<ibv_pd, ibv_dealloc_pd>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<ibv_cq, ibv_destroy_cq>>;
using MemoryRegistration = std::unique_ptr<ibv_mr, Destroy<ibv_mr, ibv_dereg_mr>>;
using RawQueuePair = std::unique_ptr<ibv_qp, Destroy<ibv_qp, ibv_destroy_qp>>;

/// The data that one end sends to the other when a connection is made.
struct Address {
  ibv_gid gid{};
  std::uint32_t queue_pair = 0;
  std::uint32_t packet_number = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;        ///< ibv_mtu
  std::uint8_t responder = 0;  ///< READs and atomics it can serve at a time
};

/// Throws DeviceError with what the other end of a queue pair says of itself, if no queue pair can be so: an MTU that
/// is none, numbers of more than 24 bits, or no READs and atomics.
void require_possible(const Address& peer);

/// Where a queue pair's receives complete, and how many may be posted.
struct ReceiveSide {
  ibv_cq* completions = nullptr;
  std::uint32_t depth = 0;
};

class Port {
 public:
  Port(const DeviceOptions& options, const ConnectionOptions& connections);

  [[nodiscard]] ibv_context* context() const noexcept { return context_.get(); }
  [[nodiscard]] const std::string& device_name() const noexcept { return name_; }
  [[nodiscard]] const ibv_device_attr& limits() const noexcept { return limits_; }
  [[nodiscard]] const DeviceOptions& options() const noexcept { return options_; }
  [[nodiscard]] DeviceEvents& events() const noexcept { return *events_; }
  [[nodiscard]] const Placement& placement() const noexcept { return *placement_; }
  [[nodiscard]] const ConnectionOptions& connections() const noexcept { return connections_; }
  [[nodiscard]] std::uint8_t number() const noexcept { return number_; }
  /// rdma_rxe: RoCE in the Linux kernel, without a NIC.
  [[nodiscard]] bool is_soft_roce() const noexcept { return limits_.vendor_id == 0xff'ffff; }
  [[nodiscard]] bool is_ethernet() const noexcept { return port_.link_layer == IBV_LINK_LAYER_ETHERNET; }
  [[nodiscard]] const ibv_gid& gid() const noexcept { return gid_; }
  /// Index of the GID's network interface; 0: there is none.
  [[nodiscard]] std::uint32_t gid_interface() const noexcept { return gid_interface_; }
  [[nodiscard]] ibv_mtu mtu() const noexcept;
  /// READs and atomics that one end may have in flight, and serve, at a time.
  [[nodiscard]] std::uint8_t most_initiated() const noexcept;
  [[nodiscard]] std::uint8_t most_served() const noexcept;

  /// A reliable queue pair in the reset state. Without `receives` it can receive nothing.
  [[nodiscard]] RawQueuePair make_queue_pair(ibv_pd* domain, ibv_cq* completions, std::uint32_t send_queue_depth,
                                             std::uint32_t& max_inline, const ReceiveSide& receives = {}) const;
  [[nodiscard]] Address address_of(const ibv_qp& queue_pair, std::uint32_t packet_number) const;
  /// Brings the queue pair from any state to ready, connected to `peer`. `outstanding`: READs and atomics that this end
  /// may have in flight; returns how many both ends support. Throws DeviceError; if `peer` is impossible, the queue
  /// pair is left as it was.
  std::uint32_t connect(ibv_qp& queue_pair, const Address& own, const Address& peer, std::uint32_t outstanding) const;
  /// ibv_modify_qp(3). `state`: for the error.
  void modify(ibv_qp& queue_pair, ibv_qp_attr& attributes, int mask, const char* state) const;
  /// Stops the queue pair, or destroys it if the NIC does not stop it. True: its requests take no further steps at this
  /// end. False: it cannot be destroyed either.
  [[nodiscard]] static bool stop(RawQueuePair& queue_pair) noexcept;

 private:
  /// Throws DeviceError if the device cannot be used.
  void open(ibv_device* device);
  void choose_port();
  /// Of the port. False: it has none, or not the one that is asked for.
  [[nodiscard]] bool choose_gid();

  DeviceOptions options_;
  ConnectionOptions connections_;
  std::string name_;
  Context context_;
  std::unique_ptr<DeviceEvents> events_;
  std::optional<Placement> placement_;
  ibv_device_attr limits_{};
  ibv_port_attr port_{};
  std::uint8_t number_ = 0;
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;
  std::uint32_t gid_interface_ = 0;
};

}  // namespace sidelatch::fabric::verbs

// Port: an opened device, and the port and address that its connections use.
#pragma once

#include <sidelatch/fabric/verbs/device.h>

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

namespace sidelatch::fabric::verbs {

template <class T, int (*DestroyObject)(T*)>
struct Destroy {
  void operator()(T* object) const noexcept { DestroyObject(object); }
};
using Context = std::unique_ptr<ibv_context, Destroy<ibv_context, ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroy<ibv_pd, ibv_dealloc_pd>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<ibv_cq, ibv_destroy_cq>>;
using MemoryRegistration = std::unique_ptr<ibv_mr, Destroy<ibv_mr, ibv_dereg_mr>>;
using RawQueuePair = std::unique_ptr<ibv_qp, Destroy<ibv_qp, ibv_destroy_qp>>;

/// What one end tells the other when a connection is made.
struct Address {
  ibv_gid gid{};
  std::uint32_t queue_pair = 0;
  std::uint32_t packet_number = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;        ///< ibv_mtu
  std::uint8_t responder = 0;  ///< READs and atomics it can serve at a time
};

class Port {
 public:
  Port(const DeviceOptions& options, const ConnectionOptions& connections);

  [[nodiscard]] ibv_context* context() const noexcept { return context_.get(); }
  [[nodiscard]] const std::string& device_name() const noexcept { return name_; }
  [[nodiscard]] const ibv_device_attr& limits() const noexcept { return limits_; }
  [[nodiscard]] const DeviceOptions& options() const noexcept { return options_; }

  /// A reliable queue pair in the reset state.
  [[nodiscard]] RawQueuePair make_queue_pair(ibv_pd* domain, ibv_cq* completions, std::uint32_t send_queue_depth,
                                             std::uint32_t& max_inline) const;
  [[nodiscard]] Address address_of(const ibv_qp& queue_pair, std::uint32_t packet_number) const;
  /// From any state to ready, connected to `peer`. `outstanding`: READs and atomics that this end may have in flight;
  /// returns how many it and the peer can.
  std::uint32_t connect(ibv_qp& queue_pair, const Address& own, const Address& peer, std::uint32_t outstanding) const;
  /// Nothing of it happens any more at this end.
  static void stop(ibv_qp& queue_pair) noexcept;

 private:
  void choose_port();
  void choose_gid();

  DeviceOptions options_;
  ConnectionOptions connections_;
  std::string name_;
  Context context_;
  ibv_device_attr limits_{};
  ibv_port_attr port_{};
  std::uint8_t number_ = 0;
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;
};

}  // namespace sidelatch::fabric::verbs

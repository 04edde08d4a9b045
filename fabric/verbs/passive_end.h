// The passive end of a connection. It belongs to the node whose memory is accessed.
#pragma once

#include "port.h"

namespace sidelatch::fabric::verbs {

class PassiveEnd {
 public:
  /// `completions` stays empty: this end posts nothing.
  PassiveEnd(const Port& port, ibv_pd* domain, ibv_cq* completions)
      : port_(&port), domain_(domain), completions_(completions) {}
  PassiveEnd(const PassiveEnd&) = delete;
  PassiveEnd& operator=(const PassiveEnd&) = delete;
  ~PassiveEnd() = default;

  /// Gets ready for a (new) connection with `initiator`; returns its own address. Throws DeviceError.
  Address accept(const Address& initiator) {
    ibv_qp& raw = queue_pair();
    // Any packet number works if the last connection had another one.
    const Address own = port_->address_of(raw, initiator.packet_number ^ 0x5a'5a5a);
    port_->connect(raw, own, initiator, 1);
    return own;
  }
  /// The queue pair, for callers that connect it by other means. Throws DeviceError.
  [[nodiscard]] ibv_qp& queue_pair() {
    if (raw_ == nullptr) {
      std::uint32_t no_inline = 0;
      raw_ = port_->make_queue_pair(domain_, completions_, 1, no_inline);
    }
    return *raw_;
  }
  /// Ends the connection for good. True: its requests take no further steps here. False: the NIC does not end it.
  [[nodiscard]] bool revoke() noexcept {
    revoked_ = true;
    return raw_ == nullptr || Port::stop(raw_);
  }
  [[nodiscard]] bool revoked() const noexcept { return revoked_; }
  /// Releases the NIC's resources before the node is destroyed.
  void destroy() noexcept { raw_.reset(); }

 private:
  const Port* port_;
  ibv_pd* domain_;
  ibv_cq* completions_;
  RawQueuePair raw_;
  bool revoked_ = false;
};

}  // namespace sidelatch::fabric::verbs

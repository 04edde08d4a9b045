// DeviceEvents: the kernel's reports on a device, its ports and its queue pairs. A request affected by a report fails
// by itself. A queue pair cannot be destroyed while a report on it was read but not acknowledged. Unread reports pile
// up in the kernel.
//
// Thread-safety: any thread may call any function. The first caller gets the reports. A report that ends all
// connections is remembered for the others.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <optional>
#include <string>

namespace sidelatch::fabric::verbs {

class DeviceEvents {
 public:
  /// Throws DeviceError if the device's file cannot be made non-blocking.
  DeviceEvents(ibv_context& context, std::string device_name);
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;
  ~DeviceEvents() = default;

  /// Readable when there is something to acknowledge.
  [[nodiscard]] int descriptor() const noexcept { return context_->async_fd; }
  /// Acknowledges all reports so far, and never waits. Returns IBV_EVENT_DEVICE_FATAL if it was ever reported to any
  /// thread, else IBV_EVENT_CQ_ERR likewise.
  std::optional<ibv_event_type> acknowledge() noexcept;
  [[nodiscard]] std::string describe(ibv_event_type fatal) const;

 private:
  ibv_context* context_;
  std::string device_name_;
  std::atomic<bool> device_fatal_{false};
  std::atomic<bool> completions_lost_{false};
};

}  // namespace sidelatch::fabric::verbs

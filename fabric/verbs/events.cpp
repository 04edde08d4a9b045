#include "events.h"

#include <sidelatch/fabric/verbs/device.h>

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sidelatch::fabric::verbs {

DeviceEvents::DeviceEvents(ibv_context& context, std::string device_name)
    : context_(&context), device_name_(std::move(device_name)) {
  // If two threads see the same report, the second would block until the next report.
  const int flags = ::fcntl(context.async_fd, F_GETFL);
  if (flags < 0 || ::fcntl(context.async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw DeviceError(
        fmt::format("cannot make the event file of {} non-blocking: {}", device_name_, std::strerror(errno)));
  }
}

std::optional<ibv_event_type> DeviceEvents::acknowledge() noexcept {
  ibv_async_event event{};
  while (ibv_get_async_event(context_, &event) == 0) {
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    if (type == IBV_EVENT_DEVICE_FATAL) {
      device_fatal_ = true;
    } else if (type == IBV_EVENT_CQ_ERR) {
      completions_lost_ = true;
    }
  }
  if (device_fatal_) {
    return IBV_EVENT_DEVICE_FATAL;
  }
  return completions_lost_ ? std::optional(IBV_EVENT_CQ_ERR) : std::nullopt;
}

std::string DeviceEvents::describe(ibv_event_type fatal) const {
  return fmt::format("the RDMA device {} reports: {}; all its connections are lost", device_name_,
                     ibv_event_type_str(fatal));
}

}  // namespace sidelatch::fabric::verbs

#include "own_read.h"

#include "pair.h"

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

namespace sidelatch::fabric::verbs {

void OwnRead::make() {
  completions_.reset(ibv_create_cq(port_->context(), 2, nullptr, nullptr, 0));
  if (completions_ == nullptr) {
    const int error = errno;
    throw DeviceError(failure_text(
        fmt::format("{} cannot read its own memory: it makes no completion queue", port_->device_name()), error));
  }
  memory_.reset(ibv_reg_mr(domain_, bytes_.data(), bytes_.size(),
                           static_cast<int>(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)));
  if (memory_ == nullptr) {
    const int error = errno;
    throw DeviceError(failure_text(
        fmt::format("{} cannot read its own memory: it does not register it", port_->device_name()), error));
  }
  std::uint32_t no_inline = 0;
  reader_ = port_->make_queue_pair(domain_, completions_.get(), 1, no_inline);
  read_ = port_->make_queue_pair(domain_, completions_.get(), 1, no_inline);
  const Address at_reader = port_->address_of(*reader_, random_packet_number());
  const Address at_read = port_->address_of(*read_, random_packet_number());
  port_->connect(*read_, at_read, at_reader, 1);
  port_->connect(*reader_, at_reader, at_read, 1);
}

void OwnRead::run() {
  try {
    if (reader_ == nullptr) {
      make();
    }
    constexpr std::size_t kHalf = 8;
    const auto at = reinterpret_cast<std::uintptr_t>(bytes_.data());
    ibv_sge into{.addr = at, .length = kHalf, .lkey = memory_->lkey};
    ibv_send_wr request{};
    request.sg_list = &into;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_READ;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = at + kHalf;
    request.wr.rdma.rkey = memory_->rkey;
    ibv_send_wr* refused = nullptr;
    if (const int error = ibv_post_send(reader_.get(), &request, &refused); error != 0) {
      throw DeviceError(failure_text(fmt::format("{} takes no READ of its own memory", port_->device_name()), error));
    }
    ibv_wc done{};
    int count = 0;
    constexpr auto kLongest = std::chrono::seconds(10);  // a device that is lost may complete nothing
    const auto end = std::chrono::steady_clock::now() + kLongest;
    for (bool is_late = false; count == 0; ::sched_yield()) {
      count = ibv_poll_cq(completions_.get(), 1, &done);
      if (count == 0 && is_late) {
        throw DeviceError(fmt::format("{} has not answered a READ of its own memory for {} s: it may be lost",
                                      port_->device_name(), kLongest.count()));
      }
      is_late = std::chrono::steady_clock::now() > end;
    }
    if (count < 0 || done.status != IBV_WC_SUCCESS) {
      throw DeviceError(fmt::format("{} cannot read its own memory: {}", port_->device_name(),
                                    count < 0 ? "it cannot be polled" : ibv_wc_status_str(done.status)));
    }
  } catch (...) {
    reader_.reset();
    read_.reset();
    memory_.reset();
    completions_.reset();
    throw;
  }
}

}  // namespace sidelatch::fabric::verbs

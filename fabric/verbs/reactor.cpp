#include "reactor.h"

#include "queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

namespace sidelatch::fabric::verbs {

namespace {

constexpr int kBatch = 32;
// So many polls without a completion: look for events of the device, and let others have the core.
constexpr std::uint32_t kIdlePolls = 256;
constexpr unsigned kPlaceShift = 44;
constexpr unsigned kEpochShift = 32;

}  // namespace

VerbsReactor::VerbsReactor(const Port& port)
    : Reactor(port.options().completion_queue_depth), port_(&port), began_(std::chrono::steady_clock::now()) {
  // Twice the requests in flight: those of a connection that has ended may still lie there when the next ones complete.
  const auto wanted = static_cast<int>(2 * completion_queue_depth());
  completions_.reset(ibv_create_cq(port.context(), std::min(wanted, port.limits().max_cqe), nullptr, nullptr, 0));
  if (completions_ == nullptr) {
    throw DeviceError(fmt::format("cannot make a completion queue of {} entries on {}: {}", wanted, port.device_name(),
                                  std::strerror(errno)));
  }
}

Time VerbsReactor::now() const { return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now() - began_); }

std::uint32_t VerbsReactor::attach(VerbsQueuePair& queue_pair) {
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<std::uint32_t>(queue_pairs_.size()));
    queue_pairs_.push_back(nullptr);
  }
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  queue_pairs_[place] = &queue_pair;
  return place;
}

void VerbsReactor::detach(std::uint32_t place) noexcept {
  std::erase(failed_, queue_pairs_[place]);
  queue_pairs_[place] = nullptr;
  free_places_.push_back(place);
}

bool VerbsReactor::advance(std::optional<Time> limit) {
  for (idle_polls_ = 0;; ++idle_polls_) {
    report_failed();
    poll();
    if (!timers_.empty()) {
      fire_timers();
    }
    if (has_ready()) {
      return true;
    }
    if (completion_queue_free() == completion_queue_depth() && timers_.empty()) {
      return false;
    }
    if (limit && now() >= *limit) {
      return true;
    }
    if (idle_polls_ % kIdlePolls == kIdlePolls - 1) {
      look_at_events();
      std::this_thread::yield();
    }
  }
}

void VerbsReactor::poll() {
  std::array<ibv_wc, kBatch> completions;  // NOLINT(cppcoreguidelines-pro-type-member-init): written by the provider
  int count = kBatch;
  while (count == kBatch) {
    count = ibv_poll_cq(completions_.get(), kBatch, completions.data());
    if (count < 0) {
      throw DeviceError(
          fmt::format("polling the completion queue of {} failed: restart the process", port_->device_name()));
    }
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      VerbsQueuePair* const queue_pair = queue_pairs_[completion.wr_id >> kPlaceShift];
      if (queue_pair != nullptr) {
        queue_pair->on_completion(completion, static_cast<std::uint32_t>(completion.wr_id >> kEpochShift) & 0xfff);
      }
    }
  }
}

void VerbsReactor::report_failed() {
  while (!failed_.empty()) {
    VerbsQueuePair* const queue_pair = failed_.back();
    failed_.pop_back();
    queue_pair->report_failed_post();
  }
}

// A request that a report concerns fails by itself; what is left is to give up if the device is gone.
void VerbsReactor::look_at_events() {
  if (const std::optional<ibv_event_type> fatal = port_->events().acknowledge()) {
    throw DeviceError(port_->events().describe(*fatal));
  }
}

std::uint64_t VerbsReactor::start_timer(Duration duration, Waiter& waiter) {
  timers_.push_back({now() + duration, next_timer_, &waiter});
  std::ranges::push_heap(timers_, later);
  return next_timer_++;
}

void VerbsReactor::cancel_timer(std::uint64_t timer) noexcept {
  if (std::erase_if(timers_, [&](const Timer& one) { return one.number == timer; }) != 0) {
    std::ranges::make_heap(timers_, later);
  }
}

void VerbsReactor::fire_timers() {
  const Time time = now();
  while (!timers_.empty() && timers_.front().due <= time) {
    std::ranges::pop_heap(timers_, later);
    ready(*timers_.back().waiter);
    timers_.pop_back();
  }
}

}  // namespace sidelatch::fabric::verbs

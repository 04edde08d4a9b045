#include "reactor.h"

#include <sidelatch/fabric/after.h>

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
// After this many polls without a completion, yield the core. This takes longer than a NIC needs for a request.
// Yielding earlier would notice completions late, because the system calls take longer too.
constexpr std::uint32_t kIdlePolls = 1024;
// After this many polls, check whether the device still works.
constexpr std::uint32_t kPollsPerLook = 4 * kIdlePolls;
// Time allowed for the bytes moved until the next completion: 10 MB/s is slow for any NIC.
constexpr Duration kPerByte = std::chrono::nanoseconds(100);
// A longer time between two looks is not the NIC's: the process, or the whole machine, was stopped.
constexpr Duration kLongestPause = std::chrono::seconds(1);
// How long a task may wait for a message while no request is in flight: its sender is a task of the same reactor.
constexpr Duration kLongestSilence = std::chrono::seconds(1);
// Room for the receives of many queue pairs.
constexpr std::uint32_t kReceiveCompletions = 16384;
constexpr unsigned kPlaceShift = 44;
constexpr unsigned kConnectionShift = 32;
constexpr std::uint32_t kConnectionMask = 0xfff;

// A NIC gives up after at most 4 times its time-out, `retry_count` times again (InfiniBand specification, 9.7.6.1.3),
// and some round the time-out up to half a second. Twice that is too long for any answer.
Duration longest_stall(const ConnectionOptions& options) {
  if (options.timeout == 0) {
    return Duration::max();  // it never gives up
  }
  const Duration timeout = std::max<Duration>(std::chrono::nanoseconds(4096) * (std::int64_t{1} << options.timeout),
                                              std::chrono::milliseconds(500));
  return 2 * 4 * timeout * (options.retry_count + 1);
}

}  // namespace

VerbsReactor::VerbsReactor(const Port& port)
    : Reactor(port.options().completion_queue_depth),
      port_(&port),
      began_(std::chrono::steady_clock::now()),
      polls_until_look_(kPollsPerLook),
      longest_stall_(longest_stall(port.connections())) {
  // Twice the requests in flight: completions of an ended connection may still lie there when the next requests
  // complete. Port has made sure that the device allows so many.
  const auto wanted = static_cast<int>(2 * completion_queue_depth());
  completions_.reset(ibv_create_cq(port.context(), wanted, nullptr, nullptr, 0));
  if (completions_ == nullptr) {
    throw DeviceError(fmt::format("cannot make a completion queue of {} entries on {}: {}", wanted, port.device_name(),
                                  std::strerror(errno)));
  }
}

VerbsCpu::VerbsCpu(Node& node, VerbsReactor& reactor) noexcept : DirectCpu(node, reactor), reactor_(&reactor) {}

void VerbsCpu::wait_begins(const LocalSpan& /*word*/) {
  if (!is_watched_) {
    reactor_->watch(*this);
    is_watched_ = true;
  }
}

void VerbsCpu::wait_ends() noexcept {
  if (!has_waits()) {
    reactor_->unwatch(*this);
    is_watched_ = false;
  }
}

Time VerbsReactor::now() const { return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now() - began_); }

std::uint32_t VerbsReactor::attach(VerbsQueuePair& queue_pair) {
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<std::uint32_t>(places_.size()));
    places_.emplace_back();
  }
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  places_[place].queue_pair = &queue_pair;
  places_[place].completed = 0;
  places_[place].stalled = {};
  return place;
}

std::uint64_t VerbsReactor::new_mark(std::uint32_t place) noexcept {
  const std::uint64_t connection = ++places_[place].connections & kConnectionMask;
  return (std::uint64_t{place} << kPlaceShift) | (connection << kConnectionShift);
}

void VerbsReactor::make_posting_room(std::size_t n) {
  if (n < posting_.size()) {
    return;
  }
  posting_.assign(n + 1, {});
  for (std::size_t i = 0; i <= n; ++i) {
    posting_[i].request.next = i < n ? &posting_[i + 1].request : nullptr;
    posting_[i].request.sg_list = &posting_[i].buffer;
  }
}

[[gnu::flatten]] bool VerbsReactor::advance(std::optional<Time> limit) {
  std::optional<Time> silent_since;
  for (idle_polls_ = 0;; ++idle_polls_) {
    poll();
    if (--polls_until_look_ == 0) [[unlikely]] {
      look_around();
    }
    if (!refused_.empty()) [[unlikely]] {
      report_refused();  // after everything that has completed
    }
    if (!timers_.empty()) {
      fire_timers();
    }
    for (VerbsCpu* const cpu : watching_) {
      cpu->look();
    }
    if (has_ready()) {
      return true;
    }
    if (errands_awaited_ != 0) [[unlikely]] {
      take_mail();
      if (has_ready()) {
        return true;
      }
    }
    // Another process may change a word that is waited for, at any time.
    if (errands_awaited_ == 0 && completion_queue_free() == completion_queue_depth() && timers_.empty() &&
        watching_.empty()) {
      // A message may still be on its way to the completion queue of receives.
      if (!silent_since && awaits_message()) {
        silent_since = now();
      }
      if (!silent_since || (idle_polls_ % kIdlePolls == 0 && now() - *silent_since > kLongestSilence)) {
        return false;
      }
    }
    if (limit && now() >= *limit) {
      return true;
    }
    if (idle_polls_ % kIdlePolls == kIdlePolls - 1) [[unlikely]] {
      std::this_thread::yield();
    }
  }
}

template <void (VerbsQueuePair::*Give)(const ibv_wc&)>
void VerbsReactor::poll(ibv_cq* queue) {
  std::array<ibv_wc, kBatch> completions;  // NOLINT(cppcoreguidelines-pro-type-member-init): written by the provider
  int count = kBatch;
  while (count == kBatch) {
    count = ibv_poll_cq(queue, kBatch, completions.data());
    if (count < 0) [[unlikely]] {
      throw DeviceError(
          fmt::format("polling a completion queue of {} failed: restart the process", port_->device_name()));
    }
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      VerbsQueuePair* const queue_pair = places_[completion.wr_id >> kPlaceShift].queue_pair;
      if (queue_pair != nullptr) {
        (queue_pair->*Give)(completion);
      }
    }
  }
}

void VerbsReactor::detach(std::uint32_t place) noexcept {
  std::erase(refused_, places_[place].queue_pair);
  std::erase(flushed_, places_[place].queue_pair);
  places_[place].queue_pair = nullptr;
  free_places_.push_back(place);
  // A program may end many queue pairs before it waits again. A poll is cheap beside the end of a queue pair.
  if (forgotten_ != 0) {
    forgotten_ = 0;
    try {
      poll<&VerbsQueuePair::on_completion>(completions_.get());
    } catch (const DeviceError&) {  // NOLINT(bugprone-empty-catch): the next poll says so
    }
  }
}

ReceiveSide VerbsReactor::reserve_receives(std::uint32_t depth) {
  const auto room = std::ranges::find_if(receive_completions_, [&](const auto& one) { return one.free >= depth; });
  if (room != receive_completions_.end()) {
    room->free -= depth;
    return {room->queue.get(), depth};
  }
  const auto most = static_cast<std::uint32_t>(std::max(port_->limits().max_cqe, 0));
  const std::uint32_t entries = std::min(std::max(depth, kReceiveCompletions), most);
  if (entries < depth) {
    throw DeviceError(fmt::format("receive_queue_depth is {}: a completion queue of {} has {} entries at most", depth,
                                  port_->device_name(), most));
  }
  CompletionQueue queue(ibv_create_cq(port_->context(), static_cast<int>(entries), nullptr, nullptr, 0));
  if (queue == nullptr) {
    throw DeviceError(fmt::format("cannot make a completion queue of {} entries on {}: {}", entries,
                                  port_->device_name(), std::strerror(errno)));
  }
  receive_completions_.push_back({std::move(queue), entries - depth});
  return {receive_completions_.back().queue.get(), depth};
}

void VerbsReactor::release_receives(const ReceiveSide& receives) noexcept {
  const auto room = std::ranges::find_if(receive_completions_,
                                         [&](const auto& one) { return one.queue.get() == receives.completions; });
  if (room == receive_completions_.end()) {
    return;
  }
  take_receives(receives);  // what the queue pair has left there takes room
  room->free += receives.depth;
}

void VerbsReactor::take_receives(const ReceiveSide& receives) noexcept {
  if (receives.completions == nullptr || delivers_receives_) {
    return;
  }
  try {
    poll_receives(receives.completions);
  } catch (const DeviceError&) {  // NOLINT(bugprone-empty-catch): the next poll says so
  }
}

// A completion may end a queue pair, which must not take those behind it first.
void VerbsReactor::poll_receives(ibv_cq* completions) {
  delivers_receives_ = true;
  try {
    poll<&VerbsQueuePair::on_receive>(completions);
  } catch (...) {
    delivers_receives_ = false;
    throw;
  }
  delivers_receives_ = false;
}

bool VerbsReactor::awaits_message() const noexcept {
  return !receive_completions_.empty() && std::ranges::any_of(places_, [](const Place& place) {
    return place.queue_pair != nullptr && place.queue_pair->awaits_message();
  });
}

void VerbsReactor::poll() {
  poll<&VerbsQueuePair::on_completion>(completions_.get());
  for (const ReceiveCompletions& receives : receive_completions_) {
    poll_receives(receives.queue.get());
  }
  if (!flushed_.empty()) [[unlikely]] {
    close_flushed();
  }
}

void VerbsReactor::close_flushed() {
  poll<&VerbsQueuePair::on_completion>(completions_.get());
  while (!flushed_.empty()) {
    VerbsQueuePair* const queue_pair = flushed_.back();
    flushed_.pop_back();
    queue_pair->close_flushed_receives();
  }
}

void VerbsReactor::take_mail() {
  if (!mailbox_->has_mail()) {
    return;
  }
  for (const std::shared_ptr<Errand>& errand : mailbox_->take()) {
    errand->is_done = true;
    while (!errand->waiters.empty()) {
      ready(errand->waiters.front());
    }
  }
}

void VerbsReactor::report_refused() {
  while (!refused_.empty()) {
    VerbsQueuePair* const queue_pair = refused_.back();
    refused_.pop_back();
    queue_pair->report_refused();
  }
}

// A request affected by an event fails by itself; only a lost device has to be handled here.
[[gnu::noinline]] void VerbsReactor::look_around() {
  polls_until_look_ = kPollsPerLook;
  if (const std::optional<ibv_event_type> fatal = port_->events().acknowledge()) {
    throw DeviceError(port_->events().describe(*fatal));
  }
  take_mail();  // tasks that are always ready must not keep it waiting
  look_for_stalled();
}

void VerbsReactor::look_for_stalled() {
  const Time time = now();
  const Duration passed = std::min<Duration>(time - last_look_, kLongestPause);
  last_look_ = time;
  for (Place& place : places_) {
    VerbsQueuePair* const queue_pair = place.queue_pair;
    if (queue_pair == nullptr || !queue_pair->awaits_completion() || queue_pair->completed() != place.completed ||
        queue_pair->may_wait_for_receiver()) {
      place.completed = queue_pair == nullptr ? 0 : queue_pair->completed();
      place.stalled = {};
      continue;
    }
    place.stalled += passed;
    if (place.stalled > longest_stall_ &&
        place.stalled - longest_stall_ > kPerByte * static_cast<std::int64_t>(queue_pair->bytes_in_flight())) {
      queue_pair->report_stalled(place.stalled);
    }
  }
}

std::uint64_t VerbsReactor::start_timer(Duration duration, Waiter& waiter) {
  timers_.push_back({after(now(), duration), next_timer_, &waiter});
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

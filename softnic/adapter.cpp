#include "adapter.h"

#include "common/without_signals.h"
#include "softnic/nic/deferred_access.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <span>
#include <thread>

namespace sidelatch::softnic {
namespace {

using namespace std::chrono_literals;

static_assert(nic::kFrameRoom <= roce::kMostFrameBytes, "a wire may be made for every frame of the NIC");

// The most frames taken from the wire before the NIC may answer: few enough that the first sender does not wait long,
// many enough that one answer stands for many. Also the most frames sent before the NIC looks at the wire again.
constexpr int kBurst = 64;
// How often the caller must keep a short turn before it is trusted again.
constexpr int kShortTurns = 64;
// The fastest of this many wakes counts: the machine's own delay, not that of a busy moment.
constexpr int kWakesToLearn = 16;
// A turn lasts this many wakes, so that the thread's looks take at most a tenth of the caller's time.
constexpr int kWakesPerTurn = 10;
// The longest sleep in the wire, so that a missed event does not block for longer.
constexpr std::chrono::nanoseconds kLongestWait = 100ms;
// The longest sleep beside callers, whose requests may have got deadlines meanwhile that may be late (may_be_late()).
constexpr std::chrono::nanoseconds kLongestNap = 10ms;
// A frame without room in the wire is dropped after this time, as in a switch.
constexpr std::chrono::nanoseconds kPatience = 10ms;
// The least time of an attempt. The answer needs the other process's thread, and on a busy machine that one waits for a
// CPU for some tens of milliseconds, so a shorter silence tells nothing. The device announces twice as much as its
// delay (local_ca_ack_delay 15). Real NICs have such a floor, too. A lost packet is asked for earlier than that.
constexpr std::chrono::nanoseconds kShortestAttempt = 64ms;
// For a station that has taken nothing for this long, frames do not wait at all. It has stopped, and a queue pair for
// datagrams must reach other stations.
constexpr std::chrono::nanoseconds kGivenUpAfter = 1s;
// A station that nobody has sent to for this long may have taken frames since: it is asked anew.
constexpr std::chrono::nanoseconds kForgottenAfter = 10 * kPatience;

std::unique_ptr<nic::MemoryAccess> memory_for(const Settings& settings) {
  if (!settings.order) {
    return std::make_unique<nic::ImmediateAccess>();
  }
  return std::make_unique<nic::DeferredAccess>(nic::DeferredOptions{
      .rules = fabric::model::rules_of(*settings.order), .seed = settings.seed, .torn_bias = settings.torn_bias});
}

nic::NicOptions options_for(const roce::Wire& wire, const Settings& settings) {
  const roce::StationAddresses& ours = wire.addresses();
  // A process that takes the place of a dead one on the wire has the same addresses. With the same numbers, too, the
  // connection manager of the other side would take its connections for those of the dead one.
  std::random_device random;
  std::uniform_int_distribution<std::uint32_t> number(0x11, nic::kGroupQueuePair - 1);
  nic::NicOptions options{.mac = ours.mac,
                          .first_queue_pair = number(random),
                          .shortest_attempt = kShortestAttempt.count(),
                          .sends_to_itself = watches_frames(settings)};
  if (ours.ipv6 != roce::Ipv6Address{}) {
    options.gids.push_back(ours.ipv6);
  }
  if (ours.ipv4 != roce::Ipv4Address{}) {
    options.gids.push_back(roce::gid_of(ours.ipv4));
  }
  constexpr std::size_t kHeaders = nic::kFrameRoom - bytes_of(roce::PathMtu::b4096);
  for (const roce::PathMtu mtu :
       {roce::PathMtu::b256, roce::PathMtu::b512, roce::PathMtu::b1024, roce::PathMtu::b2048, roce::PathMtu::b4096}) {
    if (bytes_of(mtu) + kHeaders <= wire.most_frame_bytes() || mtu == roce::PathMtu::b256) {
      options.mtu = mtu;
    }
  }
  return options;
}

// Asks the kernel to wake and run the calling thread soon: its work is short, and others wait for it. If the kernel
// does not support that, the thread runs like any other.
void ask_for_short_waits() noexcept {
  // Timers of ordinary threads may be 50 us late, which is longer than a turn.
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  // A thread with a shorter slice than the running one may take its CPU at once (from Linux 6.12). Otherwise a program
  // that watches memory for the NIC's writes gives up its CPU only at a tick, after milliseconds.
  struct {  // sched_attr of <linux/sched/types.h>, which conflicts with <sched.h>; version 0
    std::uint32_t size = sizeof(*this);
    std::uint32_t policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t slice_ns = 0;
    std::uint64_t deadline_ns = 0;
    std::uint64_t period_ns = 0;
  } attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0 && attributes.policy == SCHED_OTHER) {
    attributes.slice_ns = 100'000;
    ::syscall(SYS_sched_setattr, 0, &attributes, 0);
  }
}

nic::Time time_of(std::chrono::steady_clock::time_point when) {
  return static_cast<nic::Time>(std::chrono::nanoseconds(when.time_since_epoch()).count());
}

}  // namespace

Adapter::Adapter(const Settings& settings) : Adapter(settings, open_wire(settings)) {}

Adapter::Adapter(const Settings& settings, std::unique_ptr<roce::Wire> wire)
    : settings_(settings),
      callers_may_drive_(!settings.order),
      wire_(std::move(wire)),
      memory_(memory_for(settings)),
      nic_(std::make_unique<nic::Nic>(options_for(*wire_, settings_), *memory_)),
      frame_(nic::kFrameRoom),
      thread_([this] {
        const WithoutSignals none;
        return std::thread([this] { run(); });
      }()) {}

Adapter::~Adapter() {
  {
    const std::unique_lock lock(mutex_);
    stops_ = true;
    if (wire_ != nullptr) {
      wire_->interrupt();
    }
  }
  thread_may_drive_.notify_all();
  thread_.join();
}

void Adapter::listen(std::function<void(nic::Nic&)> heard) {
  const std::unique_lock lock(mutex_);
  heard_ = std::move(heard);
}

void Adapter::rest() {
  {
    const std::unique_lock lock(mutex_);
    callers_turn_until_ = {};
    callers_rest_ = true;
  }
  thread_may_drive_.notify_all();
}

void Adapter::settle() {
  if (!callers_may_drive_) {
    return;
  }
  std::unique_lock lock(mutex_);
  leave_wire(lock);
  // No longer than a full queue needs: other threads may post more meanwhile.
  const std::uint32_t most_bursts = options().most_work_requests / kBurst;
  for (std::uint32_t bursts = 0; bursts < most_bursts && nic_->has_frames() && drive(); ++bursts) {
  }
  wake_thread_for_what_is_left();
}

std::optional<roce::MacAddress> Adapter::resolve(const roce::Gid& gid, std::chrono::milliseconds at_most) {
  const std::vector<roce::Gid>& ours = options().gids;
  if (std::find(ours.begin(), ours.end(), gid) != ours.end()) {
    return options().mac;
  }
  const Clock::time_point deadline = Clock::now() + at_most;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      leave_wire(lock);
      if (!failure_.empty() || wire_ == nullptr) {
        return std::nullopt;
      }
      // Asks if necessary; the thread that drives next receives the answer.
      if (const std::optional<roce::MacAddress> mac = wire_->resolve(gid)) {
        return mac;
      }
      wire_->flush();
      if (callers_may_drive_) {
        drive();
      }
      wake_thread_for_what_is_left();
    }
    if (Clock::now() >= deadline) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(1ms);
  }
}

std::optional<std::uint64_t> Adapter::occupant(const roce::Gid& gid) {
  std::unique_lock lock(mutex_);
  leave_wire(lock);
  const bool is_ours = std::ranges::find(options().gids, gid) != options().gids.end();
  return is_ours || !failure_.empty() || wire_ == nullptr ? std::nullopt : wire_->occupant(gid);
}

nic::NicCounters Adapter::nic_counters() {
  const std::unique_lock lock(mutex_);
  return nic_->counters();
}

roce::WireCounters Adapter::wire_counters() {
  std::unique_lock lock(mutex_);
  leave_wire(lock);
  return wire_ != nullptr ? wire_->counters() : roce::WireCounters{};
}

void Adapter::leave() noexcept {
  std::unique_lock lock(mutex_, std::try_to_lock);
  // If a signal ends the process within a call, that call holds the lock and will not release it.
  for (const Clock::time_point limit = Clock::now() + kPatience * 10; !lock && Clock::now() < limit;) {
    std::this_thread::sleep_for(100us);
    static_cast<void>(lock.try_lock());
  }
  if (!lock) {
    return;
  }
  leave_wire(lock);
  drive();
  // From here on the thread begins no wait, whatever other threads of the program call meanwhile.
  stops_ = true;
  thread_may_drive_.notify_all();
  while (thread_is_in_wire_ || thread_sleeps_) {
    interrupt_thread_while(thread_is_in_wire_, lock);
    interrupt_thread_while(thread_sleeps_, lock);
  }
  wire_.reset();
}

std::string Adapter::failure() {
  const std::unique_lock lock(mutex_);
  return failure_;
}

// Returns false if the wire fails now or has failed before. Prints the failure once.
template <class Work>
bool Adapter::unless_it_fails(Work work) noexcept {
  if (!failure_.empty() || wire_ == nullptr) {
    return false;
  }
  try {
    return work();
  } catch (const std::exception& error) {
    // Not fmt::print(), which throws where stderr takes nothing.
    std::fputs(fmt::format("sidelatch softnic: the wire failed, the NIC stands still: {}\n", error.what()).c_str(),
               stderr);
    fail(error.what());
    return false;
  }
}

void Adapter::fail(const char* why) {
  failure_ = why;
  has_failed_.store(true, std::memory_order_relaxed);
  nic_->fail();
}

// Waits until the adapter's thread does not use the wire; it stays out as long as the caller has the lock.
void Adapter::leave_wire(std::unique_lock<std::mutex>& lock) { interrupt_thread_while(thread_is_in_wire_, lock); }

void Adapter::interrupt_thread_while(const bool& condition, std::unique_lock<std::mutex>& lock) {
  while (condition) {
    callers_turn_until_ = Clock::now() + kTurn;
    wire_->interrupt();
    thread_has_left_wire_.wait(lock);
  }
}

void Adapter::run() {
  ask_for_short_waits();
  std::unique_lock lock(mutex_);
  while (!stops_) {
    const bool has_run_out = callers_turn_until_ != Clock::time_point{} && Clock::now() >= callers_turn_until_;
    // A caller that yields in poll() will come back.
    const bool caller_has_left = has_run_out && callers_that_yield_.load(std::memory_order_relaxed) == 0;
    if (has_run_out) {
      callers_turn_until_ = caller_has_left ? Clock::time_point{} : Clock::now() + turn_;
    }
    if (drive()) {
      short_turns_ = caller_has_left ? kShortTurns : short_turns_;  // the caller missed something
      // Lets others have the lock before the thread continues.
      lock.unlock();
      lock_for_thread(lock);
      continue;
    }
    if (!failure_.empty()) {
      thread_may_drive_.wait(lock, [this] { return stops_; });  // nothing comes from a wire that has failed
      break;
    }
    if (const Clock::time_point now = Clock::now(); now < callers_turn_until_) {
      short_turns_ = std::max(short_turns_ - 1, 0);
      wait_for_turn(lock);
      continue;
    }
    if (shares_wire()) {
      sleep_beside_callers(lock);
    } else {
      wait_in_wire(lock);
    }
  }
  drive();
}

// Whether callers and the thread drive by turns of single calls. Not while the program sleeps: then the thread may
// spin.
bool Adapter::shares_wire() const noexcept {
  // The wire is gone after leave().
  return wire_ != nullptr && short_turns_ > 0 && callers_may_drive_ && !callers_rest_ && wire_->can_be_shared();
}

// Spins never: a program that watches memory needs the CPU.
void Adapter::sleep_beside_callers(std::unique_lock<std::mutex>& lock) {
  bool has_slept_out = false;
  unless_it_fails([&] {
    const std::chrono::nanoseconds at_most = std::min({time_to_wait(), wire_->lie_down(), kLongestNap});
    if (at_most > 0ns) {
      thread_sleeps_ = true;
      thread_wakes_at_ = Clock::now() + at_most;
      lock.unlock();
      wire_->sleep(at_most);
      lock_for_thread(lock);
      thread_sleeps_ = false;
      has_slept_out = Clock::now() >= thread_wakes_at_;
      thread_has_left_wire_.notify_all();
    }
    wire_->stand_up();
    return true;
  });
  if (!failure_.empty()) {
    return;
  }
  // Woken by a frame: if the callers have it already, they need no thread beside them.
  if (drive()) {
    short_turns_ = kShortTurns;
  } else if (!has_slept_out) {
    short_turns_ = std::max(short_turns_ - 1, 0);
  }
}

// The thread sleeps until a frame comes or the deadline that it knew of.
void Adapter::wake_thread_for_what_is_left() {
  if (!thread_sleeps_ || thread_wakes_at_ == Clock::time_point{}) {
    return;
  }
  const bool is_due = nic_->next_deadline() < time_of(thread_wakes_at_) && !nic_->may_be_late();
  if (nic_->has_frames() || !held_.empty() || is_due) {
    thread_wakes_at_ = {};
    wire_->interrupt();
  }
}

// Also learns how long the machine needs to wake a thread.
void Adapter::wait_for_turn(std::unique_lock<std::mutex>& lock) {
  const Clock::time_point until = callers_turn_until_;
  if (thread_may_drive_.wait_until(lock, until) == std::cv_status::no_timeout) {
    return;
  }
  wakes_late_by_ = std::min(wakes_late_by_, Clock::now() - until);
  if (++wakes_ == kWakesToLearn) {
    turn_ = std::clamp<Clock::duration>(kWakesPerTurn * wakes_late_by_, kTurn, kLongestTurn);
    wakes_ = 0;
    wakes_late_by_ = kLongestTurn;
  }
}

void Adapter::wait_in_wire(std::unique_lock<std::mutex>& lock) {
  const std::chrono::nanoseconds at_most = time_to_wait();
  thread_is_in_wire_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    wire_->wait(at_most);
  } catch (...) {
    failure = std::current_exception();
  }
  lock_for_thread(lock);
  thread_is_in_wire_ = false;
  thread_has_left_wire_.notify_all();
  unless_it_fails([&] {
    if (failure) {
      std::rethrow_exception(failure);
    }
    return true;
  });
}

void Adapter::lock_for_thread(std::unique_lock<std::mutex>& lock) {
  thread_wants_lock_.store(true, std::memory_order_relaxed);
  lock.lock();
  thread_wants_lock_.store(false, std::memory_order_relaxed);
}

std::chrono::nanoseconds Adapter::time_to_wait() const {
  const std::chrono::nanoseconds longest = !held_.empty() ? kPatience : kLongestWait;
  const nic::Time deadline = nic_->next_deadline();
  const nic::Time now = time_of(Clock::now());
  if (deadline <= now) {
    return 0ns;
  }
  return deadline - now < static_cast<nic::Time>(longest.count()) ? std::chrono::nanoseconds(deadline - now) : longest;
}

// Called when a caller found nothing. True: the NIC was driven, so another look may find something.
bool Adapter::drive_for_caller() {
  if (!callers_may_drive_) {
    callers_find_nothing_.store(true, std::memory_order_relaxed);
    return false;
  }
  const Clock::time_point now = Clock::now();
  callers_rest_ = false;
  callers_turn_until_ = shares_wire() ? Clock::time_point{} : now + (short_turns_ > 0 ? kShortTurn : turn_);
  if (thread_is_in_wire_) {
    wire_->interrupt();  // as soon as the thread runs, it leaves, sees whose turn it is, and stays out
    callers_find_nothing_.store(true, std::memory_order_relaxed);
    return false;
  }
  moved_at_ = drive() ? now : moved_at_;
  wake_thread_for_what_is_left();
  callers_find_nothing_.store(now - moved_at_ > kPoliteAfter, std::memory_order_relaxed);
  return true;
}

void Adapter::send_for_caller() {
  if (has_failed()) {
    tell();  // what the call has posted has been flushed
    return;
  }
  if (!nic_->has_frames() || !failure_.empty() || wire_ == nullptr) {
    return;
  }
  if (thread_is_in_wire_ || !callers_may_drive_) {
    wire_->interrupt();
    return;
  }
  unless_it_fails([this] { return transmit(time_of(Clock::now())); });
  wake_thread_for_what_is_left();
  tell();  // frames from the NIC to itself have arrived
}

void Adapter::tell() {
  if (heard_) {
    heard_(*nic_);
  }
}

// True if anything happened.
bool Adapter::drive() {
  const bool moved = unless_it_fails([this] {
    const nic::Time now = time_of(Clock::now());
    const bool received = receive(now);
    const bool is_due = nic_->next_deadline() <= now;
    if (is_due) {
      nic_->advance(now);
    }
    return transmit(now) || received || is_due;
  });
  tell();
  return moved;
}

bool Adapter::receive(nic::Time now) {
  int frames = 0;
  for (; frames < kBurst; ++frames) {
    const std::span<const std::byte> frame = wire_->receive();
    if (frame.empty()) {
      break;
    }
    nic_->on_frame(frame, now);
  }
  return frames != 0;
}

bool Adapter::transmit(nic::Time now) {
  const bool has_sent_held = send_held();
  int frames = 0;
  for (; frames < kBurst && nic_->has_frames(); ++frames) {
    const std::span<const std::byte> frame = std::span(frame_).first(nic_->pull_frame(frame_, now));
    if (!frame.empty() && !send(frame)) {
      hold(frame);
    }
  }
  if (frames == 0 && !has_sent_held) {
    return false;
  }
  wire_->flush();
  return true;
}

// False: the wire has no room for its station, which may get some.
bool Adapter::send(std::span<const std::byte> frame) {
  const roce::MacAddress to = roce::Ethernet::read(frame.data()).destination;
  auto full = full_.empty() ? full_.end() : std::ranges::find(full_, to, &FullStation::station);
  const std::span<std::byte> room = wire_->reserve(to, frame.size());
  if (!room.empty()) {
    std::memcpy(room.data(), frame.data(), frame.size());
    wire_->commit(frame.size());
    if (full != full_.end()) {
      full_.erase(full);
    }
    return true;
  }
  const Clock::time_point now = Clock::now();
  if (full == full_.end() || now - full->tried > kForgottenAfter) {
    std::erase_if(full_, [&](const FullStation& one) { return now - one.tried > kForgottenAfter; });
    full = full_.insert(full_.end(), {.station = to, .since = now, .tried = now});
  }
  full->tried = now;
  full->looked = looks_;
  return now - full->since >= kGivenUpAfter;  // dropped
}

void Adapter::hold(std::span<const std::byte> frame) {
  held_.push_back({.frame = {frame.begin(), frame.end()}, .queue_pair = nic_->stall(), .since = Clock::now()});
}

// Sends or drops the frames that have room now, or have waited for long enough. False: there was none.
bool Adapter::send_held() {
  if (held_.empty()) {
    return false;
  }
  ++looks_;
  const Clock::time_point now = Clock::now();
  const auto has_gone = [&](const Held& held) {
    const roce::MacAddress to = roce::Ethernet::read(held.frame.data()).destination;
    const auto full = std::ranges::find(full_, to, &FullStation::station);
    const bool is_known_full = full != full_.end() && full->looked == looks_;
    const bool is_sent = !is_known_full && send(held.frame);
    if (!is_sent && now - held.since < kPatience) {
      return false;
    }
    nic_->resume(held.queue_pair);
    return true;
  };
  return std::erase_if(held_, has_gone) != 0;
}

}  // namespace sidelatch::softnic

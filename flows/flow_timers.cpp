// The timers of a flow's threads: when the packet generator wakes an idle one or repeats what is lost, and rates.
#include "flows/flow_program.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace sidelatch::flows {

using namespace program;

namespace {

constexpr double kMostCreditNs = 1e6;  // of a limited rate
constexpr double kLeastPauseNs = 1e3;
constexpr double kLongestPauseNs = 1e12;  // a quarter of an hour
constexpr std::uint32_t kPollsBeforeIdle = 1000;
constexpr std::uint32_t kPollsAfterABatch = 10;
constexpr std::uint64_t kShortNs = 2000;
constexpr std::uint64_t kNeverNs = ~std::uint64_t{0};

// The head that the consumer's ring has, or will have after the batch that is on its way.
std::uint32_t paid_head(p4::U128 phase, p4::U128 head, p4::U128 batch) {
  const bool is_on_its_way = phase == kData || phase == kPush;
  return static_cast<std::uint32_t>(head + (is_on_its_way ? batch : 0)) & kCount;
}

bool is_at_end(p4::U128 phase) { return phase == kDone || phase == kDead; }

}  // namespace

void FlowSwitch::set_timer(const Running& running, const Thread& thread, bool is_awaited) {
  settle(running, thread);
  running.calls->next_turn = 0;  // this thread will not take the one that it may have had
  const double item_ns = cost_of_item(running, thread);
  const double owed = owed_ns(*thread.debt, item_ns);
  const auto interval = static_cast<std::uint64_t>(running.flow.poll_interval.count());
  std::uint64_t first = is_awaited ? std::min(interval, kShortNs) : interval;
  if (owed > 0) {
    first = static_cast<std::uint64_t>(std::clamp(owed, kLeastPauseNs, kLongestPauseNs));
  }
  device_->state().reg("Move.paces").write(thread.number, item_ns == 0 ? 0 : kPaced);
  device_->set_generator(thread.number, {.port = kGeneratorPort,
                                         .interval = first,
                                         .packet = control_packet(running.id, thread.number),
                                         .pace = pace_of(running, thread, first)});
}

// Nobody rings for what the control plane has changed: where polls are rare, the thread would sleep on.
void FlowSwitch::wake(const Running& running, const Thread& thread) { set_timer(running, thread, true); }

// What has moved by now keeps its price: a lower limit would make the wait for it longer, and in that wait nobody looks
// whether packets were lost. A limit that goes down and up forgives nothing.
void FlowSwitch::limit_rate(FlowId flow, std::uint64_t bytes_per_second) {
  Running& running = find_running(flow, "limit_rate");
  for (const Thread& thread : running.threads) {
    settle(running, thread);
    Debt& debt = *thread.debt;
    if (debt.items > 0) {
      const double all = debt.older + debt.items;
      debt.older_ns = (debt.older * debt.older_ns + debt.items * cost_of_item(running, thread)) / all;
      debt.older = all;
      debt.items = 0;
    }
  }
  running.bytes_per_second = bytes_per_second;
  for (const Thread& thread : running.threads) {
    wake(running, thread);
  }
}

// A thread that leaves moves nothing more: what it is to tell its consumer need not wait.
double FlowSwitch::cost_of_item(const Running& running, const Thread& thread) {
  return running.bytes_per_second == 0 || thread.leaves
             ? 0
             : running.stride * 1e9 / static_cast<double>(running.bytes_per_second);
}

// Its timer does it at each tick. Another timer goes on where this one stops.
void FlowSwitch::settle(const Running& running, const Thread& thread) const {
  const std::uint32_t head =
      paid_head(get("phases", thread.number), get("heads", thread.number), get("items", thread.number));
  const std::uint64_t before = std::exchange(thread.debt->at, device_->time());
  settle(*thread.debt, head, static_cast<double>(device_->time() - before), cost_of_item(running, thread));
}

// Returns how many items have moved: less than 0 if a batch was given up.
std::int32_t FlowSwitch::settle(Debt& debt, std::uint32_t head, double passed_ns, double item_ns) {
  const std::int32_t moved = static_cast<std::int32_t>((head - debt.head) << 2U) >> 2U;
  debt.head = head;
  if (item_ns == 0) {
    debt.items = debt.older = 0;
    return moved;
  }
  if (debt.older > 0) {
    const double each_ns = std::min(debt.older_ns, item_ns);
    const double paid = std::min(debt.older, passed_ns / each_ns);
    debt.older -= paid;
    passed_ns -= paid * each_ns;
  }
  // A short time without items pays for later ones.
  debt.items = std::max(debt.items - passed_ns / item_ns, -kMostCreditNs / item_ns) + moved;
  return moved;
}

double FlowSwitch::owed_ns(const Debt& debt, double item_ns) {
  return debt.items * item_ns + debt.older * std::min(debt.older_ns, item_ns);
}

// No timer for a thread that is done. For an idle one a slow timer. For one whose rate is limited, a timer that fires
// when its batch is paid for, from the batch's beginning on. If the batch is done by then, the timer begins the next
// one; if not, that one begins when the batch is done.
std::function<std::uint64_t()> FlowSwitch::pace_of(const Running& running, const Thread& of,
                                                   std::uint64_t first) const {
  const std::uint16_t thread = of.number;
  const auto least = static_cast<std::uint64_t>(running.flow.poll_interval.count());
  const auto most =
      static_cast<std::uint64_t>(std::max(running.flow.idle_interval, running.flow.poll_interval).count());
  const double item_ns = cost_of_item(running, of);
  p4::State& state = device_->state();
  p4::RegisterState& phases = state.reg("Move.phases");
  p4::RegisterState& heads = state.reg("Move.heads");
  p4::RegisterState& items = state.reg("Move.items");
  const auto time_out = static_cast<std::uint64_t>(std::chrono::nanoseconds(running.flow.time_out).count());
  const std::uint64_t soon = std::max(time_out, kShortNs);
  // A pause after congestion, as far as it is to come: it ends without a word, and another one may follow the next
  // batch.
  const auto pause_of = [this, thread, &begun = state.reg("Move.begun")] {  // in microseconds; 0 or less: none
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(begun.read(thread)) - microseconds());
  };
  const auto until_rested = [thread, soon, pause_of, &slownesses = state.reg("Move.slownesses")](bool has_just_moved) {
    const std::int32_t pause = pause_of();
    if (pause > 0) {
      return std::max(static_cast<std::uint64_t>(pause) * 1000, kShortNs);
    }
    return has_just_moved && slownesses.read(thread) != 0 ? soon : kNeverNs;
  };
  const auto is_one_put_aside = [&waits = state.reg("Move.waits"), own_producers = of.own_producers] {
    return std::ranges::any_of(*own_producers, [&](std::uint16_t own) {
      return own != 0 && (static_cast<std::uint32_t>(waits.read(own - 1U)) & kWaits) != 0;
    });
  };
  const bool are_polls_rare = most > time_out;
  return [this, least, most, soon, item_ns, thread, are_polls_rare, is_one_put_aside, pause_of, until_rested,
          debt = of.debt, &phases, &heads, &items, &paces = state.reg("Move.paces"), calls = running.calls,
          interval = least, last = first, polls = std::uint32_t{0}, is_put_aside = true,
          is_over = is_at_end(phases.read(of.number))]() mutable -> std::uint64_t {
    const p4::U128 phase = phases.read(thread);
    const bool was_put_aside = std::exchange(is_put_aside, are_polls_rare && is_one_put_aside());
    const bool was_over = std::exchange(is_over, is_at_end(phase));
    if (is_over && are_polls_rare) {
      // It calls others once, as long as a producer is put aside, and once more: that one may have answered since this
      // timer has fired last. One thread does so for all that are over, or many would call one another.
      if (!was_over) {
        calls->last_over = thread;
      }
      return calls->last_over == thread && (!was_over || was_put_aside || is_put_aside) ? soon : 0;
    }
    if (is_over) {
      return 0;
    }
    const p4::U128 batch = items.read(thread);
    debt->at = device_->time();
    const std::int32_t moved =
        settle(*debt, paid_head(phase, heads.read(thread), batch), static_cast<double>(last), item_ns);
    if (moved != 0) {
      polls = 0;
      interval = least;
    } else if (polls < kPollsBeforeIdle) {
      ++polls;
    } else {
      interval = std::min(2 * interval, most);
    }
    if (const double owed = owed_ns(*debt, item_ns); owed > 0) {
      last = static_cast<std::uint64_t>(std::clamp(owed, kLeastPauseNs, kLongestPauseNs));
      return last;
    }
    const bool has_batch = phase == kData || phase == kPush || (phase == kFree && batch != 0);
    if (item_ns != 0 && has_batch) {
      paces.write(thread, kPaid);
    }
    // A batch that begins now may be done before a long interval is over.
    const bool looks_again = item_ns != 0 && !has_batch && polls < kPollsAfterABatch;
    last = looks_again ? std::min(interval, kShortNs) : interval;
    if (phase == kIdle) {
      last = std::min(last, until_rested(polls < kPollsAfterABatch));
    }
    // Only a timer finds that a request is lost. And the packet that asks a producer which is put aside is the
    // thread's only one: what comes behind that producer waits for the next one.
    // Those that pause call others then, and take turns: many would call one another.
    if (phase == kIdle && last > soon && is_put_aside && pause_of() > 0) {
      const std::uint64_t turn = std::max(calls->next_turn, device_->time()) + soon;
      if (turn - device_->time() < last) {
        calls->next_turn = turn;
        last = turn - device_->time();
      }
    } else if (phase >= kSeek || (last > soon && is_put_aside)) {
      last = std::min(last, soon);
    }
    return last;
  };
}

}  // namespace sidelatch::flows

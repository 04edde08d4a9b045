// A switch takes over what another one has moved until now, from what lies in the units' rings.
//
// With each head the switch has written whose items the last ones are, and that producer's tail with them. So nothing
// is delivered twice: where the first switch stopped between a consumer's head and the producer's tail, the tail
// follows from there. Each thread has one batch at a time, and a producer is read by one thread at a time, so only the
// tail of a consumer's latest batch may be missing, and that of one producer that was silent then. If a flow is
// replicated all consumers had the data before the first head was written; those who lack the head get it, but for
// those that were given up before.
#include "flows/flow_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace sidelatch::flows {

using namespace program;

namespace {

std::uint32_t beyond(std::uint32_t counter, std::uint32_t other) { return (counter - other) & kCount; }

void check_states(const char* name, const std::vector<FlowRing>& rings, const std::vector<RingState>& states) {
  if (states.size() != rings.size()) {
    throw std::invalid_argument(fmt::format("take_over: {} states of {} {}", states.size(), rings.size(), name));
  }
  for (std::size_t i = 0; i < rings.size(); ++i) {
    if (beyond(states[i].head, states[i].tail) > rings[i].shape.slots) {
      throw std::invalid_argument(
          fmt::format("take_over: {}[{}]: head {} and tail {} are more than {} slots apart: this is no ring of a flow",
                      name, i, states[i].head & kCount, states[i].tail & kCount, rings[i].shape.slots));
    }
  }
}

bool is_in(const std::vector<bool>& some, std::size_t i) { return i < some.size() && some[i]; }
// A consumer of a replicated flow gets nothing any more.
bool is_out(const FlowState& before, std::size_t consumer) {
  return is_in(before.lost_consumers, consumer) || is_in(before.left_consumers, consumer);
}

// Of the copies, the one that has most. Those that are out may lack what the others have read long ago.
std::size_t latest_of(const std::vector<RingState>& consumers, const FlowState& before) {
  std::size_t latest = 0;
  for (std::size_t c = 0; c < consumers.size(); ++c) {
    const bool is_later = beyond(consumers[c].head, consumers[latest].head) <= kCount / 2;
    if (!is_out(before, c) && (is_out(before, latest) || is_later)) {
      latest = c;
    }
  }
  return latest;
}

// The next batch comes when all have the one before.
void check_copies(const Flow& flow, const std::vector<RingState>& consumers, const FlowState& before) {
  const std::size_t latest = latest_of(consumers, before);
  if (is_out(before, latest)) {
    throw std::invalid_argument("take_over: all consumers were given up, or have left: start another flow");
  }
  for (std::size_t c = 0; c < consumers.size(); ++c) {
    const std::uint32_t behind = beyond(consumers[latest].head, consumers[c].head);
    if (!is_out(before, c) && behind > flow.consumers[c].shape.slots) {
      throw std::invalid_argument(
          fmt::format("take_over: consumers[{}] has {} items less than consumers[{}], more than a batch: it was given "
                      "up, so say so in before.lost_consumers",
                      c, behind, latest));
    }
  }
}

}  // namespace

FlowSwitch::FlowId FlowSwitch::take_over(const Flow& flow, const std::vector<RingState>& producers,
                                         const std::vector<RingState>& consumers, const FlowState& before) {
  check_states("producers", flow.producers, producers);
  check_states("consumers", flow.consumers, consumers);
  if (flow.kind == FlowKind::replicate) {
    check_copies(flow, consumers, before);
  }
  check(flow, 0, 0);
  // Those that resume() gives nothing, and takes nothing from.
  std::vector<bool> gone_producers;
  for (std::size_t p = 0; p < producers.size(); ++p) {
    gone_producers.push_back((producers[p].tail & (kEnded | kBroken)) != 0 || is_in(before.lost_producers, p));
  }
  std::vector<bool> gone_consumers;
  for (std::size_t c = 0; c < consumers.size(); ++c) {
    gone_consumers.push_back((consumers[c].head & kEnded) != 0 ||
                             (flow.kind == FlowKind::replicate && is_out(before, c)));
  }
  check_apart(flow, gone_producers, gone_consumers);
  const FlowId id = begin(flow);
  resume(flows_.back(), producers, consumers, before);
  return id;
}

void FlowSwitch::resume(Running& running, const std::vector<RingState>& producers,
                        const std::vector<RingState>& consumers, const FlowState& before) {
  std::vector<std::uint32_t> taken;
  taken.reserve(producers.size());
  for (const RingState& state : producers) {
    taken.push_back(state.tail & kCount);
  }
  // A balanced flow's producer may be the latest one of several consumers; of one alone its tail may be missing.
  const auto note = [&](std::uint32_t name, std::uint32_t tail) {
    const std::size_t p = std::size_t{name} - 1;
    if (name != 0 && p < producers.size() && beyond(tail, taken[p]) <= beyond(producers[p].head, taken[p])) {
      taken[p] = tail;
    }
  };
  const bool is_replicated = running.flow.kind == FlowKind::replicate;
  for (std::size_t c = 0; c < consumers.size(); ++c) {
    if (is_replicated && is_out(before, c)) {
      continue;  // it may have a head that the others lack
    }
    note(consumers[c].last_producer, consumers[c].last_tail);
    note(consumers[c].silent_producer, consumers[c].silent_tail);
  }
  for (std::size_t p = 0; p < std::min(producers.size(), before.taken.size()); ++p) {
    note(static_cast<std::uint32_t>(p + 1), before.taken[p]);
  }
  // Of those in the lists the threads find out themselves. Who knows no more than that something was lost says
  // is_broken.
  const auto has_lost_behind = [](const std::vector<bool>& lost, std::size_t count) {
    return count < lost.size() &&
           std::find(lost.begin() + static_cast<std::ptrdiff_t>(count), lost.end(), true) != lost.end();
  };
  const bool is_unknown = before.is_broken && before.lost_producers.empty() && before.lost_consumers.empty();
  running.has_lost_earlier_producer =
      is_unknown || before.has_lost_earlier_producer || has_lost_behind(before.lost_producers, producers.size());
  running.has_lost_earlier_consumer =
      before.has_lost_earlier_consumer || has_lost_behind(before.lost_consumers, consumers.size());
  bool is_one_lost = running.has_lost_earlier_producer;
  for (std::size_t p = 0; p < producers.size(); ++p) {
    const std::uint32_t number = running.producers[p].number;
    const std::uint32_t tail = producers[p].tail;
    set("taken", number, taken[p]);
    set("owed", number, (tail & (kEnded | kBroken)) == 0 ? 1 : 0);
    if ((tail & (kEnded | kBroken)) != 0) {
      set("gone", number, (tail & kBroken) != 0 ? kProducerLost : kProducerEnded);
      is_one_lost = is_one_lost || (tail & kBroken) != 0;
    } else if (is_in(before.lost_producers, p)) {
      set("gone", number, kProducerLost);
    }
  }
  const std::size_t copies = is_replicated ? consumers.size() : 1;
  std::vector<std::size_t> latest(running.threads.size());  // of the thread's consumers
  for (std::size_t i = 0; i < running.threads.size(); ++i) {
    const std::uint16_t thread = running.threads[i].number;
    std::uint32_t marks = is_one_lost ? kLost : 0;
    latest[i] = is_replicated ? latest_of(consumers, before) : i;
    const std::uint32_t head = consumers[latest[i]].head & kCount;
    std::uint32_t lost = 0;
    std::uint32_t fullest = 0;
    bool has_ended = false;
    bool have_all_the_same = true;
    for (std::size_t c = i * copies; c < (i + 1) * copies; ++c) {
      if (is_replicated && is_out(before, c)) {
        lost |= std::uint32_t{1} << c;
        running.left |= is_in(before.left_consumers, c) ? std::uint32_t{1} << c : 0U;
        continue;
      }
      has_ended = has_ended || (consumers[c].head & kEnded) != 0;
      marks |= (consumers[c].head & kBroken) != 0 ? kLost : 0;
      fullest = std::max(fullest, beyond(head, consumers[c].tail));
      have_all_the_same = have_all_the_same && consumers[c].head == consumers[latest[i]].head;
    }
    set_own("lost", running.threads[i].own, lost);
    set("heads", thread, head);
    set("tails", thread, beyond(head, fullest));
    set("marks", thread, marks);
    let_ask(running, thread);
    if (has_ended && have_all_the_same) {
      set("phases", thread, kDone);
    } else if (has_ended) {
      set("marks", thread, marks | kEnding);
      set("phases", thread, kPush);
    } else {
      // Before anything else that head, if some lack it, and the tail that may be missing: the next head would be
      // written over what is known of it.
      const std::vector<std::size_t>& members = running.threads[i].producers;
      const auto is_there = [&](std::size_t p) { return get("gone", running.producers[p].number) == 0; };
      const RingState& last = consumers[latest[i]];
      auto there = std::ranges::find(members, std::size_t{last.last_producer} - 1);
      const bool owes_tail = there != members.end() && is_there(*there) && taken[*there] == last.last_tail &&
                             taken[*there] != (producers[*there].tail & kCount);
      if (!have_all_the_same && (there == members.end() || !is_there(*there))) {
        there = std::ranges::find_if(members, is_there);  // any will do
      }
      if (there != members.end() && (owes_tail || !have_all_the_same)) {
        set_own("positions", running.threads[i].own, static_cast<std::uint64_t>(there - members.begin()));
        set_own("locks", running.producers[*there].own, thread + 1U);
        set("phases", thread, have_all_the_same ? kFree : kPush);
      }
    }
  }
  if (running.flow.kind == FlowKind::balance) {
    count_living(running);
  }
  // And the tail of one that had been silent: it is put aside, as it was.
  for (std::size_t i = 0; i < running.threads.size(); ++i) {
    const RingState& last = consumers[latest[i]];
    const std::size_t p = std::size_t{last.silent_producer} - 1;
    const std::vector<std::size_t>& members = running.threads[i].producers;
    if (std::ranges::find(members, p) == members.end() || taken[p] != last.silent_tail ||
        taken[p] == (producers[p].tail & kCount)) {
      continue;
    }
    const FlowSwitch::Member& silent = running.producers[p];
    // Else its tail is written now, or, by a thread that is alone, as any that is owed.
    if (silent.own != 0 && get("gone", silent.number) == 0 && get_own("locks", silent.own) == 0) {
      set_own("waits", silent.own, 1);
      set_own("asked", silent.own, microseconds() - static_cast<std::uint32_t>(running.flow.time_out.count()));
      set_own("pendings", silent.own, kTailWritten | (running.threads[i].number + 1U));
      set_own("owing", running.threads[i].own, silent.own);
      set_own("owing_names", running.threads[i].own, last.silent_producer);
      set_own("owing_tails", running.threads[i].own, last.silent_tail);
    }
  }
  for (const Thread& thread : running.threads) {
    wake(running, thread);
  }
}

// Consumers that had left are told nothing more, and the flow does not end because they have.
void FlowSwitch::count_living(Running& running) {
  const bool are_all_gone =
      std::ranges::none_of(running.producers, [&](const Member& member) { return get("gone", member.number) == 0; });
  std::uint64_t living = 0;
  for (Thread& thread : running.threads) {
    if (get("phases", thread.number) != kDone) {
      ++living;
    } else {
      thread.leaves = running.flow.is_open || !are_all_gone;  // an open flow does not end
    }
  }
  set_own("living", running.threads.front().own, living);
  if (living == 0 && !running.flow.is_open && !are_all_gone) {
    let_tell(running, running.threads.front());
  }
}

}  // namespace sidelatch::flows

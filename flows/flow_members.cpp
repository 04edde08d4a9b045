// Units that join and leave a flow that runs.
#include "flows/flow_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>

namespace sidelatch::flows {

using namespace program;

namespace {

// Of rings that nobody has.
constexpr MacAddress kNoProducer{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr MacAddress kNoConsumer{};

}  // namespace

FlowSwitch::Running& FlowSwitch::find_running(FlowId flow, const char* what) {
  static_cast<void>(find(flow, what));
  return *std::ranges::find(flows_, flow, &Running::id);
}

FlowSwitch::Running& FlowSwitch::find_open(FlowId flow, const char* what) {
  Running& running = find_running(flow, what);
  if (!running.flow.is_open) {
    throw std::invalid_argument(fmt::format(
        "{}: flow {} is not open, or was closed: units join only a flow that was started with Flow::is_open", what,
        flow));
  }
  const bool has_died =
      std::ranges::all_of(running.threads, [&](const Thread& thread) { return get("phases", thread.number) == kDead; });
  if (has_died) {
    throw std::invalid_argument(
        fmt::format("{}: flow {} has lost its last consumer, and its producers were told: start another", what, flow));
  }
  return running;
}

// Producers that have ended, one for each ring that joins, where there is one: the new ring gets its place in the lists
// of its threads. No more are forgotten: a place that leads nowhere would be the end of a thread that comes to it.
std::vector<std::size_t> FlowSwitch::replaceable_producers(const Running& running, std::size_t rings) const {
  std::vector<std::size_t> result;
  for (std::size_t ring = 0; ring < rings; ++ring) {
    const std::size_t first = running.flow.kind == FlowKind::shuffle ? ring : 0;
    const std::size_t step = running.flow.kind == FlowKind::shuffle ? rings : 1;
    for (std::size_t p = first; p < running.producers.size(); p += step) {
      const Member& member = running.producers[p];
      if (member.is_there && get("gone", member.number) == kProducerEnded &&
          (get_own("locks", member.own) & kHolder) == 0) {
        result.push_back(p);
        break;
      }
    }
  }
  return result;
}

// What state() says of it remains.
void FlowSwitch::forget_producer(Running& running, std::size_t producer) {
  Member& member = running.producers[producer];
  member.taken = get("taken", member.number);
  for (Thread& thread : running.threads) {
    std::ranges::replace(thread.producers, producer, kNobody);
  }
  remove(member);
}

std::size_t FlowSwitch::join_producer(FlowId flow, const std::vector<FlowRing>& rings) {
  Running& running = find_open(flow, "join_producer");
  const std::size_t wanted = running.flow.kind == FlowKind::shuffle ? running.flow.consumers.size() : 1;
  if (rings.size() != wanted) {
    throw std::invalid_argument(
        fmt::format("join_producer: {} rings; this flow needs {} of each producer", rings.size(), wanted));
  }
  check_joining(running, rings, {});
  const std::vector<std::size_t> replaced = replaceable_producers(running, rings.size());
  const auto unused = static_cast<std::size_t>(
      std::min(std::ranges::count(producers_, false), std::ranges::count(own_producers_, false)));
  if (unused + replaced.size() < rings.size()) {
    throw p4::ControlError(
        fmt::format("join_producer: the switch has room for {} producers' rings of flows that are not "
                    "1:1, and all are in use",
                    own_producers_.size()));
  }
  // Of each thread one: the place of one that has ended, or another one.
  const auto has_place = [&](const Thread& thread) {
    return std::ranges::any_of(thread.producers, [&](std::size_t producer) {
      return producer == kNobody || std::ranges::find(replaced, producer) != replaced.end();
    });
  };
  const auto places = static_cast<std::size_t>(std::ranges::count_if(running.threads, std::not_fn(has_place)));
  if (device_->state().table("Move.members").size() + places > kMostMembers) {
    throw p4::ControlError(fmt::format(
        "join_producer: the switch has room for {} producers of consumers, and all are in use", kMostMembers));
  }
  for (const std::size_t producer : replaced) {
    forget_producer(running, producer);
  }
  const std::size_t first = running.producers.size();
  std::size_t done = 0;
  try {
    for (; done < rings.size(); ++done) {
      install_producer(running, rings[done]);
    }
  } catch (...) {
    while (running.producers.size() > first) {
      remove(running.producers.back());
      running.producers.pop_back();
    }
    throw;
  }
  running.flow.producers.insert(running.flow.producers.end(), rings.begin(), rings.end());
  use_ends(rings);
  for (std::size_t i = 0; i < running.threads.size(); ++i) {
    Thread& thread = running.threads[i];
    const std::size_t producer = first + (running.flow.kind == FlowKind::shuffle ? i : 0);
    add_member(thread, producer, running.producers[producer]);
    thread.arguments[kThreadProducers] = thread.members.size();
    look_anew(thread);  // it may be at any place of its round
    wake(running, thread);
  }
  link_threads(running);
  tell_joined(running, first);
  return first;
}

// The consumers may have died: the producers were told, and those that join, from number `first` on, must be, too.
void FlowSwitch::tell_joined(const Running& running, std::size_t first) {
  const auto phase_of = [&](const Thread& thread) { return get("phases", thread.number); };
  // One that is telling looks anew anyway.
  const bool is_shuffle = running.flow.kind == FlowKind::shuffle;
  for (const Thread& thread : running.threads) {
    if (is_shuffle && phase_of(thread) == kDead) {
      let_tell(running, thread);
    }
  }
  // Of a balanced flow the last thread told all that were there. If it was another one that went last, it has left, and
  // nobody was told: the items wait for a consumer that joins.
  if (running.flow.kind != FlowKind::balance || get_own("living", running.threads.front().own) != 0 ||
      std::ranges::find(running.threads, kTell, phase_of) != running.threads.end()) {
    return;
  }
  const auto dead = std::ranges::find(running.threads, kDead, phase_of);
  if (were_told(running, first) && dead != running.threads.end()) {
    let_tell(running, *dead);  // one alone: it takes each producer, whoever has it
  }
}

// Of a balanced flow that nobody consumes: whether the producers before number `end` know that.
bool FlowSwitch::were_told(const Running& running, std::size_t end) const {
  const auto gone = [&](const Member& member) { return member.is_there ? get("gone", member.number) : kProducerEnded; };
  const auto producers = std::span(running.producers).first(end);
  return std::ranges::none_of(producers, [&](const Member& member) { return gone(member) == 0; }) &&
         std::ranges::any_of(producers, [&](const Member& member) { return gone(member) == kProducerLost; });
}

// It tells its producers that nobody has their items any more, past those that know.
void FlowSwitch::let_tell(const Running& running, const Thread& thread) {
  look_anew(thread);
  set("retries", thread.number, 0);
  set("silences", thread.number, 0);
  let_ask(running, thread.number);
  set("phases", thread.number, kTell);
  wake(running, thread);
}

// It goes around all its producers once more before it says that it has met them all.
void FlowSwitch::look_anew(const Thread& thread) {
  set_own("misses", thread.own, 0);
  set_own("ends", thread.own, 0);
}

void FlowSwitch::rejoin_producer(FlowId flow, std::size_t producer, const FlowRing& ring) {
  Running& running = find_running(flow, "rejoin_producer");
  if (producer >= running.producers.size() || !running.producers[producer].is_there ||
      get("gone", running.producers[producer].number) != kProducerLost) {
    throw std::invalid_argument(fmt::format("rejoin_producer: producer {} was not given up", producer));
  }
  Member& member = running.producers[producer];
  const auto reads = [&](const Thread& thread) {
    const std::uint32_t phase = get("phases", thread.number);
    const bool is_over = phase == kDead || phase == kTell || phase == kDrain || phase == kDone ||
                         (get("marks", thread.number) & kEnding) != 0;
    return std::ranges::find(thread.producers, producer) != thread.producers.end() && !is_over;
  };
  if (std::ranges::none_of(running.threads, reads) || (get_own("locks", member.own) & kHolder) != 0) {
    throw std::invalid_argument(fmt::format(
        "rejoin_producer: producer {}'s consumers are dead, or have been told the end: start another flow", producer));
  }
  if (ring.shape.slots != running.flow.producers[producer].shape.slots) {
    throw std::invalid_argument(fmt::format("rejoin_producer: a ring of {} slots; that of producer {} has {}",
                                            ring.shape.slots, producer, running.flow.producers[producer].shape.slots));
  }
  check_joining(running, {ring}, {});
  for (const auto& [table, handle] : std::exchange(member.entries, {})) {
    table->remove(handle);
  }
  running.flow.producers[producer] = ring;
  use_ends({ring});
  set("producer_psns", member.number, ring.end.psn);
  set("owed", member.number, 1);  // its tail may not have been written
  set("gone", member.number, 0);
  for (const char* const name : {"waits", "asked", "pendings"}) {
    set_own(name, member.own, 0);
  }
  install_ring(running, producer, ring, device_->state());
  // Who finds another one that is lost remembers it again; nobody finds one that a take_over() has left out. A thread
  // that is over has told its consumer, or is about to, and that remains.
  for (const Thread& thread : running.threads) {
    if (reads(thread)) {
      if (!running.has_lost_earlier_producer) {
        set("marks", thread.number, get("marks", thread.number) & ~kLost);
      }
      look_anew(thread);
      wake(running, thread);
    }
  }
}

std::size_t FlowSwitch::join_consumer(FlowId flow, const FlowRing& ring) {
  Running& running = find_open(flow, "join_consumer");
  if (running.flow.kind != FlowKind::balance) {
    throw std::invalid_argument(fmt::format(
        "join_consumer: flow {} does not balance: the consumers of a shuffle follow from its keys, and a new "
        "consumer of a replicated flow would lack what came before",
        flow));
  }
  const bool tells =
      std::ranges::any_of(running.threads, [&](const Thread& thread) { return get("phases", thread.number) == kTell; });
  const bool is_dead =
      std::ranges::any_of(running.threads, [&](const Thread& thread) { return get("phases", thread.number) == kDead; });
  if (tells || (is_dead && get_own("living", running.threads.front().own) == 0 &&
                were_told(running, running.producers.size()))) {
    throw std::invalid_argument(
        fmt::format("join_consumer: flow {} has lost its last consumer, and its producers {}: start another", flow,
                    tells ? "are being told" : "were told"));
  }
  check_joining(running, {}, {ring});
  running.flow.consumers.push_back(ring);
  const std::size_t entries = running.entries.size();
  const std::size_t consumers = running.consumers.size();
  const std::size_t threads = running.threads.size();
  try {
    install_thread(running, running.flow.consumers.size() - 1, 1);
  } catch (...) {
    running.flow.consumers.pop_back();
    for (; running.entries.size() > entries; running.entries.pop_back()) {
      running.entries.back().first->remove(running.entries.back().second);
    }
    for (; running.consumers.size() > consumers; running.consumers.pop_back()) {
      consumers_[running.consumers.back()] = false;
    }
    if (running.threads.size() > threads) {
      for (const p4::EntryHandle member : running.threads.back().members) {
        device_->state().table("Move.members").remove(member);
      }
      threads_[running.threads.back().number] = false;
      if (running.threads.back().own != 0) {
        own_threads_[running.threads.back().own - 1U] = false;
      }
      running.threads.pop_back();
    }
    throw;
  }
  use_ends({ring});
  const std::uint16_t shared = running.threads.front().own;
  set_own("living", shared, get_own("living", shared) + 1);
  link_threads(running);
  set("phases", running.threads.back().number, kIdle);
  wake(running, running.threads.back());
  return running.flow.consumers.size() - 1;
}

void FlowSwitch::leave_consumer(FlowId flow, std::size_t consumer) {
  Running& running = find_running(flow, "leave_consumer");
  if (consumer >= running.flow.consumers.size()) {
    throw std::invalid_argument(fmt::format("leave_consumer: there is no consumer {}", consumer));
  }
  if (running.flow.kind == FlowKind::shuffle) {
    throw std::invalid_argument(fmt::format(
        "leave_consumer: flow {} is a shuffle, and nobody else would get consumer {}'s items", flow, consumer));
  }
  if (running.flow.kind == FlowKind::replicate) {
    const std::uint32_t bit = std::uint32_t{1} << consumer;
    const std::uint16_t thread = running.threads.front().own;
    const std::uint32_t lost = get_own("lost", thread) | bit;
    if (lost == static_cast<std::uint32_t>((std::uint64_t{1} << running.flow.consumers.size()) - 1)) {
      throw std::invalid_argument("leave_consumer: nobody else is left: stop() the flow");
    }
    running.left |= bit;
    set_own("lost", thread, lost);
    wake(running, running.threads.front());  // it may have waited for room in that ring
    return;
  }
  const bool is_last = std::ranges::none_of(running.threads, [&](const Thread& thread) {
    const std::uint32_t phase = get("phases", thread.number);
    return &thread != &running.threads[consumer] && !thread.leaves && phase != kDead && phase != kDrain;
  });
  if (is_last && !running.flow.is_open) {
    throw std::invalid_argument("leave_consumer: nobody else is left: stop() the flow");
  }
  Thread& thread = running.threads[consumer];
  thread.leaves = true;
  thread.arguments[kThreadLeaves] = 1;
  tell(thread);
  wake(running, thread);
}

void FlowSwitch::close(FlowId flow) {
  Running& running = find_running(flow, "close");
  running.flow.is_open = false;
  for (Thread& thread : running.threads) {
    thread.arguments[kThreadIsOpen] = 0;
    tell(thread);
    wake(running, thread);
  }
  // All consumers may have left: as long as the flow was open, another one could join.
  const auto phase_of = [&](const Thread& thread) { return get("phases", thread.number); };
  const auto left = std::ranges::find(running.threads, kDone, phase_of);
  if (running.flow.kind != FlowKind::balance || get_own("living", running.threads.front().own) != 0 ||
      left == running.threads.end() || std::ranges::find(running.threads, kTell, phase_of) != running.threads.end()) {
    return;
  }
  if (have_all_ended(running)) {
    left->leaves = false;  // it has had the end of all
  } else {
    let_tell(running, *left);
  }
}

// Beside those that are there: others may have the memory of who has gone.
void FlowSwitch::check_joining(const Running& running, const std::vector<FlowRing>& producers,
                               const std::vector<FlowRing>& consumers) const {
  Flow all = running.flow;
  all.producers.clear();
  for (std::size_t p = 0; p < running.producers.size(); ++p) {
    if (running.producers[p].is_there && get("gone", running.producers[p].number) == 0) {
      all.producers.push_back(running.flow.producers[p]);
    }
  }
  if (all.producers.empty()) {
    all.producers.push_back(running.flow.producers.front());  // its shape counts, and not whose memory it was
    all.producers.front().mac = kNoProducer;
  }
  all.consumers.clear();
  const bool is_replicated = running.flow.kind == FlowKind::replicate;
  const auto has_gone = [&](std::size_t consumer) {
    const Thread& thread = running.threads[is_replicated ? 0 : consumer];
    const std::uint32_t phase = get("phases", thread.number);
    const bool is_out = is_replicated && (get_own("lost", thread.own) >> consumer & 1U) != 0;
    return is_out || thread.leaves || phase == kDead || phase == kDrain;
  };
  for (std::size_t c = 0; c < running.flow.consumers.size(); ++c) {
    if (!has_gone(c)) {
      all.consumers.push_back(running.flow.consumers[c]);
    }
  }
  const std::size_t known_producers = all.producers.size();
  const std::size_t known_consumers = all.consumers.size();
  all.producers.insert(all.producers.end(), producers.begin(), producers.end());
  all.consumers.insert(all.consumers.end(), consumers.begin(), consumers.end());
  if (all.consumers.empty()) {
    all.consumers.push_back(running.flow.consumers.front());  // as of producers
    all.consumers.front().mac = kNoConsumer;
  }
  const std::size_t first_consumer = std::max(known_consumers, all.consumers.size() - consumers.size());
  check(all, known_producers, first_consumer);
  check_apart(all);
  check_connections(all, known_producers, first_consumer);
}

}  // namespace sidelatch::flows

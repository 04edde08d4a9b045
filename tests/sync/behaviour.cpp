#include "behaviour.h"

#include "common/sanitizers.h"

#include "store.h"

#include <sidelatch/checker/simulated_place.h>
#include <sidelatch/sync/latch_word.h>

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// The known state of an object. All words of its payload are the number of updates that it has had.
struct Watch {
  std::uint32_t writers_inside = 0;
  std::uint32_t readers_inside = 0;
  std::uint64_t begun = 0;  // updates whose commit was called
  std::uint64_t ended = 0;  // updates whose commit has returned
};

struct Cluster {
  Cluster(const checker::SelectedScheme& selected_scheme, const Situation& the_situation)
      : situation(the_situation),
        selected(selected_scheme),
        store(*selected.scheme, situation.payload_bytes, situation.objects, selected.layout,
              {.profile = adversarial_profile(), .rules = model::rules_of(situation.preset), .seed = situation.seed}),
        place(store.world, store.storage, *selected.entry),
        watches(situation.objects) {
    place.serve(store.memory.remote(), store.objects);
  }

  Situation situation;
  const checker::SelectedScheme& selected;
  Store store;
  checker::SimulatedPlace place;
  std::vector<Watch> watches;
  Behaviour seen;
};

Task<void> linger(Cluster& cluster, Session& session) {
  co_await cluster.store.world.reactor().sleep(from_ns(static_cast<double>(session.random() % 1000)));
}

Task<void> write_objects(Cluster& cluster, Session& session) {
  const Scheme& scheme = *cluster.selected.scheme;
  for (std::uint32_t i = 0; i < cluster.situation.operations; ++i) {
    const std::uint64_t which = session.random() % cluster.store.objects.size();
    Watch& watch = cluster.watches[which];
    ExclusiveGuard guard = co_await scheme.latch(session, cluster.store.objects.at(which));
    if (!guard) {
      ++cluster.seen.stuck;
      co_return;
    }
    const bool latch_excludes_readers = cluster.selected.entry->promise == checker::Promise::exclusion;
    cluster.seen.not_excluded += watch.writers_inside > 0 ? 1U : 0U;
    cluster.seen.not_excluded += latch_excludes_readers && watch.readers_inside > 0 ? 1U : 0U;
    cluster.seen.torn += uniform(guard.payload()) ? 0U : 1U;
    ++watch.writers_inside;
    co_await linger(cluster, session);
    --watch.writers_inside;
    const bool give_up = session.random() % 8 == 0;
    if (give_up) {
      fill(guard.payload(), ~std::uint64_t{0});  // an abort leaves no trace
      co_await guard.abort();
      continue;
    }
    fill(guard.payload(), first_word(guard.payload()) + 1);
    ++watch.begun;
    co_await guard.commit();
    ++watch.ended;
    ++cluster.seen.updates;
  }
}

Task<void> read_objects(Cluster& cluster, Session& session) {
  const Scheme& scheme = *cluster.selected.scheme;
  const bool shares_latch = cluster.selected.entry->promise == checker::Promise::exclusion;
  for (std::uint32_t i = 0; i < cluster.situation.operations; ++i) {
    const std::uint64_t which = session.random() % cluster.store.objects.size();
    Watch& watch = cluster.watches[which];
    const std::uint64_t ended_before = watch.ended;
    ReadGuard guard = co_await scheme.begin_read(session, cluster.store.objects.at(which));
    if (!guard) {
      ++cluster.seen.stuck;
      co_return;
    }
    cluster.seen.not_excluded += shares_latch && watch.writers_inside > 0 ? 1U : 0U;
    cluster.seen.torn += uniform(guard.payload()) ? 0U : 1U;
    const std::uint64_t number = first_word(guard.payload());
    cluster.seen.stale += number < ended_before || number > watch.begun ? 1U : 0U;
    ++watch.readers_inside;
    co_await linger(cluster, session);
    --watch.readers_inside;
    const std::uint64_t ended_at_validation = watch.ended;
    const bool unchanged = co_await guard.validate();
    // Latch-equivalent: the value read was still the newest when the validation began.
    if (unchanged && cluster.selected.entry->promise != checker::Promise::consistent) {
      cluster.seen.stale += number < ended_at_validation ? 1U : 0U;
    }
    ++cluster.seen.reads;
  }
}

void judge_end(Cluster& cluster) {
  for (std::uint64_t i = 0; i < cluster.store.objects.size(); ++i) {
    const bool is_free = cluster.selected.entry->place() == LatchPlace::memory_node
                             ? cluster.selected.scheme->is_free(cluster.store.latch_word(i))
                             : cluster.place.is_free(i);
    cluster.seen.left_latched += is_free ? 0U : 1U;
  }
}

// The final contents of the objects, as a client alone sees them.
Task<void> read_final(Cluster& cluster, Session& session) {
  for (std::uint64_t i = 0; i < cluster.store.objects.size(); ++i) {
    std::vector<std::byte> payload(cluster.situation.payload_bytes);
    const ReadResult result = co_await cluster.selected.scheme->read(session, cluster.store.objects.at(i), payload);
    if (!result.accepted) {
      ++cluster.seen.stuck;
      continue;
    }
    const std::uint64_t updates = cluster.watches[i].ended;
    cluster.seen.torn += uniform(payload) ? 0U : 1U;
    cluster.seen.lost += first_word(payload) == updates ? 0U : 1U;
  }
}

}  // namespace

std::string Behaviour::to_string() const {
  return fmt::format("{} updates, {} reads; not excluded {}, torn {}, stale {}, lost {}, stuck {}, left latched {}",
                     updates, reads, not_excluded, torn, stale, lost, stuck, left_latched);
}

Behaviour& Behaviour::operator+=(const Behaviour& other) {
  updates += other.updates;
  reads += other.reads;
  not_excluded += other.not_excluded;
  torn += other.torn;
  stale += other.stale;
  lost += other.lost;
  stuck += other.stuck;
  left_latched += other.left_latched;
  return *this;
}

sim::Profile adversarial_profile() {
  sim::Profile profile = sim::load_profile("connectx5");
  profile.link.jitter_ns = 500;
  profile.pcie.reorder_probability = 0.3;
  profile.pcie.reorder_ns = 2000;
  profile.pcie.write_stall_probability = 0.3;
  profile.pcie.write_stall_ns = 10000;
  profile.lock_table.load_ns = 50;  // and this long until the store, which opens the window of rule 8
  return profile;
}

Behaviour run_clients(const checker::SelectedScheme& selected, const Situation& situation) {
  Cluster cluster(selected, situation);
  SessionOptions options;
  options.buffers = std::min(4U, selected.scheme->most_buffers());
  options.retry = Retry::backoff(from_ns(200), from_ns(5000));
  // Who has a deadline does not stand in a queue.
  const bool queues = selected.scheme->queues() && !situation.with_deadlines;
  if (!queues) {
    options.retry.deadline = from_ns(5e6);
  }
  const std::uint32_t clients = situation.writers + situation.readers;
  for (std::uint32_t i = 0; i < clients; ++i) {
    // Some clients learn late of their requests' completion, which opens the window of rule 2 for completed WRITEs.
    sim::Profile profile = adversarial_profile();
    profile.nic.completion_ns *= i % 2 == 0 ? 30 : 1;
    options.seed = situation.seed * 100 + i;
    cluster.store.add_session(options, profile, [&](Node& node, const SessionOptions& wanted) {
      return cluster.place.options(node, wanted);
    });
  }
  Reactor& reactor = cluster.store.world.reactor();
  for (std::uint32_t i = 0; i < clients; ++i) {
    Session& session = *cluster.store.sessions[i];
    reactor.spawn(i < situation.writers ? write_objects(cluster, session) : read_objects(cluster, session));
  }
  if (queues) {
    reactor.run_for(from_ns(5e6));
    cluster.seen.stuck += reactor.spawned();
    reactor.destroy_spawned();
    if (cluster.seen.stuck != 0) {
      return cluster.seen;
    }
  } else {
    reactor.run();
  }
  cluster.store.settle();
  judge_end(cluster);
  if (cluster.seen.left_latched == 0) {
    cluster.store.run(read_final(cluster, *cluster.store.sessions.back()));
    cluster.store.settle();
  }
  return cluster.seen;
}

std::uint64_t seeds() {
  if (const char* const wanted = std::getenv("SIDELATCH_SEEDS")) {  // NOLINT(concurrency-mt-unsafe)
    const std::string_view text(wanted);
    std::uint64_t number = 0;
    const auto parsed = std::from_chars(text.begin(), text.end(), number);
    if (parsed.ec != std::errc() || parsed.ptr != text.end() || number == 0) {
      throw std::invalid_argument(fmt::format("SIDELATCH_SEEDS is \"{}\": give how many, 1 or more", text));
    }
    return number;
  }
#if SIDELATCH_IS_SANITIZED
  return 30;
#else
  return 1000;
#endif
}

}  // namespace sidelatch::sync

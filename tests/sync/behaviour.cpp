#include "behaviour.h"

#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/latch_word.h>

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <vector>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// All words of a payload are the number of updates that its object has seen.
void fill(std::span<std::byte> payload, std::uint64_t number) {
  for (std::size_t i = 0; i < payload.size(); i += sizeof number) {
    std::memcpy(payload.data() + i, &number, sizeof number);
  }
}

std::uint64_t first_word(std::span<const std::byte> payload) {
  std::uint64_t word = 0;
  std::memcpy(&word, payload.data(), sizeof word);
  return word;
}

bool uniform(std::span<const std::byte> payload) {
  return std::memcmp(payload.data(), payload.data() + sizeof(std::uint64_t), payload.size() - sizeof(std::uint64_t)) ==
         0;
}

// What is known of an object from outside.
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
        world({.profile = adversarial_profile(),
               .rules = model::rules_of(the_situation.preset),
               .seed = the_situation.seed}),
        storage(world.add_node("storage")),
        layout(selected.scheme->shape(situation.payload_bytes, selected.layout), selected.layout, situation.objects),
        memory(storage.allocate(layout.total_bytes(), Access::remote_all)),
        objects(layout, memory.remote()),
        watches(situation.objects) {}

  Situation situation;
  const checker::SelectedScheme& selected;
  sim::Simulation world;
  Node& storage;
  Layout layout;
  MemoryRegion memory;
  ObjectArray objects;
  std::vector<Watch> watches;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  std::vector<std::unique_ptr<Session>> sessions;
  Behaviour seen;
};

Task<void> linger(Cluster& cluster, Session& session) {
  co_await cluster.world.reactor().sleep(from_ns(static_cast<double>(session.random() % 1000)));
}

Task<void> write_objects(Cluster& cluster, Session& session) {
  const Scheme& scheme = *cluster.selected.scheme;
  for (std::uint32_t i = 0; i < cluster.situation.operations; ++i) {
    const std::uint64_t which = session.random() % cluster.objects.size();
    Watch& watch = cluster.watches[which];
    ExclusiveGuard guard = co_await scheme.latch(session, cluster.objects.at(which));
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
    const std::uint64_t which = session.random() % cluster.objects.size();
    Watch& watch = cluster.watches[which];
    const std::uint64_t ended_before = watch.ended;
    ReadGuard guard = co_await scheme.begin_read(session, cluster.objects.at(which));
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
    // Latch-equivalent: what was read was still the newest when the validation began.
    if (unchanged && cluster.selected.entry->promise != checker::Promise::consistent) {
      cluster.seen.stale += number < ended_at_validation ? 1U : 0U;
    }
    ++cluster.seen.reads;
  }
}

void judge_end(Cluster& cluster) {
  for (std::uint64_t i = 0; i < cluster.objects.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, cluster.memory.bytes().data() + cluster.layout.latch(i), sizeof word);
    cluster.seen.left_latched += word == kFree ? 0U : 1U;
  }
}

// What the objects hold in the end, as a client alone sees it.
Task<void> read_final(Cluster& cluster, Session& session) {
  for (std::uint64_t i = 0; i < cluster.objects.size(); ++i) {
    std::vector<std::byte> payload(cluster.situation.payload_bytes);
    const ReadResult result = co_await cluster.selected.scheme->read(session, cluster.objects.at(i), payload);
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
  profile.lock_table.load_ns = 50;  // and so long until the store: rule 8 has its window
  return profile;
}

Behaviour run_clients(const checker::SelectedScheme& selected, const Situation& situation) {
  Cluster cluster(selected, situation);
  const std::uint64_t bytes = buffer_bytes(cluster.layout.shape());
  SessionOptions options;
  options.buffers = std::min(4U, selected.scheme->most_buffers());
  options.retry = Retry::backoff(from_ns(200), from_ns(5000)).within(from_ns(5e6));
  const std::uint32_t clients = situation.writers + situation.readers;
  for (std::uint32_t i = 0; i < clients; ++i) {
    // Some hear late that their requests have completed: what rule 2 says of completed WRITEs has its window then.
    sim::Profile profile = adversarial_profile();
    profile.nic.completion_ns *= i % 2 == 0 ? 30 : 1;
    Node& node = cluster.world.add_node("client", profile);
    cluster.queue_pairs.push_back(node.connect(cluster.storage));
    options.seed = situation.seed * 100 + i;
    cluster.sessions.push_back(std::make_unique<Session>(*cluster.queue_pairs.back(), bytes, options));
  }
  Reactor& reactor = cluster.world.reactor();
  for (std::uint32_t i = 0; i < clients; ++i) {
    Session& session = *cluster.sessions[i];
    reactor.spawn(i < situation.writers ? write_objects(cluster, session) : read_objects(cluster, session));
  }
  reactor.run();
  for (auto& queue_pair : cluster.queue_pairs) {
    reactor.run([](QueuePair& qp) -> Task<void> { co_await qp.drain(); }(*queue_pair));
  }
  reactor.run_for(from_ns(1e5));  // WRITEs that have completed are placed
  judge_end(cluster);
  if (cluster.seen.left_latched == 0) {
    reactor.run(read_final(cluster, *cluster.sessions.back()));
    reactor.run([](QueuePair& qp) -> Task<void> { co_await qp.drain(); }(*cluster.queue_pairs.back()));
  }
  return cluster.seen;
}

std::uint64_t seeds() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 30;
#else
  return 1000;
#endif
}

}  // namespace sidelatch::sync

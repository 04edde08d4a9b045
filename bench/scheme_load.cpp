#include "scheme_load.h"

#include <sidelatch/bench/cluster.h>
#include <sidelatch/checker/parallel.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/scheme.h>

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;
using namespace sync;

namespace {

struct Window {
  Time begins;
  Time ends;
};

void count_up(std::span<std::byte> payload) {
  std::uint8_t first = 0;
  std::memcpy(&first, payload.data(), 1);
  ++first;
  std::memcpy(payload.data(), &first, 1);
}

Task<void> work(const SchemeLoad& load, const Scheme& scheme, const ObjectArray& objects, Session& session,
                Window window, std::uint64_t& operations) {
  Reactor& reactor = session.qp().reactor();
  std::vector<std::byte> payload(objects.layout().shape().payload_bytes);
  while (reactor.now() < window.ends) {
    const std::uint64_t which = session.random() % objects.size();
    bool done = false;
    if (load.updates) {
      done = co_await scheme.update(session, objects.at(which), count_up);
    } else {
      const ReadResult result = co_await scheme.read(session, objects.at(which), payload);
      done = result.accepted;
    }
    if (!done) {
      throw std::runtime_error(
          fmt::format("object {} stayed latched or half written: did a client die with it?", which));
    }
    const Time now = reactor.now();
    operations += now >= window.begins && now < window.ends ? 1U : 0U;
  }
  co_await session.qp().drain();
}

Layout layout_of(const SchemeLoad& load, const Scheme& scheme) {
  return {scheme.shape(scheme.largest_payload(load.tuple_bytes, load.layout), load.layout), load.layout, load.objects};
}

// The workers whose number leaves `process` when divided by `processes`.
struct Share {
  std::uint32_t process = 0;
  std::uint32_t processes = 1;
};

struct Worker {
  std::unique_ptr<QueuePair> queue_pair;
  std::unique_ptr<Session> session;
};

std::vector<Worker> connect_workers(const SchemeLoad& load, const Layout& layout, Node& storage,
                                    std::span<Node* const> clients, std::uint64_t seed, const Retry& retry,
                                    Share share) {
  std::vector<Worker> workers;
  for (std::uint32_t w = share.process; w < load.workers; w += share.processes) {
    Worker worker{clients[w % clients.size()]->connect(storage), nullptr};
    worker.session = std::make_unique<Session>(*worker.queue_pair, buffer_bytes(layout.shape()),
                                               SessionOptions{.buffers = 4, .retry = retry, .seed = seed * 1000 + w});
    workers.push_back(std::move(worker));
  }
  return workers;
}

struct Times {
  Duration warm_up;
  Duration measured;
};

// How many operations the workers end within the measured time.
std::uint64_t run_workers(const SchemeLoad& load, const Scheme& scheme, const ObjectArray& objects, Reactor& reactor,
                          std::span<Worker> workers, Times times) {
  const Window window{reactor.now() + times.warm_up, reactor.now() + times.warm_up + times.measured};
  std::uint64_t operations = 0;
  const Reactor::Scope tasks(reactor);
  for (Worker& worker : workers) {
    reactor.spawn(work(load, scheme, objects, *worker.session, window, operations));
  }
  reactor.run();
  return operations;
}

LoadResult result_of(const SchemeLoad& load, double operations, Duration measured) {
  LoadResult result;
  result.mops = operations / static_cast<double>(measured.count()) * 1e6;
  result.gbytes = result.mops * static_cast<double>(load.tuple_bytes) / 1e3;
  return result;
}

LoadResult run_in_simulation(const sim::Profile& profile, std::uint64_t seed, const SchemeLoad& load) {
  sim::Profile with_cpu = profile;
  with_cpu.cpu = load.cpu;
  sim::Simulation world({.profile = with_cpu, .seed = seed});
  Node& storage = world.add_node("storage");
  std::vector<Node*> clients;
  for (std::uint32_t i = 0; i < load.client_nodes; ++i) {
    clients.push_back(&world.add_node("client"));
  }
  const std::unique_ptr<Scheme> scheme = load.make();
  const Layout layout = layout_of(load, *scheme);
  const MemoryRegion memory = storage.allocate(layout.total_bytes(), Access::remote_all);
  std::vector<Worker> workers = connect_workers(load, layout, storage, clients, seed, Retry{}, {});
  const std::uint64_t operations =
      run_workers(load, *scheme, {layout, memory.remote()}, world.reactor(), workers, {load.warm_up, load.measured});
  return result_of(load, static_cast<double>(operations), load.measured);
}

LoadResult run_on_nics(Cluster& cluster, std::uint64_t seed, const SchemeLoad& load) {
  const Cluster::Options& options = cluster.options();
  const std::unique_ptr<Scheme> scheme = load.make();
  const Layout layout = layout_of(load, *scheme);
  const Cluster::SharedMemory memory(cluster, layout.total_bytes());
  std::vector<Worker> workers = connect_workers(load, layout, cluster.storage(), cluster.clients(), seed,
                                                Retry::backoff().within(options.limit), {options.rank, options.ranks});
  cluster.barrier();
  const std::uint64_t operations = run_workers(load, *scheme, {layout, memory.remote()}, cluster.storage().reactor(),
                                               workers, {options.warm_up, options.measured});
  return result_of(load, cluster.sum(static_cast<double>(operations)), options.measured);
}

}  // namespace

std::vector<LoadResult> run_loads(const ExperimentOptions& options, std::span<const SchemeLoad> loads) {
  std::vector<LoadResult> results(loads.size());
  if (options.cluster != nullptr) {
    for (std::size_t i = 0; i < loads.size(); ++i) {
      results[i] = run_on_nics(*options.cluster, options.seed + i, loads[i]);
    }
    return results;
  }
  const sim::Profile profile = sim::load_profile(options.profile);
  checker::for_each_index(loads.size(),
                          [&](std::size_t i) { results[i] = run_in_simulation(profile, options.seed + i, loads[i]); });
  return results;
}

}  // namespace sidelatch::bench

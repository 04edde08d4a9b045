#include "scheme_load.h"

#include <sidelatch/checker/parallel.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/sync/scheme.h>

#include <cstring>

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
    const Object object = objects.at(session.random() % objects.size());
    if (load.updates) {
      co_await scheme.update(session, object, count_up);
    } else {
      co_await scheme.read(session, object, payload);
    }
    const Time now = reactor.now();
    operations += now >= window.begins && now < window.ends ? 1U : 0U;
  }
  co_await session.qp().drain();
}

LoadResult run_load(const sim::Profile& profile, std::uint64_t seed, const SchemeLoad& load) {
  sim::Profile with_cpu = profile;
  with_cpu.cpu = load.cpu;
  sim::Simulation world({.profile = with_cpu, .seed = seed});
  Node& storage = world.add_node("storage");
  std::vector<Node*> clients;
  for (std::uint32_t i = 0; i < load.client_nodes; ++i) {
    clients.push_back(&world.add_node("client"));
  }
  const std::unique_ptr<Scheme> scheme = load.make();
  const Layout layout(scheme->shape(scheme->largest_payload(load.tuple_bytes, load.layout), load.layout), load.layout,
                      load.objects);
  const MemoryRegion memory = storage.allocate(layout.total_bytes(), Access::remote_all);
  const ObjectArray objects(layout, memory.remote());

  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  std::vector<std::unique_ptr<Session>> sessions;
  Reactor& reactor = world.reactor();
  const Window window{reactor.now() + load.warm_up, reactor.now() + load.warm_up + load.measured};
  std::uint64_t operations = 0;
  for (std::uint32_t w = 0; w < load.workers; ++w) {
    queue_pairs.push_back(clients[w % clients.size()]->connect(storage));
    sessions.push_back(std::make_unique<Session>(*queue_pairs.back(), buffer_bytes(layout.shape()),
                                                 SessionOptions{.buffers = 4, .seed = seed * 1000 + w}));
    reactor.spawn(work(load, *scheme, objects, *sessions.back(), window, operations));
  }
  reactor.run();
  LoadResult result;
  result.mops = static_cast<double>(operations) / static_cast<double>(load.measured.count()) * 1e6;
  result.gbytes = result.mops * static_cast<double>(load.tuple_bytes) / 1e3;
  return result;
}

}  // namespace

std::vector<LoadResult> run_loads(const sim::Profile& profile, std::uint64_t seed, std::span<const SchemeLoad> loads) {
  std::vector<LoadResult> results(loads.size());
  checker::for_each_index(loads.size(), [&](std::size_t i) { results[i] = run_load(profile, seed + i, loads[i]); });
  return results;
}

}  // namespace sidelatch::bench

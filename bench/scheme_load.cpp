#include "scheme_load.h"

#include "site.h"

#include <sidelatch/sync/scheme.h>

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace sidelatch::bench {

using namespace fabric;
using namespace sync;

namespace {

void count_up(std::span<std::byte> payload) {
  std::uint8_t first = 0;
  std::memcpy(&first, payload.data(), 1);
  ++first;
  std::memcpy(payload.data(), &first, 1);
}

Task<void> work(const SchemeLoad& load, const Scheme& scheme, const ObjectArray& objects, Session& session,
                checker::Windows& windows) {
  Reactor& reactor = session.qp().reactor();
  std::vector<std::byte> payload(objects.layout().shape().payload_bytes);
  while (!windows.over(reactor.now())) {
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
    windows.count(reactor.now());
  }
  co_await session.qp().drain();
}

Layout layout_of(const SchemeLoad& load, const Scheme& scheme) {
  return {scheme.shape(scheme.largest_payload(load.tuple_bytes, load.layout), load.layout), load.layout, load.objects};
}

struct Worker {
  std::unique_ptr<QueuePair> queue_pair;
  std::unique_ptr<Session> session;
};

std::vector<Worker> connect_workers(const SchemeLoad& load, const Layout& layout, Practice practice, Site& site) {
  std::vector<Worker> workers;
  Node& storage = *site.memory_nodes().front();
  for (const std::uint32_t w : site.own_workers(load.workers)) {
    Worker worker{site.node_of(w).connect(storage, queue_pair_options(practice)), nullptr};
    worker.session = std::make_unique<Session>(
        *worker.queue_pair, buffer_bytes(layout.shape()),
        SessionOptions{.buffers = 4, .retry = site.retry(retry_of(practice)), .seed = site.seed_of(w)});
    workers.push_back(std::move(worker));
  }
  return workers;
}

LoadResult measure(const SchemeLoad& load, Practice practice, Site& site) {
  const std::unique_ptr<Scheme> scheme = load.make();
  const Layout layout = layout_of(load, *scheme);
  const ObjectArray objects(layout, site.allocate(layout.total_bytes()).front());
  const std::vector<Worker> workers = connect_workers(load, layout, practice, site);
  const checker::Estimate mops = site.measure(workers.size(), [&](std::size_t i, checker::Windows& windows) {
    return work(load, *scheme, objects, *workers[i].session, windows);
  });
  return {mops, mops.times(static_cast<double>(load.tuple_bytes) / 1e3)};
}

}  // namespace

std::vector<LoadResult> run_loads(const ExperimentOptions& options, std::span<const SchemeLoad> loads) {
  std::vector<LoadResult> results(loads.size());
  run_points(
      options, loads.size(),
      [&](std::size_t i) {
        const SchemeLoad& load = loads[i];
        return SiteShape{.client_nodes = load.client_nodes,
                         .warm_up = load.warm_up,
                         .measured = load.measured,
                         .client_profile = load.clients};
      },
      [&](Site& site, std::size_t i) {
        results[i] = measure(loads[i], loads[i].practice.value_or(options.practice), site);
      });
  return results;
}

}  // namespace sidelatch::bench

#include <sidelatch/checker/exclusion.h>

#include "probing.h"

#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/sync/latch_peers.h>

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::checker {

using namespace fabric;

namespace {

struct ExclusionBench {
  ExclusionBench(Node& storage, const SelectedScheme& selected, const ExclusionOptions& exclusion_options)
      : options(exclusion_options),
        scheme(*selected.scheme),
        layout(shape_of_words(selected, exclusion_options.object_bytes), selected.layout, 1),
        memory(storage.allocate(layout.total_bytes(), Access::remote_all)),
        objects(layout, memory.remote()) {
    serve_at(options.place, memory, objects);
  }

  const ExclusionOptions& options;
  const sync::Scheme& scheme;
  sync::Layout layout;
  MemoryRegion memory;
  sync::ObjectArray objects;
  std::uint64_t begun = 0;
  SchemeReads seen;
};

sync::SessionOptions session_of(const ExclusionBench& bench, Node& client, std::uint64_t seed,
                                sync::LatchPeers* peers) {
  sync::SessionOptions session;
  session.peers = peers;
  session.buffers = std::min(session.buffers, bench.scheme.most_buffers());
  session.retry = sync::Retry::backoff();
  if (!bench.scheme.queues()) {  // who stands in a queue has no deadline: run_while_it_moves() looks after them
    session.retry.deadline = bench.options.patience;
  }
  session.seed = seed;
  return complete(bench.options.place, client, session);
}

void note(ExclusionBench& bench, std::span<const std::byte> payload) {
  if (!uniform(payload)) {
    ++bench.seen.torn;
    if (!bench.seen.evidence) {
      bench.seen.evidence = TornBlock{0, words_of(payload)};
    }
  }
}

Task<void> add_ones(ExclusionBench& bench, std::unique_ptr<QueuePair> qp, std::uint64_t seed, sync::LatchPeers* peers) {
  sync::Session session(*qp, sync::buffer_bytes(bench.layout.shape()), session_of(bench, qp->node(), seed, peers));
  while (!bench.seen.stuck && bench.begun < bench.options.updates && goes_on(bench.begun, bench.options.keep_going)) {
    ++bench.begun;
    // The clock runs on while a process is stopped: then a holder has its patience once more.
    bool done = false;
    for (int attempt = 0; !done && attempt < 2; ++attempt) {
      const bool updated =
          co_await bench.scheme.update(session, bench.objects.at(0), [&bench](std::span<std::byte> payload) {
            note(bench, payload);
            fill(payload, word_at(payload, 0) + 1);
          });
      done = updated;
    }
    bench.seen.stuck = bench.seen.stuck || !done;
    bench.seen.writes += done ? 1U : 0U;
  }
  co_await qp->drain();
}

// Updates missing from the object are lost.
Task<void> look_at_the_end(ExclusionBench& bench, std::unique_ptr<QueuePair> qp, sync::LatchPeers* peers) {
  sync::Session session(*qp, sync::buffer_bytes(bench.layout.shape()), session_of(bench, qp->node(), 1, peers));
  std::vector<std::byte> payload(bench.layout.shape().payload_bytes);
  const sync::ReadResult result = co_await bench.scheme.read(session, bench.objects.at(0), payload);
  co_await qp->drain();
  if (!result.accepted) {
    bench.seen.stuck = true;
    co_return;
  }
  note(bench, payload);
  const std::uint64_t number = word_at(payload, 0);
  if (number != bench.seen.writes) {
    bench.seen.torn += number < bench.seen.writes ? bench.seen.writes - number : 1;
    if (!bench.seen.evidence) {
      bench.seen.evidence = TornBlock{0, words_of(payload)};
    }
  }
}

// A latch that is lost stops its queue.
void run_while_it_moves(ExclusionBench& bench, Reactor& reactor) {
  constexpr int kSlices = 64;
  std::uint64_t writes = bench.seen.writes;
  for (int idle = 0; reactor.spawned() != 0; ++idle) {
    if (idle == kSlices) {
      bench.seen.stuck = true;
      reactor.destroy_spawned();
      return;
    }
    reactor.run_for(bench.options.patience / kSlices);
    if (bench.seen.writes != writes) {
      writes = bench.seen.writes;
      idle = 0;
    }
  }
}

}  // namespace

void ExclusionOptions::validate() const {
  if (object_bytes < kLineBytes || object_bytes > kLargestBlock) {
    throw std::invalid_argument(
        fmt::format("an object of {} bytes: it must be {} to {}", object_bytes, kLineBytes, kLargestBlock));
  }
  if (updates == 0) {
    throw std::invalid_argument("0 updates: there must be at least 1");
  }
  if (writers < 2) {
    throw std::invalid_argument(fmt::format("{} writers: there must be at least 2", writers));
  }
}

SchemeReads probe_exclusion(Node& storage, std::span<Node* const> clients, const SelectedScheme& scheme,
                            const ExclusionOptions& options) {
  options.validate();
  require_client(clients);
  ExclusionBench bench(storage, scheme, options);
  bench.seen.object_bytes = options.object_bytes;
  Reactor& reactor = storage.reactor();
  std::vector<std::unique_ptr<sync::LatchPeers>> peers;
  const Reactor::Scope tasks(reactor);
  const auto peer = [&](std::uint32_t i) { return i < peers.size() ? peers[i].get() : nullptr; };
  for (std::uint32_t i = 0; bench.scheme.needs_peers() && i < options.writers; ++i) {
    auto made = std::make_unique<sync::LatchPeers>(*clients[i % clients.size()], static_cast<std::uint16_t>(i + 1));
    for (const auto& other : peers) {
      sync::LatchPeers::connect(*other, *made);
    }
    peers.push_back(std::move(made));
  }
  for (std::uint32_t i = 0; i < options.writers; ++i) {
    reactor.spawn(add_ones(bench, clients[i % clients.size()]->connect(storage), i + 1, peer(i)));
  }
  if (bench.scheme.queues()) {
    run_while_it_moves(bench, reactor);
  } else {
    reactor.run();
  }
  if (!bench.seen.stuck) {
    reactor.run(look_at_the_end(bench, clients[0]->connect(storage), peer(0)));
  }
  bench.seen.reads = bench.seen.writes;
  bench.seen.accepted = bench.seen.writes;
  return bench.seen;
}

}  // namespace sidelatch::checker

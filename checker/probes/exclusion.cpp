#include <sidelatch/checker/exclusion.h>

#include "probing.h"

#include <sidelatch/fabric/queue_pair.h>

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

sync::SessionOptions session_of(const ExclusionBench& bench, Node& client, std::uint64_t seed) {
  sync::SessionOptions session;
  session.buffers = std::min(session.buffers, bench.scheme.most_buffers());
  session.retry = sync::Retry::backoff().within(bench.options.patience);
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

Task<void> add_ones(ExclusionBench& bench, std::unique_ptr<QueuePair> qp, std::uint64_t seed) {
  sync::Session session(*qp, sync::buffer_bytes(bench.layout.shape()), session_of(bench, qp->node(), seed));
  while (!bench.seen.stuck && bench.begun < bench.options.updates && goes_on(bench.begun, bench.options.keep_going)) {
    ++bench.begun;
    const bool done =
        co_await bench.scheme.update(session, bench.objects.at(0), [&bench](std::span<std::byte> payload) {
          note(bench, payload);
          fill(payload, word_at(payload, 0) + 1);
        });
    bench.seen.stuck = bench.seen.stuck || !done;
    bench.seen.writes += done ? 1U : 0U;
  }
  co_await qp->drain();
}

// Updates missing from the object are lost.
Task<void> look_at_the_end(ExclusionBench& bench, std::unique_ptr<QueuePair> qp) {
  sync::Session session(*qp, sync::buffer_bytes(bench.layout.shape()), session_of(bench, qp->node(), 1));
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
  const Reactor::Scope tasks(reactor);
  for (std::uint32_t i = 0; i < options.writers; ++i) {
    reactor.spawn(add_ones(bench, clients[i % clients.size()]->connect(storage), i + 1));
  }
  reactor.run();
  if (!bench.seen.stuck) {
    reactor.run(look_at_the_end(bench, clients[0]->connect(storage)));
  }
  bench.seen.reads = bench.seen.writes;
  bench.seen.accepted = bench.seen.writes;
  return bench.seen;
}

}  // namespace sidelatch::checker

#include <sidelatch/checker/atomics.h>

#include "probing.h"

#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>

#include <atomic>
#include <stdexcept>

namespace sidelatch::checker {

using namespace fabric;

namespace {

constexpr std::uint64_t kAdditionsPerAtomic = 10;  // with fewer atomics than that, hardly any addition met one
constexpr Duration kBetweenAdditions = std::chrono::nanoseconds(100);  // if less, few atomics fall in between

struct AtomicsBench {
  AtomicsBench(Node& storage, Node& reader, Rival against, const AtomicsOptions& atomics_options)
      : rival(against),
        options(atomics_options),
        memory(storage.allocate(kWord, Access::remote_all)),
        buffer(reader.allocate(kWord, Access::local_write)),
        reader_qp(reader.connect(storage)) {}

  [[nodiscard]] RemoteSpan word() const { return memory.remote(0, kWord); }

  Rival rival;
  const AtomicsOptions& options;
  MemoryRegion memory;
  MemoryRegion buffer;
  std::unique_ptr<QueuePair> reader_qp;
  std::uint64_t by_nic = 0;  // additions by the NIC
  std::uint64_t by_cpu = 0;
  std::uint64_t met = 0;  // CAS that met somebody else's addition
  bool stopped = false;
};

[[nodiscard]] bool enough(const AtomicsBench& bench) {
  const std::uint64_t done = bench.rival == Rival::nic ? bench.by_nic : bench.by_cpu;
  return bench.stopped || done >= bench.options.chances || !goes_on(done, bench.options.keep_going);
}

Task<void> add_by_fetch_add(AtomicsBench& bench, std::unique_ptr<QueuePair> qp) {
  while (!enough(bench)) {
    co_await qp->fetch_add(bench.word(), 1);
    ++bench.by_nic;
  }
  bench.stopped = true;
}

Task<void> add_by_cas(AtomicsBench& bench, std::unique_ptr<QueuePair> qp) {
  std::uint64_t expected = 0;
  while (!enough(bench)) {
    const std::uint64_t old = co_await qp->compare_swap(bench.word(), expected, expected + 1);
    bench.by_nic += old == expected ? 1U : 0U;
    bench.met += old == expected ? 0U : 1U;
    expected = old == expected ? expected + 1 : old;
  }
  bench.stopped = true;
}

Task<void> add_by_cpu(AtomicsBench& bench) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): a word of memory that a device changes too
  auto* word = reinterpret_cast<std::uint64_t*>(bench.memory.bytes().data());
  while (!enough(bench)) {
    std::atomic_ref<std::uint64_t>(*word).fetch_add(1);
    ++bench.by_cpu;
    co_await bench.reader_qp->reactor().sleep(kBetweenAdditions);
  }
  bench.stopped = true;
}

Task<std::uint64_t> sum(AtomicsBench& bench) {
  co_await bench.reader_qp->read(bench.buffer.local(), bench.word());
  co_return word_at(bench.buffer.bytes(), 0);
}

}  // namespace

std::string_view name(Rival rival) { return rival == Rival::nic ? "atomics/nic" : "atomics/cpu"; }

void AtomicsOptions::validate() const {
  require_chances(chances);
  if (at_once < 2) {
    throw std::invalid_argument(fmt::format("{} atomics at once: there must be at least 2", at_once));
  }
}

Observation probe_atomics(Node& storage, std::span<Node* const> clients, Rival rival, const AtomicsOptions& options) {
  options.validate();
  require_client(clients);
  AtomicsBench bench(storage, *clients[0], rival, options);
  Observation seen;
  seen.name = name(rival);
  if (rival == Rival::cpu && bench.memory.bytes().empty()) {
    seen.skipped = kNoCpuThere;
    return seen;
  }
  Reactor& reactor = storage.reactor();
  const Reactor::Scope tasks(reactor);
  for (std::uint32_t i = 0; i < options.at_once; ++i) {
    std::unique_ptr<QueuePair> qp = client_of_helper(clients, i).connect(storage);
    const bool cas = rival == Rival::nic && i % 2 != 0;
    reactor.spawn(cas ? add_by_cas(bench, std::move(qp)) : add_by_fetch_add(bench, std::move(qp)));
  }
  if (rival == Rival::cpu) {
    reactor.spawn(add_by_cpu(bench));
  }
  reactor.run();
  const std::uint64_t added = bench.by_nic + bench.by_cpu;
  const std::uint64_t there = reactor.run(sum(bench));
  seen.chances = rival == Rival::nic ? bench.by_nic : bench.by_cpu;
  seen.seen = added > there ? added - there : there - added;
  seen.complete = seen.chances >= options.chances;
  seen.sensitive = rival == Rival::nic ? bench.met >= bench.by_nic / kAdditionsPerAtomic
                                       : bench.by_nic >= bench.by_cpu / kAdditionsPerAtomic;
  seen.detail = {{"by_nic", bench.by_nic}, {"by_cpu", bench.by_cpu}, {"met", bench.met}, {"in_the_word", there}};
  return seen;
}

}  // namespace sidelatch::checker

#include <sidelatch/checker/unlatch.h>

#include "probing.h"

#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::checker {

using namespace fabric;

namespace {

constexpr unsigned kUpper = 32;
constexpr std::uint64_t kLowerHalf = 0xffff'ffff;
constexpr std::uint64_t kWritesPerAtomic = 10;  // with fewer atomics than that, hardly any WRITE met one

struct UnlatchBench {
  UnlatchBench(Node& storage, Node& writer, Opcode opcode, const UnlatchOptions& unlatch_options)
      : against(opcode),
        options(unlatch_options),
        memory(storage.allocate(kWord, Access::remote_all)),
        buffer(writer.allocate(2 * kWord, Access::local_write)),
        writer_qp(writer.connect(storage)) {}

  [[nodiscard]] RemoteSpan word() const { return memory.remote(0, kWord); }

  Opcode against;
  const UnlatchOptions& options;
  MemoryRegion memory;
  MemoryRegion buffer;
  std::unique_ptr<QueuePair> writer_qp;
  std::uint64_t atomics = 0;  // atomics that stored something
  bool stopped = false;
};

Task<void> change_lower_half(UnlatchBench& bench, std::unique_ptr<QueuePair> qp) {
  std::uint64_t expected = 0;
  while (!bench.stopped) {
    if (bench.against == Opcode::fetch_add) {
      co_await qp->fetch_add(bench.word(), 1);
      ++bench.atomics;
      continue;
    }
    // A failed swap stores nothing and returns the present value.
    const std::uint64_t desired = (expected & ~kLowerHalf) | ((expected + 1) & kLowerHalf);
    const std::uint64_t old = co_await qp->compare_swap(bench.word(), expected, desired);
    bench.atomics += old == expected ? 1U : 0U;
    expected = old == expected ? desired : old;
  }
}

Task<Observation> write_upper_half(UnlatchBench& bench) {
  Observation seen;
  seen.name = unlatch_name(bench.against);
  while (seen.chances < bench.options.chances && goes_on(seen.chances, bench.options.keep_going)) {
    const std::uint64_t number = ++seen.chances & kLowerHalf;  // only the last number is looked for, so it may wrap
    fill(bench.buffer.bytes().first(kWord), number << kUpper);
    co_await bench.writer_qp->write(bench.buffer.local(0, kWord), bench.word());
    co_await bench.writer_qp->read(bench.buffer.local(kWord, kWord), bench.word());
    seen.seen += word_at(bench.buffer.bytes(), kWord) >> kUpper != number ? 1U : 0U;
  }
  bench.stopped = true;
  seen.complete = seen.chances == bench.options.chances;
  seen.sensitive = bench.atomics >= seen.chances / kWritesPerAtomic;
  seen.detail = {{"atomics", bench.atomics}};
  co_return seen;
}

}  // namespace

std::string_view unlatch_name(Opcode against) {
  return against == Opcode::fetch_add ? "unlatch/write-against-fetch-add" : "unlatch/write-against-cas";
}

void UnlatchOptions::validate() const {
  require_chances(chances);
  if (atomics_at_once == 0) {
    throw std::invalid_argument("0 atomics at once: there must be at least 1");
  }
}

Observation probe_lost_unlatch(Node& storage, std::span<Node* const> clients, Opcode against,
                               const UnlatchOptions& options) {
  options.validate();
  require_client(clients);
  if (!is_atomic(against)) {
    throw std::invalid_argument(fmt::format("{} is no atomic", fabric::name(against)));
  }
  UnlatchBench bench(storage, *clients[0], against, options);
  const Reactor::Scope tasks(storage.reactor());
  for (std::uint32_t i = 0; i < options.atomics_at_once; ++i) {
    storage.reactor().spawn(change_lower_half(bench, client_of_helper(clients, i).connect(storage)));
  }
  Observation seen = storage.reactor().run(write_upper_half(bench));
  storage.reactor().run();
  return seen;
}

}  // namespace sidelatch::checker

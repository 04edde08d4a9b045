#include <sidelatch/checker/visibility.h>

#include "probing.h"

#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>

namespace sidelatch::checker {

using namespace fabric;

namespace {

constexpr std::uint64_t kControls = 1000;
constexpr Duration kBetweenLooks = std::chrono::nanoseconds(20);  // by the CPU; a line takes several to arrive

// At the target, a line for the word follows the block.
struct VisibilityBench {
  VisibilityBench(Node& storage, Node& writer, Sight what, const VisibilityOptions& visibility_options)
      : sight(what),
        options(visibility_options),
        memory(storage.allocate(visibility_options.bytes + kLineBytes, Access::remote_all)),
        sent(writer.allocate(visibility_options.bytes + kLineBytes, Access::local_read)),
        flushed(writer.allocate(kWord, Access::local_write)),
        block_qp(writer.connect(storage)),
        word_qp(writer.connect(storage)) {}

  [[nodiscard]] Reactor& reactor() const { return block_qp->reactor(); }
  [[nodiscard]] std::uint64_t last_line() const { return options.bytes - kLineBytes; }
  // The NIC writes what the CPU reads, so each word is loaded once, in this order.
  [[nodiscard]] std::uint64_t look_at(std::uint64_t offset) const {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): a word of memory that a device writes
    auto* word = reinterpret_cast<std::uint64_t*>(memory.bytes().data() + offset);
    return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
  }
  // Reads the line that was placed last first.
  [[nodiscard]] std::uint64_t oldest_in_block() const {
    std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
    for (std::uint64_t end = options.bytes; end > 0; end -= kLineBytes) {
      oldest = std::min(oldest, look_at(end - kLineBytes));
    }
    return oldest;
  }

  Sight sight;
  const VisibilityOptions& options;
  MemoryRegion memory;
  MemoryRegion sent;
  MemoryRegion flushed;
  std::unique_ptr<QueuePair> block_qp;
  std::unique_ptr<QueuePair> word_qp;
  bool on_two_queue_pairs = false;
  bool stopped = false;
  std::uint64_t number = 0;
};

void number_next(VisibilityBench& bench) { fill(bench.sent.bytes(), ++bench.number); }

Task<void> write_numbers(VisibilityBench& bench) {
  const std::uint64_t bytes = bench.options.bytes;
  const WorkRequest block = write(bench.sent.local(0, bytes), bench.memory.remote(0, bytes));
  const WorkRequest word = write(bench.sent.local(bytes, kWord), bench.memory.remote(bytes, kWord));
  while (!bench.stopped) {
    number_next(bench);
    if (bench.sight == Sight::lines_within_write) {
      co_await bench.block_qp->submit(block);
    } else if (bench.on_two_queue_pairs) {
      co_await bench.block_qp->enqueue(block);
      co_await bench.word_qp->submit(word);
      co_await bench.block_qp->drain();
    } else {
      co_await bench.block_qp->submit(block, word);
    }
    // Completed is not placed (rule 2). Without this READ, unplaced WRITEs could accumulate.
    co_await bench.block_qp->read(bench.flushed.local(), bench.memory.remote(0, kWord));
  }
}

struct VisibilityTally {
  std::uint64_t chances = 0;
  std::uint64_t seen = 0;
  bool complete = true;
};

// Checks the part that is placed last first, then the rest.
Task<VisibilityTally> look(VisibilityBench& bench, std::uint64_t chances, bool is_control) {
  VisibilityTally tally;
  const bool lines = bench.sight == Sight::lines_within_write;
  const bool turned_round = lines && is_control;
  const std::uint64_t first_look = !lines ? bench.options.bytes : turned_round ? 0 : bench.last_line();
  std::uint64_t before = 0;
  for (std::uint64_t looks = 0; tally.chances < chances; ++looks) {
    if (!goes_on(looks, bench.options.keep_going)) {
      tally.complete = false;
      break;
    }
    co_await bench.reactor().sleep(kBetweenLooks);
    const std::uint64_t found = bench.look_at(first_look);
    if (found == before) {
      continue;
    }
    before = found;
    ++tally.chances;
    const std::uint64_t rest = turned_round ? bench.look_at(bench.last_line()) : bench.oldest_in_block();
    tally.seen += rest < found ? 1U : 0U;
  }
  bench.stopped = true;
  co_return tally;
}

VisibilityTally watch(VisibilityBench& bench, std::uint64_t chances, bool is_control) {
  bench.stopped = false;
  bench.on_two_queue_pairs = is_control;
  const Reactor::Scope tasks(bench.reactor());
  bench.reactor().spawn(write_numbers(bench));
  const VisibilityTally tally = bench.reactor().run(look(bench, chances, is_control));
  bench.reactor().run();
  return tally;
}

Task<VisibilityTally> look_after_completions(VisibilityBench& bench) {
  VisibilityTally tally;
  const std::uint64_t bytes = bench.options.bytes;
  while (tally.chances < bench.options.chances && goes_on(tally.chances, bench.options.keep_going)) {
    ++tally.chances;
    number_next(bench);
    co_await bench.block_qp->write(bench.sent.local(0, bytes), bench.memory.remote(0, bytes));
    tally.seen += bench.oldest_in_block() < bench.number ? 1U : 0U;
  }
  tally.complete = tally.chances == bench.options.chances;
  co_return tally;
}

}  // namespace

std::string_view name(Sight sight) {
  switch (sight) {
    case Sight::lines_within_write:
      return "lines/within-write";
    case Sight::write_write:
      return "order/write-write";
    case Sight::after_completion:
      return "visibility/after-completion";
  }
  return "";
}

void VisibilityOptions::validate() const {
  if (bytes < 2 * kLineBytes || bytes > kLargestBlock || bytes % kLineBytes != 0) {
    throw std::invalid_argument(fmt::format("a block of {} bytes: it must be a multiple of {}, {} to {}", bytes,
                                            kLineBytes, 2 * kLineBytes, kLargestBlock));
  }
  require_chances(chances);
}

Observation probe_visibility(Node& storage, std::span<Node* const> clients, Sight sight,
                             const VisibilityOptions& options) {
  options.validate();
  require_client(clients);
  VisibilityBench bench(storage, *clients[0], sight, options);
  Observation seen;
  seen.name = name(sight);
  if (bench.memory.bytes().empty()) {
    seen.skipped = kNoCpuThere;
    return seen;
  }
  VisibilityTally tally;
  if (sight == Sight::after_completion) {
    tally = storage.reactor().run(look_after_completions(bench));
    seen.complete = tally.complete;
  } else {
    const VisibilityTally control = watch(bench, std::min(options.chances, kControls), true);
    tally = watch(bench, options.chances, false);
    seen.complete = tally.complete && control.complete;
    seen.sensitive = control.seen > 0;
    seen.detail = {{"control_chances", control.chances}, {"control_seen", control.seen}};
  }
  seen.chances = tally.chances;
  seen.seen = tally.seen;
  seen.detail.insert(seen.detail.begin(), {"bytes", options.bytes});
  return seen;
}

}  // namespace sidelatch::checker

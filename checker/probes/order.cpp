#include <sidelatch/checker/order.h>

#include "probing.h"

#include <sidelatch/fabric/queue_pair.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace sidelatch::checker {

using namespace fabric;

namespace {

constexpr std::uint64_t kChainsPerChance = 10;
constexpr std::uint32_t kCounters = 4;
// Distance from one chain's number to the next; additions by atomics in between must not reach it.
constexpr std::uint64_t kStep = 1U << 20;
// The same where the words themselves count the chains, and nothing resets what others have added meanwhile.
constexpr std::uint64_t kWideStep = std::uint64_t{1} << 40;
constexpr std::uint32_t kWatchers = 4;

struct OrderTally {
  std::uint64_t chains = 0;
  std::uint64_t chances = 0;
  std::uint64_t inversions = 0;
  bool complete = true;
};

// The probe's memory and queue pairs. Both requests concern the last word of the block. In the buffer, the second
// request's word and an atomic's old value follow the block. Two atomics on two words have a line of their own.
struct OrderBench {
  OrderBench(Node& storage, Node& client, Pair probed, const OrderOptions& order_options)
      : pair(probed),
        options(order_options),
        memory(storage.allocate(order_options.bytes, Access::remote_all)),
        line(storage.allocate(kLineBytes, Access::remote_all)),
        buffer(client.allocate(order_options.bytes + 2 * kWord, Access::local_write)),
        first_qp(client.connect(storage)),
        second_qp(client.connect(storage)) {}

  [[nodiscard]] RemoteSpan block() const { return memory.remote(0, options.bytes); }
  [[nodiscard]] RemoteSpan word() const { return memory.remote(options.bytes - kWord, kWord); }
  // READs that copy a line word by word, upwards, see the second word before the first: so they see no false inversion.
  [[nodiscard]] RemoteSpan second_word() const { return line.remote(0, kWord); }
  [[nodiscard]] RemoteSpan first_word() const { return line.remote(kWord, kWord); }
  [[nodiscard]] RemoteSpan both_words() const { return line.remote(0, 2 * kWord); }
  [[nodiscard]] std::uint64_t step() const { return pair == Pair::fenced_atomic_atomic ? kWideStep : kStep; }
  [[nodiscard]] LocalSpan block_buffer() const { return buffer.local(0, options.bytes); }
  [[nodiscard]] LocalSpan word_buffer() const { return buffer.local(options.bytes, kWord); }
  [[nodiscard]] LocalSpan old_buffer() const { return buffer.local(options.bytes + kWord, kWord); }
  [[nodiscard]] std::uint64_t in_block() const { return word_at(buffer.bytes(), options.bytes - kWord); }
  [[nodiscard]] std::uint64_t in_word() const { return word_at(buffer.bytes(), options.bytes); }
  [[nodiscard]] std::uint64_t old() const { return word_at(buffer.bytes(), options.bytes + kWord); }

  Pair pair;
  const OrderOptions& options;
  MemoryRegion memory;
  MemoryRegion line;
  MemoryRegion buffer;
  std::unique_ptr<QueuePair> first_qp;
  std::unique_ptr<QueuePair> second_qp;
  std::uint64_t number = 0;   // number of the chain; payloads are numbers, so each is written once
  bool fell_between = false;  // a watcher's READ of the chain's two words saw one of its atomics alone,
  bool saw_second = false;    // and that was the second
  bool stopped = false;
};

Task<void> count(OrderBench& bench, std::unique_ptr<QueuePair> qp) {
  const RemoteSpan word = bench.pair == Pair::fenced_atomic_atomic ? bench.first_word() : bench.word();
  while (!bench.stopped) {
    co_await qp->fetch_add(word, 1);
  }
}

// Old values tell the order of two atomics on one word only. So READs look at two words at once, which lie in one line.
Task<void> watch_words(OrderBench& bench, std::unique_ptr<QueuePair> qp, MemoryRegion seen) {
  while (!bench.stopped) {
    co_await qp->read(seen.local(), bench.both_words());
    const std::uint64_t second = word_at(seen.bytes(), 0) / kWideStep;
    const std::uint64_t first = word_at(seen.bytes(), kWord) / kWideStep;  // without what others have added
    const std::uint64_t chain = bench.number / kWideStep;
    // A READ that looked during an earlier chain counts for none.
    if (first != second && (first == chain || second == chain)) {
      bench.fell_between = true;
      bench.saw_second = bench.saw_second || second == chain;
    }
  }
}

bool writes_block(Pair pair) {
  return pair == Pair::write_read || pair == Pair::write_atomic || pair == Pair::completed_write_read ||
         pair == Pair::completed_write_atomic;
}
bool writes_word(Pair pair) {
  return pair == Pair::read_write || pair == Pair::fenced_read_write || pair == Pair::fenced_atomic_write;
}
bool is_fenced(Pair pair) {
  return pair == Pair::fenced_read_write || pair == Pair::fenced_atomic_write || pair == Pair::fenced_atomic_atomic;
}
bool after_completion(Pair pair) { return pair == Pair::completed_write_read || pair == Pair::completed_write_atomic; }
// Between two READs somebody must change the word. An atomic that waits for its lock can be overtaken.
bool needs_counters(Pair pair) {
  return pair == Pair::read_read || pair == Pair::atomic_read || pair == Pair::atomic_atomic ||
         pair == Pair::fenced_atomic_write || pair == Pair::fenced_atomic_atomic;
}

WorkRequest add_to(RemoteSpan word, LocalSpan old, std::uint64_t summand = 1) {
  WorkRequest add = fetch_add(word, summand);
  add.local = old;
  return add;
}

WorkRequest first_request(const OrderBench& bench) {
  switch (bench.pair) {
    case Pair::write_read:
    case Pair::write_atomic:
    case Pair::completed_write_read:
    case Pair::completed_write_atomic:
      return write(bench.block_buffer(), bench.block());
    case Pair::atomic_read:
    case Pair::atomic_atomic:
    case Pair::fenced_atomic_write:
      return add_to(bench.word(), bench.old_buffer());
    case Pair::fenced_atomic_atomic:
      return add_to(bench.first_word(), bench.old_buffer(), kWideStep);
    case Pair::read_read:
    case Pair::read_write:
    case Pair::fenced_read_write:
      break;
  }
  return read(bench.block_buffer(), bench.block());
}

WorkRequest second_request(const OrderBench& bench) {
  if (bench.pair == Pair::write_atomic || bench.pair == Pair::atomic_atomic ||
      bench.pair == Pair::completed_write_atomic) {
    return add_to(bench.word(), bench.word_buffer());
  }
  if (bench.pair == Pair::fenced_atomic_atomic) {
    return add_to(bench.second_word(), bench.word_buffer(), kWideStep).with_fence();
  }
  const WorkRequest second =
      writes_word(bench.pair) ? write(bench.word_buffer(), bench.word()) : read(bench.word_buffer(), bench.word());
  return is_fenced(bench.pair) ? second.with_fence() : second;
}

void prepare(OrderBench& bench) {
  bench.fell_between = bench.saw_second = false;
  if (writes_block(bench.pair)) {
    fill(bench.buffer.bytes().first(bench.options.bytes), bench.number);
  } else if (writes_word(bench.pair)) {
    fill(bench.buffer.bytes().subspan(bench.options.bytes, kWord), bench.number);
  }
}

// Whether the chain's values show which request was executed first.
bool tells(const OrderBench& bench) {
  switch (bench.pair) {
    case Pair::read_read:
      return bench.in_block() != bench.in_word();
    case Pair::fenced_atomic_atomic:
      return bench.fell_between;
    default:
      return true;
  }
}

// Whether the second request was executed first.
bool inverted(const OrderBench& bench) {
  switch (bench.pair) {
    case Pair::read_read:
      return bench.in_block() > bench.in_word();
    case Pair::read_write:
    case Pair::fenced_read_write:
      return bench.in_block() == bench.number;
    case Pair::write_read:
    case Pair::write_atomic:
    case Pair::completed_write_read:
    case Pair::completed_write_atomic:
      return bench.in_word() != bench.number;
    case Pair::fenced_atomic_write:
      return bench.old() >= bench.number;
    case Pair::atomic_read:
    case Pair::atomic_atomic:
      return bench.in_word() <= bench.old();
    case Pair::fenced_atomic_atomic:
      return bench.saw_second;
  }
  return false;
}

// Posts the pair that is probed.
Task<void> post_pair(OrderBench& bench, WorkRequest first, WorkRequest second) {
  if (after_completion(bench.pair)) {
    co_await bench.first_qp->submit(first);
    co_await bench.second_qp->submit(second);
  } else {
    co_await bench.first_qp->submit(first, second);
  }
}

// Posts both without any order between them.
Task<void> post_control(OrderBench& bench, WorkRequest first, WorkRequest second) {
  if (bench.pair == Pair::atomic_atomic || bench.pair == Pair::fenced_atomic_atomic) {
    // A NIC serves atomics in the order in which they come.
    co_await bench.second_qp->enqueue(second);
    co_await bench.first_qp->submit(first);
    co_await bench.second_qp->drain();
  } else {
    co_await bench.first_qp->enqueue(first);
    co_await bench.second_qp->submit(second);
    co_await bench.first_qp->drain();
  }
}

Task<OrderTally> post_pairs(OrderBench& bench, std::uint64_t chances, bool is_control) {
  OrderTally tally;
  const WorkRequest first = first_request(bench);
  const WorkRequest second = second_request(bench);
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t most_chains = chances > kMost / kChainsPerChance ? kMost : chances * kChainsPerChance;
  // If none of the first chains was a chance, more of them would hardly be.
  while (tally.chances < chances && tally.chains < (tally.chances == 0 ? chances : most_chains)) {
    if (!goes_on(tally.chains, bench.options.keep_going)) {
      tally.complete = false;
      break;
    }
    bench.number += bench.step();
    ++tally.chains;
    prepare(bench);
    if (is_control) {
      co_await post_control(bench, first, second);
    } else {
      co_await post_pair(bench, first, second);
    }
    if (tells(bench)) {
      ++tally.chances;
      tally.inversions += inverted(bench) ? 1U : 0U;
    }
  }
  co_return tally;
}

Task<Observation> observe(OrderBench& bench) {
  // The control needs no precision. It runs first, so that a time limit does not cut it.
  const OrderTally control = co_await post_pairs(bench, std::min<std::uint64_t>(bench.options.chances, 1000), true);
  const OrderTally pairs = co_await post_pairs(bench, bench.options.chances, false);
  bench.stopped = true;
  Observation seen;
  seen.name = name(bench.pair);
  seen.chances = pairs.chances;
  seen.seen = pairs.inversions;
  seen.complete = pairs.complete && control.complete;
  seen.sensitive = control.inversions > 0;
  seen.detail = {{"bytes", bench.options.bytes},
                 {"chains", pairs.chains},
                 {"control_chances", control.chances},
                 {"control_seen", control.inversions}};
  co_return seen;
}

}  // namespace

std::string_view name(Pair pair) {
  switch (pair) {
    case Pair::read_read:
      return "order/read-read";
    case Pair::read_write:
      return "order/read-write";
    case Pair::write_read:
      return "order/write-read";
    case Pair::write_atomic:
      return "order/write-atomic";
    case Pair::atomic_read:
      return "order/atomic-read";
    case Pair::atomic_atomic:
      return "order/atomic-atomic";
    case Pair::fenced_read_write:
      return "order/fenced-read-write";
    case Pair::fenced_atomic_write:
      return "order/fenced-atomic-write";
    case Pair::fenced_atomic_atomic:
      return "order/fenced-atomic-atomic";
    case Pair::completed_write_read:
      return "visibility/read-after-completion";
    case Pair::completed_write_atomic:
      return "visibility/atomic-after-completion";
  }
  return "";
}

void OrderOptions::validate() const {
  if (bytes < kWord || bytes > kLargestBlock || bytes % kWord != 0) {
    throw std::invalid_argument(
        fmt::format("a block of {} bytes: it must be a multiple of {}, {} to {}", bytes, kWord, kWord, kLargestBlock));
  }
  require_chances(chances);
}

Observation probe_order(Node& storage, std::span<Node* const> clients, Pair pair, const OrderOptions& options) {
  options.validate();
  require_client(clients);
  OrderBench bench(storage, *clients[0], pair, options);
  const Reactor::Scope tasks(storage.reactor());
  if (needs_counters(pair)) {
    for (std::uint32_t i = 0; i < kCounters; ++i) {
      storage.reactor().spawn(count(bench, client_of_helper(clients, i).connect(storage)));
    }
  }
  if (pair == Pair::fenced_atomic_atomic) {
    for (std::uint32_t i = 0; i < kWatchers; ++i) {
      Node& watcher = client_of_helper(clients, i);
      storage.reactor().spawn(
          watch_words(bench, watcher.connect(storage), watcher.allocate(2 * kWord, Access::local_write)));
    }
  }
  Observation seen = storage.reactor().run(observe(bench));
  storage.reactor().run();
  return seen;
}

}  // namespace sidelatch::checker

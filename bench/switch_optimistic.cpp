// TODS 2025, figures 25 and 26: tuples with versions and latches at the switch (p4/switch_optimistic.p4, compiled),
// against a baseline with all of it at the memory node.
//
// Round trips, one after the other (table 2 of the paper; half a round trip is one to the switch):
//
//   read, baseline   READ head, READ tuple, READ head                  3
//   read, switch     READ tuple with the verdict, READ word            1 + 1/2
//   write, baseline  CAS latch, WRITE version and data, FETCH-ADD latch   3
//   write, switch    READ tuple, CAS word, WRITE tuple                 1 + 1/2 + 1
//   the same as published: broken/switch_as_published.p4
//                    CAS word, WRITE tuple                             1/2 + 1
//
// The READ before the WRITE is what the published protocol lacks: without it tuples are corrupted (docs/switch.md, and
// tests/switchsync/published_search_test.cpp). It is timed here, since the paper's rows are about it, and serves for
// nothing else.
#include "switch_site.h"

#include <sidelatch/sync/switched_version.h>

#include <p4/switch_as_published.h>
#include <p4/switch_optimistic.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <utility>

namespace sidelatch::bench {

using namespace fabric;

namespace {

constexpr std::uint64_t kPaperTuples = 140'000;  // as in the paper

// One worker's queue pair, buffer and dice.
struct TupleWorker {
  std::unique_ptr<QueuePair> pair;
  MemoryRegion buffer;
  RemoteSpan memory;
  std::uint64_t tuple_bytes = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t tuples = 0;
  std::mt19937_64 random{};
  std::uint64_t written = 0;  // the last version that it has given
  // At the switch:
  const sync::SwitchedVersion* scheme = nullptr;
  const sync::ObjectArray* objects = nullptr;
  std::unique_ptr<sync::Session> session{};
  std::vector<std::byte> payload{};

  [[nodiscard]] RemoteSpan place_of(std::uint64_t tuple) const {
    return memory.subspan(tuple * slot_bytes, tuple_bytes);
  }
  [[nodiscard]] std::uint64_t word(std::size_t which) const {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.bytes().data() + 8 * which, sizeof value);
    return value;
  }
  void set_word(std::size_t which, std::uint64_t value) const {
    std::memcpy(buffer.bytes().data() + 8 * which, &value, sizeof value);
  }
};

// The baseline's tuple begins with a latch and a version, its head. A version is a number that no writer gives twice.
constexpr std::uint64_t kHeadBytes = 16;
constexpr std::uint64_t kVersionBytes = 8;  // of a tuple at the switch

Task<void> read_at_node(TupleWorker* worker, RemoteSpan tuple) {
  QueuePair& pair = *worker->pair;
  while (true) {
    co_await pair.read(worker->buffer.local(0, kHeadBytes), tuple.subspan(0, kHeadBytes));
    const std::uint64_t before = worker->word(1);
    const bool was_free = worker->word(0) == 0;
    co_await pair.read(worker->buffer.local(0, tuple.length), tuple);
    co_await pair.read(worker->buffer.local(0, kHeadBytes), tuple.subspan(0, kHeadBytes));
    if (was_free && worker->word(0) == 0 && worker->word(1) == before) {
      co_return;
    }
  }
}

Task<void> write_at_node(TupleWorker* worker, RemoteSpan tuple) {
  QueuePair& pair = *worker->pair;
  const RemoteSpan latch = tuple.subspan(0, 8);
  while (true) {
    const std::uint64_t seen = co_await pair.compare_swap(latch, 0, 1);
    if (seen == 0) {
      break;
    }
  }
  worker->set_word(1, ++worker->written);
  co_await pair.write(worker->buffer.local(8, tuple.length - 8), tuple.subspan(8, tuple.length - 8));
  static_cast<void>(co_await pair.fetch_add(latch, ~std::uint64_t{0}));
}

// The scheme's own requests: those of the head of this file.
Task<void> read_at_switch(TupleWorker* worker, std::uint64_t tuple) {
  std::span<std::byte> payload = worker->payload;
  static_cast<void>(co_await worker->scheme->read(*worker->session, worker->objects->at(tuple), payload));
}

Task<void> write_at_switch(TupleWorker* worker, std::uint64_t tuple) {
  static_cast<void>(
      co_await worker->scheme->update(*worker->session, worker->objects->at(tuple), [](std::span<std::byte>) {}));
}

// As published, and broken: no READ. The CAS is a try-latch (p4/broken/switch_as_published.p4).
constexpr std::uint64_t kTryLatch = ~std::uint64_t{0} - 1;

Task<void> write_as_published(TupleWorker* worker, RemoteSpan tuple) {
  QueuePair& pair = *worker->pair;
  while (true) {
    const std::uint64_t seen = co_await pair.compare_swap(tuple.subspan(0, kVersionBytes), kTryLatch, kTryLatch + 1);
    if (seen % 2 == 0) {
      break;
    }
  }
  co_await pair.write(worker->buffer.local(0, tuple.length), tuple);
}

struct SwitchLoad {
  bool at_switch = false;
  std::uint32_t workers = 1;
  std::uint64_t tuple_bytes = 1024;
  std::uint64_t tuples = kPaperTuples;
  std::uint32_t client_nodes = 4;
  double reads = 1;           // share
  bool as_published = false;  // writes that corrupt tuples if anybody writes beside
  Duration measured = from_ns(800'000);
};

Task<void> use_tuples(std::unique_ptr<TupleWorker> worker, Reactor* reactor, const SwitchLoad* point,
                      checker::Windows* windows) {
  std::uniform_real_distribution<double> share;
  while (!windows->over(reactor->now())) {
    const std::uint64_t tuple = worker->random() % worker->tuples;
    const bool reads = share(worker->random) < point->reads;
    // Each in a statement of its own: GCC 12 destroys the temporaries of a chosen co_await twice.
    if (point->at_switch && reads) {
      co_await read_at_switch(worker.get(), tuple);
    } else if (point->as_published) {
      co_await write_as_published(worker.get(), worker->place_of(tuple));
    } else if (point->at_switch) {
      co_await write_at_switch(worker.get(), tuple);
    } else if (reads) {
      co_await read_at_node(worker.get(), worker->place_of(tuple));
    } else {
      co_await write_at_node(worker.get(), worker->place_of(tuple));
    }
    windows->count(reactor->now());
  }
}

checker::Estimate mops_at(Site& site, const SwitchLoad& point) {
  // Slots of 2^n bytes are what the switch needs. At the memory node latches so far apart would share few slots of the
  // NIC's lock table: the baseline's tuples are an odd number of words apart, as those of layout padded.
  const std::uint64_t slot_bytes =
      point.at_switch ? std::bit_ceil(point.tuple_bytes) : 8 * (point.tuple_bytes / 8 | 1U);
  const sync::SwitchedVersion scheme;
  std::unique_ptr<TupleSite> tuples;
  std::optional<sync::ObjectArray> objects;
  RemoteSpan memory;
  if (point.at_switch) {
    tuples = std::make_unique<TupleSite>(
        site, point.as_published ? p4::programs::switch_as_published() : p4::programs::switch_optimistic(),
        point.tuples, point.tuple_bytes, slot_bytes);
    memory = tuples->memory();
    constexpr auto kSlots = sync::LayoutKind::slotted;
    objects.emplace(sync::Layout(scheme.shape(point.tuple_bytes - kVersionBytes, kSlots), kSlots, point.tuples),
                    memory);
  } else {
    memory = site.allocate(point.tuples * slot_bytes).front();
  }
  return site.measure(point.workers, [&](std::size_t i, checker::Windows& windows) {
    const auto number = static_cast<std::uint32_t>(i);
    auto worker = std::make_unique<TupleWorker>();
    worker->pair =
        point.at_switch ? tuples->connect(number) : site.node_of(number).connect(*site.memory_nodes().front());
    worker->buffer = site.node_of(number).allocate(point.tuple_bytes, Access::local_write);
    worker->memory = memory;
    worker->tuple_bytes = point.tuple_bytes;
    worker->slot_bytes = slot_bytes;
    worker->tuples = point.tuples;
    worker->random.seed(site.seed_of(number));
    worker->written = std::uint64_t{number + 1} << 40;
    if (objects) {
      worker->scheme = &scheme;
      worker->objects = &*objects;
      worker->payload.resize(objects->layout().shape().payload_bytes);
      sync::SessionOptions session{.buffers = 1, .retry = sync::Retry::at_once()};
      session.versions_at_switch = true;
      worker->session =
          std::make_unique<sync::Session>(*worker->pair, sync::buffer_bytes(objects->layout().shape()), session);
    }
    return use_tuples(std::move(worker), &site.reactor(), &point, &windows);
  });
}

std::vector<checker::Estimate> run_switch_loads(const ExperimentOptions& options,
                                                const std::vector<SwitchLoad>& points) {
  std::vector<checker::Estimate> rates(points.size());
  run_points(
      options, points.size(),
      [&](std::size_t i) { return SiteShape{.client_nodes = points[i].client_nodes, .measured = points[i].measured}; },
      [&](Site& site, std::size_t i) { rates[i] = mops_at(site, points[i]); });
  return rates;
}

}  // namespace

// One client, one tuple after the other: the latency of a read and of a write.
ExperimentResult switch_latency(const ExperimentOptions& given) {
  const ExperimentOptions options = on_switch_testbed(given, "switch-latency");
  static constexpr std::array<std::uint64_t, 3> kSizes = {64, 256, 1024};
  enum Line : std::uint8_t { read_switch, read_node, write_published, write_switch, write_node, lines };
  static constexpr std::array<const char*, lines> kLines = {
      "read, switch", "read, baseline", "write, broken/switch-as-published", "write, switch", "write, baseline"};
  std::vector<SwitchLoad> points;
  for (std::size_t l = 0; l < lines; ++l) {
    for (const std::uint64_t size : kSizes) {
      points.push_back({.at_switch = l != read_node && l != write_node,
                        .tuple_bytes = size,
                        .tuples = 1000,
                        .client_nodes = 1,
                        .reads = l == read_switch || l == read_node ? 1.0 : 0.0,
                        .as_published = l == write_published,
                        .measured = from_ns(8'000'000)});
    }
  }
  std::vector<checker::Estimate> latencies = run_switch_loads(options, points);
  for (checker::Estimate& one : latencies) {  // of one worker, in microseconds
    const double mean = 1 / one.mean;
    one.half_width = one.half_width / one.mean * mean;
    one.mean = mean;
  }
  const Curves us(kSizes, latencies);
  ExperimentResult result = begin_result("switch-latency", options, "bytes");
  for (std::size_t l = 0; l < lines; ++l) {
    result.series.push_back(us.series(l, kLines.at(l), "us"));
  }
  // "Roughly double the performance".
  result.targets.push_back(
      number_target("N22.read", 0.5, us.at(read_switch, 1024) / us.at(read_node, 1024), "of the baseline"));
  const double published = us.at(write_published, 1024) / us.at(write_node, 1024);
  const double safe = us.at(write_switch, 1024) / us.at(write_node, 1024);
  const bool as_paper = options.practice == Practice::paper;
  result.targets.push_back(number_target(
      "N22.write", 0.5, as_paper ? published : safe,
      as_paper ? "of the baseline, by broken/switch-as-published, which corrupts tuples" : "of the baseline, safe"));
  result.targets.push_back(shape_target(
      "N22.safe", safe < 1 && published < safe,
      fmt::format("a write that is safe takes {:.3f} of the baseline, {:.2f} of broken/switch-as-published, which "
                  "corrupts tuples",
                  safe, safe / published)));
  return result;
}

// Four mixes and two sizes, by workers. The paper's writes are the published ones, so those are judged against its
// text; N23.safe says the same of writes that are safe.
ExperimentResult switch_optimistic(const ExperimentOptions& given) {
  const ExperimentOptions options = on_switch_testbed(given, "switch-optimistic");
  static constexpr std::array<std::uint32_t, 4> kWorkers = {8, 32, 128, 512};
  static constexpr std::array<std::uint64_t, 2> kSizes = {64, 1024};
  static constexpr std::array<double, 4> kReads = {1, 0.95, 0.5, 0};  // the paper does not print its four
  static constexpr std::size_t kPanels = kSizes.size() * kReads.size();
  enum Line : std::uint8_t { safe, published, baseline, lines };
  static constexpr std::array<const char*, lines> kLines = {"switch", "broken/switch-as-published", "baseline"};
  std::vector<SwitchLoad> points;
  for (std::size_t i = 0; i < lines * kPanels; ++i) {
    for (const std::uint32_t workers : kWorkers) {
      points.push_back({.at_switch = i % lines != baseline,
                        .workers = workers,
                        .tuple_bytes = kSizes.at(i / lines / kReads.size()),
                        .reads = kReads.at(i / lines % kReads.size()),
                        .as_published = i % lines == published});
    }
  }
  const Curves mops(kWorkers, run_switch_loads(options, points));
  ExperimentResult result = begin_result("switch-optimistic", options, "workers");
  std::array<double, lines> least{};  // of the baseline
  least.fill(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < lines * kPanels; ++i) {
    const std::size_t panel = i / lines;
    result.series.push_back(mops.series(
        i, kLines.at(i % lines), "Mops/s",
        fmt::format("{} B, {:.0f} % reads", kSizes.at(panel / kReads.size()), 100 * kReads.at(panel % kReads.size()))));
    for (const std::uint32_t workers : kWorkers) {
      least.at(i % lines) =
          lesser(least.at(i % lines), mops.at(i, workers) / mops.at(panel * lines + baseline, workers));
    }
  }
  constexpr auto* kSeen = "{}, in all mixes and sizes, 8 to 512 workers: at least {:.2f} of the baseline";
  result.targets.push_back(
      shape_target("N23.ahead", least.at(published) > 1,
                   fmt::format(kSeen, "by broken/switch-as-published, which corrupts tuples", least.at(published))));
  result.targets.push_back(shape_target("N23.safe", least.at(safe) > 1, fmt::format(kSeen, "safe", least.at(safe))));
  const std::size_t largest_reads = lines * (kSizes.size() - 1) * kReads.size();
  const double gbytes = mops.at(largest_reads, 512) * 1024 / 1e3;
  result.targets.push_back(shape_target("N23.link", gbytes > 0.9 * 12.5 * 1024 / (1024 + 58),
                                        fmt::format("reads of 1 KiB, 512 workers: {:.1f} of 12.5 Gbyte/s", gbytes)));
  return result;
}

}  // namespace sidelatch::bench

#include <sidelatch/checker/rates.h>

#include "probing.h"

#include <sidelatch/checker/closed_loop.h>

#include <algorithm>

namespace sidelatch::checker {

using namespace fabric;

namespace {

constexpr std::uint32_t kManyWorkers = 128;  // enough to keep every known number of lock slots busy, but no QP cache
constexpr std::uint64_t kLargestBytes = 65'536;
constexpr std::uint64_t kBytesInFlight = 262'144;  // fills a link for 20 us at 100 Gbit/s, which is above its delay
constexpr std::uint32_t kMostQueuePairs = 512;
constexpr double kFall = 0.9;

// The closed loop that measures the point at x.
using LoopAt = std::function<ClosedLoop(std::uint64_t)>;

std::function<std::uint64_t(std::uint32_t)> apart(std::uint64_t stride) {
  return [stride](std::uint32_t w) { return w * stride; };
}

std::vector<std::uint64_t> doubling(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t x = from; x <= to; x *= 2) {
    all.push_back(x);
  }
  return all;
}

struct Plan {
  Series series;
  std::vector<std::uint64_t> x;
  LoopAt loop;
  bool is_latency = false;
  bool one_client = false;
};

Plan by_workers(const char* title, std::function<std::uint64_t(std::uint32_t)> offset) {
  return {.series = {.title = title, .x = "workers", .unit = "Mops/s"},
          .x = doubling(1, kManyWorkers),
          .loop = [offset = std::move(offset)](std::uint64_t workers) {
            return ClosedLoop{.workers = static_cast<std::uint32_t>(workers), .offset = offset};
          }};
}

Plan rate_by_size(const char* title, Opcode opcode) {
  return {
      .series = {.title = title, .x = "size", .x_unit = "B", .unit = "Mops/s"},
      .x = doubling(8, kLargestBytes),
      .loop = [opcode](std::uint64_t bytes) {
        const std::uint64_t workers = std::clamp<std::uint64_t>(kBytesInFlight / bytes, 4, kManyWorkers);
        const std::uint64_t stride = std::max<std::uint64_t>(bytes, kLineBytes);
        return ClosedLoop{
            .workers = static_cast<std::uint32_t>(workers), .opcode = opcode, .bytes = bytes, .offset = apart(stride)};
      }};
}

Plan latency_by_size(const char* title, Opcode opcode) {
  return {.series = {.title = title, .x = "size", .x_unit = "B", .unit = "us"},
          .x = is_atomic(opcode) ? std::vector<std::uint64_t>{kWord} : doubling(8, kLargestBytes),
          .loop = [opcode](std::uint64_t bytes) { return ClosedLoop{.opcode = opcode, .bytes = bytes}; },
          .is_latency = true};
}

Plan plan_of(Curve curve) {
  switch (curve) {
    case Curve::atomics_by_stride:
      return {
          .series = {.title = "CAS by 128 workers, each on a word of its own, by the distance of the words",
                     .x = "stride",
                     .x_unit = "B",
                     .unit = "Mops/s"},
          .x = doubling(8, 8192),
          .loop = [](std::uint64_t stride) { return ClosedLoop{.workers = kManyWorkers, .offset = apart(stride)}; }};
    case Curve::atomics_contended:
      return by_workers("CAS on one word, by workers", apart(0));
    case Curve::atomics_uncontended:
      return by_workers("CAS, each worker on a word of its own, packed, by workers", apart(kWord));
    case Curve::read_by_queue_pairs:
      return {.series = {.title = "READs of 8 bytes by one client, by its queue pairs",
                         .x = "queue pairs",
                         .unit = "Mops/s"},
              .x = doubling(1, kMostQueuePairs),
              .loop =
                  [](std::uint64_t workers) {
                    return ClosedLoop{
                        .workers = static_cast<std::uint32_t>(workers), .opcode = Opcode::read, .offset = apart(kWord)};
                  },
              .one_client = true};
    case Curve::rate_read:
      return rate_by_size("READs by many workers, by size", Opcode::read);
    case Curve::rate_write:
      return rate_by_size("WRITEs by many workers, by size", Opcode::write);
    case Curve::latency_read:
      return latency_by_size("Latency of a READ, by size", Opcode::read);
    case Curve::latency_write:
      return latency_by_size("Latency of a WRITE, by size", Opcode::write);
    case Curve::latency_cas:
      return latency_by_size("Latency of a CAS", Opcode::compare_swap);
    case Curve::latency_fetch_add:
      return latency_by_size("Latency of a FETCH-ADD", Opcode::fetch_add);
  }
  return {};
}

class Measurement {
 public:
  Measurement(Node& storage, std::span<Node* const> clients, const Plan& plan, const RatesOptions& options)
      : storage_(&storage), clients_(plan.one_client ? clients.first(1) : clients), plan_(&plan), options_(&options) {}

  /// False if the measurement was told to end.
  bool add_point(std::uint64_t x, Series& series) {
    if (!options_->keep_going()) {
      series.complete = false;
      return false;
    }
    ClosedLoop loop = plan_->loop(x);
    loop.warm_up = options_->warm_up;
    loop.measured = options_->measured;
    loop.queue_pairs = &queue_pairs_;
    ClosedLoopResult result = run_closed_loop(*storage_, clients_, loop);
    // On a machine with much other work a short time may pass without a single operation.
    constexpr int kMostDoublings = 7;
    for (int i = 0; result.operations == 0 && i < kMostDoublings && options_->keep_going(); ++i) {
      loop.measured *= 2;
      result = run_closed_loop(*storage_, clients_, loop);
    }
    if (result.operations > 0) {
      series.points.push_back({static_cast<double>(x), plan_->is_latency ? result.mean_ns() / 1000 : result.mops()});
    }
    return true;
  }

 private:
  Node* storage_;
  std::span<Node* const> clients_;
  const Plan* plan_;
  const RatesOptions* options_;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs_;
};

// The first point more than a tenth below the best one before it, or the end.
std::vector<Point>::const_iterator first_fall(const std::vector<Point>& points) {
  double best = 0;
  return std::ranges::find_if(points, [&best](const Point& point) {
    best = std::max(best, point.y);
    return point.y < kFall * best;
  });
}

// Locates the knee, between the last point before the fall and the first one after it, to a sixteenth.
void refine_knee(Measurement& measurement, Series& series) {
  for (;;) {
    const auto fallen = first_fall(series.points);
    if (fallen == series.points.end() || fallen == series.points.begin()) {
      return;
    }
    const auto good = static_cast<std::uint64_t>(std::prev(fallen)->x);
    const auto bad = static_cast<std::uint64_t>(fallen->x);
    const std::size_t before = series.points.size();
    if (bad - good <= std::max<std::uint64_t>(good / 16, 1) || !measurement.add_point((good + bad) / 2, series) ||
        series.points.size() == before) {
      return;
    }
    std::ranges::stable_sort(series.points, {}, &Point::x);
  }
}

}  // namespace

std::string_view name(Curve curve) {
  switch (curve) {
    case Curve::atomics_by_stride:
      return "atomics/by-stride";
    case Curve::atomics_contended:
      return "atomics/contended";
    case Curve::atomics_uncontended:
      return "atomics/uncontended";
    case Curve::read_by_queue_pairs:
      return "read/by-queue-pairs";
    case Curve::rate_read:
      return "rate/READ";
    case Curve::rate_write:
      return "rate/WRITE";
    case Curve::latency_read:
      return "latency/READ";
    case Curve::latency_write:
      return "latency/WRITE";
    case Curve::latency_cas:
      return "latency/CAS";
    case Curve::latency_fetch_add:
      return "latency/FETCH-ADD";
  }
  return "";
}

Series probe_rate(Node& storage, std::span<Node* const> clients, Curve curve, const RatesOptions& options) {
  require_client(clients);
  const Plan plan = plan_of(curve);
  Series series = plan.series;
  series.name = name(curve);
  Measurement measurement(storage, clients, plan, options);
  for (const std::uint64_t x : plan.x) {
    if (!measurement.add_point(x, series)) {
      return series;
    }
  }
  if (curve == Curve::read_by_queue_pairs) {
    refine_knee(measurement, series);
  }
  return series;
}

std::optional<std::uint64_t> queue_pair_knee(const Series& series) {
  const auto fallen = first_fall(series.points);
  if (fallen == series.points.end() || fallen == series.points.begin()) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(std::prev(fallen)->x);
}

}  // namespace sidelatch::checker

// How fast a NIC is: rates and latencies along one axis, for context and for a profile of the NIC.
//
//   for (Curve curve : kCurves) { Series series = probe_rate(storage, clients, curve, {}); }
//
// All are closed loops (closed_loop.h): each worker has a queue pair of its own and one request outstanding.
//
// Thread-safety: runs on the reactor of its nodes, in that thread.
#pragma once

#include <sidelatch/fabric/node.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::checker {

enum class Curve : std::uint8_t {
  atomics_by_stride,    ///< CAS by 128 workers, each on a word of its own, by distance between words
  atomics_contended,    ///< CAS on one word, by workers
  atomics_uncontended,  ///< CAS, each worker on a word of its own, packed, by workers
  read_by_queue_pairs,  ///< READs of 8 bytes by one client, by queue pairs
  rate_read,            ///< of READs, by size
  rate_write,
  latency_read,  ///< of one READ at a time, by size
  latency_write,
  latency_cas,  ///< 8 bytes only, as for the next curve
  latency_fetch_add,
};
inline constexpr std::array kCurves = {Curve::atomics_by_stride,  Curve::atomics_contended, Curve::atomics_uncontended,
                                       Curve::latency_read,       Curve::latency_write,     Curve::latency_cas,
                                       Curve::latency_fetch_add,  Curve::rate_read,         Curve::rate_write,
                                       Curve::read_by_queue_pairs};

[[nodiscard]] std::string_view name(Curve curve);  ///< "atomics/by-stride"

struct Point {
  double x = 0;
  double y = 0;
};

struct Series {
  std::string name = {};
  std::string title = {};       ///< a sentence without its full stop
  std::string x = {};           ///< what is varied
  std::string x_unit = {};      ///< "B", or empty
  std::string x_scale = "log";  ///< or "linear"
  std::string unit = {};        ///< of y: "Mops/s" or "us"
  std::vector<Point> points = {};
  bool complete = true;  ///< false: the probe was told to end early
};

struct RatesOptions {
  fabric::Duration warm_up = std::chrono::microseconds(100);  ///< of each loop, by the world's clock
  fabric::Duration measured = std::chrono::microseconds(500);
  /// Called between the loops; false ends the probe with the points measured so far.
  std::function<bool()> keep_going = [] { return true; };
};

/// `clients`: at least one. A loop that completes nothing in its time gives no point.
[[nodiscard]] Series probe_rate(fabric::Node& storage, std::span<fabric::Node* const> clients, Curve curve,
                                const RatesOptions& options);

/// The number of queue pairs of one client beyond which the rate of `read_by_queue_pairs` falls: the last number
/// before the rate is first more than a tenth below the best rate so far. Nothing if the rate does not fall.
[[nodiscard]] std::optional<std::uint64_t> queue_pair_knee(const Series& series);

}  // namespace sidelatch::checker

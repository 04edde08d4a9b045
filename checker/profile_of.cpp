#include <sidelatch/checker/profile_of.h>

#include <sidelatch/fabric/sim/simulation.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>

namespace sidelatch::checker {

using namespace fabric;

namespace {

constexpr double kNsPerUs = 1000;  // a rate of 1 Mops/s is one operation in so many ns

const Series& series_of(const CheckReport& report, Curve curve) {
  const Series* found = report.find(curve);
  if (found == nullptr || found->points.empty() || !found->complete) {
    throw std::invalid_argument(fmt::format(
        "there is no profile without all of {}: let the check do the parts lock-table and rates, with enough "
        "--seconds",
        name(curve)));
  }
  return *found;
}

const std::vector<Point>& points_of(const CheckReport& report, Curve curve) { return series_of(report, curve).points; }

double best_of(const std::vector<Point>& points) { return std::ranges::max_element(points, {}, &Point::y)->y; }

// The points from the best one on; those before it lack queue pairs.
std::span<const Point> beyond(const std::vector<Point>& points) {
  return {std::ranges::max_element(points, {}, &Point::y), points.end()};
}

// Rounds to four digits: a measurement has no more.
double rounded(double value) {
  if (value == 0) {
    return 0;
  }
  const double digits = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * digits) / digits;
}

void set_lock_table(const CheckReport& report, sim::Profile& profile) {
  if (!report.lock_table) {
    throw std::invalid_argument(
        "there is no profile without the lock table: let the check do the part lock-table, with enough --seconds");
  }
  const LockTable& table = *report.lock_table;
  const bool one_slot = table.address_bits == 0;
  profile.lock_table.address_bits = one_slot ? 3 : table.address_bits;
  profile.lock_table.slot_bytes = one_slot ? 8 : table.slot_bytes;
  const double slot = kNsPerUs / table.contended_mops;
  // An atomic takes longer than a READ by the difference between the slot's time and a DMA read.
  const double longer =
      (points_of(report, Curve::latency_cas).front().y - points_of(report, Curve::latency_read).front().y) * kNsPerUs;
  const double service = std::clamp(profile.pcie.read_ns + longer, 0.001, slot);
  profile.lock_table.service_ns = rounded(service);
  profile.lock_table.load_ns = std::min(profile.lock_table.load_ns, profile.lock_table.service_ns);
  profile.lock_table.recovery_ns = rounded(slot - service);
  profile.nic.respond_atomic_ns = rounded(kNsPerUs / std::max(table.uncontended_mops, table.contended_mops));
}

void set_service_times(const CheckReport& report, sim::Profile& profile) {
  const std::vector<Point>& by_queue_pairs = points_of(report, Curve::read_by_queue_pairs);
  const double of_one_client = kNsPerUs / best_of(by_queue_pairs);
  profile.nic.request_ns = rounded(std::min(profile.nic.request_ns, of_one_client / 2));
  // Completions get the same share of the rest as in the profile: each request here rings once and is signaled.
  const double left = of_one_client - profile.nic.request_ns;
  const double for_completions = profile.nic.cqe_ns / (profile.nic.chain_ns + profile.nic.cqe_ns);
  profile.nic.cqe_ns = rounded(left * for_completions);
  profile.nic.chain_ns = rounded(left - profile.nic.cqe_ns);
  profile.nic.respond_read_ns = rounded(kNsPerUs / best_of(points_of(report, Curve::rate_read)));
  profile.nic.respond_write_ns = rounded(kNsPerUs / best_of(points_of(report, Curve::rate_write)));
  profile.qp_cache.requester_entries = queue_pair_knee(series_of(report, Curve::read_by_queue_pairs)).value_or(0);
  // At the slowest point nearly all requests miss.
  const double with_misses = kNsPerUs / std::ranges::min_element(beyond(by_queue_pairs), {}, &Point::y)->y;
  profile.qp_cache.miss_ns =
      profile.qp_cache.requester_entries == 0 ? 0 : rounded(std::max(0.0, with_misses - of_one_client));
}

// Sets the link's rate, or whatever else bounds the bytes per second.
void set_link(const CheckReport& report, sim::Profile& profile) {
  std::uint64_t mtu = 0;
  const std::string& said = report.environment.mtu;
  if (std::from_chars(said.data(), said.data() + said.size(), mtu).ec == std::errc() && mtu >= 256) {
    profile.link.mtu = mtu;
  }
  double gbps = 0;
  for (const Point& point : points_of(report, Curve::rate_read)) {
    const double packets = std::ceil(point.x / static_cast<double>(profile.link.mtu));
    const double bytes = point.x + packets * static_cast<double>(profile.link.header_bytes);
    gbps = std::max(gbps, point.y * bytes * 8 / 1000);
  }
  profile.pcie.gbps = rounded(std::max(profile.pcie.gbps, gbps * profile.pcie.gbps / profile.link.gbps));
  profile.link.gbps = rounded(gbps);
}

double simulated_latency_ns(const sim::Profile& profile) {
  sim::Simulation world({.profile = profile});
  Node& storage = world.add_node("storage");
  const std::array<Node*, 1> clients{&world.add_node("client")};
  std::uint32_t points = 0;
  const Series series = probe_rate(storage, clients, Curve::latency_read,
                                   {.warm_up = std::chrono::milliseconds(1),
                                    .measured = std::chrono::milliseconds(10),
                                    .keep_going = [&points] { return ++points == 1; }});
  return series.points.front().y * kNsPerUs;
}

// Stretches all parts of the latency of an 8-byte READ alike, so that it takes as long as measured.
void set_latency(const CheckReport& report, sim::Profile& profile) {
  const double wanted = points_of(report, Curve::latency_read).front().y * kNsPerUs;
  // Service times are part of it and stay unchanged, so it takes a few steps.
  constexpr int kSteps = 6;
  for (int i = 0; i < kSteps; ++i) {
    const double factor = wanted / simulated_latency_ns(profile);
    for (double* part : {&profile.link.propagation_ns, &profile.link.jitter_ns, &profile.nic.doorbell_ns,
                         &profile.nic.latency_ns, &profile.nic.completion_ns, &profile.pcie.read_ns}) {
      *part = rounded(*part * factor);
    }
  }
}

void set_pieces(const CheckReport& report, sim::Profile& profile) {
  const std::uint64_t granularity = report.granularity();
  if (granularity != 0) {
    profile.memory.atom_bytes = std::gcd(granularity, std::uint64_t{kLineBytes});
  }
}

}  // namespace

sim::Profile profile_of(const CheckReport& report) {
  sim::Profile profile = sim::load_profile("connectx5");
  constexpr std::string_view kSimulated = "sim:";
  profile.name = report.device.starts_with(kSimulated) ? report.device.substr(kSimulated.size()) : report.device;
  profile.description = "measured by sidelatch check; what that does not measure is as in connectx5";
  set_service_times(report, profile);
  set_link(report, profile);
  set_latency(report, profile);
  set_lock_table(report, profile);
  set_pieces(report, profile);
  profile.validate();
  return profile;
}

}  // namespace sidelatch::checker

#include "switch_site.h"

#include <p4/switch_atomics.h>

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace sidelatch::bench {

using namespace fabric;
using switchsync::SimulatedSwitch;

namespace {

// Station 0 is the memory node or the switch's own address; the site's client nodes follow.
constexpr std::uint16_t kTarget = 0;
constexpr std::uint32_t kWordsKey = 1;
constexpr std::uint64_t kWordsAddress = 0x1000'0000;
constexpr std::uint32_t kLargestMtu = 1024;

std::uint16_t station_of(const Site& site, std::uint32_t worker) {
  return static_cast<std::uint16_t>(1 + worker % site.clients().size());
}

SimulatedSwitch::Ends ends_of(const Site& site, std::uint32_t worker) {
  return {.client = station_of(site, worker),
          .client_queue_pair = worker + 1,
          .target = kTarget,
          .target_queue_pair = worker + 1,
          .first_psn = worker};
}

std::unique_ptr<QueuePair> connect_through(Site& site, SimulatedSwitch& between, std::uint32_t worker) {
  auto pair = site.node_of(worker).connect(*site.memory_nodes().front());
  between.add(site.simulation().pass_through(*pair, between), ends_of(site, worker));
  return pair;
}

}  // namespace

ExperimentOptions on_switch_testbed(const ExperimentOptions& given, std::string_view experiment) {
  if (given.cluster != nullptr) {
    throw std::invalid_argument(
        fmt::format("{} is simulated only, for it needs a programmable switch: leave --connect out", experiment));
  }
  ExperimentOptions options = given;
  if (given.profile == ExperimentOptions{}.profile) {
    options.profile = "tofino_testbed";
  }
  return options;
}

WordSite::WordSite(Site& site, std::uint32_t words)
    : site_(&site),
      between_(p4::programs::switch_atomics(), switchsync::switch_timing("tofino")),
      control_(between_.device().state()) {
  control_.serve(SimulatedSwitch::ip_of(kTarget), SimulatedSwitch::mac_of(kTarget));
  control_.add_words({.rkey = kWordsKey, .address = kWordsAddress, .first = 0, .count = words});
  for (std::uint32_t i = 0; i < site.clients().size(); ++i) {
    control_.add_station(SimulatedSwitch::mac_of(station_of(site, i)), station_of(site, i));
  }
}

std::unique_ptr<QueuePair> WordSite::connect(std::uint32_t worker) {
  const SimulatedSwitch::Ends ends = ends_of(*site_, worker);
  control_.connect({.ip = SimulatedSwitch::ip_of(kTarget),
                    .queue_pair = ends.target_queue_pair,
                    .client = SimulatedSwitch::ip_of(ends.client),
                    .client_queue_pair = ends.client_queue_pair,
                    .client_psn = ends.first_psn});
  return connect_through(*site_, between_, worker);
}

RemoteSpan WordSite::word(std::uint32_t which) const {
  return {RemoteAddress{kWordsAddress + std::uint64_t{8} * which}, 8, RKey{kWordsKey}};
}

TupleSite::TupleSite(Site& site, std::shared_ptr<const p4::Program> program, std::uint64_t tuples,
                     std::uint64_t tuple_bytes, std::uint64_t slot_bytes)
    : site_(&site),
      memory_(site.allocate(tuples * slot_bytes).front()),
      between_(std::move(program), switchsync::switch_timing("tofino")),
      control_(between_.device().state()) {
  control_.add_station(SimulatedSwitch::mac_of(kTarget), kTarget);
  for (std::uint32_t i = 0; i < site.clients().size(); ++i) {
    control_.add_station(SimulatedSwitch::mac_of(station_of(site, i)), station_of(site, i));
  }
  control_.add_tuples({.memory_node = SimulatedSwitch::ip_of(kTarget),
                       .rkey = memory_.rkey.value,
                       .address = memory_.address.value,
                       .count = tuples,
                       .tuple_bytes = tuple_bytes,
                       .slot_bytes = slot_bytes,
                       .path_mtu = kLargestMtu,
                       .is_new = true});
}

std::unique_ptr<QueuePair> TupleSite::connect(std::uint32_t worker) {
  const SimulatedSwitch::Ends ends = ends_of(*site_, worker);
  control_.connect({.client = SimulatedSwitch::ip_of(ends.client),
                    .client_queue_pair = ends.client_queue_pair,
                    .client_psn = ends.first_psn,
                    .memory_node = SimulatedSwitch::ip_of(kTarget),
                    .memory_queue_pair = ends.target_queue_pair});
  return connect_through(*site_, between_, worker);
}

}  // namespace sidelatch::bench

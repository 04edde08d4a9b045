// A simulator profile of a NIC from what a check measured of it.
//
//   fabric::sim::Profile profile = profile_of(report);
//   std::cout << fabric::sim::to_toml(profile);
//
// Measured: the lock table; service times of requests, from rates; one-way latency, so that a READ of 8 bytes takes as
// long as it did; the link's rate, from the best READ bandwidth; the queue pairs whose state fits; the bytes that are
// copied whole. All else is connectx5's. The NIC's parts cannot be told apart from outside, so what they take together
// is right, and the shares of latency on the way are connectx5's.
#pragma once

#include <sidelatch/checker/check.h>
#include <sidelatch/fabric/sim/profile.h>

namespace sidelatch::checker {

/// Throws std::invalid_argument that names the part of the check that is missing.
[[nodiscard]] fabric::sim::Profile profile_of(const CheckReport& report);

}  // namespace sidelatch::checker

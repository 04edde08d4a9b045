// Makes a simulator profile of a NIC from the report of a check.
//
//   fabric::sim::Profile profile = profile_of(report);
//   std::cout << fabric::sim::to_toml(profile);
//
// Measured are: the lock table; service times of requests, from rates; one-way latency, chosen so that a READ of 8
// bytes takes as long as measured; the link's rate, from the best READ bandwidth; the number of queue pairs whose state
// fits; the bytes that are copied whole. Everything else is connectx5's. The NIC's parts cannot be told apart from
// outside: the total latency is right, but its split between the parts is connectx5's.
#pragma once

#include <sidelatch/checker/check.h>
#include <sidelatch/fabric/sim/profile.h>

namespace sidelatch::checker {

/// Throws std::invalid_argument that names the part of the check that is missing.
[[nodiscard]] fabric::sim::Profile profile_of(const CheckReport& report);

}  // namespace sidelatch::checker

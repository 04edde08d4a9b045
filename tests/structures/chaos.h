// A campaign of random clients on one structure: each seed draws a scheme, a structure, its parameters, a NIC, a memory
// model, and what goes wrong. Every key's history must be linearizable, every client must come to its end, the
// structure must pass its own check, and no living client may be taken for dead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::structures {

enum class Trouble : std::uint8_t {
  none,         ///< living clients only, with and without leases and deadlines
  kills,        ///< clients with leases die, at any moment
  connections,  ///< clients with leases lose connections, also all at once as when a memory node stops, and reconnect
  specimens,    ///< living clients over a scheme that is wrong: somebody must notice
};

struct ChaosResult {
  std::string configuration;            ///< as one line, for the message of a failure
  std::vector<std::string> violations;  ///< none: the seed is good
  std::uint64_t operations = 0;
  std::uint64_t kills = 0;
  std::uint64_t lost_connections = 0;
  std::uint64_t takeovers = 0;
  std::uint64_t in_doubt = 0;  ///< operations that ended with an error
};

[[nodiscard]] ChaosResult run_chaos(Trouble trouble, std::uint64_t seed);

}  // namespace sidelatch::structures

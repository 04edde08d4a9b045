// Latches at `sidelatch switch`: its control plane, set up by clients in other processes over the exchange.
#pragma once

#include "options.h"

#include <sidelatch/fabric/verbs/switch_exchange.h>
#include <sidelatch/p4/wired_switch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::tools {

struct LatchArguments {
  std::string listen;  ///< HOST[:PORT]; empty: no latches
  std::string memory;
  std::string words;  ///< the switch's IPv4 address
  std::string token;
  std::size_t hot = 0;        ///< most tuples that are hot; 0: as many as the program has versions for
  double grace_seconds = 10;  ///< for clients that another switch has cut off
  std::vector<std::string> stations;
};

/// `control`: --control, which would take the entries of clients away when it is read again.
void add_latch_options(Command command, LatchArguments& arguments, Option control);

/// The control plane of a switch that runs switch_optimistic.p4, switch_cached.p4 or switch_atomics.p4.
class LatchService {
 public:
  /// `device` outlives it. Throws std::invalid_argument that names the option, and std::runtime_error if the address
  /// cannot be used.
  LatchService(const LatchArguments& arguments, p4::WiredSwitch& device);
  LatchService(const LatchService&) = delete;
  LatchService& operator=(const LatchService&) = delete;
  /// Ends all clients.
  ~LatchService();

  /// In the switch's thread, whenever serve() has returned: does what clients have asked for.
  void work();
  [[nodiscard]] std::string address() const;
  /// As SwitchExchange::problem().
  [[nodiscard]] std::string problem() const;

 private:
  class Plane;
  class Tuples;
  class Words;
  std::unique_ptr<Plane> plane_;
  std::unique_ptr<fabric::verbs::SwitchExchange> exchange_;
};

}  // namespace sidelatch::tools

// Lends memory to `check --connect` and `bench --connect`, in a process on the machine that has the memory.
#pragma once

#include "options.h"

#include <sidelatch/fabric/verbs/device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::tools {

struct ServeArguments {
  bool wanted = false;
  std::string address;  ///< empty: loopback
  std::uint64_t lend_mib = 1024;
  std::vector<std::string> shares;  ///< NAME=MIB: memory of the server's own
  bool once = false;                ///< end when all clients that connected have left
};

/// --server and what belongs to it alone.
Option add_serve_options(Command command, ServeArguments& arguments);

/// Serves until Ctrl-C; returns the exit status. The remaining arguments are the command's own options.
[[nodiscard]] int serve(const ServeArguments& arguments, const fabric::verbs::DeviceOptions& device,
                        const std::string& token, bool json);

}  // namespace sidelatch::tools

// The memory of `check --connect` and `bench --connect`: a process that lends it, on the machine that has it.
#pragma once

#include "options.h"

#include <sidelatch/fabric/verbs/device.h>

#include <cstdint>
#include <memory>
#include <string>

namespace sidelatch::tools {

struct ServeArguments {
  bool wanted = false;
  std::string address;  ///< empty: loopback
  std::uint64_t lend_mib = 1024;
  bool once = false;  ///< end when all clients that came have gone
};

/// --server and what belongs to it alone.
Option add_serve_options(Command command, ServeArguments& arguments);

/// Until Ctrl-C; returns the exit status. The rest are options of the command's own.
[[nodiscard]] int serve(const ServeArguments& arguments, const fabric::verbs::DeviceOptions& device,
                        const std::string& token, bool json);

}  // namespace sidelatch::tools

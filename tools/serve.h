// The memory of `check --connect` and `bench --connect`: a process that lends it, on the machine that has it.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace sidelatch::tools {

struct ServeArguments {
  bool wanted = false;
  std::string address;  ///< empty: loopback
  std::string device;
  std::string token;
  std::uint64_t lend_mib = 1024;
  bool once = false;  ///< end when all clients that came have gone
  bool json = false;
};

/// --server and what belongs to it. `device`, `token` and `json` are the command's own, too, and set by it.
CLI::Option* add_serve_options(CLI::App& command, ServeArguments& arguments);

/// Until Ctrl-C; returns the exit status.
[[nodiscard]] int serve(const ServeArguments& arguments);

}  // namespace sidelatch::tools

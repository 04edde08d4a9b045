#include "commands.h"
#include "json_text.h"
#include "options.h"

#include <sidelatch/checker/devices.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace sidelatch::tools {

namespace {

int print_devices(bool as_json) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  if (!as_json) {
    fmt::print("{:<20} {:<8} {:>9} {:>6}  {:<7}  {}\n", "name", "kind", "Gbit/s", "MTU", "atomics", "state");
  }
  for (const checker::Device& device : checker::devices()) {
    json.push_back({{"name", device.name},
                    {"kind", device.kind},
                    {"link_gbps", device.link_gbps},
                    {"mtu", device.mtu},
                    {"atomic_scope", device.atomic_scope},
                    {"state", device.state}});
    if (!as_json) {
      fmt::print("{:<20} {:<8} {:>9g} {:>6}  {:<7}  {}\n", device.name, device.kind, device.link_gbps, device.mtu,
                 device.atomic_scope, device.state);
    }
  }
  if (as_json) {
    fmt::print("{}\n", text_of(json));
  }
  return kAsExpected;
}

}  // namespace

void add_devices(Program& program) {
  auto json = std::make_shared<bool>(false);
  Command command = program.command("devices", "RDMA NICs of this machine, and the embedded fabrics");
  command.flag("--json", *json, "print one JSON value instead of a table");
  command.runs([json] { return print_devices(*json); });
}

}  // namespace sidelatch::tools

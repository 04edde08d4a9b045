#include "p4/ports/capture_files.h"

#include "common/same_file.h"
#include "p4/ports/open_port.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::p4 {

namespace {

namespace files = std::filesystem;

// What a file is used for, in the words of an error.
struct Use {
  files::path path;
  std::string purpose;
  bool writes = false;
};

std::vector<Use> uses_of(const WiredSwitchOptions& options) {
  std::vector<Use> uses;
  uses.reserve(options.inputs.size() + 2 * options.ports.size() + 1);
  for (const files::path& input : options.inputs) {
    uses.push_back({input, "read before the switch begins"});
  }
  for (const PortOptions& port : options.ports) {
    if (const std::optional<PcapFiles> captures = pcap_files(port)) {
      uses.push_back({captures->in, fmt::format("read by port {}={}", port.number, port.wire)});
      uses.push_back({captures->out, fmt::format("written by port {}={}", port.number, port.wire), true});
    }
  }
  uses.push_back({options.capture, "the capture of all packets", true});
  std::erase_if(uses, [](const Use& use) { return use.path.empty(); });
  return uses;
}

}  // namespace

void check_capture_files(const WiredSwitchOptions& options) {
  const std::vector<Use> uses = uses_of(options);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    for (std::size_t j = i + 1; j < uses.size(); ++j) {
      if ((uses[i].writes || uses[j].writes) && is_same_file(uses[i].path, uses[j].path)) {
        throw std::invalid_argument(fmt::format("the file {} is {}, and {} is {}: these are one file; give another one",
                                                uses[i].path.string(), uses[i].purpose, uses[j].path.string(),
                                                uses[j].purpose));
      }
    }
  }
}

}  // namespace sidelatch::p4

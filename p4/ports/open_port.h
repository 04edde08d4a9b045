// Opens the wire that a port names.
#pragma once

#include "roce/port/pcap_port.h"
#include "roce/wire/wire.h"

#include <sidelatch/p4/wired_switch.h>

#include <memory>
#include <optional>
#include <string>

namespace sidelatch::p4 {

struct OpenedPort {
  std::unique_ptr<roce::Wire> wire;
  roce::PcapPort* capture;  ///< the wire, if it is captures; null otherwise
};

struct PcapFiles {
  std::string in;   ///< empty: none
  std::string out;  ///< empty: none
};

/// The files of a port pcap:[IN][,OUT]; nullopt for other ports.
[[nodiscard]] std::optional<PcapFiles> pcap_files(const PortOptions& port);

/// Throws std::invalid_argument for what is no wire, and roce::WireError.
[[nodiscard]] OpenedPort open_port(const PortOptions& port);

}  // namespace sidelatch::p4

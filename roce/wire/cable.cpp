#include "cable.h"

#include "station_addresses.h"
#include "wire_name.h"

#include <fmt/format.h>

namespace sidelatch::roce {

namespace {

std::string name_of_wire(const std::string& cable) {
  if (const std::string fault = fault_of_wire_name(cable, kMostCableNameBytes); !fault.empty()) {
    throw WireError(fault);
  }
  return cable + kCableSuffix;
}

}  // namespace

Cable::Cable(const std::string& name, const std::string& end_name, const std::string& folder)
    : wire_({.name = name_of_wire(name), .station_name = end_name, .folder = folder}) {
  if (wire_.own_station() > 1) {
    throw WireError(fmt::format(
        "{}: this cable has two ends already, a port of a switch and one station: choose another name for this one",
        wire_.path()));
  }
  other_end_ = addresses_of_station(1 - wire_.own_station()).mac;
}

}  // namespace sidelatch::roce

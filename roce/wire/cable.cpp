#include "cable.h"

#include "station_addresses.h"
#include "wire_name.h"

namespace sidelatch::roce {

namespace {

std::string name_of_wire(const std::string& cable) {
  if (const std::string fault = fault_of_wire_name(cable, kMostCableNameBytes); !fault.empty()) {
    throw WireError(fault);
  }
  return cable + kCableSuffix;
}

ReservedPlace place_of(CableEnd end) {
  return {.station = static_cast<std::size_t>(end),
          .if_taken = end == CableEnd::port
                          ? "another switch has this cable: end it first, or give the port another name"
                          : "another software NIC has this cable: end its program first, or choose another port of the "
                            "switch"};
}

}  // namespace

Cable::Cable(CableEnd end, const std::string& name, const std::string& station_name, const std::string& folder)
    : wire_({.name = name_of_wire(name), .station_name = station_name, .folder = folder, .place = place_of(end)}),
      other_end_(addresses_of_station(1 - static_cast<std::size_t>(end)).mac) {}

}  // namespace sidelatch::roce

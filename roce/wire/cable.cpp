#include "cable.h"

#include "station_addresses.h"

#include <fmt/format.h>

namespace sidelatch::roce {

Cable::Cable(const std::string& name, const std::string& end_name, const std::string& folder)
    : wire_({.name = name + ".cable", .station_name = end_name, .folder = folder}) {
  if (wire_.own_station() > 1) {
    throw WireError(fmt::format(
        "{}: this cable has two ends already, a port of a switch and one station: choose another name for this one",
        wire_.path()));
  }
  other_end_ = addresses_of_station(1 - wire_.own_station()).mac;
}

}  // namespace sidelatch::roce

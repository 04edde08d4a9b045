#include "link_wire.h"

#include "unix_address.h"

#include <cstring>
#include <memory>
#include <system_error>

namespace sidelatch::roce {

LinkWire::LinkWire(const LinkWireOptions& options)
    : NeighbourWire(options.local_path.string(), options.addresses, options.most_frame_bytes),
      local_path_(options.local_path) {
  const sockaddr_un remote = unix_address(options.remote_path);
  std::memcpy(&remote_.bytes, &remote, sizeof remote);
  remote_.length = sizeof remote;
  use(bind_datagram_socket(local_path_));
}

LinkWire::~LinkWire() {
  std::error_code error;
  std::filesystem::remove(local_path_, error);
}

std::unique_ptr<Wire> open_link_wire(const LinkWireOptions& options) { return std::make_unique<LinkWire>(options); }

}  // namespace sidelatch::roce

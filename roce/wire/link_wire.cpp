#include "link_wire.h"

#include "link_paths.h"

#include <cstring>
#include <memory>
#include <stdexcept>

namespace sidelatch::roce {

LinkWire::LinkWire(const LinkWireOptions& options)
    : NeighbourWire(options.local_path.string(), options.addresses, options.most_frame_bytes) {
  if (const std::string fault = fault_of_link(options.local_path, options.remote_path); !fault.empty()) {
    throw std::invalid_argument(fault);
  }
  const sockaddr_un remote = unix_address(options.remote_path);
  std::memcpy(&remote_.bytes, &remote, sizeof remote);
  remote_.length = sizeof remote;
  use(bind_datagram_socket(options.local_path));
  file_ = SocketFile(options.local_path);
}

LinkWire::~LinkWire() { file_.remove(); }

std::unique_ptr<Wire> open_link_wire(const LinkWireOptions& options) { return std::make_unique<LinkWire>(options); }

}  // namespace sidelatch::roce

#include "ports.h"

#include "roce/wire/link_paths.h"
#include "roce/wire/socket_wire.h"
#include "roce/wire/unix_address.h"

#include <cstring>
#include <stdexcept>

namespace sidelatch::roce {

namespace {

class LinkPort final : public SocketWire {
 public:
  explicit LinkPort(const LinkPortOptions& options)
      : SocketWire(options.local_path.string(), {}, options.most_frame_bytes) {
    if (const std::string fault = fault_of_link(options.local_path, options.remote_path); !fault.empty()) {
      throw std::invalid_argument(fault);
    }
    const sockaddr_un remote = unix_address(options.remote_path);
    std::memcpy(&remote_.bytes, &remote, sizeof remote);
    remote_.length = sizeof remote;
    use(bind_datagram_socket(options.local_path));
    file_ = SocketFile(options.local_path);
  }
  LinkPort(const LinkPort&) = delete;
  LinkPort& operator=(const LinkPort&) = delete;
  ~LinkPort() override { file_.remove(); }

  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& /*gid*/) override { return std::nullopt; }

 private:
  [[nodiscard]] std::optional<Address> address_of(const MacAddress& /*destination*/) override { return remote_; }

  Address remote_;
  SocketFile file_;
};

}  // namespace

std::unique_ptr<Wire> open_link_port(const LinkPortOptions& options) { return std::make_unique<LinkPort>(options); }

}  // namespace sidelatch::roce

#include "ports.h"

#include "roce/wire/socket_wire.h"
#include "roce/wire/unix_address.h"

#include <cstring>
#include <system_error>

namespace sidelatch::roce {

namespace {

class LinkPort final : public SocketWire {
 public:
  explicit LinkPort(const LinkPortOptions& options)
      : SocketWire(options.local_path.string(), {}, options.most_frame_bytes), local_path_(options.local_path) {
    const sockaddr_un remote = unix_address(options.remote_path);
    std::memcpy(&remote_.bytes, &remote, sizeof remote);
    remote_.length = sizeof remote;
    use(bind_datagram_socket(local_path_));
  }
  LinkPort(const LinkPort&) = delete;
  LinkPort& operator=(const LinkPort&) = delete;
  ~LinkPort() override {
    std::error_code error;
    std::filesystem::remove(local_path_, error);
  }

  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& /*gid*/) override { return std::nullopt; }

 private:
  [[nodiscard]] std::optional<Address> address_of(const MacAddress& /*destination*/) override { return remote_; }

  std::filesystem::path local_path_;
  Address remote_;
};

}  // namespace

std::unique_ptr<Wire> open_link_port(const LinkPortOptions& options) { return std::make_unique<LinkPort>(options); }

}  // namespace sidelatch::roce

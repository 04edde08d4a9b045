// FolderWire: stations that see the same folder, and send each other datagrams between UNIX sockets in it: for
// containers that share a folder and no memory. A file "lock" in the folder says who is there, with a locked byte for
// each station (file_lock.h); "station-NN" is its socket. What killed processes leave is taken over by the next
// station. The lock file stays.
//
// Thread-safety: as Wire.
#pragma once

#include "socket_wire.h"

#include "roce/wire/wires.h"

#include <array>
#include <filesystem>
#include <optional>

namespace sidelatch::roce {

class FolderWire final : public SocketWire {
 public:
  /// Throws WireError.
  explicit FolderWire(const FolderWireOptions& options);
  FolderWire(const FolderWire&) = delete;
  FolderWire& operator=(const FolderWire&) = delete;
  ~FolderWire() override;

  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& gid) override;
  void abandon() noexcept override;

 private:
  struct Place {
    FileDescriptor lock;
    std::size_t station;
  };

  FolderWire(const FolderWireOptions& options, Place place);
  [[nodiscard]] static Place take_place(const FolderWireOptions& options);
  [[nodiscard]] std::filesystem::path path_of(std::size_t station) const;
  [[nodiscard]] std::optional<Address> address_of(const MacAddress& destination) override;

  std::filesystem::path folder_;
  Place place_;
};

}  // namespace sidelatch::roce

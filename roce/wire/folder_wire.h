// FolderWire: stations that see the same folder send each other datagrams between UNIX sockets in it. It is for
// containers that share a folder but no memory. The file "lock" in the folder has a locked byte for each station
// present (file_lock.h); "station-NN" is the station's socket. The next station takes over what killed processes leave.
// The lock file stays.
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
  [[nodiscard]] std::optional<std::uint64_t> occupant(const Gid& gid) override;
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
  [[nodiscard]] std::vector<MacAddress> members_of(const MacAddress& group) override;

  std::filesystem::path folder_;
  Place place_;
};

}  // namespace sidelatch::roce

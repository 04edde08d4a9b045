// PortRegistry: which process on a wire has which port of librdmacm, so that connections to addresses of the machine,
// which all its processes share, find the right station.
//
//   PortRegistry ports(settings.wire, gids);
//   const std::uint16_t port = ports.take(cm::kTcp, any, false, owner);      // throws cm::IdError (EADDRINUSE)
//   ports.open(owner);
//   ... elsewhere: ports.station_at(cm::kTcp, {127.0.0.1, port})
//
// The processes of a wire of shared memory, and of one in a folder, share a file. On other wires each process is a host
// of its own, with a registry of its own. The addresses of the stations themselves do not conflict, because each
// station has others.
//
// A process holds a lock on a byte of the file for its life, as stations do (roce/wire/segment.h), and the entries are
// changed under the lock on another byte. What a killed process had is removed when the next one looks. The last one to
// leave removes the file.
//
// Thread-safety: none.
#pragma once

#include "softnic/cm/ip_addressing.h"
#include "softnic/cm/rdma_ids.h"
#include "softnic/settings.h"

#include "common/file_descriptor.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::softnic {

class PortRegistry {
 public:
  /// Throws roce::WireError. `gids` are the station's.
  PortRegistry(const WireSettings& wire, std::vector<roce::Gid> gids);
  PortRegistry(const PortRegistry&) = delete;
  PortRegistry& operator=(const PortRegistry&) = delete;
  ~PortRegistry();

  /// See cm::Surroundings. An owner has one port at most.
  [[nodiscard]] std::uint16_t take(cm::PortSpace space, const cm::SocketAddress& address, cm::PortSharing sharing,
                                   std::uint64_t owner);
  void share(std::uint64_t owner, cm::PortSharing sharing);
  void open(std::uint64_t owner);
  void give(std::uint64_t owner) noexcept;
  [[nodiscard]] std::optional<roce::Gid> station_at(cm::PortSpace space, const cm::SocketAddress& address);
  /// Whether somebody listens there.
  [[nodiscard]] bool is_open(cm::PortSpace space, const cm::SocketAddress& address);

  /// Gives everything back, as the destructor does. Later calls fail.
  void leave() noexcept;
  /// For a child after fork(2): gives up its share of the lock. Call nothing else afterwards.
  void abandon() noexcept { file_.close(); }
  /// Empty: the registry is this process's own.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  struct Entry {
    std::uint64_t owner = 0;
    roce::Gid address{};
    roce::Gid station{};
    std::uint32_t place = 0;  // the byte that its process has locked
    std::uint16_t space = 0;
    std::uint16_t port = 0;
    std::uint8_t is_open = 0;
    std::uint8_t may_be_shared = 0;
    std::uint8_t is_at_wire = 0;  // the address is one of the station's own
    std::uint8_t only_family = 0;
  };
  class Lock;

  [[nodiscard]] bool join();
  [[nodiscard]] std::vector<Entry> read() const;
  void write(const std::vector<Entry>& entries) const;
  void remove_dead(std::vector<Entry>& entries) const;
  [[nodiscard]] Entry& own(std::vector<Entry>& entries, std::uint64_t owner) const;
  static void set_sharing(Entry& entry, cm::PortSharing sharing) noexcept;
  [[nodiscard]] std::optional<Entry> find(cm::PortSpace space, const cm::SocketAddress& address);
  [[nodiscard]] static bool conflicts(const Entry& a, const Entry& b) noexcept;

  std::string path_;
  std::vector<roce::Gid> gids_;
  FileDescriptor file_;
  std::uint32_t place_ = 0;
};

}  // namespace sidelatch::softnic

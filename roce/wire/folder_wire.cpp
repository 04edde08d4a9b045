#include "folder_wire.h"

#include "file_lock.h"
#include "station_addresses.h"
#include "unix_address.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

namespace sidelatch::roce {

namespace {

// Whoever may write to the folder could take the place of a station.
void check_owner_of_folder(const std::filesystem::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    return;  // opening a file in it will tell
  }
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & kOthers) != 0) {
    throw WireError(
        fmt::format("{}: a wire in a folder belongs to one user, and this folder does not (owner {}, mode "
                    "{:o}; ours would be {} and 700): chmod 700 it, or choose another one",
                    folder.string(), status.st_uid, status.st_mode & 07777U, ::geteuid()));
  }
}

}  // namespace

FolderWire::Place FolderWire::take_place(const FolderWireOptions& options) {
  // Ours alone from the first moment: another process may look at it at once. What fails here, opening tells.
  static_cast<void>(::mkdir(options.folder.c_str(), S_IRWXU));
  check_owner_of_folder(options.folder);
  const std::filesystem::path path = options.folder / "lock";
  FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) {
    throw WireError(
        fmt::format("{}: {}: a wire in a folder needs one that we may write to", path.string(), std::strerror(errno)));
  }
  for (std::size_t station = 0; station < kMostStations; ++station) {
    if (try_lock_byte(lock.number(), static_cast<off_t>(station))) {
      return {std::move(lock), station};
    }
  }
  throw WireError(fmt::format("{}: this wire has {} stations already, and that is the most: use a second folder",
                              options.folder.string(), kMostStations));
}

FolderWire::FolderWire(const FolderWireOptions& options) : FolderWire(options, take_place(options)) {}

FolderWire::FolderWire(const FolderWireOptions& options, Place place)
    : SocketWire(options.folder.string(), addresses_of_station(place.station), kMostFrameBytes),
      folder_(options.folder),
      place_(std::move(place)) {
  use(replace_datagram_socket(path_of(place_.station)));
}

// Runs before the place becomes free.
FolderWire::~FolderWire() {
  std::error_code error;
  std::filesystem::remove(path_of(place_.station), error);
}

std::filesystem::path FolderWire::path_of(std::size_t station) const {
  return folder_ / fmt::format("station-{:02}", station + 1);
}

void FolderWire::abandon() noexcept {
  SocketWire::abandon();
  place_.lock.close();
}

std::optional<MacAddress> FolderWire::resolve(const Gid& gid) {
  const std::optional<std::size_t> station = station_of(gid);
  if (!station || (*station != place_.station && !others_hold(place_.lock.number(), static_cast<off_t>(*station), 1))) {
    return std::nullopt;
  }
  return addresses_of_station(*station).mac;
}

// Each process makes its socket anew. Its inode alone does not tell, because file systems reuse them.
std::optional<std::uint64_t> FolderWire::occupant(const Gid& gid) {
  const std::optional<std::size_t> station = station_of(gid);
  if (!station) {
    return std::nullopt;
  }
  if (*station != place_.station && !others_hold(place_.lock.number(), static_cast<off_t>(*station), 1)) {
    return 0;
  }
  struct stat status {};
  if (::stat(path_of(*station).c_str(), &status) != 0) {
    return std::nullopt;  // it is about to make its socket, or to leave
  }
  constexpr std::uint64_t kNanoseconds = 1'000'000'000;
  const std::uint64_t made = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * kNanoseconds +
                             static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
  return (made ^ (status.st_ino << 1U)) | 1U;
}

std::optional<SocketWire::Address> FolderWire::address_of(const MacAddress& destination) {
  const std::optional<std::size_t> station = station_of(destination);
  if (!station) {
    return std::nullopt;
  }
  const sockaddr_un address = unix_address(path_of(*station));
  Address result;
  std::memcpy(&result.bytes, &address, sizeof address);
  result.length = sizeof address;
  return result;
}

// All stations but our own.
std::vector<MacAddress> FolderWire::members_of(const MacAddress& /*group*/) {
  std::vector<MacAddress> members;
  for (std::size_t station = 0; station < kMostStations; ++station) {
    if (station != place_.station && others_hold(place_.lock.number(), static_cast<off_t>(station), 1)) {
      members.push_back(addresses_of_station(station).mac);
    }
  }
  return members;
}

std::unique_ptr<Wire> join_folder_wire(const FolderWireOptions& options) {
  return std::make_unique<FolderWire>(options);
}

}  // namespace sidelatch::roce

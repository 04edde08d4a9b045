#include "port_registry.h"

#include "roce/wire/file_lock.h"
#include "roce/wire/station_addresses.h"
#include "roce/wire/wire.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>
#include <variant>

namespace sidelatch::softnic {

namespace {

// The locks are those of a wire's file, so that what nobody uses any more is removed with such files.
constexpr off_t kEntriesByte = roce::kMostStations;
constexpr auto kLockLimit = std::chrono::seconds(10);
constexpr std::size_t kMostPorts = 1U << 14;
constexpr std::uint16_t kFirstFree = 32768;  // the ports that Linux chooses from
constexpr std::uint16_t kLastFree = 60999;

// '~' is in no name of a wire.
std::string path_for(const WireSettings& wire) {
  if (const auto* const memory = std::get_if<roce::SharedMemoryWireOptions>(&wire)) {
    return fmt::format("{}/sidelatch-{}-{}~ports", memory->folder.string(), ::geteuid(), memory->name);
  }
  if (const auto* const folder = std::get_if<roce::FolderWireOptions>(&wire)) {
    return (folder->folder / "ports").string();
  }
  return {};
}

bool has_been_removed(int file) noexcept {
  struct stat status {};
  return ::fstat(file, &status) != 0 || status.st_nlink == 0;
}

void require_own(int file, const std::string& path) {
  struct stat status {};
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & kOthers) != 0) {
    throw roce::WireError(
        fmt::format("{}: this is no file of this user that is closed to others (mode 600): remove it", path));
  }
}

}  // namespace

class PortRegistry::Lock {
 public:
  Lock(int file, const std::string& path) : file_(file) {
    if (file < 0) {
      throw cm::IdError(EIO, "this process has given up its ports because it ends");
    }
    if (!roce::lock_byte(file, kEntriesByte, kLockLimit)) {
      throw roce::WireError(
          fmt::format("{}: another process keeps the ports of this wire locked for {} s: is one of its processes "
                      "stopped? Let it go on (kill -CONT) or end it",
                      path, std::chrono::seconds(kLockLimit).count()));
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { roce::unlock_byte(file_, kEntriesByte); }

 private:
  int file_;
};

PortRegistry::PortRegistry(const WireSettings& wire, std::vector<roce::Gid> gids)
    : path_(path_for(wire)), gids_(std::move(gids)) {
  if (path_.empty()) {
    file_ = FileDescriptor(::memfd_create("sidelatch-ports", MFD_CLOEXEC));
    if (!file_.valid()) {
      throw roce::WireError(fmt::format("no memory for the ports of this process: {}", std::strerror(errno)));
    }
    static_cast<void>(roce::try_lock_byte(file_.number(), 0));
    return;
  }
  while (!join()) {
  }
}

// False: somebody removed the file after we opened it and before we locked it; open it again.
bool PortRegistry::join() {
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file_.valid()) {
    throw roce::WireError(
        fmt::format("{}: {}: the ports of a wire need a file that we may write to", path_, std::strerror(errno)));
  }
  require_own(file_.number(), path_);
  const Lock lock(file_.number(), path_);
  if (has_been_removed(file_.number())) {
    return false;
  }
  for (place_ = 0; place_ < roce::kMostStations; ++place_) {
    if (roce::try_lock_byte(file_.number(), static_cast<off_t>(place_))) {
      std::vector<Entry> entries = read();
      std::erase_if(entries, [this](const Entry& entry) { return entry.place == place_; });  // a dead process's
      write(entries);
      return true;
    }
  }
  throw roce::WireError(fmt::format("{}: {} processes have ports here already, and that is the most", path_, place_));
}

PortRegistry::~PortRegistry() { leave(); }

void PortRegistry::leave() noexcept {
  if (!path_.empty() && file_.valid() && roce::lock_byte(file_.number(), kEntriesByte, kLockLimit)) {
    try {
      std::vector<Entry> entries = read();
      std::erase_if(entries, [this](const Entry& entry) { return entry.place == place_; });
      write(entries);
    } catch (const std::exception&) {  // who takes our place removes them
    }
    if (!roce::others_hold(file_.number(), 0, roce::kMostStations) && !has_been_removed(file_.number())) {
      ::unlink(path_.c_str());
    }
  }
  file_.close();
}

std::vector<PortRegistry::Entry> PortRegistry::read() const {
  struct stat status {};
  if (::fstat(file_.number(), &status) != 0) {
    return {};
  }
  std::vector<Entry> entries(std::min(kMostPorts, static_cast<std::size_t>(status.st_size) / sizeof(Entry)));
  const ssize_t bytes = ::pread(file_.number(), entries.data(), entries.size() * sizeof(Entry), 0);
  entries.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes) / sizeof(Entry));
  return entries;
}

void PortRegistry::write(const std::vector<Entry>& entries) const {
  const auto bytes = static_cast<ssize_t>(entries.size() * sizeof(Entry));
  // A process that is killed between the two leaves whole entries, some of them twice.
  if (::pwrite(file_.number(), entries.data(), static_cast<std::size_t>(bytes), 0) != bytes ||
      ::ftruncate(file_.number(), bytes) != 0) {
    throw cm::IdError(ENOMEM, fmt::format("{}: cannot write the ports: {}", path_, std::strerror(errno)));
  }
}

void PortRegistry::remove_dead(std::vector<Entry>& entries) const {
  std::uint64_t looked_at = std::uint64_t{1} << place_;
  std::uint64_t living = looked_at;
  std::erase_if(entries, [&](const Entry& entry) {
    if (entry.place >= roce::kMostStations) {
      return true;
    }
    const std::uint64_t bit = std::uint64_t{1} << entry.place;
    if ((looked_at & bit) == 0) {
      looked_at |= bit;
      living |= roce::others_hold(file_.number(), static_cast<off_t>(entry.place), 1) ? bit : 0;
    }
    return (living & bit) == 0;
  });
}

bool PortRegistry::conflicts(const Entry& a, const Entry& b) noexcept {
  if (a.space != b.space || a.port != b.port) {
    return false;
  }
  if (a.address == b.address) {
    return true;
  }
  const auto is_ipv4 = [](const Entry& entry) { return cm::SocketAddress{.ip = entry.address}.is_ipv4(); };
  if (a.only_family != 0 && b.only_family != 0 && is_ipv4(a) != is_ipv4(b)) {
    return false;
  }
  const auto is_any = [](const Entry& entry) { return cm::SocketAddress{.ip = entry.address}.is_any(); };
  const bool are_of_one_station = a.place == b.place;
  return (is_any(a) && (are_of_one_station || b.is_at_wire == 0)) ||
         (is_any(b) && (are_of_one_station || a.is_at_wire == 0));
}

std::uint16_t PortRegistry::take(cm::PortSpace space, const cm::SocketAddress& address, cm::PortSharing sharing,
                                 std::uint64_t owner) {
  const Lock lock(file_.number(), path_);
  std::vector<Entry> entries = read();
  remove_dead(entries);
  Entry wanted{.owner = owner,
               .address = address.ip,
               .station = gids_.back(),
               .place = place_,
               .space = space,
               .port = address.port,
               .is_at_wire = static_cast<std::uint8_t>(std::ranges::find(gids_, address.ip) != gids_.end())};
  set_sharing(wanted, sharing);
  const auto is_free = [&] {
    return std::ranges::none_of(entries, [&](const Entry& entry) {
      return conflicts(wanted, entry) && (wanted.may_be_shared == 0 || entry.may_be_shared == 0);
    });
  };
  if (address.port == 0) {
    std::random_device random;
    const unsigned count = kLastFree - kFirstFree + 1U;
    const unsigned first = random() % count;
    unsigned tried = 0;
    do {
      if (tried == count) {
        throw cm::IdError(EADDRINUSE, "no port is free");
      }
      wanted.port = static_cast<std::uint16_t>(kFirstFree + (first + tried++) % count);
    } while (!is_free());
  } else if (!is_free()) {
    throw cm::IdError(EADDRINUSE, fmt::format("port {} is in use by another identifier", address.port));
  }
  if (entries.size() >= kMostPorts) {
    throw cm::IdError(ENOMEM, fmt::format("{} ports are in use, and that is the most", entries.size()));
  }
  entries.push_back(wanted);
  write(entries);
  return wanted.port;
}

PortRegistry::Entry& PortRegistry::own(std::vector<Entry>& entries, std::uint64_t owner) const {
  const auto ours =
      std::ranges::find_if(entries, [&](const Entry& entry) { return entry.place == place_ && entry.owner == owner; });
  if (ours == entries.end()) {
    throw cm::IdError(EINVAL, "the identifier has no port");
  }
  return *ours;
}

void PortRegistry::set_sharing(Entry& entry, cm::PortSharing sharing) noexcept {
  const bool is_ipv4 = cm::SocketAddress{.ip = entry.address}.is_ipv4();
  entry.may_be_shared = static_cast<std::uint8_t>(sharing.reuses_address);
  entry.only_family = static_cast<std::uint8_t>(is_ipv4 || sharing.only_family);
}

void PortRegistry::share(std::uint64_t owner, cm::PortSharing sharing) {
  const Lock lock(file_.number(), path_);
  std::vector<Entry> entries = read();
  set_sharing(own(entries, owner), sharing);
  write(entries);
}

void PortRegistry::open(std::uint64_t owner) {
  const Lock lock(file_.number(), path_);
  std::vector<Entry> entries = read();
  remove_dead(entries);
  Entry& ours = own(entries, owner);
  for (const Entry& entry : entries) {
    if (&entry != &ours && entry.is_open != 0 && conflicts(ours, entry)) {
      throw cm::IdError(EADDRINUSE, fmt::format("another identifier listens at port {}", ours.port));
    }
  }
  ours.is_open = 1;
  write(entries);
}

void PortRegistry::give(std::uint64_t owner) noexcept {
  try {
    const Lock lock(file_.number(), path_);
    std::vector<Entry> entries = read();
    std::erase_if(entries, [&](const Entry& entry) { return entry.place == place_ && entry.owner == owner; });
    write(entries);
  } catch (const std::exception&) {  // it is given back when the process ends
  }
}

std::optional<roce::Gid> PortRegistry::station_at(cm::PortSpace space, const cm::SocketAddress& address) {
  const std::optional<Entry> entry = find(space, address);
  return entry ? std::optional(entry->station) : std::nullopt;
}

bool PortRegistry::is_open(cm::PortSpace space, const cm::SocketAddress& address) {
  const std::optional<Entry> entry = find(space, address);
  return entry && entry->is_open != 0;
}

// The best of several: an open one, then one of exactly this address.
std::optional<PortRegistry::Entry> PortRegistry::find(cm::PortSpace space, const cm::SocketAddress& address) {
  const Lock lock(file_.number(), path_);
  std::vector<Entry> entries = read();
  remove_dead(entries);
  const Entry* best = nullptr;
  int best_rank = 0;
  for (const Entry& entry : entries) {
    const cm::SocketAddress at{.ip = entry.address};
    const bool is_exact = entry.address == address.ip;
    const bool is_wildcard = at.is_any() && (at.is_ipv4() == address.is_ipv4() || entry.only_family == 0);
    if (entry.space != space || entry.port != address.port || entry.is_at_wire != 0 || (!is_exact && !is_wildcard)) {
      continue;
    }
    const int rank = 1 + (is_exact ? 1 : 0) + (entry.is_open != 0 ? 2 : 0);
    if (rank > best_rank) {
      best = &entry;
      best_rank = rank;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

}  // namespace sidelatch::softnic

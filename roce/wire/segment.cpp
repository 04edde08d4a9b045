#include "segment.h"

#include "file_lock.h"
#include "wire_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

namespace sidelatch::roce {

namespace {

struct Header {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t stations = 0;
  std::uint64_t station_bytes = 0;
  std::uint64_t ring_bytes = 0;
  std::uint64_t file_bytes = 0;
  friend bool operator==(const Header&, const Header&) = default;
};

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStationsOffset = kPage;
constexpr std::size_t kRingsOffset =
    kStationsOffset + (kMostStations * sizeof(SharedStation) + kPage - 1) / kPage * kPage;
// The control has a page of its own, so that every ring begins on a page.
constexpr std::size_t kRingStride = kPage + Segment::kRingBytes;
constexpr std::size_t kFileBytes = kRingsOffset + kMostStations * kMostStations * kRingStride;
static_assert(sizeof(RingControl) <= kPage && sizeof(Header) <= kPage);
static_assert(kMostStations <= 64, "a bit each in SharedStation::incoming");

// Raise it with every change of the file's layout or of the meaning of its words.
constexpr std::uint32_t kVersion = 4;
constexpr Header kOurs = {
    .magic = 0x6863'7461'6c65'6469,  // "idelatch"
    .version = kVersion,
    .stations = kMostStations,
    .station_bytes = sizeof(SharedStation),
    .ring_bytes = Segment::kRingBytes,
    .file_bytes = kFileBytes,
};

// The bytes of the file that are locked, not written: one for each station, then one for the directory.
constexpr off_t kDirectoryByte = kMostStations;
constexpr auto kDirectoryLimit = std::chrono::seconds(10);

class DirectoryLock {
 public:
  DirectoryLock(int file, const std::string& path) : file_(file) {
    if (!lock_byte(file, kDirectoryByte, kDirectoryLimit)) {
      throw WireError(fmt::format(
          "{}: another process keeps this wire's directory locked for {} s: is one of its processes stopped? "
          "Let it go on (kill -CONT) or end it",
          path, std::chrono::seconds(kDirectoryLimit).count()));
    }
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock() { unlock_byte(file_, kDirectoryByte); }

 private:
  int file_;
};

bool nobody_is_left(int file) noexcept { return !others_hold(file, 0, kMostStations); }

bool is_removed(int file) noexcept {
  struct stat status {};
  return ::fstat(file, &status) != 0 || status.st_nlink == 0;
}

constexpr const char* kBell = ".bell-";

bool exists_at(const std::string& path) noexcept { return ::access(path.c_str(), F_OK) == 0; }

std::string prefix_of_user() { return fmt::format("sidelatch-{}-", ::geteuid()); }

void check_name(const std::string& name) {
  if (const std::string fault = fault_of_wire_name(name); !fault.empty()) {
    throw WireError(fault);
  }
}

// The file must be ours and closed to others, because we trust its content.
void check_owner(int file, const std::string& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0) {
    throw WireError(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & kOthers) != 0) {
    throw WireError(
        fmt::format("{}: this is no wire of this user (owner {}, mode {:o}; ours would be {} and 600): remove it, or "
                    "choose another name for the wire",
                    path, status.st_uid, status.st_mode & 07777U, ::geteuid()));
  }
}

std::string amount(double bytes) {
  constexpr double kKibibyte = 1024;
  constexpr double kMebibyte = kKibibyte * kKibibyte;
  return bytes < kMebibyte ? fmt::format("{:.0f} KiB", bytes / kKibibyte)
                           : fmt::format("{:.1f} MiB", bytes / kMebibyte);
}

}  // namespace

Segment::Segment(SegmentOptions options) : options_(std::move(options)) {
  check_name(options_.name);
  path_ = fmt::format("{}/{}{}", options_.folder, prefix_of_user(), options_.name);
  remove_abandoned();
  while (!join()) {
  }
}

Segment::~Segment() { leave(); }

// False: somebody removed the file after we opened it and before we locked it; open it again.
bool Segment::join() {
  constexpr mode_t kOnlyUs = S_IRUSR | S_IWUSR;
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOnlyUs));
  if (!file_.valid()) {
    throw WireError(fmt::format("{}: {}: a wire of shared memory needs a folder in memory that we may write to", path_,
                                std::strerror(errno)));
  }
  check_owner(file_.number(), path_);
  const DirectoryLock lock(file_.number(), path_);
  if (is_removed(file_.number())) {
    return false;
  }
  if (nobody_is_left(file_.number())) {
    make();
  } else {
    check();
    map();
  }
  take_place();
  return true;
}

// Growing a file over the limit also sends SIGXFSZ, which ends the process.
void Segment::require_room_for_the_file() const {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < kFileBytes) {
    throw WireError(
        fmt::format("{}: a wire of shared memory is a sparse file of {}, and this process may make files of {} at "
                    "most: raise the limit (ulimit -f unlimited)",
                    path_, amount(kFileBytes), amount(static_cast<double>(limit.rlim_cur))));
  }
}

// Also works on what killed processes have left at any stage.
void Segment::make() {
  try {
    require_room_for_the_file();
    if (::ftruncate(file_.number(), 0) != 0 || ::ftruncate(file_.number(), static_cast<off_t>(kFileBytes)) != 0) {
      throw WireError(
          fmt::format("{}: cannot make a sparse file of {}: {}; is there a limit on file sizes (ulimit -f)?", path_,
                      amount(kFileBytes), std::strerror(errno)));
    }
    give_pages(0, kRingsOffset, "the directory of the wire");
    map();
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
  // The file is zero, the initial value of all atomics in it.
  ::new (memory_) Header(kOurs);
}

void Segment::check() const {
  Header found;
  if (::pread(file_.number(), &found, sizeof found, 0) != sizeof found || found.magic != kOurs.magic) {
    throw WireError(fmt::format("{}: this is no wire: remove the file, or choose another name for the wire", path_));
  }
  if (found != kOurs) {
    throw WireError(
        fmt::format("{}: another version of this program uses this wire (layout {}, ours is {}): end its processes, or "
                    "choose another name for the wire",
                    path_, found.version, kOurs.version));
  }
}

// Rings are out of bounds until they are open: mlockall(2) would give pages to all that may be touched, to the whole
// sparse file.
void Segment::map() {
  void* const memory = ::mmap(nullptr, kFileBytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file_.number(), 0);
  if (memory == MAP_FAILED) {
    throw WireError(fmt::format(
        "{}: cannot map {} of addresses: {}; is there a limit (ulimit -v; after mlockall() also ulimit -l)?", path_,
        amount(kFileBytes), std::strerror(errno)));
  }
  memory_ = static_cast<std::byte*>(memory);
  try {
    let_touch(memory_, kRingsOffset);
  } catch (...) {
    ::munmap(memory_, kFileBytes);
    throw;
  }
}

void Segment::let_touch(std::byte* begin, std::size_t bytes) const {
  if (::mprotect(begin, bytes, PROT_READ | PROT_WRITE) != 0) {
    throw WireError(
        fmt::format("{}: cannot get access to {} of it: {}; has this process too many mappings "
                    "(vm.max_map_count)?",
                    path_, amount(static_cast<double>(bytes)), std::strerror(errno)));
  }
}

std::size_t Segment::lock_place() const {
  if (options_.place) {
    if (!try_lock_byte(file_.number(), static_cast<off_t>(options_.place->station))) {
      throw WireError(fmt::format("{}: {}", path_, options_.place->if_taken));
    }
    return options_.place->station;
  }
  for (std::size_t place = 0; place < kMostStations; ++place) {
    if (try_lock_byte(file_.number(), static_cast<off_t>(place))) {
      return place;
    }
  }
  throw WireError(fmt::format("{}: this wire has {} stations already, and that is the most: use a second one", path_,
                              kMostStations));
}

void Segment::take_place() {
  try {
    own_ = lock_place();
  } catch (...) {
    ::munmap(memory_, kFileBytes);
    throw;
  }
  SharedStation& us = station(own_);
  us.name.fill('\0');
  options_.station_name.copy(us.name.data(), us.name.size() - 1);
  us.process = ::getpid();
  // An odd value, different from the one before.
  const std::uint32_t before = us.incarnation.load(std::memory_order_relaxed);
  us.incarnation.store((before + 1) | 1U, std::memory_order_release);
}

// The locks end with the file's descriptor, which is closed at the end.
void Segment::abandon() noexcept {
  ::munmap(std::exchange(memory_, nullptr), kFileBytes);  // a mapping keeps the file open, and with it the locks
  file_.close();
}

void Segment::leave() noexcept {
  SharedStation& us = station(own_);
  us.incarnation.store(us.incarnation.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  ::munmap(memory_, kFileBytes);
  // Without the lock the file stays; the next station makes it anew.
  if (lock_byte(file_.number(), kDirectoryByte, kDirectoryLimit) && nobody_is_left(file_.number()) &&
      !is_removed(file_.number())) {
    ::unlink(path_.c_str());
  }
}

// Removes other wires of this user, and their memory, that killed processes have left.
void Segment::remove_abandoned() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, error)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with(prefix_of_user()) || path == path_) {
      continue;
    }
    // The bell of a killed process, if its wire is gone, too.
    if (const std::size_t end = path.rfind(kBell);
        end != std::string::npos && std::filesystem::is_socket(path, error) && !exists_at(path.substr(0, end))) {
      ::unlink(path.c_str());
      continue;
    }
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    // A process about to join it holds the directory's lock, or finds the file removed and makes it again.
    if (file.valid() && try_lock_byte(file.number(), kDirectoryByte) && nobody_is_left(file.number()) &&
        !is_removed(file.number())) {
      ::unlink(path.c_str());
    }
  }
}

void Segment::give_pages(std::size_t offset, std::size_t bytes, const std::string& what) const {
  int result = 0;
  do {
    result = ::fallocate(file_.number(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    return;
  }
  const int error = errno;
  struct statvfs space {};
  if (error != ENOSPC || ::statvfs(options_.folder.c_str(), &space) != 0) {
    throw WireError(fmt::format("{}: cannot get {} of memory for {}: {}", path_, amount(static_cast<double>(bytes)),
                                what, std::strerror(error)));
  }
  const double block = static_cast<double>(space.f_frsize);
  throw WireError(fmt::format(
      "{}: {} needs {}, and {} has {} left of {}: make it larger (mount -o remount,size=256M {}; docker run "
      "--shm-size=256m) or remove what lies there and is not needed",
      path_, what, amount(static_cast<double>(bytes)), options_.folder,
      amount(static_cast<double>(space.f_bavail) * block), amount(static_cast<double>(space.f_blocks) * block),
      options_.folder));
}

SharedStation& Segment::station(std::size_t station) const noexcept {
  return reinterpret_cast<SharedStation*>(memory_ + kStationsOffset)[station];
}

bool Segment::is_joined(std::size_t station) const noexcept {
  return (this->station(station).incarnation.load(std::memory_order_acquire) & 1U) != 0;
}

bool Segment::has_died(std::size_t station) const noexcept {
  return station != own_ && is_joined(station) && !others_hold(file_.number(), static_cast<off_t>(station), 1);
}

std::vector<StationEntry> Segment::directory() const {
  const DirectoryLock lock(file_.number(), path_);
  std::vector<StationEntry> entries;
  for (std::size_t i = 0; i < kMostStations; ++i) {
    if (is_joined(i) && !has_died(i)) {
      const SharedStation& found = station(i);
      entries.push_back({i, addresses_of_station(i), found.name.data(), found.process});
    }
  }
  return entries;
}

void Segment::open_ring(std::size_t sender, std::size_t receiver) {
  const std::uint64_t bit = std::uint64_t{1} << sender;
  std::byte* const begin = ring(sender, receiver);
  if ((station(receiver).incoming.load(std::memory_order_acquire) & bit) == 0) {
    give_pages(static_cast<std::size_t>(begin - memory_), kRingStride,
               fmt::format("the ring from station {} to station {}", sender + 1, receiver + 1));
    station(receiver).incoming.fetch_or(bit, std::memory_order_acq_rel);
  }
  let_touch(begin, kRingStride);
#if defined(MADV_POPULATE_WRITE)
  // Take the page faults now rather than one by one later. Older kernels do not support this.
  ::madvise(begin, kRingStride, MADV_POPULATE_WRITE);
#endif
}

std::string Segment::bell_path(std::size_t station) const { return fmt::format("{}{}{}", path_, kBell, station + 1); }

std::byte* Segment::ring(std::size_t sender, std::size_t receiver) const noexcept {
  return memory_ + kRingsOffset + (sender * kMostStations + receiver) * kRingStride;
}

RingControl& Segment::control(std::size_t sender, std::size_t receiver) const noexcept {
  return *reinterpret_cast<RingControl*>(ring(sender, receiver));
}

std::span<std::byte> Segment::ring_bytes(std::size_t sender, std::size_t receiver) const noexcept {
  return {ring(sender, receiver) + kPage, kRingBytes};
}

}  // namespace sidelatch::roce

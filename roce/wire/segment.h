// Segment: the common memory of the stations of a shared-memory wire, with a directory of the stations.
//
//   Segment segment({.name = "default"});               // makes the file, or joins; we are a station now
//   segment.station(segment.own()).doorbell
//   segment.open_ring(segment.own(), peer);             // the first time that a frame goes there, or has come
//   RingWriter writer(segment.control(own, peer), segment.ring_bytes(own, peer));
//
//   header | 64 stations | 64 x 64 rings, by sender and receiver
//
// It is a file of fixed length in a folder in memory, /dev/shm. The file is sparse: header and stations get their pages
// when it is made, a ring when its sender first needs it. fallocate(2) gets the pages because it reports missing room,
// whereas touching a page would end the process (SIGBUS). A ring keeps its pages as long as the file exists.
//
// A station holds a lock on a byte of the file for its life, and the directory is changed under the lock on another one
// (file_lock.h). Processes may therefore be killed at any instruction: their bytes are then free, and the next station
// takes the place over. Nothing in a ring needs repair (frame_ring.h). The last station to leave removes the file. If
// nobody is left in a file, the next station to join makes it anew, and removes such files of other names.
//
// Thread-safety: one thread uses a Segment.
#pragma once

#include "doorbell.h"
#include "frame_ring.h"
#include "station_addresses.h"

#include "common/file_descriptor.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::roce {

/// A place that only this kind of station takes.
struct ReservedPlace {
  std::size_t station;   ///< less than kMostStations
  std::string if_taken;  ///< the error's sentence if another process has it
};

struct SegmentOptions {
  /// Letters, digits, '-', '_' and '.'; of at most 64 bytes.
  std::string name = "default";
  /// The name by which others see this station; cut after 63 bytes.
  std::string station_name{};
  /// Must be in memory, on this machine: processes in containers must see the same folder.
  std::string folder = "/dev/shm";
  /// Default: the lowest one that is free.
  std::optional<ReservedPlace> place{};
};

struct SharedStation {
  alignas(64) Doorbell doorbell;
  /// The CPU of the station's thread when it last looked.
  std::atomic<std::int32_t> cpu{-1};
  /// Bit s: station s has opened its ring to this one. Bits are only ever set.
  alignas(64) std::atomic<std::uint64_t> incoming{0};
  /// Odd while the station is present; a new value each time that a process joins as this station.
  std::atomic<std::uint32_t> incarnation{0};
  // Protected by the directory's lock:
  alignas(64) std::array<char, 64> name{};
  std::int32_t process = 0;
};

/// A station in the directory.
struct StationEntry {
  std::size_t station;
  StationAddresses addresses;
  std::string name;
  std::int32_t process;  ///< number in its own container
};

class Segment {
 public:
  static constexpr std::size_t kRingBytes = std::size_t{1} << 18;

  /// Throws WireError if there is no room, if there are too many stations, if another has our reserved place, or if the
  /// file belongs to another user or to another version of this program.
  explicit Segment(SegmentOptions options);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  [[nodiscard]] std::size_t own() const noexcept { return own_; }
  [[nodiscard]] SharedStation& station(std::size_t station) const noexcept;
  /// Whether a process is joined as this station. A killed station counts as joined until has_died() or until another
  /// process has taken its place.
  [[nodiscard]] bool is_joined(std::size_t station) const noexcept;
  /// Whether the process of this station has ended without leaving. Makes a system call.
  [[nodiscard]] bool has_died(std::size_t station) const noexcept;
  /// All present stations, including ours. Makes system calls.
  [[nodiscard]] std::vector<StationEntry> directory() const;

  /// Makes the ring usable in this process, which both its ends need. If nobody has opened it before, gives it its
  /// pages and tells the receiver. Throws WireError if there is no room for them.
  void open_ring(std::size_t sender, std::size_t receiver);
  /// The control of an open ring.
  [[nodiscard]] RingControl& control(std::size_t sender, std::size_t receiver) const noexcept;
  [[nodiscard]] std::span<std::byte> ring_bytes(std::size_t sender, std::size_t receiver) const noexcept;

  /// For a child after fork(2): gives up its share of the locks. Call nothing else afterwards.
  void abandon() noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Where the bell of a station is.
  [[nodiscard]] std::string bell_path(std::size_t station) const;

 private:
  [[nodiscard]] bool join();
  void make();
  void require_room_for_the_file() const;
  void check() const;
  void map();
  void let_touch(std::byte* begin, std::size_t bytes) const;
  [[nodiscard]] std::size_t lock_place() const;
  void take_place();
  void leave() noexcept;
  void give_pages(std::size_t offset, std::size_t bytes, const std::string& what) const;
  [[nodiscard]] std::byte* ring(std::size_t sender, std::size_t receiver) const noexcept;
  void remove_abandoned() const;

  SegmentOptions options_;
  std::string path_;
  FileDescriptor file_;
  std::byte* memory_ = nullptr;
  std::size_t own_ = 0;
};

}  // namespace sidelatch::roce

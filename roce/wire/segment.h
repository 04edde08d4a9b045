// Segment: the memory that the stations of a shared-memory wire have in common, and who is in it.
//
//   Segment segment({.name = "default"});               // makes the file, or joins; we are a station now
//   segment.station(segment.own()).doorbell
//   segment.open_ring(segment.own(), peer);             // the first time that a frame goes there
//   RingWriter writer(segment.control(own, peer), segment.ring_bytes(own, peer));
//
//   header | 64 stations | 64 x 64 rings, by sender and receiver
//
// A file of fixed length in a folder that lies in memory, /dev/shm. It is sparse: header and stations get their pages
// when it is made, a ring when its sender first needs it, all with fallocate(2), which says so if there is no room,
// where touching a page would end the process (SIGBUS). A ring keeps its pages as long as the file is there.
//
// A station holds a lock on a byte of the file for its life, and the directory is changed under the lock on another one
// (file_lock.h). So processes may be killed at any instruction: their bytes are free then, and the next station that
// comes takes the place over. Nothing in a ring needs repair (frame_ring.h). The last to leave removes the file. A file
// in which nobody is left is made anew by whoever joins next, and those of other names are removed.
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
#include <span>
#include <string>
#include <vector>

namespace sidelatch::roce {

struct SegmentOptions {
  /// Letters, digits, '-', '_' and '.'; of at most 64 bytes.
  std::string name = "default";
  /// How others shall see this station; cut after 63 bytes.
  std::string station_name{};
  /// Lies in memory, on this machine: processes in containers must see the same folder.
  std::string folder = "/dev/shm";
};

struct SharedStation {
  alignas(64) Doorbell doorbell;
  /// Where its thread ran when it looked last.
  std::atomic<std::int32_t> cpu{-1};
  /// Bit s: station s has opened its ring to this one. Bits are only ever set.
  alignas(64) std::atomic<std::uint64_t> incoming{0};
  /// Odd while the station is there; another value each time that somebody joins as it.
  std::atomic<std::uint32_t> incarnation{0};
  // Under the lock of the directory:
  alignas(64) std::array<char, 64> name{};
  std::int32_t process = 0;
};

/// Somebody in the directory.
struct StationEntry {
  std::size_t station;
  StationAddresses addresses;
  std::string name;
  std::int32_t process;  ///< as its own container counts
};

class Segment {
 public:
  static constexpr std::size_t kRingBytes = std::size_t{1} << 18;

  /// Throws WireError: no room, too many stations, somebody else's file, another version of this program in it.
  explicit Segment(SegmentOptions options);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  [[nodiscard]] std::size_t own() const noexcept { return own_; }
  [[nodiscard]] SharedStation& station(std::size_t station) const noexcept;
  /// Whether somebody is there as this station; killed ones are until has_died() or until somebody has taken their
  /// place.
  [[nodiscard]] bool is_joined(std::size_t station) const noexcept;
  /// Whether the process of this station has ended without leaving. A system call.
  [[nodiscard]] bool has_died(std::size_t station) const noexcept;
  /// All that are there, us included. System calls.
  [[nodiscard]] std::vector<StationEntry> directory() const;

  /// Gives the ring its pages, and tells the receiver. Throws WireError if there is no room for them.
  void open_ring(std::size_t sender, std::size_t receiver);
  /// The ring is open.
  [[nodiscard]] RingControl& control(std::size_t sender, std::size_t receiver) const noexcept;
  [[nodiscard]] std::span<std::byte> ring_bytes(std::size_t sender, std::size_t receiver) const noexcept;

  /// In a child, after fork(2): keeps no lock. Nothing else is called then.
  void abandon() noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool join();
  void make();
  void check() const;
  void map();
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

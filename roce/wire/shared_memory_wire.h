// SharedMemoryWire: connects the processes of one user on one machine. It needs no special rights and no system call
// per frame.
//
// Each pair of stations that talk has a ring in each direction, opened by the first frame. Each ring has one writer,
// instead of one ring per receiver with many writers. A writer killed inside a frame therefore cannot stop others, no
// writer waits for another, and a station that does not read delays only its own frames. This costs Segment::kRingBytes
// per pair and direction, and a look at one word per neighbour when there are no frames.
//
// A futex wakes only sleeping stations. Frames for a killed station fill its ring, and are dropped once its death is
// noticed; its successor begins with an empty ring. A frame to a group address is copied to every other station that
// has room for it.
//
// Thread-safety: as Wire.
#pragma once

#include "segment.h"
#include "spin_time.h"

#include "common/file_descriptor.h"
#include "roce/wire/wire.h"

#include <sys/un.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::roce {

class SharedMemoryWire final : public Wire {
 public:
  /// Joins the wire of that name, or makes it. Throws WireError.
  explicit SharedMemoryWire(SegmentOptions options);
  SharedMemoryWire(const SharedMemoryWire&) = delete;
  SharedMemoryWire& operator=(const SharedMemoryWire&) = delete;
  ~SharedMemoryWire() override;

  [[nodiscard]] const StationAddresses& addresses() const noexcept override { return addresses_; }
  [[nodiscard]] std::optional<MacAddress> resolve(const Gid& gid) override;
  [[nodiscard]] std::optional<std::uint64_t> occupant(const Gid& gid) override;
  [[nodiscard]] std::span<std::byte> reserve(const MacAddress& destination, std::size_t bytes) override;
  void commit(std::size_t bytes) override;
  void flush() override;
  [[nodiscard]] std::span<const std::byte> receive() override;
  void wait(std::chrono::nanoseconds at_most) override;
  void interrupt() noexcept override;
  void abandon() noexcept override;
  /// -1 before use_bell().
  [[nodiscard]] int descriptor() const noexcept override { return bell_.number(); }
  [[nodiscard]] std::chrono::nanoseconds lie_down() override;
  void stand_up() override;
  [[nodiscard]] bool can_be_shared() const noexcept override { return !bell_.valid(); }
  void sleep(std::chrono::nanoseconds at_most) noexcept override {
    segment_.station(segment_.own()).doorbell.sleep(at_most);
  }
  [[nodiscard]] const WireCounters& counters() const noexcept override { return counters_; }

  /// All present stations, including ours.
  [[nodiscard]] std::vector<StationEntry> directory() const { return segment_.directory(); }
  [[nodiscard]] std::size_t own_station() const noexcept { return segment_.own(); }
  [[nodiscard]] const std::string& path() const noexcept { return segment_.path(); }
  /// From now on this station sleeps in poll(2) and not in wait(). Throws WireError.
  void use_bell();

 private:
  using Clock = std::chrono::steady_clock;

  struct Peer {
    std::optional<RingWriter> to;
    std::optional<RingReader> from;
    std::uint32_t died_as = 0;      // the incarnation that we know to be dead
    Clock::time_point looked_at{};  // when we last asked whether it is dead
  };

  void commit_to_all(std::size_t bytes);
  [[nodiscard]] bool takes_frames(std::size_t station) const noexcept;
  [[nodiscard]] std::span<std::byte> no_room(std::size_t station, std::size_t bytes);
  [[nodiscard]] std::span<std::byte> drop(std::size_t bytes);
  [[nodiscard]] std::span<const std::byte> receive_from(std::size_t station);
  void release(std::size_t station);
  void release_all();
  void wake(std::size_t station);
  void ring_bell(std::size_t station);
  void open_new_rings();
  [[nodiscard]] bool something_happened();
  [[nodiscard]] bool has_frames() const noexcept;
  [[nodiscard]] bool has_room_again() const noexcept;
  void announce_waiting_for_room() noexcept;
  void tell_our_cpu() noexcept;
  [[nodiscard]] bool peer_needs_our_cpu() const noexcept;
  bool spin_until(Clock::time_point deadline);
  void sleep_until(Clock::time_point deadline);

  Segment segment_;
  StationAddresses addresses_;
  std::array<Peer, kMostStations> peers_;
  std::vector<std::byte> scratch_;  // for frames that will be dropped
  std::optional<std::size_t> reserved_for_;
  bool is_for_all_ = false;          // the last reserved frame, which lies in scratch_
  std::uint64_t to_wake_ = 0;        // bit s: something was committed for station s since the last flush
  std::uint64_t talked_with_ = 0;    // bit s: a frame came from or went to station s since the last wait
  std::uint64_t readable_ = 0;       // bit s: the ring from station s is open
  std::uint64_t short_of_room_ = 0;  // bit s: peers_[s].to had no room since the last wait
  std::size_t current_ = 0;          // the station whose ring receive() reads
  unsigned taken_from_current_ = 0;
  int cpu_ = -1;  // our CPU, as announced to the others
  std::atomic<bool> interrupted_{false};
  SpinTime spin_time_;
  WireCounters counters_;
  FileDescriptor bell_;  // ours; see use_bell()
  sockaddr_un bell_address_{};
  FileDescriptor clapper_;  // sends to the bells of others
};

}  // namespace sidelatch::roce

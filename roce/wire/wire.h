// Wire: carries Ethernet frames between software NICs, and between them and other peers: over shared memory, datagrams
// of UNIX sockets, or an interface of the kernel. wires.h makes wires.
//
//   if (const auto to = wire.resolve(gid)) {
//     const std::span<std::byte> frame = wire.reserve(*to, bytes);   // empty: full, try later
//     ... write the frame where it travels from, so that it is not copied ...
//     wire.commit(frame.size());
//   }
//   wire.flush();                                                    // once for a burst
//   while (const auto frame = wire.receive(); !frame.empty()) use(frame);
//   wire.wait(until_the_next_timer);                                 // spins for a short time, then sleeps
//
// A wire gives Ethernet's guarantees: a frame arrives whole and unchanged or not at all, and frames from one station to
// another stay in order (a FaultyWire breaks this on purpose). Frames have no preamble, tags or frame check sequence.
//
// Thread-safety: one thread at a time uses a wire; interrupt() may come from any thread, and from a signal handler.
#pragma once

#include "roce/gid.h"
#include "roce/headers.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>

namespace sidelatch::roce {

/// The longest frame: a payload of 4096 bytes and all headers, with room to spare.
inline constexpr std::size_t kMostFrameBytes = 4608;

/// Names the wire, the error, and what to do.
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// All zeros: the station has no such address.
struct StationAddresses {
  MacAddress mac{};
  Ipv4Address ipv4{};
  Ipv6Address ipv6{};
  friend bool operator==(const StationAddresses&, const StationAddresses&) = default;
};

/// The faults of with_faults() to sent frames.
struct FaultCounters {
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t reordered = 0;  ///< held back until later frames were sent
  std::uint64_t delayed = 0;
  friend bool operator==(const FaultCounters&, const FaultCounters&) = default;
};

struct WireCounters {
  std::uint64_t frames_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t dropped = 0;  ///< frames to a station that is absent or does not take them
  std::uint64_t full = 0;     ///< times that reserve() found no room
  std::uint64_t sleeps = 0;   ///< times that wait() slept in the kernel
  std::uint64_t wakes = 0;    ///< times that another station had to be woken
  FaultCounters faults;
};

class Wire {
 public:
  Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  virtual ~Wire() = default;

  /// Our addresses. They do not change.
  [[nodiscard]] virtual const StationAddresses& addresses() const noexcept = 0;
  /// The longest frame of this wire, at most kMostFrameBytes; a path MTU must leave room for the headers.
  [[nodiscard]] virtual std::size_t most_frame_bytes() const noexcept { return kMostFrameBytes; }
  /// The MAC for frames to this address. Nothing: there is no such station, or nobody has answered yet; ask again, with
  /// receive() or wait() in between.
  [[nodiscard]] virtual std::optional<MacAddress> resolve(const Gid& gid) = 0;
  /// A number for the process that has this address now, 0 if none has it. A process that takes the address over has
  /// another number. Nothing: this wire cannot know. Makes system calls.
  [[nodiscard]] virtual std::optional<std::uint64_t> occupant(const Gid& /*gid*/) { return std::nullopt; }

  /// Room for a frame of at most `bytes` to this station. Empty: the wire is full; wait() also waits until another try
  /// may succeed. Uncommitted room is lost at the next call. A frame to an absent station gets room and is dropped, as
  /// on Ethernet. Throws std::invalid_argument above most_frame_bytes(), and WireError if the system denies a resource.
  [[nodiscard]] virtual std::span<std::byte> reserve(const MacAddress& destination, std::size_t bytes) = 0;
  /// The first `bytes` of the last reserve()'s room are the frame. It is sent at once or at the next flush().
  virtual void commit(std::size_t bytes) = 0;
  /// Sends all committed frames, and wakes sleeping receivers. wait(), and receive() if it finds nothing, do this too.
  virtual void flush() = 0;
  /// Copies one frame to the wire and flushes. False: the wire is full.
  bool send(std::span<const std::byte> frame);

  /// The next frame that arrived; valid until the next call of receive() or wait(). Empty: there is none.
  [[nodiscard]] virtual std::span<const std::byte> receive() = 0;
  /// Waits until receive() has a frame, reserve() has room again after it had none, interrupt() was called since the
  /// last wait, or the time has passed. It may return without a reason. Spins for some microseconds first, but only if
  /// that paid off lately.
  virtual void wait(std::chrono::nanoseconds at_most) = 0;
  /// Ends the current wait(), or the next one. Async-signal-safe.
  virtual void interrupt() noexcept = 0;

  /// For a thread that waits for several wires, in poll(2) instead of wait():
  ///   const auto at_most = wire.lie_down();   // of all wires
  ///   ... ppoll() for the descriptors to be readable, for the least of these times ...
  ///   wire.stand_up();                        // of all wires
  /// The same reasons end the waiting as in wait(), but for interrupt(). -1: this wire cannot.
  [[nodiscard]] virtual int descriptor() const noexcept { return -1; }
  /// Sends what was committed. Returns how long poll(2) may wait; 0: there is something to do already.
  [[nodiscard]] virtual std::chrono::nanoseconds lie_down() { return std::chrono::nanoseconds(0); }
  virtual void stand_up() {}

  /// For a thread that sleeps while others use the wire, all under one lock:
  ///   if (const auto at_most = wire.lie_down(); at_most > 0ns) { unlock(); wire.sleep(at_most); lock(); }
  ///   wire.stand_up();
  /// sleep() is the one function that needs no lock. It ends as wait() does, also by interrupt(), but for room that
  /// another thread did not find meanwhile.
  [[nodiscard]] virtual bool can_be_shared() const noexcept { return false; }
  virtual void sleep(std::chrono::nanoseconds /*at_most*/) noexcept {}

  /// For a child after fork(2): closes the descriptors shared with the parent, so that the child keeps none of the
  /// parent's locks if the parent is killed. Call nothing else in the child, not even the destructor.
  /// Async-signal-safe.
  virtual void abandon() noexcept = 0;

  [[nodiscard]] virtual const WireCounters& counters() const noexcept = 0;
};

}  // namespace sidelatch::roce

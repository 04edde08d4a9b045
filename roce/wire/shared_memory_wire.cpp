#include "shared_memory_wire.h"

#include "common/full_fence.h"
#include "unix_address.h"

#include "common/pause_cpu.h"
#include "roce/wire/wires.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

namespace sidelatch::roce {

namespace {

// The most frames in a row from one station while others wait.
constexpr unsigned kMostInARow = 32;
// The most bytes that a reader keeps unreleased. Releasing writes to a line that the writer reads, so it is not done
// for every frame.
constexpr std::size_t kMostUnreleased = Segment::kRingBytes / 8;
// Interval for asking the kernel whether a station that takes nothing is still there.
constexpr auto kLookEvery = std::chrono::milliseconds(5);
// A killed station does not wake those that wait for room in its ring, so they sleep at most this long.
constexpr auto kMostSleepForRoom = std::chrono::milliseconds(5);
// Looks at the rings between two looks at the clock, which costs more.
constexpr int kLooksPerClock = 16;

constexpr std::uint64_t bit_of(std::size_t station) noexcept { return std::uint64_t{1} << station; }

template <class F>
void for_each_bit(std::uint64_t bits, F use) {
  for (; bits != 0; bits &= bits - 1) {
    use(static_cast<std::size_t>(std::countr_zero(bits)));
  }
}

// A bell that is full wakes its station anyway; one that is gone belonged to a station that has ended.
void strike(int socket, const sockaddr_un& bell) noexcept {
  const std::byte stroke{};
  static_cast<void>(::sendto(socket, &stroke, sizeof stroke, MSG_DONTWAIT | MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&bell), sizeof bell));
}

unsigned usable_cpus() noexcept {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 2U;
}

}  // namespace

SharedMemoryWire::SharedMemoryWire(SegmentOptions options)
    : segment_(std::move(options)),
      addresses_(addresses_of_station(segment_.own())),
      scratch_(kMostFrameBytes),
      spin_time_(usable_cpus()) {
  // Discard frames for the previous process at this station.
  open_new_rings();
  for_each_bit(readable_, [this](std::size_t station) { peers_[station].from->discard_all(); });
}

std::optional<MacAddress> SharedMemoryWire::resolve(const Gid& gid) {
  const std::optional<std::size_t> station = station_of(gid);
  if (!station || !segment_.is_joined(*station) || segment_.has_died(*station)) {
    return std::nullopt;
  }
  return addresses_of_station(*station).mac;
}

std::optional<std::uint64_t> SharedMemoryWire::occupant(const Gid& gid) {
  const std::optional<std::size_t> station = station_of(gid);
  if (!station) {
    return std::nullopt;
  }
  const std::uint32_t incarnation = segment_.station(*station).incarnation.load(std::memory_order_acquire);
  return (incarnation & 1U) == 0 || segment_.has_died(*station) ? 0 : std::uint64_t{incarnation};
}

bool SharedMemoryWire::takes_frames(std::size_t station) const noexcept {
  const std::uint32_t incarnation = segment_.station(station).incarnation.load(std::memory_order_acquire);
  return (incarnation & 1U) != 0 && incarnation != peers_[station].died_as;
}

std::span<std::byte> SharedMemoryWire::reserve(const MacAddress& destination, std::size_t bytes) {
  if (bytes > kMostFrameBytes) {
    throw std::invalid_argument(fmt::format("a frame of {} bytes: a wire takes {} at most", bytes, kMostFrameBytes));
  }
  is_for_all_ = is_group(destination);
  const std::optional<std::size_t> station = station_of(destination);
  if (!station || !takes_frames(*station)) {
    return drop(bytes);
  }
  Peer& peer = peers_[*station];
  if (!peer.to) {
    segment_.open_ring(segment_.own(), *station);
    peer.to.emplace(segment_.control(segment_.own(), *station), segment_.ring_bytes(segment_.own(), *station));
  }
  const std::span<std::byte> room = peer.to->reserve(bytes);
  if (room.empty()) {
    return no_room(*station, bytes);
  }
  reserved_for_ = station;
  return room;
}

std::span<std::byte> SharedMemoryWire::drop(std::size_t bytes) {
  reserved_for_.reset();
  return std::span(scratch_).first(bytes);
}

std::span<std::byte> SharedMemoryWire::no_room(std::size_t station, std::size_t bytes) {
  Peer& peer = peers_[station];
  const auto now = Clock::now();
  if (now - peer.looked_at >= kLookEvery) {
    peer.looked_at = now;
    const std::uint32_t incarnation = segment_.station(station).incarnation.load(std::memory_order_acquire);
    if (segment_.has_died(station)) {
      peer.died_as = incarnation;
      return drop(bytes);
    }
  }
  ++counters_.full;
  short_of_room_ |= bit_of(station);
  // The reader may be asleep although there are frames that we have not announced.
  flush();
  return {};
}

void SharedMemoryWire::commit(std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  if (is_for_all_) {
    commit_to_all(bytes);
    return;
  }
  if (!reserved_for_) {
    ++counters_.dropped;
    return;
  }
  peers_[*reserved_for_].to->commit(bytes);
  to_wake_ |= bit_of(*reserved_for_);
  talked_with_ |= bit_of(*reserved_for_);
  ++counters_.frames_sent;
  counters_.bytes_sent += bytes;
}

void SharedMemoryWire::commit_to_all(std::size_t bytes) {
  is_for_all_ = false;
  bool has_reached_some = false;
  for (std::size_t station = 0; station < kMostStations; ++station) {
    if (station == segment_.own() || !takes_frames(station)) {
      continue;
    }
    const std::span<std::byte> room = reserve(addresses_of_station(station).mac, bytes);
    if (!room.empty() && reserved_for_) {
      std::memcpy(room.data(), scratch_.data(), bytes);
      commit(bytes);
      has_reached_some = true;
    }
  }
  counters_.dropped += has_reached_some ? 0U : 1U;
}

void SharedMemoryWire::flush() {
  if (to_wake_ == 0) {
    return;
  }
  // Either we see that the reader lies down, or it sees the frames that we have committed.
  full_fence();
  for_each_bit(to_wake_, [this](std::size_t station) { wake(station); });
  to_wake_ = 0;
}

// Call it after a full fence.
void SharedMemoryWire::wake(std::size_t station) {
  Doorbell& sleeper = segment_.station(station).doorbell;
  if (sleeper.is_asleep_at_bell()) {
    ring_bell(station);
    ++counters_.wakes;
  } else if (sleeper.is_asleep()) {
    sleeper.ring();
    ++counters_.wakes;
  }
}

void SharedMemoryWire::ring_bell(std::size_t station) {
  if (!clapper_.valid()) {
    clapper_ = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  }
  strike(clapper_.number(), unix_address(segment_.bell_path(station)));
}

void SharedMemoryWire::open_new_rings() {
  const std::uint64_t incoming = segment_.station(segment_.own()).incoming.load(std::memory_order_acquire);
  for_each_bit(incoming & ~readable_, [this](std::size_t station) {
    segment_.open_ring(station, segment_.own());
    peers_[station].from.emplace(segment_.control(station, segment_.own()),
                                 segment_.ring_bytes(station, segment_.own()));
    readable_ |= bit_of(station);
  });
}

void SharedMemoryWire::release(std::size_t station) {
  RingReader& from = *peers_[station].from;
  from.release();
  // Either we see that the writer waits, or it sees the bytes that we have released.
  full_fence();
  if (from.control().writer_waits.load(std::memory_order_relaxed) != 0) {
    from.control().writer_waits.store(0, std::memory_order_relaxed);
    wake(station);
  }
}

void SharedMemoryWire::release_all() {
  for_each_bit(readable_, [this](std::size_t station) {
    if (peers_[station].from->unreleased() != 0) {
      release(station);
    }
  });
}

std::span<const std::byte> SharedMemoryWire::receive_from(std::size_t station) {
  RingReader& from = *peers_[station].from;
  if (from.unreleased() > kMostUnreleased) {
    release(station);
  }
  const std::span<const std::byte> frame = from.next();
  if (!frame.empty()) {
    ++counters_.frames_received;
    counters_.bytes_received += frame.size();
  }
  return frame;
}

std::span<const std::byte> SharedMemoryWire::receive() {
  if ((readable_ & bit_of(current_)) != 0 && taken_from_current_ < kMostInARow) {
    const auto frame = receive_from(current_);
    if (!frame.empty()) {
      ++taken_from_current_;
      return frame;
    }
  }
  open_new_rings();
  // Try all other stations, then the current one.
  const std::uint64_t behind = current_ + 1 < kMostStations ? readable_ & ~(bit_of(current_ + 1) - 1) : 0;
  for (std::uint64_t bits : {behind, readable_ & ~behind}) {
    for (; bits != 0; bits &= bits - 1) {
      const auto station = static_cast<std::size_t>(std::countr_zero(bits));
      const auto frame = receive_from(station);
      if (!frame.empty()) {
        current_ = station;
        talked_with_ |= bit_of(station);
        taken_from_current_ = 1;
        return frame;
      }
    }
  }
  release_all();
  flush();
  tell_our_cpu();
  return {};
}

bool SharedMemoryWire::has_frames() const noexcept {
  if (segment_.station(segment_.own()).incoming.load(std::memory_order_acquire) != readable_) {
    return true;  // its first frame comes at once
  }
  bool found = false;
  for_each_bit(readable_, [&](std::size_t station) { found = found || peers_[station].from->has_next(); });
  return found;
}

bool SharedMemoryWire::has_room_again() const noexcept {
  bool found = false;
  for_each_bit(short_of_room_, [&](std::size_t station) { found = found || peers_[station].to->has_room_again(); });
  return found;
}

bool SharedMemoryWire::something_happened() {
  return has_frames() || (short_of_room_ != 0 && has_room_again()) || interrupted_.load(std::memory_order_acquire);
}

void SharedMemoryWire::announce_waiting_for_room() noexcept {
  for_each_bit(short_of_room_, [this](std::size_t station) {
    peers_[station].to->control().writer_waits.store(1, std::memory_order_relaxed);
  });
}

void SharedMemoryWire::tell_our_cpu() noexcept {
  const int cpu = ::sched_getcpu();
  if (cpu != cpu_) {
    cpu_ = cpu;
    segment_.station(segment_.own()).cpu.store(cpu, std::memory_order_relaxed);
  }
}

// Whether a peer that is awake cannot run because we run on its CPU, as on a machine with too few CPUs. The frame that
// we wait for cannot come while we spin.
bool SharedMemoryWire::peer_needs_our_cpu() const noexcept {
  bool found = false;
  for_each_bit(talked_with_ & ~bit_of(segment_.own()), [&](std::size_t station) {
    const SharedStation& peer = segment_.station(station);
    found = found || (peer.cpu.load(std::memory_order_relaxed) == cpu_ && !peer.doorbell.is_asleep());
  });
  return found;
}

bool SharedMemoryWire::spin_until(Clock::time_point deadline) {
  do {
    if (peer_needs_our_cpu()) {
      return false;
    }
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (something_happened()) {
        return true;
      }
      pause_cpu();
    }
  } while (Clock::now() < deadline);
  return false;
}

void SharedMemoryWire::sleep_until(Clock::time_point deadline) {
  Doorbell& doorbell = segment_.station(segment_.own()).doorbell;
  announce_waiting_for_room();
  doorbell.lie_down();
  if (!something_happened()) {
    ++counters_.sleeps;
    doorbell.sleep(deadline - Clock::now());
  }
  doorbell.stand_up();
  tell_our_cpu();
}

void SharedMemoryWire::wait(std::chrono::nanoseconds at_most) {
  release_all();
  flush();
  if (!something_happened() && at_most > std::chrono::nanoseconds(0)) {
    const auto begun = Clock::now();
    tell_our_cpu();
    // Do not use begun + at_most: the sum may exceed the clock's range.
    constexpr std::chrono::nanoseconds kMostSleep = std::chrono::hours(24);
    const auto deadline =
        begun + std::min(at_most, short_of_room_ != 0 ? std::chrono::nanoseconds(kMostSleepForRoom) : kMostSleep);
    const bool spun = spin_until(std::min(deadline, begun + spin_time_.now()));
    if (!spun) {
      sleep_until(deadline);
    }
    spin_time_.learn(Clock::now() - begun, !spun);
  }
  short_of_room_ = 0;
  talked_with_ = 0;
  interrupted_.store(false, std::memory_order_relaxed);
}

void SharedMemoryWire::use_bell() {
  const std::string path = segment_.bell_path(segment_.own());
  bell_ = replace_datagram_socket(path);
  bell_address_ = unix_address(path);
}

std::chrono::nanoseconds SharedMemoryWire::lie_down() {
  release_all();
  flush();
  announce_waiting_for_room();
  segment_.station(segment_.own()).doorbell.lie_down(bell_.valid() ? Doorbell::Bed::at_bell : Doorbell::Bed::at_futex);
  if (something_happened()) {
    return std::chrono::nanoseconds(0);
  }
  ++counters_.sleeps;
  return short_of_room_ != 0 ? std::chrono::nanoseconds(kMostSleepForRoom) : std::chrono::hours(24);
}

void SharedMemoryWire::stand_up() {
  segment_.station(segment_.own()).doorbell.stand_up();
  std::array<std::byte, 8> strokes{};
  while (bell_.valid() && ::recv(bell_.number(), strokes.data(), strokes.size(), MSG_DONTWAIT) > 0) {
  }
  short_of_room_ = 0;
  talked_with_ = 0;
  interrupted_.store(false, std::memory_order_relaxed);
  tell_our_cpu();
}

SharedMemoryWire::~SharedMemoryWire() {
  if (bell_.valid()) {
    ::unlink(segment_.bell_path(segment_.own()).c_str());
  }
}

void SharedMemoryWire::abandon() noexcept {
  bell_.close();  // so that the destructor, which nobody calls, would not remove the parent's
  clapper_.close();
  segment_.abandon();
}

void SharedMemoryWire::interrupt() noexcept {
  interrupted_.store(true, std::memory_order_release);
  full_fence();
  Doorbell& doorbell = segment_.station(segment_.own()).doorbell;
  if (doorbell.is_asleep()) {
    doorbell.ring();
  } else if (doorbell.is_asleep_at_bell()) {
    const int error = errno;
    strike(bell_.number(), bell_address_);
    errno = error;
  }
}

std::unique_ptr<Wire> join_shared_memory_wire(const SharedMemoryWireOptions& options) {
  return std::make_unique<SharedMemoryWire>(
      SegmentOptions{.name = options.name, .station_name = options.station_name, .folder = options.folder.string()});
}

}  // namespace sidelatch::roce

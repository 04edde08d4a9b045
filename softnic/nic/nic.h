// Nic: a NIC in software that speaks RoCEv2, without threads, sockets or a clock.
//
//   ImmediateAccess memory;
//   Nic nic({.mac = mac, .gids = {gid_of({10, 0, 0, 1})}}, memory);
//   const Domain domain = nic.make_domain();
//   const std::uint32_t key = nic.register_memory({.data = p, .length = n, .address = a, .domain = domain, ...});
//   CompletionQueue& completions = nic.make_completion_queue(64);
//   QueuePair& pair = nic.make_queue_pair({.domain = domain, .send_completions = &completions, ...});
//
//   for (;;) {                                      // whoever drives it
//     while (has room for a frame) { n = nic.pull_frame(buffer, now); if (n == 0) break; send(buffer, n); }
//     unless nic.has_frames(): wait for a frame, for nic.next_deadline(), or for somebody who posts;
//     nic.on_frame(frame, now);  nic.advance(now);
//   }
//
// Frames are Ethernet frames without preamble and frame check sequence. They are made when they are pulled, so a wire
// that is full just does not pull, and nothing piles up; has_frames() says that there may be one. on_frame() and
// posting make no frame by themselves. What a queue pair sends to one of the NIC's own addresses does not leave: it is
// received at once. A frame that is no packet for one of the queue pairs is dropped and counted.
//
// Guarantees: the same calls with the same times give the same frames. No byte of memory is touched on behalf of a
// frame but through the MemoryAccess, and only where a region's key, domain, bounds and rights allow it. In steady
// state nothing is allocated per packet.
//
// Objects are owned by the NIC and live until they are destroyed by it. Errors: NicError; full if a limit of NicOptions
// is reached.
//
// Source: InfiniBand Architecture Specification, volume 1, chapters 9 to 11 and Annex A17; which part stands at each
// file. Left out: services other than RC and UD, multicast, memory windows, alternate paths, end-to-end credits (a
// receiver that is not ready is asked again instead), congestion control.
//
// Thread-safety: none. One thread at a time calls a NIC and its objects.
#pragma once

#include "completion_queue.h"
#include "device.h"
#include "nic_error.h"
#include "queue_pair.h"
#include "receive_queue.h"
#include "timers.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace sidelatch::softnic::nic {

/// Room that any frame fits in: Ethernet, IPv6, UDP, BTH, the longest extension, 4096 bytes, pad and ICRC.
inline constexpr std::size_t kFrameRoom = Ethernet::kBytes + Ipv6::kBytes + Udp::kBytes + Bth::kBytes +
                                          kMostExtensionBytes + bytes_of(PathMtu::b4096) + 4 + 4;

class Nic {
 public:
  /// `memory` outlives the NIC. Throws NicError (invalid) without a GID, or for a window of 0 packets.
  Nic(NicOptions options, MemoryAccess& memory);
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;
  ~Nic();

  [[nodiscard]] const NicOptions& options() const noexcept { return device_.options; }
  [[nodiscard]] const NicCounters& counters() const noexcept { return device_.counters; }

  [[nodiscard]] Domain make_domain() { return device_.table.add_domain(); }
  /// Busy while it has regions, queue pairs or shared receive queues.
  void destroy_domain(Domain domain);

  /// Returns the key, lkey and rkey in one. Throws as MemoryTable::add().
  [[nodiscard]] std::uint32_t register_memory(const Region& region) { return device_.table.add(region); }
  /// The region becomes another one, and keeps its key; from now on nothing touches what it was. Throws as
  /// MemoryTable::change().
  void change_memory(std::uint32_t key, const Region& region);
  /// From now on nothing touches it. Invalid if there is none of that key.
  void deregister_memory(std::uint32_t key);

  [[nodiscard]] CompletionQueue& make_completion_queue(std::uint32_t depth);
  /// Invalid if it holds more completions than that.
  void resize(CompletionQueue& queue, std::uint32_t depth) const;
  /// Busy while a queue pair uses it.
  void destroy(CompletionQueue& queue);
  [[nodiscard]] ReceiveQueue& make_shared_receive_queue(Domain domain, std::uint32_t depth, std::uint32_t most_sges);
  /// Busy while a queue pair uses it.
  void destroy(ReceiveQueue& queue);
  /// In RESET. Invalid: no such domain, no completion queues, or more than the limits allow.
  [[nodiscard]] QueuePair& make_queue_pair(const QueuePairOptions& options);
  /// It stops, and its completions and events are forgotten.
  void destroy(QueuePair& queue_pair);
  /// Nullptr if there is none of that number.
  [[nodiscard]] QueuePair* find_queue_pair(std::uint32_t number) const noexcept;

  /// The oldest asynchronous event, which is taken out.
  [[nodiscard]] std::optional<Event> next_event() { return device_.events.next(); }

  /// A frame came. `now`: never less than before, here and below.
  void on_frame(std::span<const std::byte> frame, Time now);
  /// The next frame to send, written to `out`, which has kFrameRoom; its length, or 0 if there is none now. Having
  /// moved many frames from itself to itself it returns 0, too, with has_frames() still true.
  [[nodiscard]] std::size_t pull_frame(std::span<std::byte> out, Time now);
  /// pull_frame() may have something.
  [[nodiscard]] bool has_frames() const noexcept { return device_.has_awake(); }
  /// Timers, and memory that was to be touched by `now`.
  void advance(Time now);
  /// When advance() is to be called, kNever if nothing waits for time.
  [[nodiscard]] Time next_deadline() const noexcept;

 private:
  void set_time(Time now);
  void take_packet(const Packet& packet, Time now);
  [[nodiscard]] bool is_for_us(const Gid& gid) const noexcept;
  void check(const QueuePairOptions& options) const;
  [[nodiscard]] std::uint32_t choose_number(std::uint32_t wanted);
  [[nodiscard]] bool is_to_ourselves(std::span<const std::byte> frame) const noexcept;

  Device device_;
  std::unordered_map<std::uint32_t, std::unique_ptr<QueuePair>> queue_pairs_;
  std::vector<std::unique_ptr<CompletionQueue>> completion_queues_;
  std::vector<std::unique_ptr<ReceiveQueue>> receive_queues_;
  Timers timers_;
  std::uint32_t next_number_ = 0x11;
  std::uint32_t next_queue_ = 1;
  Time now_ = 0;
};

}  // namespace sidelatch::softnic::nic

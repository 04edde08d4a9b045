// Nic: a RoCEv2 NIC in software, without threads, sockets or a clock.
//
//   ImmediateAccess memory;
//   Nic nic({.mac = mac, .gids = {gid_of({10, 0, 0, 1})}}, memory);
//   const Domain domain = nic.make_domain();
//   const std::uint32_t key = nic.register_memory({.data = p, .length = n, .address = a, .domain = domain, ...});
//   CompletionQueue& completions = nic.make_completion_queue(64);
//   QueuePair& pair = nic.make_queue_pair({.domain = domain, .send_completions = &completions, ...});
//
//   for (;;) {                                      // the driver's loop
//     while (has room for a frame) { n = nic.pull_frame(buffer, now); if (n == 0) break; send(buffer, n); }
//     unless nic.has_frames(): wait for a frame, for nic.next_deadline(), or for a post;
//     nic.on_frame(frame, now);  nic.advance(now);
//   }
//
// Frames are Ethernet frames without preamble and frame check sequence. They are made when they are pulled, so nothing
// piles up while a wire is full and does not pull. has_frames() tells whether there may be a frame. on_frame() and
// posting make no frames by themselves. Frames to one of the NIC's own addresses do not leave: they are received at
// once. Those to a group leave, and are received if the NIC has members of the group. With NicOptions::sends_to_itself
// the driver hands both back. A frame that is no packet for one of the queue pairs is dropped and counted.
//
// Guarantees: the same calls with the same times give the same frames. Frames touch memory only through the
// MemoryAccess, and only where a region's key, domain, bounds and rights allow it. In steady state nothing is allocated
// per packet.
//
// The NIC owns its objects, which live until it destroys them. Errors are NicError; full if a limit of NicOptions is
// reached.
//
// Source: InfiniBand Architecture Specification, volume 1, chapters 9 to 11 and Annex A17; each file names its part.
// Not supported: reliable and raw datagrams, alternate paths, end-to-end credits (instead, a request to a receiver that
// is not ready is retried). It tells senders of congestion (RoCEv2's CNP, at most one each 50 us for a queue pair);
// told of it, it does not slow down.
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
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sidelatch::softnic::nic {

/// The queue pair number of datagrams to a group (9.8, multicast).
inline constexpr std::uint32_t kGroupQueuePair = 0xffffff;

/// Room for any frame: Ethernet, IPv6, UDP, BTH, the longest extension, 4096 bytes, pad and ICRC.
inline constexpr std::size_t kFrameRoom = Ethernet::kBytes + Ipv6::kBytes + Udp::kBytes + Bth::kBytes +
                                          kMostExtensionBytes + bytes_of(PathMtu::b4096) + 4 + 4;

class Nic {
 public:
  /// `memory` must outlive the NIC. Throws NicError (invalid) without a GID, or for a window of 0 packets.
  Nic(NicOptions options, MemoryAccess& memory);
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;
  ~Nic();

  [[nodiscard]] const NicOptions& options() const noexcept { return device_.options; }
  [[nodiscard]] const NicCounters& counters() const noexcept { return device_.counters; }

  [[nodiscard]] Domain make_domain() { return device_.table.add_domain(); }
  /// Busy while it has regions, queue pairs or shared receive queues.
  void destroy_domain(Domain domain);

  /// Returns the key, which is both lkey and rkey. Throws like MemoryTable::add().
  [[nodiscard]] std::uint32_t register_memory(const Region& region) { return device_.table.add(region); }
  /// Replaces the region, and keeps its key; nothing touches the old region any more. Throws like
  /// MemoryTable::change().
  void change_memory(std::uint32_t key, const Region& region);
  /// Ends the region; nothing touches it any more. Invalid if there is no such key.
  void deregister_memory(std::uint32_t key);

  /// Whether the NIC may use these bytes for its own requests; on-demand memory is fetched.
  [[nodiscard]] bool may_touch(std::uint32_t lkey, Domain domain, std::uint64_t address, std::uint64_t length,
                               Rights needed) const noexcept {
    return device_.table.local(lkey, domain, address, length, needed) != nullptr;
  }

  /// Returns the key of a window that opens nothing yet. It is bound by requests (WorkKind::bind_window). Throws like
  /// MemoryTable::add_window().
  [[nodiscard]] std::uint32_t make_window(Domain domain, WindowType type) {
    return device_.table.add_window(domain, type);
  }
  /// `key`: any that the window has had. Throws like MemoryTable::remove_window().
  void destroy_window(std::uint32_t key);
  /// 0 if there is no such window.
  [[nodiscard]] std::uint32_t window_key(std::uint32_t key) const noexcept { return device_.table.window_key(key); }

  /// A domain of XRC targets and their shared receive queues.
  [[nodiscard]] std::uint32_t make_xrc_domain();
  /// Busy while it has queue pairs or queues.
  void destroy_xrc_domain(std::uint32_t domain);

  [[nodiscard]] CompletionQueue& make_completion_queue(std::uint32_t depth);
  /// Invalid if the queue holds more completions than `depth`.
  void resize(CompletionQueue& queue, std::uint32_t depth) const;
  /// Busy while a queue pair uses it.
  void destroy(CompletionQueue& queue);
  [[nodiscard]] ReceiveQueue& make_shared_receive_queue(Domain domain, std::uint32_t depth, std::uint32_t most_sges);
  /// For messages to XRC targets of this domain, which name the queue by its number; they are reported to
  /// `completions`.
  [[nodiscard]] ReceiveQueue& make_xrc_receive_queue(Domain domain, std::uint32_t depth, std::uint32_t most_sges,
                                                     std::uint32_t xrc_domain, CompletionQueue& completions);
  /// Invalid if the queue holds more requests than `depth`.
  void resize(ReceiveQueue& queue, std::uint32_t depth) const;
  /// Busy while a queue pair uses it.
  void destroy(ReceiveQueue& queue);
  /// Makes a queue pair in RESET. Invalid if there is no such domain, if completion queues are missing, or above the
  /// limits.
  [[nodiscard]] QueuePair& make_queue_pair(const QueuePairOptions& options);
  /// Stops the queue pair and removes its completions and events.
  void destroy(QueuePair& queue_pair);
  /// Datagrams to this group reach the queue pair from now on. Invalid if the GID names no group, or the queue pair is
  /// for no datagrams. Attaching it again changes nothing.
  void attach(QueuePair& queue_pair, const Gid& group);
  /// Invalid if the queue pair is not in the group.
  void detach(QueuePair& queue_pair, const Gid& group);
  /// Whether the queue pair is in a group.
  [[nodiscard]] bool is_attached(const QueuePair& queue_pair) const noexcept;
  /// Nullptr if there is no such queue pair.
  [[nodiscard]] QueuePair* find_queue_pair(std::uint32_t number) const noexcept;

  /// Whether to keep sentences that say why queue pairs enter ERROR or SQE by themselves, and that completion queues
  /// overrun.
  void explain(bool wanted) noexcept { device_.explains = wanted; }
  /// Takes out the oldest sentence.
  [[nodiscard]] std::optional<std::string> next_explanation();

  /// Takes out the oldest asynchronous event.
  [[nodiscard]] std::optional<Event> next_event() { return device_.events.next(); }

  /// Handles a received frame. Here and below, `now` must never decrease.
  void on_frame(std::span<const std::byte> frame, Time now);
  /// Writes the next frame to send to `out`, which has kFrameRoom bytes; returns its length, or 0 if there is none now.
  /// Also returns 0, with has_frames() still true, after many frames from the NIC to itself.
  [[nodiscard]] std::size_t pull_frame(std::span<std::byte> out, Time now);
  /// The last frame that was pulled cannot be sent yet: its queue pair makes no more frames until resume(), and others
  /// do. Returns the queue pair's number.
  std::uint32_t stall() const;
  /// A queue pair that has been destroyed meanwhile is ignored.
  void resume(std::uint32_t queue_pair);
  /// The wire is lost for good. All queue pairs but those in RESET enter ERROR: on a reliable connection the oldest
  /// send request completes with retry_exceeded, as if all retries had been lost, and everything else is flushed. Queue
  /// pairs that are set up later go the same way.
  void fail();
  /// Whether pull_frame() may have a frame.
  [[nodiscard]] bool has_frames() const noexcept { return device_.has_awake(); }
  /// Handles timers and memory accesses that are due at `now`.
  void advance(Time now);
  /// When advance() must be called; kNever if nothing waits for a time.
  [[nodiscard]] Time next_deadline() const noexcept;
  /// Whether that deadline only asks for a lost answer early, so that milliseconds do not matter.
  [[nodiscard]] bool may_be_late() const noexcept;

 private:
  void set_time(Time now);
  void take_packet(const Packet& packet, Time now);
  [[nodiscard]] static bool is_in_partition(const Packet& packet) noexcept;
  /// The queue pair that a packet which is no group's is for, or null.
  [[nodiscard]] QueuePair* addressee_of(const Packet& packet) const noexcept;
  void take_group_packet(const Packet& packet, const Gid& group, Time now);
  [[nodiscard]] bool is_for_us(const Gid& gid) const noexcept;
  void check(const QueuePairOptions& options) const;
  [[nodiscard]] std::uint32_t choose_number(std::uint32_t wanted);
  [[nodiscard]] static Gid destination_of(std::span<const std::byte> frame) noexcept;

  Device device_;
  std::unordered_map<std::uint32_t, std::unique_ptr<QueuePair>> queue_pairs_;
  std::map<Gid, std::vector<QueuePair*>> groups_;
  std::vector<std::unique_ptr<CompletionQueue>> completion_queues_;
  std::vector<std::unique_ptr<ReceiveQueue>> receive_queues_;
  std::unordered_set<std::uint32_t> xrc_domains_;
  std::uint32_t next_xrc_domain_ = 1;
  Timers timers_;
  std::uint32_t next_number_;
  std::uint32_t next_queue_ = 1;
  std::uint32_t last_pulled_ = 0;  // number of a queue pair
  Time now_ = 0;
};

}  // namespace sidelatch::softnic::nic

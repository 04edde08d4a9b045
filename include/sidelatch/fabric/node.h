// Node: one machine as seen through its NIC. It registers memory and connects queue pairs to other nodes.
//
//   std::unique_ptr<QueuePair> qp = client.connect(storage);              // one-sided requests, to storage
//   auto [here, there] = client.connect_pair(server);                     // both ends post; SEND and RECV too
//
// Thread-safety: connect() and the making and ending of regions belong to one thread at a time per node.
#pragma once

#include <sidelatch/fabric/memory_region.h>
#include <sidelatch/fabric/reactor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::fabric {

class Cpu;
class QueuePair;
struct QueuePairOptions;

/// CPU work that takes long enough to be simulated: a client's work on the bytes that it read, and a small RPC that a
/// core serves, from receive() to its SEND.
enum class CpuWork : std::uint8_t { checksum, line_versions, rpc };

class Node {
 public:
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] virtual Reactor& reactor() = 0;

  // Both throw std::invalid_argument for no bytes or a null pointer, std::length_error for more regions than there can
  // be, and std::runtime_error that says why the system, the NIC (verbs::DeviceError) or a memory server refuses.

  /// New zeroed memory of `bytes` (at least 1), page-aligned. Pages that no one touches cost nothing.
  [[nodiscard]] MemoryRegion allocate(std::uint64_t bytes, Access access);
  /// Registers the caller's memory, which must stay valid until the region has ended.
  [[nodiscard]] MemoryRegion register_memory(std::span<std::byte> memory, Access access);

  /// Connects a reliable queue pair from this node to `target`, which must be of the same fabric. Throws
  /// std::invalid_argument for another one and for wrong options, and what says why there is no connection
  /// (FabricError, verbs::DeviceError, std::runtime_error).
  [[nodiscard]] virtual std::unique_ptr<QueuePair> connect(Node& target, const QueuePairOptions& options) = 0;
  [[nodiscard]] std::unique_ptr<QueuePair> connect(Node& target);

  /// Connects the two ends of a reliable connection, this node's and `peer`'s. Both post, each to the other's memory,
  /// and both send and receive messages (queue_pair.h). The simulator, verbs and the explorer have such pairs, between
  /// nodes of one fabric. Throws std::invalid_argument for a node of another one, such as verbs::RemoteNode, and
  /// FabricError on a fabric without pairs.
  [[nodiscard]] virtual std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> connect_pair(
      Node& peer, const QueuePairOptions& options);
  [[nodiscard]] std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> connect_pair(Node& peer);

  /// This node's processor, on which its tasks run: loads, stores and waits on its registered memory (cpu.h). Throws
  /// std::logic_error for a node of another process.
  [[nodiscard]] Cpu& cpu();

  /// Revocation (memory model, rule 10): ends `queue_pair`, which was connected to this node, at this node. When this
  /// returns, no further micro-step of it happens here, whatever its NIC has taken. Its own node gets
  /// Status::retry_exceeded for requests in flight and later ones. If it is an end of a pair, the end at this node ends
  /// too, with Status::disconnected. It cannot reconnect. Throws std::invalid_argument if the queue pair is not
  /// connected to this node, and FabricError if the node does not confirm it.
  virtual void revoke(QueuePair& queue_pair) = 0;

  /// Ends all queue pairs of an owner of latches (sync/lease.h) at this node, whichever client connected them. When
  /// this ends, no further micro-step of them happens here. Only this task waits. Throws std::invalid_argument for an
  /// owner that is not known here, FabricError if the node does not confirm it, and std::logic_error on a node that
  /// keeps no owners; verbs::RemoteNode keeps them.
  [[nodiscard]] virtual Task<void> revoke_all_of(std::uint16_t owner);

  /// The time that `bytes` of `work` (for an RPC, any number of bytes) cost this node's CPU beyond the time that really
  /// passes: zero, except in a world whose clock is not the machine's.
  [[nodiscard]] virtual Duration cpu_time(CpuWork work, std::uint64_t bytes) const noexcept {
    (void)work;
    (void)bytes;
    return {};
  }

  /// One registered region as the NIC knows it. It is looked up for every request; its size makes the index a shift.
  struct alignas(64) Registration {
    std::byte* data = nullptr;
    std::uint64_t length = 0;
    RemoteAddress address;
    RKey rkey;                   ///< the key that other nodes present
    std::uint32_t nic_lkey = 0;  ///< the key for this node's NIC; the LKey unless the fabric sets another
    void* nic_region = nullptr;  ///< the fabric's own data
    Access access = Access::local_read;
    bool owned = false;
    std::uint16_t reserved = 0;  ///< this and what follows: so that there is no padding
    std::uint32_t generation = 0;
    std::uint32_t live_key = 0;  ///< the region's key while it is alive, else 0, which no region has
    std::array<std::uint32_t, 3> reserved_too{};
  };

  /// The live region behind a key, or null; for fabrics.
  [[nodiscard]] const Registration* find(LKey key) const noexcept { return find_key(key.value); }
  [[nodiscard]] const Registration* find(RKey key) const noexcept { return find_key(key.value); }

 protected:
  explicit Node(std::string name);
  /// Chooses `address` and, unless it is the region's LKey, `rkey`, by which other nodes reach a new region. `data`,
  /// `length` and `access` are set. If this throws, the region is not made.
  virtual void place_region(Registration& registration) = 0;
  /// Other nodes can no longer reach this region: none of their requests may touch its bytes after this returns. If
  /// `in_use`, requests of this node still use it; region_ended() follows when they are done, before its memory is
  /// released. A fabric whose NIC has one registration for both sides may leave a region that is in use open to other
  /// nodes until region_ended().
  virtual void region_removed(Registration& registration, bool in_use) noexcept = 0;
  /// Called as soon as a completion, or the end of a queue pair, shows that no request uses the region.
  virtual void region_ended(Registration& registration) noexcept { (void)registration; }
  /// Makes the object behind cpu(), once.
  [[nodiscard]] virtual std::unique_ptr<Cpu> make_cpu();
  /// Obtains zeroed, page-aligned memory for a region of allocate(), and returns it.
  [[nodiscard]] virtual std::byte* obtain_memory(std::uint64_t bytes);
  virtual void return_memory(std::byte* memory, std::uint64_t bytes) noexcept;
  /// Unmaps the remaining memory. A derived node whose queue pairs refer to the memory calls this when they are gone.
  void release_memory() noexcept;

 private:
  friend class MemoryRegion;
  friend class QueuePair;

  // A key is a slot and the slot's generation, so the key of an ended region is refused. Generation 0 is never used, so
  // no region has key 0.
  static constexpr std::uint32_t kGenerationBits = 12;
  static constexpr std::uint32_t kGenerationMask = (1U << kGenerationBits) - 1;

  [[nodiscard]] const Registration* find_key(std::uint32_t key) const noexcept {
    const std::uint32_t slot = key >> kGenerationBits;
    if (slot >= registrations_.size()) {
      return nullptr;
    }
    const Registration& registration = registrations_[slot];
    return registration.live_key == key && key != 0 ? &registration : nullptr;
  }
  /// Makes sure that there is a free slot, so that add() has one. Throws std::length_error if there cannot be more.
  void make_slot();
  /// make_slot() comes first.
  MemoryRegion add(Registration registration);
  /// Returns false and changes nothing if work requests are in flight and `even_if_busy` is not set.
  bool remove(LKey key, bool even_if_busy);
  [[nodiscard]] bool in_use(LKey key) const;
  void collect_garbage();
  /// Ends the registrations of dying regions that no request uses any more. Their memory stays until collect_garbage():
  /// a task that is about to resume may still read what was delivered.
  void end_unused();

  std::string name_;
  std::unique_ptr<Cpu> cpu_;
  std::vector<Registration> registrations_;
  std::vector<std::uint32_t> free_slots_;
  // Slots of regions that are owned and were in use by work requests in flight when they were removed. With kUnused: no
  // request uses the region any more, and region_ended() has been called.
  std::vector<std::uint32_t> dying_;
  static constexpr std::uint32_t kUnused = 1U << 31;
  static_assert(kUnused >= 1U << (32 - kGenerationBits), "no slot has this bit");
  std::vector<QueuePair*> queue_pairs_;
};

}  // namespace sidelatch::fabric

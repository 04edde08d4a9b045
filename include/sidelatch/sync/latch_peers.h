// LatchPeers: what a client needs to stand in a queue with other clients (McsLatch): words in its own registered
// memory, which the others write, and a connection to each of them.
//
//   LatchPeers peers_of_a(node_a, 1);                  // number 1 among the clients that share latches
//   LatchPeers peers_of_b(node_b, 2);
//   LatchPeers::connect(peers_of_a, peers_of_b);       // both ways
//   Session session(*qp, buffer_bytes(shape), {.peers = &peers_of_a});
//
// Clients of one process (of one fabric) are connected by connect(). A client elsewhere is added by add(): its number,
// a node through which this client reaches it, and its remote().
//
// All sessions of a client share its LatchPeers. Each latch that they hold or wait for takes one place of two words:
// the first names the successor, which the successor writes; the second is the turn, which the predecessor writes.
// Nobody else writes them, and nobody clears them: what they say is told apart by its count. The place of a client is
// named by a number of 48 bits, which is also what the latch word holds:
//
//   bit 0       1
//   bits 1-15   the place
//   bits 16-31  the client
//   bits 32-47  counts the acquisitions of the place, so that what is said of an earlier one is recognized
//
// The successor is this number of the successor, and the count of the place that it follows in bits 48 to 63.
//
// Thread-safety: belongs to its node's reactor's thread. It must outlive the sessions that use it.
#pragma once

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/task.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sidelatch::sync {

class LatchPeers {
 public:
  static constexpr std::uint32_t kMostPlaces = 32767;

  /// `number`: 1 to 65535, unique among the clients that share latches. `places`: latches held or waited for at once, 1
  /// to kMostPlaces. Throws std::invalid_argument.
  LatchPeers(fabric::Node& node, std::uint16_t number, std::uint32_t places = 16);
  LatchPeers(const LatchPeers&) = delete;
  LatchPeers& operator=(const LatchPeers&) = delete;
  ~LatchPeers() = default;

  [[nodiscard]] fabric::Node& node() const noexcept { return *node_; }
  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }
  /// The memory that the other clients write.
  [[nodiscard]] fabric::RemoteSpan remote() const noexcept { return words_.remote(); }

  /// Connects two clients of one fabric, both ways. Throws std::invalid_argument for equal numbers.
  static void connect(LatchPeers& a, LatchPeers& b);
  /// Connects all with each other: n * (n - 1) queue pairs.
  static void connect_all(std::span<LatchPeers* const> clients);
  /// A client that is reached through `node`. Throws std::invalid_argument for this client's own number, and for one
  /// that is there already.
  void add(std::uint16_t number, fabric::Node& node, const fabric::RemoteSpan& remote);

  // ---- For latches.

  /// A place, until it is given back: the number of the next acquisition. Throws LatchError::buffers_exhausted if none
  /// is free.
  [[nodiscard]] std::uint64_t take_place();
  void give_back(std::uint64_t place) noexcept;
  /// Tells the predecessor that `place` comes after it. Throws FabricError, and std::invalid_argument for a client that
  /// is not connected. follow_again(): if it is not known whether that has happened; the place of the predecessor may
  /// be another acquisition's by now, and have another follower.
  [[nodiscard]] fabric::Task<void> follow(std::uint64_t predecessor, std::uint64_t place);
  [[nodiscard]] fabric::Task<void> follow_again(std::uint64_t predecessor, std::uint64_t place);
  /// Waits for the turn that the predecessor gives.
  [[nodiscard]] fabric::Task<void> wait_for_turn(std::uint64_t place);
  /// Whether a successor has said that it follows.
  [[nodiscard]] fabric::Task<bool> has_successor(std::uint64_t place);
  /// Waits until a successor has said that it follows, and returns its number.
  [[nodiscard]] fabric::Task<std::uint64_t> wait_for_successor(std::uint64_t place);
  /// Gives the successor its turn. Throws as follow(). give_turn_again(): as follow_again().
  [[nodiscard]] fabric::Task<void> give_turn(std::uint64_t place, std::uint64_t successor);
  [[nodiscard]] fabric::Task<void> give_turn_again(std::uint64_t place, std::uint64_t successor);

 private:
  struct Peer {
    std::uint16_t number = 0;
    std::unique_ptr<fabric::QueuePair> queue_pair;
    fabric::RemoteSpan words;
  };

  void let_say(std::uint32_t place, std::uint16_t count);
  [[nodiscard]] Peer& peer_of(std::uint64_t place);
  [[nodiscard]] fabric::Task<void> write(std::uint64_t from, std::uint64_t to, std::uint64_t offset,
                                         std::uint64_t word);
  [[nodiscard]] fabric::Task<std::uint64_t> look(std::uint64_t from, std::uint64_t at, std::uint64_t offset);

  fabric::Node* node_;
  std::uint16_t number_;
  fabric::MemoryRegion words_;
  fabric::MemoryRegion outgoing_;      // what is being written to others, or was read of them
  std::vector<std::uint16_t> counts_;  // by place
  std::vector<std::uint32_t> free_;
  std::vector<Peer> peers_;
};

}  // namespace sidelatch::sync

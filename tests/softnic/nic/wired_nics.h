// NICs in one thread, with a wire that loses, repeats, reorders and delays frames according to a seed.
#pragma once

#include "softnic/nic/nic.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace sidelatch::softnic::nic {

/// A NIC with a protection domain, a region of memory with all rights, and completion queues.
class Host {
 public:
  static constexpr std::size_t kMemoryBytes = std::size_t{1} << 18;

  /// `id` is 1 to 255, the last byte of its addresses. GID 0 is IPv4, GID 1 IPv6.
  explicit Host(std::uint8_t id, std::unique_ptr<MemoryAccess> access = std::make_unique<ImmediateAccess>(),
                NicOptions options = {});

  [[nodiscard]] std::byte* at(std::size_t offset) { return data_ + offset; }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t offset, std::size_t length) { return {data_ + offset, length}; }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(data_) + offset;
  }
  [[nodiscard]] Sge sge(std::size_t offset, std::size_t length) const {
    return {address(offset), static_cast<std::uint32_t>(length), key};
  }
  [[nodiscard]] std::uint64_t& word(std::size_t offset) { return *reinterpret_cast<std::uint64_t*>(data_ + offset); }
  /// Bytes that differ between seeds.
  void fill(std::size_t offset, std::size_t length, std::uint32_t seed);
  /// All present completions.
  [[nodiscard]] std::vector<Completion> sent() { return poll(sends); }
  [[nodiscard]] std::vector<Completion> received() { return poll(receives); }
  [[nodiscard]] std::vector<Event> events();
  [[nodiscard]] AddressVector address_of(const Host& other, std::uint8_t gid_index = 0) const;
  [[nodiscard]] QueuePairOptions options(QueuePairType type = QueuePairType::rc) const;

 private:
  [[nodiscard]] static std::vector<Completion> poll(CompletionQueue& queue);
  std::unique_ptr<MemoryAccess> access_;
  std::vector<std::byte> memory_;
  std::byte* data_;

 public:
  Nic nic;
  const Domain domain;
  CompletionQueue& sends;
  CompletionQueue& receives;
  const std::uint32_t key;
};

/// Parameters of a test's connection.
struct Link {
  PathMtu mtu = PathMtu::b1024;
  Psn a_to_b{0xfffff0};
  Psn b_to_a{0x123456};
  std::uint8_t timeout = 8;  ///< 1.05 ms
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;  ///< 0.64 ms
  std::uint8_t rd_atomic = 4;
  std::uint8_t dest_rd_atomic = 4;
  std::uint8_t gid_index = 0;
  Rights rights = Rights::all;
};

/// Attributes for the three steps to RTS, and the sets that they need.
[[nodiscard]] QueuePairAttributes to_init(QueuePairType type, Rights rights = Rights::all);
[[nodiscard]] Attributes init_set(QueuePairType type);
[[nodiscard]] QueuePairAttributes to_rtr(const Link& link, const AddressVector& to, std::uint32_t remote_qp, Psn psn);
[[nodiscard]] Attributes rtr_set(QueuePairType type);
[[nodiscard]] QueuePairAttributes to_rts(const Link& link, Psn psn);
[[nodiscard]] Attributes rts_set(QueuePairType type);
void bring_up(QueuePair& pair, const Link& link, const AddressVector& to, std::uint32_t remote_qp, Psn receive,
              Psn send);

/// Two connected queue pairs.
struct Connection {
  QueuePair& a;
  QueuePair& b;
};
[[nodiscard]] Connection connect(Host& a, Host& b, const Link& link = {});
[[nodiscard]] Connection connect(Host& a, Host& b, const Link& link, const QueuePairOptions& a_options,
                                 const QueuePairOptions& b_options);

struct WireFaults {
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;  ///< the frame is late by some delays
};

class LossyWire {
 public:
  LossyWire(std::vector<Host*> hosts, WireFaults faults = {}, std::uint64_t seed = 1)
      : hosts_(std::move(hosts)), faults_(faults), random_(seed) {}

  /// Runs until nothing happens any more, or `done` returns true.
  void run(const std::function<bool()>& done = {});
  /// Moves present frames, and those that they cause, without advancing time to timers.
  void deliver();
  void set_faults(WireFaults faults) { faults_ = faults; }
  /// Sees each frame before its fate is decided. It may change the frame, and returns whether to pass it on.
  std::function<bool(std::vector<std::byte>& frame)> on_send;
  [[nodiscard]] Time now() const { return now_; }
  void set_now(Time now) { now_ = now; }
  [[nodiscard]] std::uint64_t carried() const { return carried_; }

 private:
  struct Flight {
    Time at;
    std::uint64_t order;
    std::vector<std::byte> frame;
    bool operator>(const Flight& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  void pull();
  void send(std::vector<std::byte> frame);
  void land();
  [[nodiscard]] bool chance(double probability) { return std::uniform_real_distribution<>()(random_) < probability; }

  std::vector<Host*> hosts_;
  WireFaults faults_;
  std::mt19937_64 random_;
  std::vector<Flight> flying_;  // a heap
  std::uint64_t order_ = 0;
  std::uint64_t carried_ = 0;
  Time now_ = 1000;
};

}  // namespace sidelatch::softnic::nic

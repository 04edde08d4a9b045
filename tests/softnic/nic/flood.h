// Shared by the tests of floods: frames that a NIC must discard, and a client that checks each byte.
#pragma once

#include "softnic/nic/nic.h"
#include "tests/roce/samples.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace sidelatch::softnic::nic {

/// Malformed and misdirected frames for a queue pair, made from the corpus, the captures and a seed. The NIC must not
/// accept any of them: each is refused or counted as misdirected.
class FloodFrames {
 public:
  struct Target {
    MacAddress mac{};
    Gid gid{};
    std::uint32_t queue_pair = 0;
    /// The peer of the queue pair; some frames pretend to come from it.
    MacAddress peer_mac{};
    Gid peer_gid{};
  };
  FloodFrames(const Target& target, std::uint64_t seed);
  [[nodiscard]] const Bytes& next();

 private:
  Target target_;
  std::mt19937_64 random_;
  std::vector<Bytes> valid_;  // addressed to the target, from somebody else
  Bytes frame_;
};

/// Writes, adds and reads over a reliable connection, as many at a time as its queue pair allows, and compares.
class CheckedClient {
 public:
  static constexpr std::size_t kObjectBytes = 200;
  static constexpr std::size_t kAtATime = 5;  // of three requests each
  static constexpr std::uint32_t kSendDepth = 3 * kAtATime;
  /// Both memories contain an object for each operation in flight. The client's also has a word; the other side's has
  /// the counter behind the objects.
  static constexpr std::size_t kCounterOffset = 8192;
  static constexpr std::size_t kMemoryBytes = 16384;

  struct Memory {
    std::byte* data = nullptr;  ///< kMemoryBytes
    std::uint32_t key = 0;
    std::uint64_t remote_address = 0;  ///< of kMemoryBytes
    std::uint32_t rkey = 0;
  };
  CheckedClient(QueuePair& pair, CompletionQueue& completions, const Memory& memory)
      : pair_(pair), completions_(completions), memory_(memory) {}

  /// Takes completions and posts as much as there is room for.
  void go_on();
  /// The number of operations completed with correct values.
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  /// Empty if all were right.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }

 private:
  [[nodiscard]] static std::byte byte_of(std::uint64_t round, std::size_t i) {
    return static_cast<std::byte>((round + 1) * 0x9e3779b97f4a7c15 >> (i % 57));
  }
  [[nodiscard]] static std::size_t place_of(std::uint64_t round) { return round % kAtATime * 3 * 512; }
  void begin();
  void end(std::uint64_t round);
  void complain(const std::string& what);

  QueuePair& pair_;
  CompletionQueue& completions_;
  Memory memory_;
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t operations_ = 0;
  std::string complaint_;
};

}  // namespace sidelatch::softnic::nic

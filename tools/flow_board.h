// What the processes of `sidelatch flow` share: one piece of memory, which the units find as an open file. The switch
// writes a unit's task before it starts it; the unit writes its offer, then counts what it does, then says how it
// ended.
//
// An item is 64-bit words: the first one is its producer and its number, the others follow from it. So a consumer knows
// an item that was lost, doubled, torn, or put into the wrong place.
#pragma once

#include "common/file_descriptor.h"

#include <sidelatch/flows/flow_switch.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::tools {

inline constexpr std::size_t kMostFlowUnits = 32;  // of each kind

/// What a unit does wrong on purpose, so that the checks are seen to work.
enum class FlowMistake : std::uint8_t { none, lost, twice, swapped, torn, chain, syscall };

struct FlowTask {
  flows::FlowKind kind = flows::FlowKind::shuffle;
  std::uint32_t producers = 1;          ///< with those that join
  std::uint32_t consumers = 1;          ///< with those that join
  std::uint32_t joining_producers = 0;  ///< of these, the last ones
  std::uint32_t joining_consumers = 0;
  std::uint64_t items = 0;  ///< that each producer pushes
  flows::RingShape shape{};
  std::uint32_t path_mtu = 4096;
  flows::Ipv4Address switch_ip{};
  bool no_system_calls = false;
  FlowMistake mistake = FlowMistake::none;  ///< of the first producer, or of the first consumer

  /// Rings of one unit.
  [[nodiscard]] std::uint32_t rings_of_producer() const noexcept {
    return kind == flows::FlowKind::shuffle ? consumers : 1;
  }
  /// The consumer of an item of a shuffle.
  [[nodiscard]] std::uint32_t consumer_of(std::uint64_t number) const noexcept {
    std::uint64_t key = number * 0x9e37'79b9'7f4a'7c15U;
    key ^= key >> 32U;
    return static_cast<std::uint32_t>(key % consumers);
  }
};

/// What the switch's process does to a unit while the flow runs.
enum class FlowFate : std::uint32_t { stays, leaves, killed };

enum class FlowUnitPhase : std::uint32_t {
  setting_up,
  ready,
  done,      ///< all came, and was right
  violated,  ///< the flow has not kept a promise: `message`
  failed     ///< something else: `message`
};

struct FlowUnitRow {
  // From the switch.
  std::atomic<FlowFate> fate{FlowFate::stays};
  bool is_producer = false;
  std::uint32_t number = 0;
  std::array<flows::SwitchEnd, kMostFlowUnits> ends{};
  std::array<char, 64> device{};  // as libibverbs calls it; empty: the software NIC
  // From the unit.
  flows::MacAddress mac{};
  flows::Ipv4Address ip{};
  std::array<std::uint32_t, kMostFlowUnits> queue_pairs{};
  std::array<std::uint64_t, kMostFlowUnits> addresses{};
  std::array<std::uint32_t, kMostFlowUnits> rkeys{};
  std::atomic<FlowUnitPhase> phase{FlowUnitPhase::setting_up};
  std::array<char, 300> message{};
  std::uint64_t chain = 0;         ///< of a consumer of a replicated flow: follows from all items in their order
  std::int32_t system_call = -1;   ///< that was made and forbidden
  bool is_broken = false;          ///< a consumer has seen this mark in place of the end
  std::uint32_t broken_rings = 0;  ///< a producer has seen it: bits
  /// Of a consumer, for each producer: items that came from it, and the least number that has not come.
  std::array<std::uint64_t, kMostFlowUnits> came{};
  std::array<std::uint64_t, kMostFlowUnits> next{};
  alignas(64) std::atomic<std::uint64_t> items{0};

  void end(FlowUnitPhase how, const std::string& why = {}) noexcept;
  [[nodiscard]] std::string why() const { return message.data(); }
};

class FlowBoard {
 public:
  /// Makes it. Throws std::runtime_error.
  explicit FlowBoard(const FlowTask& task);
  /// The one that another process has made.
  explicit FlowBoard(int file);
  FlowBoard(const FlowBoard&) = delete;
  FlowBoard& operator=(const FlowBoard&) = delete;
  ~FlowBoard();

  [[nodiscard]] int file() const noexcept { return file_.number(); }
  [[nodiscard]] const FlowTask& task() const noexcept { return shared_->task; }
  [[nodiscard]] FlowUnitRow& producer(std::uint32_t i) noexcept { return shared_->rows[i]; }
  [[nodiscard]] FlowUnitRow& consumer(std::uint32_t i) noexcept { return shared_->rows[kMostFlowUnits + i]; }
  /// All units are ready, and the switch knows them.
  void begin() noexcept { shared_->has_begun.store(true, std::memory_order_release); }
  [[nodiscard]] bool has_begun() const noexcept { return shared_->has_begun.load(std::memory_order_acquire); }
  /// Of a balanced flow: a bit for each item of the producer that this consumer has got.
  [[nodiscard]] std::span<std::uint64_t> got(std::uint32_t consumer, std::uint32_t producer) noexcept;

 private:
  struct Shared {
    FlowTask task;
    std::atomic<bool> has_begun{false};
    std::array<FlowUnitRow, 2 * kMostFlowUnits> rows;
  };
  static std::size_t words_of(const FlowTask& task) noexcept;
  void map(std::size_t bytes);

  FileDescriptor file_;
  Shared* shared_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Fills an item of at least 8 bytes.
void fill_item(std::span<std::byte> item, std::uint32_t producer, std::uint64_t number) noexcept;
struct ItemName {
  std::uint32_t producer = 0;
  std::uint64_t number = 0;
};
/// Which item it says it is.
[[nodiscard]] ItemName name_of_item(std::span<const std::byte> item) noexcept;
/// Whether all of it is this item.
[[nodiscard]] bool is_whole_item(std::span<const std::byte> item) noexcept;

/// The unit's process, `which` as given to --unit by the process that started it: "FILE,p0" or "FILE,c3".
int run_flow_unit(const std::string& which);

}  // namespace sidelatch::tools

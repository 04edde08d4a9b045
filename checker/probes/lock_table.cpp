#include <sidelatch/checker/lock_table.h>

namespace sidelatch::checker {

using namespace fabric;

std::optional<LockTable> probe_lock_table(Node& storage, std::span<Node* const> clients,
                                          const LockTableOptions& options) {
  constexpr std::uint32_t kGroupWorkers = 32;  // enough to keep two slots busy on any NIC known
  constexpr std::uint32_t kLowestBit = 3;      // an atomic's word is 8 bytes
  constexpr std::uint32_t kHighestBit = 20;
  constexpr double kTwoSlots = 1.5;  // halfway between the rate of one slot and of two

  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  ClosedLoop loop;
  loop.queue_pairs = &queue_pairs;
  loop.workers = kGroupWorkers;
  loop.warm_up = options.warm_up;
  loop.measured = options.measured;
  LockTable table;
  ClosedLoopResult contended = run_closed_loop(storage, clients, loop);
  while (contended.operations < options.least_operations) {
    if (!options.keep_going()) {
      return std::nullopt;
    }
    loop.measured *= 2;
    contended = run_closed_loop(storage, clients, loop);
  }
  table.contended_mops = contended.mops();

  for (std::uint32_t bit = kLowestBit; bit <= kHighestBit; ++bit) {
    if (!options.keep_going()) {
      return std::nullopt;
    }
    loop.offset = [bit](std::uint32_t w) { return w % 2 == 0 ? 0 : std::uint64_t{1} << bit; };
    if (run_closed_loop(storage, clients, loop).mops() >= kTwoSlots * table.contended_mops) {
      table.slot_bytes = table.address_bits == 0 ? std::uint64_t{1} << bit : table.slot_bytes;
      table.address_bits = bit + 1;
      table.slots *= 2;
    }
  }

  loop.workers = 4 * kGroupWorkers;
  loop.offset = [](std::uint32_t w) { return std::uint64_t{w} * 8; };
  table.uncontended_mops = run_closed_loop(storage, clients, loop).mops();
  return table;
}

}  // namespace sidelatch::checker

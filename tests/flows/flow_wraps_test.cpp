// PSNs that come around to where a consumer was last heard.
#include "flow_network.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sidelatch::flows {
namespace {
namespace wraps {

constexpr std::uint32_t kDataPhase = 8;
constexpr std::uint32_t kFillPhase = 11;
constexpr std::uint32_t kPsnMask = 0xff'ffff;
constexpr std::uint32_t kPackets = 2;  // of a batch
constexpr softnic::nic::Time kLongest = 100'000'000;

// Consumer 0 of a balanced flow acknowledges no data, so that its PSNs are filled, until there have been so many that
// the next batch begins one PSN before the one up to which it was last heard to have data. Then it acknowledges all.
// Failed: the thread believed that the consumer had the first packet of each batch, and none ever came.
TEST(FlowWraps, FilledPsnsAreNotTakenForDataThatHasArrived) {
  FlowNetwork network(zero_sided_program(), {.consumers = 2,
                                             .kind = FlowKind::balance,
                                             .producer_shape = {.slots = 8, .item_bytes = 300},
                                             .consumer_shape = {.slots = 2, .item_bytes = 300},
                                             .path_mtu = 256,
                                             .batch_bytes = 300});
  const auto reg = [&](const char* name) -> p4::RegisterState& {
    return network.device().state().reg(std::string("Move.") + name);
  };
  const auto phase = [&] { return static_cast<std::uint32_t>(reg("phases").read(0)); };
  bool is_healed = false;
  network.on_send = [&](std::size_t from, std::size_t, std::span<const std::byte>) {
    return from == network.host_of_consumer(0) && !is_healed && phase() == kDataPhase ? 0 : -1;
  };
  std::uint32_t of_first = 0;
  bool is_set = false;
  bool has_filled = false;
  network.run([&] {
    while (network.push(0)) {
    }
    if (!is_set && phase() == kDataPhase) {
      const auto psn = static_cast<std::uint32_t>(reg("consumer_psns").read(0));
      reg("reached").write(0, (psn + kPackets + 1) & kPsnMask);
      is_set = true;
    }
    has_filled = has_filled || phase() == kFillPhase;
    is_healed = is_healed || (has_filled && phase() != kFillPhase);
    while (const std::optional<ItemName> name = network.pop(0)) {
      ++of_first;
    }
    return of_first == 4 || network.now() > kLongest;  // consumer 1 never pops: these are for consumer 0 alone
  });
  EXPECT_TRUE(has_filled);
  EXPECT_EQ(of_first, 4U);
}

}  // namespace wraps
}  // namespace
}  // namespace sidelatch::flows

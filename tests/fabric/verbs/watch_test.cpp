// What the reactor of real NICs looks at while tasks wait for words of memory.
#include "fabric/verbs/reactor.h"
#include "stub_provider.h"

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sidelatch::fabric::verbs {
namespace {

// Waits for each number of its own word, and then gives it to the other one.
Task<void> pass_on(Cpu* cpu, LocalSpan own, LocalSpan other, std::uint64_t rounds, VerbsReactor* reactor,
                   std::size_t* most) {
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    co_await cpu->wait(own, WordCondition::is(round));
    *most = std::max(*most, reactor->watched());
    co_await cpu->store(other, round);
  }
}

Task<void> give(Cpu* cpu, LocalSpan other, LocalSpan own, std::uint64_t rounds) {
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    co_await cpu->store(other, round);
    co_await cpu->wait(own, WordCondition::is(round));
  }
}

// Who stores what the other waits for goes on to wait itself, before the other does.
TEST(WatchedWords, AreLookedAtOnceHoweverOftenTasksWait) {
  stub_device() = {};
  VerbsFabric fabric;
  Node& node = fabric.add_node("node");
  const MemoryRegion words = node.allocate(24, Access::local_write);
  auto& reactor = static_cast<VerbsReactor&>(fabric.reactor());
  Cpu& cpu = node.cpu();
  std::size_t most = 0;
  constexpr std::uint64_t kRounds = 100;
  reactor.spawn(pass_on(&cpu, words.local(0, 8), words.local(8, 8), kRounds, &reactor, &most));
  reactor.spawn(give(&cpu, words.local(0, 8), words.local(8, 8), kRounds));
  reactor.run();
  EXPECT_EQ(most, 1U);
  EXPECT_EQ(reactor.watched(), 0U);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs

// What the accesses of a node's own CPU promise in every world (cpu.h): scenarios of tasks, which each world runs. The
// simulator and verbs run them once, or some times; the explorer in every execution, under every preset.
#pragma once

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/fabric.h>
#include <sidelatch/fabric/queue_pair.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>

namespace sidelatch::fabric::cpu_suite {

/// Two nodes, with memory that the other may reach, buffers, and a queue pair to the other. The tasks of node `i` use
/// side `i` only.
struct Site {
  struct Side {
    Node* node = nullptr;
    MemoryRegion words;   // one word to a line
    MemoryRegion buffer;  // the same
    std::unique_ptr<QueuePair> qp;

    [[nodiscard]] Cpu& cpu() const { return node->cpu(); }
    [[nodiscard]] LocalSpan own(std::uint64_t line) const { return words.local(line * 64, 8); }
    [[nodiscard]] RemoteSpan word(std::uint64_t line) const { return words.remote(line * 64, 8); }
    [[nodiscard]] LocalSpan out(std::uint64_t line, std::uint64_t value) const {
      const LocalSpan span = buffer.local(line * 64, 8);
      std::memcpy(span.data, &value, 8);
      return span;
    }
    [[nodiscard]] LocalSpan in(std::uint64_t line) const { return buffer.local(line * 64, 8); }
  };

  Site(Node& first, Node& second, std::function<void(bool, std::string_view)> require_function)
      : require(std::move(require_function)) {
    for (std::size_t i = 0; i < 2; ++i) {
      Side& side = sides.at(i);
      side.node = i == 0 ? &first : &second;
      side.words = side.node->allocate(256, Access::remote_all);
      side.buffer = side.node->allocate(256, Access::local_write);
    }
    sides[0].qp = first.connect(second);
    sides[1].qp = second.connect(first);
  }

  std::array<Side, 2> sides;
  std::function<void(bool, std::string_view)> require;
};

struct Scenario {
  std::string_view name;
  Task<void> (*first)(Site* site, Site::Side* me, Site::Side* other);
  Task<void> (*second)(Site* site, Site::Side* me, Site::Side* other);
  Task<void> (*third)(Site* site, Site::Side* me, Site::Side* other) = nullptr;  ///< one more of the first node
};

inline Task<void> nothing(Site* /*site*/, Site::Side* /*me*/, Site::Side* /*other*/) { co_return; }

inline Task<void> load_own_stores(Site* site, Site::Side* me, Site::Side* /*other*/) {
  co_await me->cpu().store(me->own(0), 5);
  co_await me->cpu().store(me->own(1), 6);
  const std::uint64_t first = co_await me->cpu().load(me->own(0));
  site->require(first == 5, "a load did not see the store before it");
  co_await me->cpu().fence();
  const std::uint64_t second = co_await me->cpu().load(me->own(1));
  site->require(second == 6, "a load behind a fence did not see the store");
  const std::uint64_t third = co_await me->cpu().wait(me->own(1), WordCondition::is(6));
  site->require(third == 6, "a wait for what is there gave something else");
}

inline Task<void> write_seven(Site* /*site*/, Site::Side* me, Site::Side* other) {
  co_await me->qp->write(me->out(0, 7), other->word(0));
}
inline Task<void> wait_for_seven(Site* site, Site::Side* me, Site::Side* /*other*/) {
  const std::uint64_t seen = co_await me->cpu().wait(me->own(0), WordCondition::is_not(0));
  site->require(seen == 7, "a wait gave another word than the WRITE had");
}

inline Task<void> add_thrice(Site* /*site*/, Site::Side* me, Site::Side* other) {
  for (int i = 0; i < 3; ++i) {
    co_await me->qp->fetch_add(other->word(0), 1);
  }
}
inline Task<void> wait_for_three(Site* site, Site::Side* me, Site::Side* /*other*/) {
  const std::uint64_t some = co_await me->cpu().wait(me->own(0), WordCondition::is_not(0));
  site->require(some >= 1 && some <= 3, "a wait gave a word that never was there");
  const std::uint64_t last = co_await me->cpu().wait(me->own(0), WordCondition::is(3));
  site->require(last == 3, "a wait gave another word than it asked for");
}

inline Task<void> set_two_parts(Site* /*site*/, Site::Side* me, Site::Side* other) {
  co_await me->qp->fetch_add(other->word(0), 0x1'0000'0002);
}
inline Task<void> wait_for_a_part(Site* site, Site::Side* me, Site::Side* /*other*/) {
  const std::uint64_t seen =
      co_await me->cpu().wait(me->own(0), WordCondition::is(std::uint64_t{1} << 32).in(0xffff'ffff'0000'0000));
  site->require(seen == 0x1'0000'0002, "a wait for a part of a word gave a part of it");
}

// The atomic is executed after the WRITE before it is placed (rule 5), so who sees the one sees the other.
inline Task<void> write_and_flag(Site* /*site*/, Site::Side* me, Site::Side* other) {
  co_await me->qp->submit(write(me->out(0, 9), other->word(1)), fetch_add(other->word(0), 1));
}
inline Task<void> wait_and_load(Site* site, Site::Side* me, Site::Side* /*other*/) {
  co_await me->cpu().wait(me->own(0), WordCondition::is(1));
  const std::uint64_t data = co_await me->cpu().load(me->own(1));
  site->require(data == 9, "a load behind a wait did not see what was placed before the word");
}

// A wait by each of the two for the other's WRITE, after a store of its own.
inline Task<void> serve(Site* site, Site::Side* me, Site::Side* other) {
  co_await me->qp->write(me->out(0, 1), other->word(0));
  const std::uint64_t answer = co_await me->cpu().wait(me->own(0), WordCondition::is_not(0));
  site->require(answer == 2, "the answer is another one");
}
inline Task<void> answer(Site* /*site*/, Site::Side* me, Site::Side* other) {
  const std::uint64_t question = co_await me->cpu().wait(me->own(0), WordCondition::is_not(0));
  co_await me->qp->write(me->out(0, question + 1), other->word(0));
}

// The NIC takes a request after the stores before its post have drained.
inline Task<void> store_and_send(Site* /*site*/, Site::Side* me, Site::Side* other) {
  co_await me->cpu().store(me->own(2), 7);
  co_await me->qp->write(me->own(2), other->word(0));
}

inline Task<void> store_twice(Site* /*site*/, Site::Side* me, Site::Side* /*other*/) {
  co_await me->cpu().store(me->own(0), 1);
  co_await me->cpu().store(me->own(1), 2);
}
inline Task<void> wait_for_a_task(Site* site, Site::Side* me, Site::Side* /*other*/) {
  co_await me->cpu().wait(me->own(1), WordCondition::is(2));
  const std::uint64_t first = co_await me->cpu().load(me->own(0));
  site->require(first == 1, "the stores of a task of this CPU were seen out of order");
}

// Words of a local buffer, which the node's own READ changes.
inline Task<void> wait_for_the_read(Site* site, Site::Side* me, Site::Side* other) {
  co_await me->cpu().store(me->own(1), 1);
  co_await me->qp->fetch_add(other->word(3), 7);
  co_await me->qp->read(me->in(0), other->word(3));
  const std::uint64_t seen = co_await me->cpu().wait(me->in(0), WordCondition::is(7));
  site->require(seen == 7, "a READ's bytes are not there after its completion");
}

inline Task<void> write_both(Site* /*site*/, Site::Side* me, Site::Side* other) {
  co_await me->qp->submit(write(me->out(1, 8), other->word(1)), write(me->out(0, 7), other->word(0)));
}
inline Task<void> wait_for_eight(Site* site, Site::Side* me, Site::Side* /*other*/) {
  const std::uint64_t seen = co_await me->cpu().wait(me->own(1), WordCondition::is_not(0));
  site->require(seen == 8, "a wait ended with another's word");
}

inline constexpr std::array kScenarios = {
    Scenario{"ALoadSeesItsOwnStores", load_own_stores, nothing},
    Scenario{"AWaitEndsWithTheWordOfAWrite", wait_for_seven, write_seven},
    Scenario{"AWaitEndsWithTheResultOfAtomics", wait_for_three, add_thrice},
    Scenario{"AWaitForAPartGivesTheWholeWord", wait_for_a_part, set_two_parts},
    Scenario{"AWaitShowsWhatWasPlacedBefore", wait_and_load, write_and_flag},
    Scenario{"TwoNodesWaitForEachOther", serve, answer},
    Scenario{"ARequestComesAfterTheStoresBeforeIt", wait_for_seven, store_and_send},
    Scenario{"AWaitSeesTheStoreOfAnotherTask", wait_for_a_task, nothing, store_twice},
    Scenario{"TwoTasksWaitForWordsOfTheirOwn", wait_for_seven, write_both, wait_for_eight},
    Scenario{"AReadIsSeenByTheCpu", wait_for_the_read, nothing},
};

}  // namespace sidelatch::fabric::cpu_suite

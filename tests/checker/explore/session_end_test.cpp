// A session that ends while its asynchronous unlatch is under way: close() waits for it, and the queue pair may go.
// Ending without it is no execution that the model has an answer for, and the explorer says so.
#include <sidelatch/explore/gtest.h>
#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/layout.h>
#include <sidelatch/sync/session.h>

#include "checking.h"
#include "clients.h"
#include "started.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace sidelatch::explore {
namespace {

using fabric::Task;
using fabric::model::Preset;

enum class SessionEnd : std::uint8_t { closes, leaves };

// One record behind a latch whose unlatch nobody waits for, as is the default.
struct LatchedRecord {
  explicit LatchedRecord(World& world)
      : layout(latch.shape(8, sync::LayoutKind::padded), sync::LayoutKind::padded, 1),
        node(&world.add_node("memory")),
        memory(node->allocate(layout.total_bytes(), fabric::Access::remote_all)),
        objects(layout, memory.remote()) {}

  sync::ExclusiveLatch latch{sync::LatchLevel::async};
  sync::Layout layout;
  fabric::Node* node;
  fabric::MemoryRegion memory;
  sync::ObjectArray objects;
};

struct EndingClient {
  EndingClient(World& world, LatchedRecord& the_record, std::string_view name)
      : record(&the_record), node(&world.add_node(name)), qp(node->connect(*the_record.node)) {
    session.emplace(*qp, sync::buffer_bytes(the_record.layout.shape()));
  }

  LatchedRecord* record;
  fabric::Node* node;
  std::unique_ptr<fabric::QueuePair> qp;
  std::optional<sync::Session> session;
};

Task<void> count_and_end(EndingClient* client, SessionEnd end) {
  {
    sync::ExclusiveGuard guard = co_await client->record->latch.latch(*client->session, client->record->objects.at(0));
    const std::uint64_t value = word_in(guard.payload()) + 1;
    std::memcpy(guard.payload().data(), &value, sizeof value);
    co_await guard.commit();
  }
  if (end == SessionEnd::closes) {
    co_await client->session->close();
  }
  client->session.reset();
  client->qp.reset();
}

Program two_that_end(SessionEnd end) {
  return [end](World& world) {
    auto& record = world.make<LatchedRecord>(world);
    for (const char* const name : {"client 0", "client 1"}) {
      auto& client = world.make<EndingClient>(world, record, name);
      world.spawn(*client.node, count_and_end(&client, end));
    }
    world.at_end([&world, &record](const Order& /*order*/) {
      const std::span<const std::byte> bytes = record.memory.bytes();
      world.require(word_in(bytes, record.layout.latch(0)) == sync::kFree, "a session that ended left its latch held");
      world.require(word_in(bytes, record.layout.payload(0)) == 2, "an acknowledged update is lost");
    });
  };
}

TEST(SessionEnd, AfterCloseNoLatchIsHeldAndNoUpdateIsLost) {
  for (const Preset preset : kPresets) {
    EXPECT_TRUE(is_safe(two_that_end(SessionEnd::closes), under(preset))) << name(preset);
  }
}

TEST(SessionEnd, WithoutCloseRequestsAreInFlight) {
  for (const Preset preset : kPresets) {
    const Verdict verdict = check(two_that_end(SessionEnd::leaves), under(preset));
    ASSERT_TRUE(verdict.violation) << name(preset);
    EXPECT_EQ(verdict.violation->kind, Kind::exception);
    EXPECT_THAT(to_text(verdict), ::testing::HasSubstr("with requests in flight")) << name(preset);
  }
}

// A coroutine that is destroyed may have latched the object. In other worlds the session's destructor finds out, and
// gives the latch back.
Task<void> latch_later(EndingClient* client) {
  co_await client->node->reactor().sleep(fabric::from_ns(1));
  sync::ExclusiveGuard guard = co_await client->record->latch.latch(*client->session, client->record->objects.at(0));
  co_await guard.commit();
}

Started begin_to_latch(EndingClient* client) { co_await latch_later(client); }

Task<void> destroy_and_end(EndingClient* client, World* world) {
  {
    const Started other = begin_to_latch(client);
    co_await world->yield(*client->node);
    co_await world->yield(*client->node);
  }
  client->session.reset();
}

TEST(SessionEnd, GivesNoLatchBackHereWhichIsNotExplored) {
  const Program program = [](World& world) {
    auto& record = world.make<LatchedRecord>(world);
    auto& client = world.make<EndingClient>(world, record, "client 0");
    world.spawn(*client.node, destroy_and_end(&client, &world));
    world.at_end([&world, &record](const Order& /*order*/) {
      world.require(word_in(record.memory.bytes(), record.layout.latch(0)) == sync::kFree, "the latch is held");
    });
  };
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    Options options = under(Preset::observed);
    options.mode = mode;
    const Verdict verdict = check(program, options);
    EXPECT_EQ(verdict.outcome, Outcome::bounded);
    EXPECT_FALSE(verdict.only_loops_bounded);
    EXPECT_THAT(to_text(verdict), ::testing::HasSubstr("client 0, which ends a session that has a latch to give back"));
  }
}

// Nothing else goes on while a client waits in no step. What it does then is of no execution.
Task<void> wait_in_no_step(fabric::QueuePair* qp, fabric::RemoteSpan word, fabric::LocalSpan buffer, World* world) {
  co_await qp->enqueue(fabric::write(buffer, word));
  const bool is_idle = qp->reactor().wait_until_idle(*qp, fabric::from_ns(1e9));
  world->require(is_idle, "the queue pair is not idle after a second");
}

TEST(SessionEnd, AWaitInNoStepIsNotExplored) {
  const auto waits = [](World& world) {
    fabric::Node& memory = world.add_node("memory");
    fabric::Node& node = world.add_node("client 0");
    auto& word = world.make<fabric::MemoryRegion>(memory.allocate(64, fabric::Access::remote_all));
    auto& buffer = world.make<fabric::MemoryRegion>(node.allocate(64, fabric::Access::local_write));
    auto& qp = world.make<std::unique_ptr<fabric::QueuePair>>(node.connect(memory));
    world.spawn(node, wait_in_no_step(qp.get(), word.remote(0, 8), buffer.local(0, 8), &world));
  };
  for (const Mode mode : {Mode::exhaustive, Mode::states}) {
    Options options = under(Preset::observed);
    options.mode = mode;
    const Verdict verdict = check(waits, options);
    EXPECT_EQ(verdict.outcome, Outcome::bounded);
    EXPECT_THAT(to_text(verdict), ::testing::HasSubstr("client 0, which makes the world go on"));
  }
}

}  // namespace
}  // namespace sidelatch::explore

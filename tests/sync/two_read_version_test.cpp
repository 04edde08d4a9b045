#include <sidelatch/sync/two_read_version.h>

#include "store.h"

#include <sidelatch/sync/latch_word.h>

#include <gtest/gtest.h>

#include <vector>

namespace sidelatch::sync {
namespace {

using namespace fabric;

// Remembers when each READ was posted and completed.
struct Reads final : sim::StepObserver {
  void on_step(const sim::SimStep& step) override {
    if (step.request->opcode != Opcode::read) {
      return;
    }
    if (step.kind == sim::SimStep::Kind::post) {
      addresses.push_back(step.request->remote.value);
      lengths.push_back(step.request->length());
      in_flight += 1;
      overlapped = overlapped || in_flight > 1;
    } else if (step.kind == sim::SimStep::Kind::complete) {
      in_flight -= 1;
    }
  }
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint64_t> lengths;
  int in_flight = 0;
  bool overlapped = false;
};

TEST(TwoReadVersion, ReadsHeaderPayloadHeaderOneAfterTheOther) {
  for (const LayoutKind kind : {LayoutKind::interleaved, LayoutKind::decoupled, LayoutKind::footer}) {
    const TwoReadVersion scheme;
    Store store(scheme, 200, 4, kind);
    Reads reads;
    store.world.observe(&reads);
    std::vector<std::byte> payload(200);
    EXPECT_TRUE(store.run(scheme.read(store.add_session(), store.objects.at(2), payload)).accepted);
    const std::uint64_t base = store.memory.remote().address.value;
    const std::uint64_t header = base + store.layout.header(2);
    const std::uint64_t data = base + store.layout.payload(2);
    EXPECT_EQ(reads.addresses, (std::vector{header, data, header})) << name(kind);
    EXPECT_EQ(reads.lengths, (std::vector<std::uint64_t>{16, 200, 16}));
    EXPECT_FALSE(reads.overlapped) << "two READs in flight may be sampled in either order (rule 5)";
  }
}

TEST(TwoReadVersion, DoesNotReadThePayloadOfALatchedObject) {
  const TwoReadVersion scheme;
  Store store(scheme);
  store.set_word(store.layout.latch(0), kExclusive);
  Reads reads;
  store.world.observe(&reads);
  Session& session = store.add_session({.retry = Retry::at_once().within(Duration(1))});
  std::vector<std::byte> payload(200);
  EXPECT_FALSE(store.run(scheme.read(session, store.objects.at(0), payload)).accepted);
  EXPECT_EQ(reads.lengths, (std::vector<std::uint64_t>{16}));
}

}  // namespace
}  // namespace sidelatch::sync

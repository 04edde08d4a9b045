// A B-tree on two memory nodes, of which one client loses the connection to one: what it had latched comes back.
#include "btree_fixture.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/sync/rw_latch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;

void ignore_loss(const LostWork& /*lost*/) {}

BTreeWorkerOptions patient() {
  BTreeWorkerOptions options;
  options.session.retry = Retry::backoff().within(from_ns(5e6));
  options.session.lost_work = ignore_loss;
  return options;
}

// The connection to memory node 1 ends while splits hold latches on memory node 0.
std::uint64_t keys_that_time_out(const Scheme& scheme) {
  Forest forest(scheme, small_nodes(), 2);
  BTree::Worker& worker = forest.add_worker(patient());
  std::uint64_t key = 1;
  for (; key <= 300; ++key) {
    EXPECT_EQ(forest.run(forest.tree->put(worker, key, Word(key).bytes())), Outcome::done);
  }
  forest.nodes[1]->revoke(worker.session(1).qp());
  int failures = 0;
  for (; failures < 30 && key < 1000; ++key) {
    try {
      (void)forest.run(forest.tree->put(worker, key, Word(key).bytes()));
    } catch (const FabricError&) {
      ++failures;
    }
  }
  EXPECT_EQ(failures, 30);
  EXPECT_EQ(worker.session(0).owed(), 0U);
  BTree::Worker& other = forest.add_worker(patient());
  std::uint64_t timed_out = 0;
  for (std::uint64_t q = 1; q < key; ++q) {
    timed_out += forest.run(forest.tree->put(other, q, Word(q).bytes())) == Outcome::timed_out ? 1U : 0U;
  }
  return timed_out;
}

class BTreeConnections : public ::testing::TestWithParam<checker::SchemeEntry> {};

TEST_P(BTreeConnections, ALostConnectionLeavesNoLatchHeldAtTheOtherMemoryNodes) {
  EXPECT_EQ(keys_that_time_out(*GetParam().make()), 0U);
}

std::vector<checker::SchemeEntry> sound() {
  std::vector<checker::SchemeEntry> chosen;
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    if (!entry.known_broken() && entry.kind != checker::Kind::model_only && entry.kind != checker::Kind::queue) {
      chosen.push_back(entry);
    }
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Registry, BTreeConnections, ::testing::ValuesIn(sound()), [](const auto& scheme) {
  std::string text(scheme.param.name);
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
});

}  // namespace
}  // namespace sidelatch::structures

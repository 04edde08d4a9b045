// The fault campaign: each structure in its smallest form, one operation at a time, and a fault at every point at which
// the operation waits. Afterwards no living client holds a latch, nothing is torn, and the structure passes its check.
// CI takes some schemes, SIDELATCH_LONG all.
#include "history.h"

#include "tests/sampled.h"
#include "tests/sync/victim.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/structures/btree.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/lease.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::IsEmpty;

constexpr std::uint64_t kValueBytes = 24;

enum class Fault : std::uint8_t {
  lost,        // the connection fails, and the client brings it back
  unanswered,  // the same, and requests in flight that were executed fail, too
  ended,       // the memory node ends the connection for good: the client makes a new one
};

struct FaultPoint {
  std::size_t memory_node = 0;
  std::uint64_t doorbells = 0;  // the fault comes when the client has rung so many since the operation began
  double delay_ns = 0;          // and so much later
};

// What an operation does, and the keys that are there before.
struct FaultCase {
  const char* name = "";
  bool tree = false;
  Addressing addressing = Addressing::chained;
  std::uint64_t keys = 0;     // 10, 20, ...
  std::uint64_t removed = 0;  // of these, the last are taken out again
  Call call = Call::put;
  std::uint64_t key = 0;
};

constexpr FaultCase kCases[] = {
    {"perfect put", false, Addressing::perfect, 0, 0, Call::put, 1},
    {"perfect get", false, Addressing::perfect, 0, 0, Call::get, 1},
    {"table get", false, Addressing::chained, 5, 0, Call::get, 50},
    {"table insert at home", false, Addressing::chained, 0, 0, Call::insert, 10},
    {"table insert in a new bucket", false, Addressing::chained, 5, 0, Call::insert, 65},
    {"table update of the oldest", false, Addressing::chained, 5, 0, Call::update, 10},
    {"table update of the newest", false, Addressing::chained, 5, 0, Call::update, 50},
    {"table remove of a bucket", false, Addressing::chained, 5, 0, Call::remove, 10},
    {"table remove of another", false, Addressing::chained, 5, 0, Call::remove, 30},
    {"tree get", true, Addressing::chained, 9, 0, Call::get, 30},
    {"tree insert", true, Addressing::chained, 3, 0, Call::insert, 25},
    {"tree insert that splits the root", true, Addressing::chained, 0, 0, Call::insert, 15},
    {"tree insert that splits a leaf", true, Addressing::chained, 0, 0, Call::insert, 1000},
    {"tree remove", true, Addressing::chained, 6, 0, Call::remove, 20},
    {"tree remove that merges", true, Addressing::chained, 12, 9, Call::remove, 20},
    {"tree remove that lowers the tree", true, Addressing::chained, 9, 7, Call::remove, 20},
};

std::vector<std::byte> bytes_of(std::uint64_t number) {
  std::vector<std::byte> value(kValueBytes);
  for (std::size_t i = 0; i < kValueBytes; i += 8) {
    std::memcpy(value.data() + i, &number, 8);
  }
  return value;
}

class FaultScene {
 public:
  FaultScene(const checker::SchemeEntry& entry, const FaultCase& what, bool revokes = true)
      : case_(what),
        revokes_(revokes),
        scheme_(entry.make()),
        copies_(entry.name.find("copy-on-write") != std::string_view::npos) {
    tree_options_ = {.value_bytes = kValueBytes, .nodes = 24};
    table_options_ = {.addressing = what.addressing, .value_bytes = kValueBytes};
    table_options_.capacity = what.addressing == Addressing::perfect ? 4 : 2;
    table_options_.entries_per_bucket = 1;
    if (what.addressing == Addressing::chained) {
      table_options_.overflow_buckets = 12;
    }
    std::uint64_t bytes = what.tree ? 0 : HashTable::bytes_needed(*scheme_, table_options_, 2);
    for (tree_options_.node_bytes = 256; bytes == 0; tree_options_.node_bytes += 64) {
      try {
        bytes = BTree::bytes_needed(*scheme_, tree_options_);
        break;
      } catch (const std::invalid_argument&) {  // until four values fit
      }
    }
    std::vector<RemoteSpan> spans;
    for (int i = 0; i < 2; ++i) {
      nodes_.push_back(&world_.add_node("storage"));
      regions_.push_back(nodes_.back()->allocate(bytes, Access::remote_all));
      spans.push_back(regions_.back().remote());
      services_.push_back(std::make_unique<RevocationService>(*nodes_.back()));
      revokers_.push_back(services_.back().get());
    }
    if (what.tree) {
      tree_ = std::make_unique<BTree>(*scheme_, tree_options_, spans);
    } else {
      table_ = std::make_unique<HashTable>(*scheme_, table_options_, spans);
    }
    client_ = &add(1);
    fill();
  }
  ~FaultScene() { world_.reactor().destroy_spawned(); }
  FaultScene(const FaultScene&) = delete;
  FaultScene& operator=(const FaultScene&) = delete;

  /// Doorbells that the operation rings when nothing goes wrong.
  std::uint64_t doorbells() {
    const std::uint64_t before = rung();
    start();
    world_.reactor().run();
    EXPECT_FALSE(failed_);
    return rung() - before;
  }
  void run_with(Fault fault, FaultPoint point) {
    const std::uint64_t before = rung();
    start();
    while (world_.reactor().spawned() > 0 && rung() - before < point.doorbells) {
      world_.reactor().run_for(from_ns(50));
    }
    world_.reactor().run_for(from_ns(point.delay_ns));
    QueuePair& qp = client_->session(point.memory_node).qp();
    if (fault == Fault::ended) {
      nodes_[point.memory_node]->revoke(qp);
    } else if (fault == Fault::unanswered) {
      (void)world_.lose_connection(qp);
    } else if (qp.state() == QueuePair::State::ready) {
      const WorkRequest bad = write(nothing_.local(), RemoteSpan{{64}, 8, {0xdead}});
      (void)qp.post(std::span(&bad, 1));
    }
    world_.reactor().run();
    world_.reactor().run_for(from_ns(20'000));
  }
  /// The operation meets a latch of a dead client, whom nobody can revoke.
  void run_with_a_dead_holder(std::size_t memory_node, std::uint64_t object) {
    const std::uint64_t word = exclusive_word(9, 1);
    std::memcpy(regions_[memory_node].bytes().data() + latch_offset(object), &word, 8);
    start();
    world_.reactor().run();
    world_.reactor().run_for(from_ns(20'000));
  }
  [[nodiscard]] std::uint64_t objects() const { return objects_layout().count(); }
  /// The latches of a memory node's nodes or buckets that are held.
  [[nodiscard]] int held_at(std::size_t memory_node) const {
    int held = 0;
    for (std::uint64_t i = 0; i < objects(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, regions_[memory_node].bytes().data() + latch_offset(i), 8);
      held += word == kFree ? 0 : 1;
    }
    return held;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool revoked(std::uint16_t owner) const {
    return services_[0]->revoked(owner) || services_[1]->revoked(owner);
  }
  [[nodiscard]] Client& client() const { return *client_; }
  void bring_back() { world_.reactor().run(client_->reconnect()); }

  /// Everything that another client can see is as it must be. `writes`: it also writes every key, because only a writer
  /// takes over what readers do not look at.
  void expect_good(bool may_be_torn, bool writes) {
    other_ = &add(2);
    for (const auto& [key, number] : known_) {
      world_.reactor().run(look_up(key, number, may_be_torn));
    }
    if (!known_.contains(case_.key)) {
      world_.reactor().run(look_up(case_.key, std::nullopt, may_be_torn));
    }
    if (writes) {
      for (const auto& [key, number] : known_) {
        world_.reactor().run(write_anew(key, may_be_torn));
      }
      world_.reactor().run(write_anew(case_.key, may_be_torn));
    }
    try {
      std::vector<std::string> problems = tree_ ? world_.reactor().run(tree_->check(*other_worker_)).problems
                                                : world_.reactor().run(table_->check(*other_)).problems;
      // A merge that was begun is ended by whoever meets it.
      std::erase_if(problems, [&](const std::string& problem) {
        return problem.find("dead") != std::string::npos || (may_be_torn && problem.find("torn") != std::string::npos);
      });
      EXPECT_THAT(problems, IsEmpty());
    } catch (const StructureError& error) {
      EXPECT_TRUE(may_be_torn) << error.what();
    }
  }
  [[nodiscard]] bool has_copies() const { return copies_; }

 private:
  [[nodiscard]] std::uint64_t latch_offset(std::uint64_t object) const {
    const Layout layout = objects_layout();
    const std::uint64_t begin =
        table_ ? kSuperblockBytes : BTree::bytes_needed(*scheme_, tree_options_) - layout.total_bytes();
    return begin + layout.latch(object);
  }
  [[nodiscard]] Layout objects_layout() const {
    if (table_) {
      return table_->layout();
    }
    const LayoutKind kind = scheme_->default_layout();
    return {scheme_->shape(scheme_->largest_payload(tree_options_.node_bytes, kind) / 8 * 8, kind), kind,
            tree_options_.nodes};
  }
  Client& add(std::uint16_t owner) {
    BTreeWorkerOptions options;
    if (revokes_) {
      options.revokers = revokers_;
    }
    options.session.owner = owner;
    options.session.lease = {from_ns(300'000), from_ns(30'000)};
    options.session.retry = Retry::backoff().within(from_ns(5e6));
    options.session.lost_work = ignore_lost_work;
    Node& node = world_.add_node("client");
    if (tree_) {
      auto worker = std::make_unique<BTree::Worker>(*tree_, node, nodes_, options);
      (owner == 1 ? worker_ : other_worker_) = worker.get();
      clients_.push_back(std::move(worker));
    } else {
      clients_.push_back(std::make_unique<Client>(node, nodes_, table_->buffer_bytes(), options.session,
                                                  options.queue_pair, revokers_));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      services_[i]->enlist(owner, clients_.back()->session(i).qp());
    }
    nothing_ = owner == 1 ? node.allocate(8, Access::local_write) : std::move(nothing_);
    return *clients_.back();
  }
  [[nodiscard]] std::uint64_t rung() const {
    return client_->session(0).qp().counters().doorbells + client_->session(1).qp().counters().doorbells;
  }
  Task<Outcome> call(Client& client, BTree::Worker* worker, Call what, std::uint64_t key,
                     std::vector<std::byte>& value) const {
    switch (what) {
      case Call::get:
        return tree_ ? tree_->get(*worker, key, value) : table_->get(client, key, value);
      case Call::put:
        return tree_ ? tree_->put(*worker, key, value) : table_->put(client, key, value);
      case Call::insert:
        return tree_ ? tree_->insert(*worker, key, value) : table_->insert(client, key, value);
      case Call::update:
        return tree_ ? tree_->update(*worker, key, value) : table_->update(client, key, value);
      case Call::remove:
        break;
    }
    return tree_ ? tree_->remove(*worker, key) : table_->remove(client, key);
  }
  Task<void> prepare(Call what, std::uint64_t key, std::uint64_t number) {
    std::vector<std::byte> value = bytes_of(number);
    const Outcome outcome = co_await call(*client_, worker_, what, key, value);
    EXPECT_EQ(outcome, Outcome::done);
    co_await client_->drain();
  }
  // A leaf or the root is full when its split is asked for.
  void fill() {
    std::uint64_t keys = case_.keys;
    const std::string_view name = case_.name;
    if (name.find("splits the root") != std::string_view::npos) {
      keys = tree_->leaf_capacity();
    } else if (name.find("splits a leaf") != std::string_view::npos) {
      keys = tree_->leaf_capacity() * 2;
    }
    for (std::uint64_t i = 1; i <= keys; ++i) {
      world_.reactor().run(prepare(Call::put, i * 10, i));
      known_[i * 10] = i;
    }
    if (case_.addressing == Addressing::perfect) {
      known_ = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
    }
    for (std::uint64_t i = 0; i < case_.removed; ++i) {
      world_.reactor().run(prepare(Call::remove, (keys - i) * 10, 0));
      known_.erase((keys - i) * 10);
    }
  }
  void start() { world_.reactor().spawn(operate()); }
  Task<void> operate() {
    std::vector<std::byte> value = bytes_of(777);
    try {
      (void)co_await call(*client_, worker_, case_.call, case_.key, value);
      co_await client_->drain();
    } catch (const FabricError&) {
      failed_ = true;
    } catch (const LatchError& error) {
      EXPECT_TRUE(error.kind() == LatchError::Kind::takeover_refused || error.kind() == LatchError::Kind::holder_lost)
          << error.what();
      failed_ = true;
    } catch (const StructureError& error) {  // a reader of a perfect table takes nothing over
      EXPECT_TRUE(!revokes_ && case_.addressing == Addressing::perfect && case_.call == Call::get) << error.what();
      failed_ = true;
    }
  }
  // The key has its old value, or what the operation gave it, or nothing if it may remove it.
  Task<void> look_up(std::uint64_t key, std::optional<std::uint64_t> before, bool may_be_torn) {
    std::vector<std::byte> value(kValueBytes);
    bool damaged = false;
    Outcome outcome = Outcome::timed_out;
    try {
      outcome = co_await call(*other_, other_worker_, Call::get, key, value);
    } catch (const StructureError&) {
      damaged = true;
    }
    EXPECT_TRUE(!damaged || may_be_torn) << key;
    if (damaged) {
      co_return;
    }
    EXPECT_TRUE(outcome == Outcome::done || outcome == Outcome::absent) << key << " " << structures::name(outcome);
    const bool touched = key == case_.key && case_.call != Call::get;
    const bool changed = outcome == Outcome::done && value == bytes_of(777);
    const bool as_before = before ? outcome == Outcome::done && value == bytes_of(*before) : outcome == Outcome::absent;
    const bool removed = case_.call == Call::remove && outcome == Outcome::absent;
    EXPECT_TRUE(as_before || (touched && (changed || removed))) << key;
    if (touched && !failed_) {
      EXPECT_TRUE(changed || removed || !before) << "a finished operation on " << key;
    }
  }

  Task<void> write_anew(std::uint64_t key, bool may_be_torn) {
    std::vector<std::byte> value = bytes_of(5);
    Outcome outcome = Outcome::timed_out;
    bool damaged = false;
    try {
      outcome = co_await call(*other_, other_worker_, Call::put, key, value);
    } catch (const StructureError&) {
      damaged = true;
    }
    EXPECT_TRUE(damaged ? may_be_torn : outcome == Outcome::done) << key;
    co_await other_->drain();
  }

  FaultCase case_;
  bool revokes_;
  std::unique_ptr<Scheme> scheme_;
  bool copies_;
  sim::Simulation world_{{.profile = sim::load_profile("connectx5"), .seed = 1}};
  BTreeOptions tree_options_;
  HashTableOptions table_options_;
  std::vector<Node*> nodes_;
  std::vector<MemoryRegion> regions_;
  MemoryRegion nothing_;
  std::vector<std::unique_ptr<RevocationService>> services_;
  std::vector<Revoker*> revokers_;
  std::unique_ptr<BTree> tree_;
  std::unique_ptr<HashTable> table_;
  std::vector<std::unique_ptr<Client>> clients_;
  Client* client_ = nullptr;
  BTree::Worker* worker_ = nullptr;
  Client* other_ = nullptr;
  BTree::Worker* other_worker_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> known_;
  bool failed_ = false;
};

class Faults : public ::testing::TestWithParam<checker::SchemeEntry> {
 protected:
  void SetUp() override {
    const std::string_view name = GetParam().name;
    if (!takes_long() && name != "latch-exclusive/basic" && name != "latch-exclusive/async" &&
        name != "optimistic/farm" && name != "optimistic/copy-on-write") {
      GTEST_SKIP() << "CI has a sample of the schemes; SIDELATCH_LONG=1 runs it";
    }
  }
};

// Calls `look` with a scene in which the fault happened, for every point of every operation.
template <class Look>
void at_every_point(const checker::SchemeEntry& entry, Fault fault, Look look) {
  for (const FaultCase& what : kCases) {
    const std::uint64_t doorbells = FaultScene(entry, what).doorbells();
    int failures = 0;
    for (std::uint64_t n = 1; n <= doorbells; ++n) {
      for (const double delay : {0.0, 1200.0}) {
        for (std::size_t memory_node = 0; memory_node < 2; ++memory_node) {
          SCOPED_TRACE(fmt::format("{}, doorbell {} + {} ns, memory node {}", what.name, n, delay, memory_node));
          FaultScene scene(entry, what);
          scene.run_with(fault, {memory_node, n, delay});
          failures += scene.failed() ? 1 : 0;
          look(scene, memory_node);
          if (::testing::Test::HasFailure()) {
            return;
          }
        }
      }
    }
    EXPECT_GT(failures, 0) << what.name;
  }
}

void expect_that_all_comes_back(FaultScene& scene, std::size_t memory_node) {
  EXPECT_EQ(scene.held_at(1 - memory_node), 0) << "the other connection still works";
  scene.bring_back();
  EXPECT_EQ(scene.held_at(0) + scene.held_at(1), 0);
  EXPECT_EQ(scene.client().session(0).owed() + scene.client().session(1).owed(), 0U);
  EXPECT_TRUE(scene.client().session(0).in_doubt().empty() && scene.client().session(1).in_doubt().empty());
  scene.expect_good(/*may_be_torn=*/false, /*writes=*/false);
  EXPECT_FALSE(scene.revoked(1));
}

TEST_P(Faults, ALostConnectionThatComesBackLeavesNoLatch) {
  at_every_point(GetParam(), Fault::lost, expect_that_all_comes_back);
}

TEST_P(Faults, ALostConnectionThatHidesWhatHasHappenedLeavesNoLatch) {
  at_every_point(GetParam(), Fault::unanswered, expect_that_all_comes_back);
}

TEST_P(Faults, AMemoryNodeThatEndsAConnectionKeepsOnlyWhatOthersTakeOver) {
  at_every_point(GetParam(), Fault::ended, [](FaultScene& scene, std::size_t memory_node) {
    EXPECT_EQ(scene.held_at(1 - memory_node), 0) << "the other connection still works";
    scene.expect_good(/*may_be_torn=*/!scene.has_copies(), /*writes=*/true);
  });
}

TEST_P(Faults, ARefusedTakeoverLeavesNoOtherLatch) {
  for (const FaultCase& what : kCases) {
    const std::uint64_t objects = FaultScene(GetParam(), what).objects();
    int failures = 0;
    for (std::uint64_t object = 0; object < objects; ++object) {
      for (std::size_t memory_node = 0; memory_node < 2; ++memory_node) {
        SCOPED_TRACE(fmt::format("{}, object {} of memory node {}", what.name, object, memory_node));
        FaultScene scene(GetParam(), what, /*revokes=*/false);
        scene.run_with_a_dead_holder(memory_node, object);
        ASSERT_EQ(scene.held_at(memory_node), 1);
        ASSERT_EQ(scene.held_at(1 - memory_node), 0);
        ASSERT_EQ(scene.client().session(0).owed() + scene.client().session(1).owed(), 0U);
        failures += scene.failed() ? 1 : 0;
      }
    }
    // Readers of copies do not look at latches.
    EXPECT_TRUE(failures > 0 || what.call == Call::get) << what.name;
  }
}

std::vector<checker::SchemeEntry> recovering_schemes() {
  std::vector<checker::SchemeEntry> chosen;
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    // A shared holder carries no owner: nobody can tell whether a lost request has counted it.
    const bool recovers = !entry.known_broken() && entry.kind != checker::Kind::model_only &&
                          entry.kind != checker::Kind::queue && !entry.name.starts_with("latch-rw");
    if (recovers) {
      chosen.push_back(entry);
    }
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Registry, Faults, ::testing::ValuesIn(recovering_schemes()), [](const auto& scheme) {
  std::string text(scheme.param.name);
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
});

}  // namespace
}  // namespace sidelatch::structures

// Small programs on small tables, in every execution that the memory model allows.
#include <sidelatch/structures/hash_table.h>

#include "tests/sampled.h"

#include "hash_table_rig.h"

#include "structures/hash_bucket.h"

#include <sidelatch/explore/gtest.h>
#include <sidelatch/sync/broken.h>
#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/farm_line_versions.h>
#include <sidelatch/sync/rw_latch.h>
#include <sidelatch/sync/two_read_version.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <ostream>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using model::Preset;

struct TableCall {
  enum class What : std::uint8_t { get, naive_get, insert, update, remove };
  What what = What::get;
  std::uint64_t key = 0;
  std::uint64_t number = 0;  // to be written; for a get, the number that it read
  Outcome outcome = Outcome::timed_out;
  explore::Moment began = 0;
  explore::Moment ended = 0;
  bool has_ended = false;
};

using Contents = std::map<std::uint64_t, std::uint64_t>;

// The final contents of the memory, as a client alone sees them.
struct End {
  std::string problem;
  Contents contents;
};

struct Setting {
  const Scheme* scheme = nullptr;
  HashTableOptions options{};
  std::vector<std::byte> image{};  // of the memory at the beginning
  Contents contents{};
  std::vector<TableCall> writer{};
  TableCall other{};
  // Executions end in few different ways.
  std::mutex mutex{};
  std::map<std::string, End> ends{};  // by the bytes of the memory
};

struct Run {
  Setting* setting;
  explore::World* world;
  MemoryRegion memory;
  std::vector<TableCall> writer;
  std::vector<TableCall> other;  // one

  Run(Setting& the_setting, explore::World& the_world, Node& storage)
      : setting(&the_setting),
        world(&the_world),
        memory(storage.allocate(setting->image.size(), Access::remote_all)),
        writer(setting->writer),
        other(1, setting->other) {
    std::memcpy(memory.bytes().data(), setting->image.data(), setting->image.size());
  }
};

// What a client works with. Each has its own: what a client can reach is compared where it tries again.
struct Site {
  explicit Site(const Run& run)
      : scheme(run.setting->scheme),
        world(run.world),
        table(*scheme, run.setting->options, std::array{run.memory.remote()}),
        buckets(table.layout(), run.memory.remote(kSuperblockBytes, table.layout().total_bytes())) {}
  const Scheme* scheme;
  explore::World* world;
  HashTable table;
  ObjectArray buckets;
};

// A reader that follows links without checking where they lead.
Task<Outcome> naive_get(const Site* site, Client* client, std::uint64_t key, std::span<std::byte> value) {
  const BucketFormat format{site->table.options().entries_per_bucket, site->table.options().value_bytes};
  std::uint64_t bucket = site->table.place_of(key).bucket;
  for (;;) {
    ReadGuard guard = co_await site->scheme->begin_read(client->session(0), site->buckets.at(bucket));
    const BucketHeader header = BucketFormat::header_in(guard.payload());
    const auto slot = format.find(header, guard.payload(), key);
    if (slot) {
      std::memcpy(value.data(), guard.payload().data() + format.value(*slot), value.size());
    }
    co_await guard.release();
    if (slot) {
      co_return Outcome::done;
    }
    if (header.next == 0) {
      co_return Outcome::absent;
    }
    bucket = site->table.home_buckets() + header.next - 1;
  }
}

Task<void> execute(const Site* site, Client* client, TableCall* call) {
  const HashTable& table = site->table;
  std::vector<std::byte> value = value_of(call->number, table.options().value_bytes);
  call->began = site->world->moment();
  switch (call->what) {
    case TableCall::What::get:
      call->outcome = co_await table.get(*client, call->key, value);
      break;
    case TableCall::What::naive_get:
      call->outcome = co_await naive_get(site, client, call->key, value);
      break;
    case TableCall::What::insert:
      call->outcome = co_await table.insert(*client, call->key, value);
      break;
    case TableCall::What::update:
      call->outcome = co_await table.update(*client, call->key, value);
      break;
    case TableCall::What::remove:
      call->outcome = co_await table.remove(*client, call->key);
      break;
  }
  call->ended = site->world->moment();
  call->has_ended = true;
  if (!is_whole(value)) {
    site->world->fail(explore::Kind::torn_read, fmt::format("a get of key {} gave a value of two", call->key));
  }
  call->number = number_in(value);
}

Task<void> execute_all(const Site* site, Client* client, std::span<TableCall> calls) {
  for (TableCall& call : calls) {
    co_await execute(site, client, &call);
  }
}

bool agrees(const TableCall& call, Contents& contents) {
  const auto found = contents.find(call.key);
  const bool present = found != contents.end();
  switch (call.what) {
    case TableCall::What::get:
    case TableCall::What::naive_get:
      return present ? call.outcome == Outcome::done && call.number == found->second : call.outcome == Outcome::absent;
    case TableCall::What::insert:
      contents.try_emplace(call.key, call.number);
      return call.outcome == (present ? Outcome::present : Outcome::done);
    case TableCall::What::update:
      if (present) {
        found->second = call.number;
      }
      return call.outcome == (present ? Outcome::done : Outcome::absent);
    case TableCall::What::remove:
      contents.erase(call.key);
      return call.outcome == (present ? Outcome::done : Outcome::absent);
  }
  return false;
}

End look_at_end(const Setting& setting, std::span<const std::byte> memory) {
  HashTableRig rig(*setting.scheme, setting.options);
  std::ranges::copy(memory, rig.memory[0].bytes().begin());
  Client& client = rig.add_client();
  const HashTableReport report = rig.check();
  if (!report.problems.empty()) {
    return {report.problems.front(), {}};
  }
  End end;
  if (report.leaked_overflow_buckets != 0) {
    end.problem = "an overflow bucket is leaked";
  }
  for (std::uint64_t key = 0; key < 100; ++key) {
    if (const auto number = rig.get(client, key)) {
      end.contents[key] = *number;
    }
  }
  return end;
}

const End& end_of(Setting& setting, std::span<const std::byte> memory) {
  const std::scoped_lock lock(setting.mutex);
  std::string bytes(reinterpret_cast<const char*>(memory.data()), memory.size());
  const auto known = setting.ends.find(bytes);
  if (known != setting.ends.end()) {
    return known->second;
  }
  const End end = look_at_end(setting, memory);
  return setting.ends.emplace(std::move(bytes), end).first->second;
}

// In each equivalent order, the other client's call must have a place among the writer's: after those that ended before
// it began, and before those that began after it ended.
void judge(Run& run, const explore::Order& order) {
  const std::size_t calls = run.writer.size();
  const TableCall& other = run.other.front();
  const End& end = end_of(*run.setting, run.memory.bytes());
  if (!end.problem.empty()) {
    run.world->fail(explore::Kind::assertion, "in the end: " + end.problem);
    return;
  }
  for (std::size_t after = 0; after <= calls; ++after) {
    if (after > 0 && order.before(other.began, run.writer[after - 1].ended)) {
      continue;
    }
    std::size_t last = after;
    while (last < calls && order.before(run.writer[last].began, other.ended)) {
      ++last;
    }
    bool explained = false;
    for (std::size_t place = after; place <= last && !explained; ++place) {
      Contents contents = run.setting->contents;
      bool right = true;
      for (std::size_t i = 0; i <= calls; ++i) {
        right = right && (i != place || agrees(other, contents));
        right = right && (i == calls || agrees(run.writer[i], contents));
      }
      explained = right && contents == end.contents;
    }
    if (!explained) {
      run.world->fail(explore::Kind::linearizability,
                      fmt::format("the other client's call of key {} said {}, {}: there is no place for it after {} of "
                                  "the writer's calls and before number {}",
                                  other.key, name(other.outcome), other.number, after, last));
      return;
    }
  }
}

// Buckets of one entry, by default of two lines.
HashTableOptions tiny(std::uint64_t home_buckets, std::uint64_t value_bytes = 72) {
  return {.value_bytes = value_bytes, .capacity = home_buckets, .entries_per_bucket = 1, .overflow_buckets = 3};
}

// This many keys of a home bucket.
std::vector<std::uint64_t> keys_of(const Scheme& scheme, const HashTableOptions& options, std::uint64_t home = 0) {
  const HashTableRig rig(scheme, options);
  return rig.keys_of(home, 5);
}

explore::Program program(const Scheme& scheme, const HashTableOptions& options,
                         const std::vector<std::uint64_t>& initial, std::vector<TableCall> writer,
                         const TableCall& other) {
  auto setting = std::make_shared<Setting>();
  setting->scheme = &scheme;
  setting->options = options;
  setting->writer = std::move(writer);
  setting->other = other;
  HashTableRig rig(scheme, options);
  Client& client = rig.add_client();
  for (const std::uint64_t key : initial) {
    EXPECT_EQ(rig.insert(client, key, 1), Outcome::done);
    setting->contents[key] = 1;
  }
  rig.settle();
  setting->image.assign(rig.memory[0].bytes().begin(), rig.memory[0].bytes().end());
  return [setting](explore::World& world) {
    Node& storage = world.add_node("memory");
    Run& run = world.make<Run>(*setting, world, storage);
    const std::array<Node*, 1> memory_nodes = {&storage};
    const auto spawn_client = [&](std::string_view name, std::span<TableCall> calls) {
      Node& node = world.add_node(name);
      const Site& site = world.make<Site>(run);
      Client& of_node = world.make<Client>(node, memory_nodes, site.table.buffer_bytes(), SessionOptions{.buffers = 3});
      world.spawn(node, execute_all(&site, &of_node, calls));
    };
    spawn_client("writer", run.writer);
    spawn_client("other", run.other);
    world.at_end([&run](const explore::Order& order) { judge(run, order); });
  };
}

explore::Options under(Preset preset) {
  explore::Options options;
  options.rules = model::rules_of(preset);
  options.writing_retries = 1;
  return options;
}

struct Choice {
  std::string name;
  const Scheme* scheme;
  Preset preset;
  friend void PrintTo(const Choice& choice, std::ostream* out) { *out << choice.name; }
};

std::vector<Choice> choices() {
  static const TwoReadVersion two_read;
  static const FarmLineVersions farm;
  static const CopyOnWrite copy_on_write;
  static const RwLatch rw_latch(LatchLevel::combined);
  std::vector<Choice> all;
  for (const auto& [name, scheme] : std::initializer_list<std::pair<std::string, const Scheme*>>{
           {"two_read", &two_read}, {"farm", &farm}, {"copy_on_write", &copy_on_write}, {"rw_latch", &rw_latch}}) {
    for (const Preset preset : {Preset::observed, Preset::spec, Preset::relaxed}) {
      all.push_back({name + "_" + std::string(model::name(preset)), scheme, preset});
    }
  }
  return all;
}

class ExploredHashTable : public ::testing::TestWithParam<Choice> {
 protected:
  [[nodiscard]] const Scheme& scheme() const { return *GetParam().scheme; }
  void expect_safe(const HashTableOptions& options, const std::vector<std::uint64_t>& initial,
                   const std::vector<TableCall>& writer, const TableCall& other,
                   std::uint32_t writing_retries = 1) const {
    explore::Options how = under(GetParam().preset);
    how.writing_retries = writing_retries;
#ifdef NDEBUG
    if (initial.size() > 2 && !takes_long()) {  // the dearest: a sample, and all executions in the long run
      how.mode = explore::Mode::random;
      how.max_executions = 1000;
      const explore::Verdict sample = explore::check(program(scheme(), options, initial, writer, other), how);
      EXPECT_NE(sample.outcome, explore::Outcome::broken) << explore::to_text(sample);
      return;
    }
    EXPECT_TRUE(explore::is_safe_within_retries(program(scheme(), options, initial, writer, other), how));
#else
    how.mode = explore::Mode::random;  // under sanitizers a sample
    how.max_executions = 100;
    const explore::Verdict verdict = explore::check(program(scheme(), options, initial, writer, other), how);
    EXPECT_NE(verdict.outcome, explore::Outcome::broken) << explore::to_text(verdict);
#endif
  }
};

TEST_P(ExploredHashTable, AnInsertAndAGetOfOneKey) {
  const auto keys = keys_of(scheme(), tiny(1));
  expect_safe(tiny(1), {}, {{TableCall::What::insert, keys[0], 2}}, {TableCall::What::get, keys[0]});
}

TEST_P(ExploredHashTable, TwoInsertsOfOneKey) {
  const auto keys = keys_of(scheme(), tiny(1));
  expect_safe(tiny(1), {}, {{TableCall::What::insert, keys[0], 2}}, {TableCall::What::insert, keys[0], 3});
}

TEST_P(ExploredHashTable, TwoInsertsOfOneKeyThatNeedsANewOverflowBucket) {
  const auto keys = keys_of(scheme(), tiny(1));
  expect_safe(tiny(1), {keys[0]}, {{TableCall::What::insert, keys[1], 2}}, {TableCall::What::insert, keys[1], 3});
}

TEST_P(ExploredHashTable, TwoInsertsIntoOneChain) {
  const auto keys = keys_of(scheme(), tiny(1));
  expect_safe(tiny(1), {keys[0]}, {{TableCall::What::insert, keys[1], 2}}, {TableCall::What::insert, keys[2], 3});
}

TEST_P(ExploredHashTable, AnUpdateAndAGetInAnOverflowBucket) {
  const auto keys = keys_of(scheme(), tiny(1));
  expect_safe(tiny(1), {keys[0], keys[1]}, {{TableCall::What::update, keys[1], 2}}, {TableCall::What::get, keys[1]});
}

TEST_P(ExploredHashTable, AnInsertIntoANewOverflowBucketAndAGet) {
  const auto keys = keys_of(scheme(), tiny(1));
  expect_safe(tiny(1), {keys[0]}, {{TableCall::What::insert, keys[1], 2}}, {TableCall::What::get, keys[1]});
}

TEST_P(ExploredHashTable, ARemoveOfAnOverflowBucketAndAnUpdateInIt) {
  const auto keys = keys_of(scheme(), tiny(1));
  expect_safe(tiny(1), {keys[0], keys[1]}, {{TableCall::What::remove, keys[1]}}, {TableCall::What::update, keys[1], 3});
}

TEST_P(ExploredHashTable, AKeyThatMovesFromAnOverflowBucketToItsHomeAndAGet) {
  const auto keys = keys_of(scheme(), tiny(1));
  expect_safe(
      tiny(1), {keys[0], keys[1]},
      {{TableCall::What::remove, keys[0]}, {TableCall::What::remove, keys[1]}, {TableCall::What::insert, keys[1], 2}},
      {TableCall::What::get, keys[1]});
}

// The chain is home, the bucket of keys[2], that of keys[1]. The first of these buckets is removed.
TEST_P(ExploredHashTable, AnOverflowBucketThatComesBackToItsChainAndAGetBehindIt) {
  // One line, and readers of RwLatch that meet a writer are not explored further, because there is much to explore.
  const auto keys = keys_of(scheme(), tiny(1, 8));
  expect_safe(tiny(1, 8), {keys[0], keys[1], keys[2]},
              {{TableCall::What::remove, keys[2]}, {TableCall::What::insert, keys[3], 2}},
              {TableCall::What::get, keys[1]},
              /*writing_retries=*/0);
}

TEST_P(ExploredHashTable, AnOverflowBucketThatGoesToAnotherChainAndAGetBehindIt) {
  const auto keys = keys_of(scheme(), tiny(2));
  const auto others = keys_of(scheme(), tiny(2), 1);
  expect_safe(tiny(2), {keys[0], keys[1], keys[2], others[0]},
              {{TableCall::What::remove, keys[2]}, {TableCall::What::insert, others[1], 2}},
              {TableCall::What::get, keys[1]});
}

INSTANTIATE_TEST_SUITE_P(Schemes, ExploredHashTable, ::testing::ValuesIn(choices()),
                         [](const auto& choice) { return choice.param.name; });

// ---- Faults that must be found.

// A reader that follows links without checking where they lead misses keys: the test above can fail.
TEST(BrokenHashTable, AReaderThatTrustsLinksMissesWhatIsBehindABucketThatWentToAnotherChain) {
  const TwoReadVersion scheme;
  const auto keys = keys_of(scheme, tiny(2));
  const auto others = keys_of(scheme, tiny(2), 1);
  const explore::Program naive = program(scheme, tiny(2), {keys[0], keys[1], keys[2], others[0]},
                                         {{TableCall::What::remove, keys[2]}, {TableCall::What::insert, others[1], 2}},
                                         {TableCall::What::naive_get, keys[1]});
  EXPECT_TRUE(explore::is_broken(naive, under(Preset::observed), explore::Kind::linearizability));
}

TEST(BrokenHashTable, OverASchemeWhoseReadsTearATableHasValuesOfTwo) {
  const std::unique_ptr<Scheme> scheme = make_specimen("broken/naive");
  const auto keys = keys_of(*scheme, tiny(1));
  const explore::Program torn =
      program(*scheme, tiny(1), {keys[0]}, {{TableCall::What::update, keys[0], 2}}, {TableCall::What::get, keys[0]});
  EXPECT_TRUE(explore::is_broken(torn, under(Preset::observed), explore::Kind::torn_read));
  EXPECT_TRUE(explore::is_safe(torn, under(Preset::strict)));
}

}  // namespace
}  // namespace sidelatch::structures

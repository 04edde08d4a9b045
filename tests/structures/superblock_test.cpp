// What a structure says about itself, and what opening it as something else does.
#include "btree_fixture.h"
#include "hash_table_rig.h"
#include "tests/message_of.h"

#include <sidelatch/structures/superblock.h>
#include <sidelatch/sync/copy_on_write.h>
#include <sidelatch/sync/crc64.h>
#include <sidelatch/sync/farm_line_versions.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace sidelatch::structures {
namespace {

using namespace fabric;
using namespace sync;
using ::testing::AllOf;
using ::testing::HasSubstr;

HashTableOptions table_options() { return {.value_bytes = 40, .capacity = 40, .entries_per_bucket = 2}; }

// The text of the error of each operation on memory that holds another structure.
class Reopened {
 public:
  Reopened() : rig_(scheme_, table_options()) {
    client_ = &rig_.add_client();
    for (std::uint64_t key = 0; key < 40; ++key) {
      EXPECT_EQ(rig_.put(*client_, key, key), Outcome::done);
    }
    rig_.settle();
    before_ = bytes();
  }
  /// Opens the memory as a hash table with these options.
  std::string as(const Scheme& scheme, const HashTableOptions& options) {
    const std::uint64_t needed = HashTable::bytes_needed(scheme, options, 1);
    const MemoryRegion larger =
        rig_.storage[0]->allocate(std::max<std::uint64_t>(needed, before_.size()), Access::remote_all);
    std::ranges::copy(before_, larger.bytes().begin());
    const std::vector<std::byte> planted(larger.bytes().begin(), larger.bytes().end());
    const RemoteSpan span = larger.remote();
    const HashTable other(scheme, options, std::span(&span, 1));
    Client client(rig_.world.add_node("client"), rig_.storage, other.buffer_bytes());
    std::vector<std::byte> value(options.value_bytes);
    const std::string text = message_of<StructureError>([&] { (void)rig_.run(other.put(client, 3, value)); });
    EXPECT_THROW((void)rig_.run(other.get(client, 3, value)), StructureError);
    EXPECT_TRUE(std::ranges::equal(larger.bytes(), planted)) << "nothing may change";
    return text;
  }
  std::string as_tree() {
    const BTreeOptions options{.node_bytes = 512, .nodes = 4};
    const RemoteSpan span = rig_.memory[0].remote();
    const BTree tree(scheme_, options, std::span(&span, 1));
    BTree::Worker worker(tree, rig_.world.add_node("client"), rig_.storage);
    Word value;
    return message_of<StructureError>([&] { (void)rig_.run(tree.get(worker, 3, value.bytes())); });
  }
  std::vector<std::byte> bytes() const { return {rig_.memory[0].bytes().begin(), rig_.memory[0].bytes().end()}; }

 private:
  const Crc64 scheme_;
  HashTableRig rig_;
  Client* client_ = nullptr;
  std::vector<std::byte> before_;
};

TEST(Superblock, OpeningAsSomethingElseNamesBothSides) {
  Reopened memory;
  const Crc64 same;
  const CopyOnWrite other;
  HashTableOptions options = table_options();
  const auto there = HasSubstr(
      "holds a hash table of format 2 over optimistic/crc64, layout padded, memory node 0 of 1, "
      "with value_bytes 40, capacity 40, entries_per_bucket 2");
  EXPECT_THAT(memory.as(other, options), AllOf(there, HasSubstr("opened as a hash table of format 2 over "
                                                                "optimistic/copy-on-write")));
  options.value_bytes = 48;
  EXPECT_THAT(memory.as(same, options), AllOf(there, HasSubstr("with value_bytes 48, capacity 40")));
  options = table_options();
  options.capacity = 41;
  EXPECT_THAT(memory.as(same, options), AllOf(there, HasSubstr("capacity 41")));
  options = table_options();
  options.entries_per_bucket = 4;
  EXPECT_THAT(memory.as(same, options), AllOf(there, HasSubstr("entries_per_bucket 4")));
  options = table_options();
  options.overflow_buckets = 3;
  EXPECT_THAT(memory.as(same, options), AllOf(there, HasSubstr("overflow_buckets 3")));
  options = table_options();
  options.layout = LayoutKind::interleaved;
  EXPECT_THAT(memory.as(same, options), AllOf(there, HasSubstr("layout interleaved")));
  EXPECT_THAT(memory.as_tree(), AllOf(there, HasSubstr("opened as a B-tree of format 2")));
}

TEST(Superblock, MemoryOfAnotherProgramIsRefused) {
  const FarmLineVersions scheme;
  Forest forest(scheme);
  std::ranges::fill(forest.regions[0].bytes().subspan(0, 64), std::byte{0x5a});
  BTree::Worker& worker = forest.add_worker();
  Word value;
  const std::string text =
      message_of<StructureError>([&] { (void)forest.run(forest.tree->get(worker, 1, value.bytes())); });
  EXPECT_THAT(text, AllOf(HasSubstr("0x5a5a5a5a5a5a5a5a"), HasSubstr("which is no superblock"),
                          HasSubstr("opened as a B-tree of format 2 over optimistic/farm")));
}

// Format 1 had the same options, and other nodes.
TEST(Superblock, AnOlderFormatIsRefusedAndStaysAsItIs) {
  const FarmLineVersions scheme;
  Forest forest(scheme);
  BTree::Worker& first = forest.add_worker();
  const Word value(1);
  EXPECT_EQ(forest.run(forest.tree->put(first, 5, value.bytes())), Outcome::done);
  forest.world.reactor().run_for(from_ns(1e5));
  const std::span<std::byte> memory = forest.regions[0].bytes();
  Superblock old;
  std::memcpy(&old, memory.data(), sizeof old);
  old.version = 1;
  old.seal();
  std::memcpy(memory.data(), &old, sizeof old);
  const std::vector<std::byte> before(memory.begin(), memory.end());
  BTree::Worker& worker = forest.add_worker();
  Word read;
  const std::string text =
      message_of<StructureError>([&] { (void)forest.run(forest.tree->get(worker, 5, read.bytes())); });
  EXPECT_THAT(text, AllOf(HasSubstr("holds a B-tree of format 1 over optimistic/farm"),
                          HasSubstr("opened as a B-tree of format 2 over optimistic/farm")));
  EXPECT_TRUE(std::ranges::equal(memory, before));
}

// Older structures and other programs may begin with a zero, for example a free latch.
TEST(Superblock, MemoryOfAnotherProgramThatBeginsWithZeroIsRefusedAndStaysAsItIs) {
  const FarmLineVersions scheme;
  for (const std::size_t used : {8U, 200U, 456U}) {  // the byte that shows that the memory is used
    Forest forest(scheme);
    const std::span<std::byte> memory = forest.regions[0].bytes();
    memory[used] = std::byte{0x5a};
    const std::vector<std::byte> before(memory.begin(), memory.end());
    BTree::Worker& worker = forest.add_worker();
    Word value;
    EXPECT_THROW((void)forest.run(forest.tree->get(worker, 1, value.bytes())), StructureError) << used;
    forest.world.reactor().run_for(from_ns(1e5));
    EXPECT_TRUE(std::ranges::equal(memory, before)) << used;
  }
}

// The memory nodes are named in a wrong order, and one of them is new.
TEST(Superblock, AnOpeningThatOneMemoryNodeRefusesChangesNone) {
  const FarmLineVersions scheme;
  Forest forest(scheme, small_nodes(400), 2);
  BTree::Worker& worker = forest.add_worker();
  const Word value(1);
  EXPECT_EQ(forest.run(forest.tree->put(worker, 5, value.bytes())), Outcome::done);
  Node& fresh = forest.world.add_node("fresh");
  const MemoryRegion zeroed = fresh.allocate(BTree::bytes_needed(scheme, small_nodes(400)), Access::remote_all);
  const std::vector<RemoteSpan> spans = {zeroed.remote(), forest.regions[1].remote(), forest.regions[0].remote()};
  const BTree wrong(scheme, small_nodes(400), spans);
  const std::vector<Node*> nodes = {&fresh, forest.nodes[1], forest.nodes[0]};
  BTree::Worker stranger(wrong, forest.world.add_node("client"), nodes);
  EXPECT_THROW((void)forest.run(wrong.put(stranger, 5, value.bytes())), StructureError);
  forest.world.reactor().run_for(from_ns(1e5));
  EXPECT_TRUE(std::ranges::all_of(zeroed.bytes(), [](std::byte byte) { return byte == std::byte{0}; }));
  const BTree alone(scheme, small_nodes(400), std::span(spans).first(1));
  BTree::Worker first(alone, forest.world.add_node("client"), std::span(nodes).first(1));
  EXPECT_EQ(forest.run(alone.put(first, 5, value.bytes())), Outcome::done);
}

Task<void> count_refusals(const BTree& tree, BTree::Worker& worker, int& done, int& refused) {
  Word value(1);
  try {
    const Outcome outcome = co_await tree.put(worker, 5, value.bytes());
    done += outcome == Outcome::done ? 1 : 0;
  } catch (const StructureError&) {
    ++refused;
  }
}

TEST(Superblock, OfTwoClientsThatComeAtOnceWithDifferentExpectationsOneIsRefused) {
  const FarmLineVersions scheme;
  Forest forest(scheme, small_nodes(400));
  const RemoteSpan span = forest.regions[0].remote();
  const BTree other(scheme, small_nodes(399), std::span(&span, 1));
  BTree::Worker stranger(other, forest.world.add_node("client"), forest.nodes);
  BTree::Worker& worker = forest.add_worker();
  int done = 0;
  int refused = 0;
  forest.spawn(count_refusals(*forest.tree, worker, done, refused));
  forest.spawn(count_refusals(other, stranger, done, refused));
  forest.run_all();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(refused, 1);
}

TEST(Superblock, AWriterThatDiedBeforeTheDescriptionIsNoHindrance) {
  const FarmLineVersions scheme;
  Forest forest(scheme);
  const std::uint64_t checksum = forest.tree->superblock(0).checksum;
  std::memcpy(forest.regions[0].bytes().data(), &checksum, sizeof checksum);
  BTree::Worker& worker = forest.add_worker();
  const Word value(1);
  EXPECT_EQ(forest.run(forest.tree->put(worker, 5, value.bytes())), Outcome::done);
  forest.world.reactor().run_for(from_ns(1e5));
  Superblock there;
  std::memcpy(&there, forest.regions[0].bytes().data(), sizeof there);
  EXPECT_EQ(there, forest.tree->superblock(0));
}

}  // namespace
}  // namespace sidelatch::structures

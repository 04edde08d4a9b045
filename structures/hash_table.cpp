#include <sidelatch/structures/hash_table.h>

#include "hash_table_detail.h"
#include "holding.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

// Why a reader that has read home and followed the links to the end may report a key as absent, and why an entry that
// it finds was present.
//
// An overflow bucket gets a new generation whenever it is filled for a chain, and a link names the generation that it
// leads to. A reader with an old link to a bucket that was given back and filled anew notices this and begins again. It
// would not be enough to check that the bucket belongs to the same home: it may have returned to the same chain at
// another place, with less of the chain behind it, or be filled and not linked yet.
//
// Call one filling of a bucket a node. A node is complete before it is linked. It is linked once, right behind home, so
// newer nodes always lie before older ones in a chain. It is unlinked once, by a change of its predecessor. From then
// on its own bytes, including its link, stay as they were at that moment until it is filled anew. Entries do not move
// from node to node. The scheme gives each node as it was at one moment.
//
// Absent: let the key be present during all of the read (if not, it was absent at some moment of it). Then it was in
// the same node X, and X was linked, all the time, since moving would have made it absent for a moment. Home counts as
// newer than all nodes. The link of every node Y that the reader reads and that is newer than X leads to X or to
// another node newer than X. If Y is linked then, this holds because X is linked. If Y was unlinked before, X, being
// older, was linked at that moment too, and Y has not changed since. So the reader reaches X and finds the key.
//
// Found: every node that the reader reads was linked at some moment of the read. The reader has its link from a node
// that was linked at such a moment. That node either was still linked when its link was read, or was unlinked in
// between; its link was right at that moment. If the node itself was unlinked before the reader read it, that happened
// during the read, and the node shows its contents from just before.
namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

constexpr std::uint64_t kMostBuckets = std::numeric_limits<std::uint32_t>::max() - 1;

// The finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
std::uint64_t mix(std::uint64_t key) {
  key += 0x9e3779b97f4a7c15ULL;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ULL;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebULL;
  return key ^ (key >> 31);
}

// Scales 32 random bits to a number below `limit`, keeping their order.
std::uint64_t scale(std::uint64_t bits, std::uint64_t limit) { return (bits & 0xffff'ffff) * limit >> 32; }

// The layout of a table at each memory node.
struct Plan {
  std::uint64_t home_buckets = 0;
  std::uint64_t overflow_buckets = 0;
  std::uint64_t payload_bytes = 0;
};

Plan plan_for(const HashTableOptions& options, std::size_t memory_nodes) {
  options.validate();
  if (memory_nodes == 0) {
    throw std::invalid_argument("a hash table on 0 memory nodes: it needs at least 1");
  }
  const std::uint64_t keys = (options.capacity + memory_nodes - 1) / memory_nodes;
  if (options.addressing == Addressing::perfect) {
    return {.home_buckets = keys, .payload_bytes = options.value_bytes};
  }
  const std::uint64_t entries = options.entries_per_bucket;
  Plan plan;
  plan.home_buckets = (keys + keys / 3 + entries - 1) / entries;
  plan.overflow_buckets = options.overflow_buckets.value_or(plan.home_buckets / 3 + 8);
  plan.payload_bytes = BucketFormat{options.entries_per_bucket, options.value_bytes}.payload_bytes();
  if (plan.home_buckets > kMostBuckets || plan.overflow_buckets > kMostBuckets) {
    throw std::invalid_argument(
        fmt::format("a hash table with {} home buckets and {} overflow buckets at a memory node: at most {} of each "
                    "are possible; take more memory nodes or more entries per bucket",
                    plan.home_buckets, plan.overflow_buckets, kMostBuckets));
  }
  return plan;
}

Layout layout_for(const Scheme& scheme, const HashTableOptions& options, const Plan& plan) {
  const LayoutKind kind = options.layout.value_or(scheme.default_layout());
  return {scheme.shape(plan.payload_bytes, kind), kind, plan.home_buckets + plan.overflow_buckets};
}

std::uint64_t pool_begins(const Layout& layout) {
  return kSuperblockBytes + RecordShape::whole_lines(layout.total_bytes());
}

Superblock superblock_for(const Scheme& scheme, const HashTableOptions& options, const Plan& plan, const Layout& layout,
                          std::size_t memory_node, std::size_t memory_nodes) {
  Superblock block;
  block.set_kind(options.addressing == Addressing::perfect ? "perfect hash table" : "hash table");
  block.set_scheme(scheme.name());
  block.layout = static_cast<std::uint32_t>(layout.kind());
  block.needs = layout.shape().needs;
  block.memory_node = memory_node;
  block.memory_nodes = memory_nodes;
  block.add("value_bytes", options.value_bytes);
  block.add("capacity", options.capacity);
  if (options.addressing == Addressing::chained) {
    block.add("entries_per_bucket", options.entries_per_bucket);
    block.add("overflow_buckets", plan.overflow_buckets);
  }
  block.seal();
  return block;
}

}  // namespace

void HashTableOptions::validate() const {
  const auto refuse = [](const char* field, std::uint64_t value, const std::string& allowed) {
    throw std::invalid_argument(fmt::format("hash table: {} is {}: it must be {}", field, value, allowed));
  };
  if (value_bytes < kSmallestValue || value_bytes > kLargestValue) {
    refuse("value_bytes", value_bytes, fmt::format("{} to {}", kSmallestValue, kLargestValue));
  }
  constexpr std::uint64_t kMostKeys = std::uint64_t{1} << 48;
  if (capacity == 0 || capacity > kMostKeys) {
    refuse("capacity", capacity, fmt::format("1 to {}: the number of keys", kMostKeys));
  }
  if (entries_per_bucket == 0 || entries_per_bucket > kMostEntries) {
    refuse("entries_per_bucket", entries_per_bucket, fmt::format("1 to {}", kMostEntries));
  }
  if (overflow_buckets && addressing == Addressing::perfect) {
    refuse("overflow_buckets", *overflow_buckets, "left out, since a perfect table has none");
  }
}

std::uint64_t HashTable::bytes_needed(const Scheme& scheme, const HashTableOptions& options, std::size_t memory_nodes) {
  const Plan plan = plan_for(options, memory_nodes);
  const Layout layout = layout_for(scheme, options, plan);
  return options.addressing == Addressing::perfect
             ? kSuperblockBytes + layout.total_bytes()
             : pool_begins(layout) + Pool::bytes_needed(scheme, plan.overflow_buckets);
}

HashTable::HashTable(const Scheme& scheme, const HashTableOptions& options, std::span<const RemoteSpan> memory)
    : scheme_(&without_queue(scheme)), options_(options) {
  const Plan plan = plan_for(options, memory.size());
  const Layout layout = layout_for(scheme, options, plan);
  const std::uint64_t needed = bytes_needed(scheme, options, memory.size());
  home_buckets_ = plan.home_buckets;
  overflow_buckets_ = plan.overflow_buckets;
  buffer_bytes_ = std::max(sync::buffer_bytes(layout.shape()), kSuperblockBuffer);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].length < needed) {
      throw std::invalid_argument(fmt::format("hash table: memory {} has {} bytes: it needs {}, see bytes_needed()", i,
                                              memory[i].length, needed));
    }
    heads_.push_back(memory[i]);
    superblocks_.push_back(superblock_for(scheme, options, plan, layout, i, memory.size()));
    arrays_.emplace_back(layout, memory[i].subspan(kSuperblockBytes, layout.total_bytes()));
    if (options.addressing == Addressing::chained) {
      const std::uint64_t begin = pool_begins(layout);
      pools_.emplace_back(scheme, memory[i].subspan(begin, memory[i].length - begin), i, plan.overflow_buckets);
      buffer_bytes_ = std::max(buffer_bytes_, Pool::buffer_bytes(scheme));
    }
  }
}

HashTable::Place HashTable::place_of(std::uint64_t key) const {
  const std::uint64_t nodes = arrays_.size();
  if (options_.addressing == Addressing::perfect) {
    if (key >= options_.capacity) {
      throw std::out_of_range(
          fmt::format("key {} of a perfect hash table, which has the keys 0 to {}", key, options_.capacity - 1));
    }
    return {static_cast<std::size_t>(key % nodes), key / nodes};
  }
  const std::uint64_t hash = mix(key);
  return {static_cast<std::size_t>(scale(hash, nodes)), scale(hash >> 32, home_buckets_)};
}

Task<Outcome> HashTable::get(Client& client, std::uint64_t key, std::span<std::byte> value) const {
  require_value(value.size());
  client.begin_operation();
  return options_.addressing == Addressing::perfect ? get_perfect(client, key, value) : get_chained(client, key, value);
}

Task<Outcome> HashTable::insert(Client& client, std::uint64_t key, std::span<const std::byte> value) const {
  return change(client, Change::insert, key, value);
}

Task<Outcome> HashTable::put(Client& client, std::uint64_t key, std::span<const std::byte> value) const {
  return change(client, Change::put, key, value);
}

Task<Outcome> HashTable::update(Client& client, std::uint64_t key, std::span<const std::byte> value) const {
  return change(client, Change::update, key, value);
}

Task<Outcome> HashTable::remove(Client& client, std::uint64_t key) const {
  if (options_.addressing == Addressing::perfect) {
    throw std::logic_error(fmt::format("remove of key {}: a perfect hash table always has all its keys", key));
  }
  client.begin_operation();
  return change_chained(client, Change::remove, key, {});
}

Task<Outcome> HashTable::change(Client& client, Change change, std::uint64_t key,
                                std::span<const std::byte> value) const {
  require_value(value.size());
  client.begin_operation();
  if (options_.addressing == Addressing::chained) {
    return change_chained(client, change, key, value);
  }
  return change == Change::insert ? insert_perfect(key) : put_perfect(client, key, value);
}

void HashTable::require_value(std::size_t bytes) const {
  if (bytes != options_.value_bytes) {
    throw std::invalid_argument(
        fmt::format("a value of {} bytes for a hash table whose values have {}: both must be "
                    "equal",
                    bytes, options_.value_bytes));
  }
}

HashTable::Place HashTable::overflow(std::size_t memory_node, const Link& link) const {
  return {memory_node, home_buckets_ + link.next - 1};
}

std::string HashTable::describe(Place place) const {
  return place.bucket < home_buckets_
             ? fmt::format("home bucket {} of memory node {}", place.bucket, place.memory_node)
             : fmt::format("overflow bucket {} of memory node {}", place.bucket - home_buckets_, place.memory_node);
}

void HashTable::throw_damaged(Place place, std::string_view what) const {
  throw StructureError(fmt::format("hash table over {}: {} {}", scheme_->name(), describe(place), what));
}

// A client's first operation looks what the memory holds.
Task<void> HashTable::open(Client& client) const {
  if (client.memory_nodes() != superblocks_.size()) {
    throw std::invalid_argument(
        fmt::format("a client with {} memory nodes: the table lies on {}", client.memory_nodes(), superblocks_.size()));
  }
  co_await open_superblocks(client, heads_, superblocks_);
  client.note_opened(number_);
}

// ---- Perfect addressing.

Task<Outcome> HashTable::get_perfect(Client& client, std::uint64_t key, std::span<std::byte> value) const {
  if (!is_open(client)) [[unlikely]] {
    co_await open(client);
  }
  const Place place = place_of(key);
  const Object object = arrays_[place.memory_node].at(place.bucket);
  try {
    const ReadResult result = co_await scheme_->read(client.session(place.memory_node), object, value);
    co_return result.accepted ? Outcome::done : Outcome::timed_out;
  } catch (const LatchError& error) {
    if (error.kind() != LatchError::Kind::holder_lost) {
      throw;
    }
  }
  // Taking over the latch would make a half-written value look whole.
  throw StructureError(
      fmt::format("hash table over {}: the value of key {}, at memory node {}, was being written by a client that "
                  "died, and may be half written; put() or update() it anew. Only schemes with two copies "
                  "(optimistic/copy-on-write) survive a WRITE that was cut in the middle",
                  scheme_->name(), key, place.memory_node));
}

Task<Outcome> HashTable::insert_perfect(std::uint64_t key) const {
  (void)place_of(key);
  co_return Outcome::present;
}

Task<Outcome> HashTable::put_perfect(Client& client, std::uint64_t key, std::span<const std::byte> value) const {
  if (!is_open(client)) [[unlikely]] {
    co_await open(client);
  }
  const Place place = place_of(key);
  const Object object = arrays_[place.memory_node].at(place.bucket);
  Session& session = client.session(place.memory_node);
  const Session::Operation operation(session, session.lease_clock());
  try {
    const bool done = co_await scheme_->update(session, object, [value](std::span<std::byte> payload) {
      std::memcpy(payload.data(), value.data(), value.size());
    });
    co_return done ? Outcome::done : Outcome::timed_out;
  } catch (const LatchError& error) {
    if (error.kind() != LatchError::Kind::holder_lost) {
      throw;
    }
  }
  // The whole value is written, so it is whole afterwards whatever the dead client left.
  ExclusiveGuard guard = co_await scheme_->latch(session, object);
  if (!guard) {
    co_return Outcome::timed_out;
  }
  std::memcpy(guard.payload().data(), value.data(), value.size());
  co_await guard.commit();
  co_return Outcome::done;
}

// ---- Buckets.

Task<ReadGuard> HashTable::read_bucket(Session& session, Place place) const {
  const Object object = arrays_[place.memory_node].at(place.bucket);
  for (;;) {
    try {
      ReadGuard guard = co_await scheme_->begin_read(session, object);
      co_return guard;
    } catch (const LatchError& error) {
      if (error.kind() != LatchError::Kind::holder_lost) {
        throw;
      }
    }
    const bool free = co_await take_over(session, place);
    if (!free) {
      co_return ReadGuard();
    }
  }
}

// Whatever the bucket holds. If its last holder died within a WRITE, the bucket is torn from now on.
Task<ExclusiveGuard> HashTable::latch_any(Session& session, Place place) const {
  for (;;) {
    ExclusiveGuard guard = co_await scheme_->latch(session, arrays_[place.memory_node].at(place.bucket));
    if (!guard || !guard.inherited() || is_sealed(guard.payload())) {
      co_return guard;
    }
    // If left latched, it would cost each client that meets it its queue pairs, one after the other.
    BucketHeader torn = BucketFormat::header_in(guard.payload());
    torn.home = BucketHeader::kTorn;
    BucketFormat::put_header(torn, guard.payload());
    co_await commit_bucket(guard);
  }
}

// A bucket that is linked: throws if it is torn.
Task<ExclusiveGuard> HashTable::latch_bucket(Session& session, Place place) const {
  ExclusiveGuard guard = co_await latch_any(session, place);
  if (guard && BucketFormat::header_in(guard.payload()).home == BucketHeader::kTorn) {
    co_await leave(guard);
    throw_damaged(place, kTornBucket);
  }
  co_return guard;
}

Task<void> HashTable::commit_bucket(ExclusiveGuard& guard) const {
  seal(guard.payload());
  return guard.commit();
}

std::string_view HashTable::fault_of(Place place, const BucketHeader& header) const {
  if (header.home == BucketHeader::kTorn) {
    return kTornBucket;
  }
  if (header.next > overflow_buckets_) {
    return "links to an overflow bucket that does not exist";
  }
  if ((header.used & ~BucketFormat{options_.entries_per_bucket, 0}.all_used()) != 0) {
    return "marks entries as used that it does not have";
  }
  if (place.bucket >= home_buckets_ || header.home == place.bucket + 1) {
    return {};
  }
  if (header.home != 0) {
    return "says that it belongs to another home bucket";
  }
  return header.used == 0 && header.next == 0 ? "" : "was never written, and yet is not empty";
}

// ---- Readers.

Task<Outcome> HashTable::get_chained(Client& client, std::uint64_t key, std::span<std::byte> value) const {
  if (!is_open(client)) [[unlikely]] {
    co_await open(client);
  }
  const Place home = place_of(key);
  const BucketFormat format{options_.entries_per_bucket, options_.value_bytes};
  Session& session = client.session(home.memory_node);
  Attempts attempts(session, Attempts::Forgotten());
  const Session::Operation operation(session, attempts.began());
  while (attempts.shows_head()) {
    co_await attempts.pause();
  }
  for (;;) {
    Link link;
    bool lost = false;
    // Links lead to older nodes only, so a reader reaches a bucket twice only if the chain is damaged.
    for (std::uint64_t steps = 0; !lost; ++steps) {
      const Place place = link.leads_anywhere() ? overflow(home.memory_node, link) : home;
      ReadGuard guard = co_await read_bucket(session, place);
      if (!guard) {
        co_return Outcome::timed_out;
      }
      const BucketHeader header = BucketFormat::header_in(guard.payload());
      std::string_view fault = steps > overflow_buckets_ ? kCircle : fault_of(place, header);
      lost = steps != 0 && !link.means(header, home.bucket);
      const bool looks = fault.empty() && !lost;
      const auto slot = looks ? format.find(header, guard.payload(), key) : std::nullopt;
      if (slot) {
        std::memcpy(value.data(), guard.payload().data() + format.value(*slot), value.size());
      }
      co_await guard.release();
      if (!fault.empty() && steps != 0) {
        // It may have left the chain before it was torn, by a client that was filling it anew.
        const bool there = co_await is_in_chain(session, home, link);
        fault = there ? fault : std::string_view();
        lost = !there;
      }
      if (!fault.empty()) {
        throw_damaged(place, fault);
      }
      if (slot) {
        co_return Outcome::done;
      }
      link = {header.next, header.next_generation};
      if (!lost && !link.leads_anywhere()) {
        co_return Outcome::absent;
      }
    }
    client.count_restart();
    if (attempts.expired()) {
      co_return Outcome::timed_out;
    }
    co_await attempts.pause();
  }
}

// Whether a walk that begins now meets that link. Not if it is lost before, or the deadline passes.
Task<bool> HashTable::is_in_chain(Session& session, Place home, Link wanted) const {
  Link link;
  for (std::uint64_t steps = 0; steps <= overflow_buckets_ + 1; ++steps) {
    const Place place = steps == 0 ? home : overflow(home.memory_node, link);
    ReadGuard guard = co_await read_bucket(session, place);
    if (!guard) {
      co_return false;
    }
    const BucketHeader header = BucketFormat::header_in(guard.payload());
    co_await guard.release();
    const bool lost = steps != 0 && !link.means(header, home.bucket);
    if (lost || !fault_of(place, header).empty()) {
      co_return false;
    }
    link = {header.next, header.next_generation};
    if (link == wanted || !link.leads_anywhere()) {
      co_return link == wanted;
    }
  }
  co_return true;  // the chain never ends
}

}  // namespace sidelatch::structures

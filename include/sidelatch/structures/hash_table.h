// HashTable: a hash table in the memory of one or several memory nodes. Clients work on it by one-sided requests alone.
//
//   const HashTable table(scheme, {.value_bytes = 64, .capacity = 1'000'000}, memory);      // memory[i]: of node i
//   Client client(compute, memory_nodes, table.buffer_bytes());
//   const Outcome outcome = co_await table.put(client, 42, value);
//
// Keys are 64-bit numbers, values have one size. Zeroed memory is an empty table. Any scheme works, with any of its
// layouts, but latches with a queue (Scheme::queues()), which are refused. Each bucket is one object of the scheme.
//
// Addressing::perfect is the table of TODS 2025, section 2.4: it has exactly the keys 0 to capacity - 1, so no two
// collide. A record is only a value, a get is one Scheme::read, a put one Scheme::update.
//
// Addressing::chained takes any keys. Each home bucket may have a chain of overflow buckets, which come from a pool of
// the same memory node (pool.h) and return to it when they are empty. A writer holds its home bucket's latch for its
// whole operation, so operations that change one chain exclude each other; readers go from bucket to bucket. Each
// operation is linearizable if each read and each update of a bucket is. hash_table.cpp explains why a reader that
// finds a key nowhere may report it absent.
//
// Deadlines (SessionOptions::retry) count from an operation's begin; after Outcome::timed_out nothing has changed. A
// session needs at least 3 buffers.
//
// Clients that die (leases, sync/lease.h). A lease must be longer than the longest operation: a writer holds home while
// it walks along the chain. The next client takes the latch over. A chained table's buckets are sealed by a checksum,
// which detects a WRITE that was placed in part. The bucket is then marked as torn, and this and all later operations
// that meet it throw StructureError. Only schemes with two copies (optimistic/copy-on-write) survive such a WRITE. A
// perfect table cannot tell half a value from a whole one: get() of a value whose writer died throws StructureError
// until put() or update() has written it again. The overflow bucket of a client that dies between taking and linking it
// comes back (sweep()); check() counts those that have not. docs/structures.md says which stay lost.
//
// Thread-safety: no state; one table serves any number of tasks. The scheme must outlive it.
#pragma once

#include <sidelatch/fabric/object_number.h>
#include <sidelatch/structures/client.h>
#include <sidelatch/structures/pool.h>
#include <sidelatch/structures/superblock.h>
#include <sidelatch/sync/scheme.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::structures {

struct BucketHeader;

enum class Addressing : std::uint8_t {
  chained,  ///< any keys
  perfect,  ///< the keys 0 to capacity - 1, all present from the beginning with zeroed values
};

struct HashTableOptions {
  static constexpr std::uint64_t kSmallestValue = 8;
  static constexpr std::uint64_t kLargestValue = 65536;
  static constexpr std::uint32_t kMostEntries = 32;

  Addressing addressing = Addressing::chained;
  std::uint64_t value_bytes = 8;  ///< 8 to 65536
  /// Keys, over all memory nodes, at least 1. This many keys fill three quarters of a chained table's home buckets; it
  /// takes more as long as there is room.
  std::uint64_t capacity = 0;
  std::uint32_t entries_per_bucket = 4;  ///< 1 to 32
  /// Per memory node. The default is a third of its home buckets plus 8: `capacity` random keys need overflow buckets
  /// for at most 0.22 of the home buckets (with one entry per bucket; fewer with more entries). Small tables on many
  /// memory nodes need more, because their nodes fill unevenly.
  std::optional<std::uint64_t> overflow_buckets{};
  std::optional<sync::LayoutKind> layout{};  ///< of the buckets or values; by default the scheme's own

  /// Throws std::invalid_argument that names the field, its value and what is allowed.
  void validate() const;
};

/// The result of check(). A perfect table has only `entries` and `problems`.
struct HashTableReport {
  std::uint64_t entries = 0;
  std::uint64_t buckets_used = 0;             ///< home and overflow buckets that hold an entry
  std::uint64_t overflow_buckets = 0;         ///< linked overflow buckets
  std::uint64_t longest_chain = 0;            ///< in buckets, including the home bucket
  std::uint64_t free_overflow_buckets = 0;    ///< available in the pools
  std::uint64_t leaked_overflow_buckets = 0;  ///< neither linked nor free
  std::vector<std::string> problems;          ///< one sentence each; none: the table is good
};

class HashTable {
 public:
  /// Bytes needed at each memory node. Throws std::invalid_argument for bad options.
  [[nodiscard]] static std::uint64_t bytes_needed(const sync::Scheme& scheme, const HashTableOptions& options,
                                                  std::size_t memory_nodes);
  /// memory[i] lies on memory node i of the clients. Throws std::invalid_argument for bad options, a scheme with a
  /// queue, a layout that the scheme cannot have, and memory that is too small or not aligned as the layout needs it (8
  /// or 64 bytes).
  HashTable(const sync::Scheme& scheme, const HashTableOptions& options, std::span<const fabric::RemoteSpan> memory);

  /// Bytes of a client's buffers.
  [[nodiscard]] std::uint64_t buffer_bytes() const noexcept { return buffer_bytes_; }
  [[nodiscard]] const HashTableOptions& options() const noexcept { return options_; }

  // Every operation throws std::invalid_argument for a span that is not of value_bytes, std::out_of_range for a key
  // that a perfect table does not have, and what the scheme throws (LatchError, FabricError).

  /// done, absent or timed_out. If it is not done, the content of `value` is meaningless.
  [[nodiscard]] fabric::Task<Outcome> get(Client& client, std::uint64_t key, std::span<std::byte> value) const;
  /// done, present, full or timed_out.
  [[nodiscard]] fabric::Task<Outcome> insert(Client& client, std::uint64_t key, std::span<const std::byte> value) const;
  /// Inserts or overwrites: done, full or timed_out.
  [[nodiscard]] fabric::Task<Outcome> put(Client& client, std::uint64_t key, std::span<const std::byte> value) const;
  /// Overwrites: done, absent or timed_out.
  [[nodiscard]] fabric::Task<Outcome> update(Client& client, std::uint64_t key, std::span<const std::byte> value) const;
  /// done, absent or timed_out. Throws std::logic_error for a perfect table.
  [[nodiscard]] fabric::Task<Outcome> remove(Client& client, std::uint64_t key) const;

  /// Fills an empty table that nobody else uses yet, and writes each bucket once; values lie back to back in the order
  /// of the keys. done or full; timed_out may leave a part of them loaded. Throws std::invalid_argument for a duplicate
  /// key, and for a chained table std::logic_error if it meets a bucket that is not empty.
  [[nodiscard]] fabric::Task<Outcome> bulk_load(Client& client, std::span<const std::uint64_t> keys,
                                                std::span<const std::byte> values) const;

  /// Brings back the overflow buckets that a client with that owner id had taken and not linked when it died, and
  /// returns how many they were. Not those of which a deadline or a torn bucket hides whether they are linked. Others
  /// may use the table meanwhile. Revokes the owner first: name only a client that is dead. All clients of the table
  /// must have owner ids. A client that finds no free bucket does it by itself for owners that it has revoked. Throws
  /// LatchError::takeover_refused for a client without revokers, std::invalid_argument for one without owner id.
  [[nodiscard]] fabric::Task<std::uint64_t> sweep(Client& client, std::uint16_t dead_owner) const;

  /// Checks the whole table. Nobody else may use the table meanwhile, nor have requests under way (Client::drain). If a
  /// bucket is so damaged that the scheme no longer accepts it, only a client with a deadline returns.
  [[nodiscard]] fabric::Task<HashTableReport> check(Client& client) const;

  /// The place of a key's home bucket, or of its record. Throws std::out_of_range for a key that a perfect table does
  /// not have.
  struct Place {
    std::size_t memory_node = 0;
    std::uint64_t bucket = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  [[nodiscard]] Place place_of(std::uint64_t key) const;
  /// Per memory node: home buckets, or records, and the overflow buckets after them in the same array, which begins
  /// kSuperblockBytes behind the beginning of the memory.
  [[nodiscard]] std::uint64_t home_buckets() const noexcept { return home_buckets_; }
  [[nodiscard]] std::uint64_t overflow_buckets() const noexcept { return overflow_buckets_; }
  [[nodiscard]] const sync::Layout& layout() const noexcept { return arrays_.front().layout(); }
  /// The buckets at that memory node; for switches, which must know them.
  [[nodiscard]] const sync::ObjectArray& objects(std::size_t memory_node) const { return arrays_.at(memory_node); }
  /// What the superblock of that memory node must say.
  [[nodiscard]] const Superblock& superblock(std::size_t memory_node) const { return superblocks_.at(memory_node); }

 private:
  enum class Change : std::uint8_t { insert, put, update, remove };
  struct Entry;
  struct Link;
  struct Search;
  struct Writer;
  struct Chain;
  struct Swept;
  enum class Linked : std::uint8_t { no, yes, unknown };
  class Checker;

  [[nodiscard]] fabric::Task<void> open(Client& client) const;
  [[nodiscard]] bool is_open(const Client& client) const noexcept { return client.has_opened(number_); }
  [[nodiscard]] fabric::Task<Outcome> get_perfect(Client& client, std::uint64_t key, std::span<std::byte> value) const;
  [[nodiscard]] fabric::Task<Outcome> insert_perfect(std::uint64_t key) const;
  [[nodiscard]] fabric::Task<Outcome> put_perfect(Client& client, std::uint64_t key,
                                                  std::span<const std::byte> value) const;
  [[nodiscard]] fabric::Task<Outcome> get_chained(Client& client, std::uint64_t key, std::span<std::byte> value) const;
  [[nodiscard]] fabric::Task<Outcome> change(Client& client, Change change, std::uint64_t key,
                                             std::span<const std::byte> value) const;
  [[nodiscard]] fabric::Task<Outcome> change_chained(Client& client, Change change, std::uint64_t key,
                                                     std::span<const std::byte> value) const;
  [[nodiscard]] fabric::Task<Outcome> change_chain(Writer& writer, Change change, Entry entry) const;
  static void hold_up(Writer& writer, Place place);
  static void keep_lease(const Writer& writer);
  [[nodiscard]] fabric::Task<void> latch_beside_home(Writer& writer, Place place) const;
  [[nodiscard]] fabric::Task<Search> search_chain(Writer& writer, std::uint64_t key) const;
  [[nodiscard]] fabric::Task<Outcome> change_overflow(Writer& writer, Change change, Entry entry, Search search) const;
  [[nodiscard]] fabric::Task<Outcome> unlink(Writer& writer, Search search) const;
  [[nodiscard]] fabric::Task<Outcome> add(Writer& writer, Entry entry, Search search) const;
  [[nodiscard]] fabric::Task<bool> fill_overflow(Writer& writer, std::uint64_t overflow, std::span<const Entry> entries,
                                                 Link& first) const;
  [[nodiscard]] fabric::Task<Outcome> load_chain(Writer& writer, std::span<const Entry> entries,
                                                 std::vector<std::uint64_t>& overflow) const;
  [[nodiscard]] fabric::Task<Outcome> load_chains(Client& client, std::span<const Chain> chains,
                                                  std::span<const Entry> entries,
                                                  std::vector<std::vector<std::uint64_t>>& taken) const;

  [[nodiscard]] fabric::Task<sync::ReadGuard> read_bucket(sync::Session& session, Place place) const;
  [[nodiscard]] fabric::Task<bool> is_in_chain(sync::Session& session, Place home, Link wanted) const;
  [[nodiscard]] fabric::Task<sync::ExclusiveGuard> latch_any(sync::Session& session, Place place) const;
  [[nodiscard]] fabric::Task<sync::ExclusiveGuard> latch_bucket(sync::Session& session, Place place) const;
  [[nodiscard]] fabric::Task<void> commit_bucket(sync::ExclusiveGuard& guard) const;
  [[nodiscard]] fabric::Task<bool> take_over(sync::Session& session, Place place) const;
  [[nodiscard]] fabric::Task<Outcome> prepare(Writer& writer) const;
  [[nodiscard]] fabric::Task<Swept> sweep_owner(Client& client, std::uint16_t dead_owner) const;
  [[nodiscard]] fabric::Task<bool> sweep_all_dead(Client& client) const;
  [[nodiscard]] fabric::Task<Pool::Taken> take_overflow(Client& client, std::size_t memory_node,
                                                        std::uint64_t most) const;
  [[nodiscard]] fabric::Task<Linked> is_linked(Client& client, Place place) const;
  [[nodiscard]] fabric::Task<void> end_guards(Writer& writer) const;
  [[nodiscard]] fabric::Task<void> let_go(Writer& writer) const;
  [[nodiscard]] fabric::Task<void> give_back(Client& client, std::size_t memory_node, std::uint64_t overflow) const;

  [[nodiscard]] Place overflow(std::size_t memory_node, const Link& link) const;
  [[nodiscard]] std::string describe(Place place) const;
  /// What is wrong with a bucket, regardless of its chain; empty if nothing is.
  [[nodiscard]] std::string_view fault_of(Place place, const BucketHeader& header) const;
  [[noreturn]] void throw_damaged(Place place, std::string_view what) const;
  void require_value(std::size_t bytes) const;

  const sync::Scheme* scheme_;
  HashTableOptions options_;
  std::uint64_t home_buckets_ = 0;
  std::uint64_t overflow_buckets_ = 0;
  std::vector<sync::ObjectArray> arrays_;  // per memory node: home buckets, then overflow buckets
  std::vector<Pool> pools_;                // empty in a perfect table
  std::uint64_t buffer_bytes_ = 0;
  std::vector<fabric::RemoteSpan> heads_;  // of the memory at each memory node
  std::vector<Superblock> superblocks_;
  std::uint64_t number_ = fabric::next_object_number();
};

}  // namespace sidelatch::structures

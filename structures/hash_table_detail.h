// Types that the parts of the chained hash table share: links, and the state of an operation.
#pragma once

#include <sidelatch/structures/hash_table.h>

#include "hash_bucket.h"
#include "holding.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace sidelatch::structures {

inline constexpr std::string_view kCircle = "is in a chain that never ends";
inline constexpr std::string_view kTornBucket =
    "is torn: it was being written by a client that died, and what it held is lost. Only schemes with two copies "
    "(optimistic/copy-on-write) survive a WRITE that was cut in the middle";

struct HashTable::Entry {
  std::uint64_t key = 0;
  const std::byte* value = nullptr;
};

// A link to one filling of an overflow bucket.
struct HashTable::Link {
  std::uint32_t next = 0;  // 1 + its number; 0: the chain ends here
  std::uint32_t generation = 0;

  [[nodiscard]] bool leads_anywhere() const { return next != 0; }
  [[nodiscard]] bool means(const BucketHeader& header, std::uint64_t home) const {
    return header.home == home + 1 && header.generation == generation;
  }
  friend bool operator==(const Link&, const Link&) = default;
};

// The result of a writer's search behind home.
struct HashTable::Search {
  bool complete = false;  // false: the deadline passed
  std::optional<Place> found{};
  Place predecessor{};  // of the bucket found
  Link next{};          // of the bucket found
  bool alone = false;   // the entry is the only one of its bucket
  std::optional<Place> room{};
};

// The latches and buckets that one operation holds.
struct HashTable::Writer {
  Client* client = nullptr;
  Place home{};
  sync::ExclusiveGuard home_guard{};
  sync::ExclusiveGuard bucket{};         // latched after home
  std::optional<std::uint64_t> taken{};  // an overflow bucket that is not linked
  bool wants_bucket = false;             // the operation cannot continue without a bucket
  std::optional<Place> held_up{};        // a bucket that another client has latched; the operation cannot continue

  [[nodiscard]] sync::Session& session() const { return client->session(home.memory_node); }
};

// What a sweep of one owner's buckets has done.
struct HashTable::Swept {
  std::uint64_t count = 0;
  bool complete = true;  // false: of some buckets nobody knows, since the deadline passed
};

// Entries of a bulk load that go into one chain.
struct HashTable::Chain {
  Place home{};
  std::size_t begin = 0;
  std::size_t count = 0;
};

}  // namespace sidelatch::structures

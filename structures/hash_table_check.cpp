// check() of the hash table: every bucket and every chain, read by a client that is alone.
#include <sidelatch/structures/hash_table.h>

#include <sidelatch/sync/latch_word.h>

#include "hash_bucket.h"
#include "holding.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

class HashTable::Checker {
 public:
  Checker(const HashTable& table, Client& client) : table_(&table), client_(&client) {}

  Task<HashTableReport> run() {
    for (std::size_t node = 0; node < table_->arrays_.size(); ++node) {
      if (table_->options_.addressing == Addressing::perfect) {
        co_await check_records(node);
      } else {
        co_await check_chains(node);
        co_await check_pool(node);
      }
    }
    co_return std::move(report_);
  }

 private:
  void complain(Place place, std::string_view what) {
    report_.problems.push_back(fmt::format("{} {}", table_->describe(place), what));
  }

  /// A reader would wait for a held latch.
  Task<bool> is_free(Place place) {
    const std::uint64_t word = co_await table_->scheme_->peek_latch(
        client_->session(place.memory_node), table_->arrays_[place.memory_node].at(place.bucket));
    if (word != kFree) {
      complain(place, fmt::format("is latched: its latch word is {:#x}", word));
    }
    co_return word == kFree;
  }

  Task<void> check_records(std::size_t node) {
    const std::uint64_t nodes = table_->arrays_.size();
    for (std::uint64_t i = 0; i < table_->home_buckets_ && i * nodes + node < table_->options_.capacity; ++i) {
      ++report_.entries;
      (void)co_await is_free({node, i});
    }
  }

  /// The payload; empty, with a complaint, if the bucket cannot be read.
  Task<std::vector<std::byte>> read(Place place) {
    std::vector<std::byte> payload;
    const bool free = co_await is_free(place);
    if (!free) {
      co_return payload;
    }
    ReadGuard guard = co_await table_->read_bucket(client_->session(place.memory_node), place);
    if (!guard) {
      complain(place, "cannot be read before the deadline: the scheme does not accept its bytes");
      co_return payload;
    }
    payload.assign(guard.payload().begin(), guard.payload().end());
    co_await guard.release();
    co_return payload;
  }

  Task<void> check_chains(std::size_t node) {
    linked_.assign(table_->overflow_buckets_, 0);
    for (std::uint64_t bucket = 0; bucket < table_->home_buckets_; ++bucket) {
      co_await check_chain({node, bucket});
    }
  }

  Task<void> check_chain(Place home) {
    std::set<std::uint64_t> keys;
    std::uint64_t length = 1;
    Place place = home;
    std::uint32_t generation = 0;
    for (;;) {
      const std::vector<std::byte> payload = co_await read(place);
      if (payload.empty()) {
        break;
      }
      const BucketHeader header = BucketFormat::header_in(payload);
      if (!is_sealed(payload)) {
        complain(place, "has a seal that its contents do not match");
      }
      if (const std::string_view fault = table_->fault_of(place, header); !fault.empty()) {
        complain(place, fault);
        break;
      }
      if (place.bucket != home.bucket && !check_membership(place, header, home, generation)) {
        break;
      }
      check_entries(place, header, payload, home, keys);
      if (header.next == 0) {
        break;
      }
      place.bucket = table_->home_buckets_ + header.next - 1;
      generation = header.next_generation;
      std::uint64_t& in_chain = linked_[header.next - 1];
      if (in_chain != 0) {
        complain(place,
                 in_chain == home.bucket + 1
                     ? fmt::format("is linked twice in the chain of home bucket {}", home.bucket)
                     : fmt::format("is linked in the chains of the home buckets {} and {}", in_chain - 1, home.bucket));
        break;
      }
      in_chain = home.bucket + 1;
      ++report_.overflow_buckets;
      ++length;
    }
    report_.longest_chain = std::max(report_.longest_chain, length);
  }

  bool check_membership(Place place, const BucketHeader& header, Place home, std::uint32_t generation) {
    if (header.home != home.bucket + 1) {
      complain(place, fmt::format("is linked in the chain of home bucket {}, and does not belong to it", home.bucket));
      return false;
    }
    if (header.generation != generation) {
      complain(place, fmt::format("has generation {}, and what links to it means generation {}", header.generation,
                                  generation));
      return false;
    }
    if (header.used == 0) {
      complain(place, "is empty and yet linked");
    }
    return true;
  }

  void check_entries(Place place, const BucketHeader& header, std::span<const std::byte> payload, Place home,
                     std::set<std::uint64_t>& keys) {
    const BucketFormat format{table_->options_.entries_per_bucket, table_->options_.value_bytes};
    report_.buckets_used += header.used != 0 ? 1U : 0U;
    for (std::uint32_t left = header.used; left != 0; left &= left - 1) {
      const std::uint64_t key = format.key_in(payload, static_cast<std::uint32_t>(std::countr_zero(left)));
      ++report_.entries;
      if (table_->place_of(key) != home) {
        complain(place, fmt::format("holds key {}, which belongs to {}", key, table_->describe(table_->place_of(key))));
      } else if (!keys.insert(key).second) {
        complain(place, fmt::format("holds key {}, which its chain holds twice", key));
      }
    }
  }

  Task<void> check_pool(std::size_t node) {
    Pool::Contents contents;
    bool readable = true;
    try {
      contents = co_await table_->pools_[node].contents(*client_);
    } catch (const StructureError& error) {
      report_.problems.emplace_back(error.what());
      readable = false;
    }
    if (!readable) {
      co_return;
    }
    std::vector<bool> free(table_->overflow_buckets_);
    for (const std::uint64_t number : contents.free) {
      const Place place{node, table_->home_buckets_ + number};
      if (number >= contents.mark) {
        complain(place, "is among the free ones of the pool, which has never handed it out");
        continue;
      }
      free[number] = true;
      if (linked_[number] != 0) {
        complain(place, fmt::format("is free and yet linked in the chain of home bucket {}", linked_[number] - 1));
      }
    }
    report_.free_overflow_buckets += contents.free.size() + table_->overflow_buckets_ - contents.mark;
    for (std::uint64_t number = 0; number < table_->overflow_buckets_; ++number) {
      if (number >= contents.mark && linked_[number] != 0) {
        complain({node, table_->home_buckets_ + number}, "is linked, and the pool has never handed it out");
      }
      const bool leaked = number < contents.mark && linked_[number] == 0 && !free[number];
      report_.leaked_overflow_buckets += leaked ? 1U : 0U;
    }
  }

  const HashTable* table_;
  Client* client_;
  HashTableReport report_;
  std::vector<std::uint64_t> linked_;  // per overflow bucket, 1 + the home bucket of its chain
};

Task<HashTableReport> HashTable::check(Client& client) const {
  if (!is_open(client)) {
    co_await open(client);
  }
  Checker checker(*this, client);
  HashTableReport report = co_await checker.run();
  co_return report;
}

}  // namespace sidelatch::structures

// Bulk load of the hash table.
#include <sidelatch/structures/hash_table.h>

#include "hash_table_detail.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

Task<Outcome> HashTable::bulk_load(Client& client, std::span<const std::uint64_t> keys,
                                   std::span<const std::byte> values) const {
  if (values.size() / options_.value_bytes != keys.size() || values.size() % options_.value_bytes != 0) {
    throw std::invalid_argument(fmt::format("bulk_load of {} keys with {} bytes of values: each key needs {}",
                                            keys.size(), values.size(), options_.value_bytes));
  }
  if (!is_open(client)) {
    co_await open(client);
  }
  client.begin_operation();
  struct Item {
    Place place;
    Entry entry;
  };
  std::vector<Item> items;
  items.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    items.push_back({place_of(keys[i]), {keys[i], values.data() + i * options_.value_bytes}});
  }
  std::ranges::sort(items, {}, [](const Item& item) {
    return std::tuple(item.place.memory_node, item.place.bucket, item.entry.key);
  });
  const auto twice = std::ranges::adjacent_find(items, {}, [](const Item& item) { return item.entry.key; });
  if (twice != items.end()) {
    throw std::invalid_argument(fmt::format("bulk_load: key {} is there twice", twice->entry.key));
  }
  std::vector<Entry> entries;
  std::vector<Chain> chains;
  for (const Item& item : items) {
    if (chains.empty() || chains.back().home != item.place) {
      chains.push_back({item.place, entries.size(), 0});
    }
    entries.push_back(item.entry);
    ++chains.back().count;
  }
  if (options_.addressing == Addressing::perfect) {
    for (const Item& item : items) {
      const std::span value(item.entry.value, options_.value_bytes);
      const Outcome outcome = co_await put_perfect(client, item.entry.key, value);
      if (outcome != Outcome::done) {
        co_return outcome;
      }
    }
    co_return Outcome::done;
  }
  std::vector<std::vector<std::uint64_t>> taken(arrays_.size());
  std::exception_ptr error;
  Outcome outcome = Outcome::done;
  try {
    outcome = co_await load_chains(client, chains, entries, taken);
  } catch (...) {
    error = std::current_exception();
  }
  for (std::size_t node = 0; node < taken.size(); ++node) {
    for (const std::uint64_t number : taken[node]) {
      try {
        co_await give_back(client, node, number);
      } catch (const LatchError&) {      // the outcome stands; the bucket stays this client's
      } catch (const StructureError&) {  // who needs the pool is told
      } catch (...) {
        error = error ? error : std::current_exception();
      }
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
  co_return outcome;
}

// Takes the overflow buckets first, so that nothing is changed if there are too few. `taken` keeps the unused ones.
Task<Outcome> HashTable::load_chains(Client& client, std::span<const Chain> chains, std::span<const Entry> entries,
                                     std::vector<std::vector<std::uint64_t>>& taken) const {
  const std::uint64_t per_bucket = options_.entries_per_bucket;
  std::vector<std::uint64_t> needed(taken.size());
  for (const Chain& chain : chains) {
    needed[chain.home.memory_node] += (chain.count - 1) / per_bucket;
  }
  for (std::size_t node = 0; node < needed.size(); ++node) {
    while (taken[node].size() < needed[node]) {
      const Pool::Taken some = co_await take_overflow(client, node, needed[node] - taken[node].size());
      if (some.outcome != Outcome::done) {
        co_return some.outcome;
      }
      for (std::uint64_t i = 0; i < some.count; ++i) {
        taken[node].push_back(some.object + i);
      }
    }
  }
  for (const Chain& chain : chains) {
    Writer writer{.client = &client, .home = chain.home};
    std::exception_ptr error;
    Outcome outcome = Outcome::timed_out;
    try {
      outcome = co_await load_chain(writer, entries.subspan(chain.begin, chain.count), taken[chain.home.memory_node]);
    } catch (...) {
      error = std::current_exception();
    }
    try {
      co_await let_go(writer);
    } catch (...) {
      error = error ? error : std::current_exception();
    }
    if (error) {
      std::rethrow_exception(error);
    }
    if (outcome != Outcome::done) {
      co_return outcome;
    }
  }
  co_return Outcome::done;
}

Task<Outcome> HashTable::load_chain(Writer& writer, std::span<const Entry> entries,
                                    std::vector<std::uint64_t>& overflow) const {
  const BucketFormat format{options_.entries_per_bucket, options_.value_bytes};
  Session& session = writer.session();
  const Session::Operation operation(session, session.lease_clock());
  writer.home_guard = co_await latch_bucket(session, writer.home);
  if (!writer.home_guard) {
    co_return Outcome::timed_out;
  }
  BucketHeader home = BucketFormat::header_in(writer.home_guard.payload());
  if (home.used != 0 || home.next != 0) {
    throw std::logic_error(
        fmt::format("bulk_load of a hash table that is not empty: {} is in use", describe(writer.home)));
  }
  Link first;
  const std::size_t in_home = std::min<std::size_t>(entries.size(), options_.entries_per_bucket);
  std::size_t unused = overflow.size();
  for (std::size_t begin = in_home; begin < entries.size(); begin += options_.entries_per_bucket) {
    const std::size_t count = std::min<std::size_t>(entries.size() - begin, options_.entries_per_bucket);
    --unused;
    const bool filled = co_await fill_overflow(writer, overflow[unused], entries.subspan(begin, count), first);
    if (!filled) {
      co_return Outcome::timed_out;
    }
  }
  co_await session.qp().drain();
  home.home = writer.home.bucket + 1;
  home.next = first.next;
  home.next_generation = first.generation;
  for (const Entry& entry : entries.first(in_home)) {
    format.add(home, writer.home_guard.payload(), entry.key, entry.value);
  }
  BucketFormat::put_header(home, writer.home_guard.payload());
  const std::vector<std::uint64_t> linked(overflow.begin() + static_cast<std::ptrdiff_t>(unused), overflow.end());
  overflow.resize(unused);  // if the connection fails, it is unknown whether the others are linked
  try {
    co_await commit_bucket(writer.home_guard);
  } catch (const LatchError&) {  // nothing was written
    overflow.insert(overflow.end(), linked.begin(), linked.end());
    throw;
  }
  co_return Outcome::done;
}

}  // namespace sidelatch::structures

// Overflow buckets of dead clients come back: those that a client had taken and not linked, or had just unlinked.
#include <sidelatch/structures/hash_table.h>

#include "hash_table_detail.h"

#include <stdexcept>
#include <vector>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

Task<std::uint64_t> HashTable::sweep(Client& client, std::uint16_t dead_owner) const {
  if (client.session(0).options().owner == 0) {
    throw std::invalid_argument(
        "a sweep by a client without owner id: only buckets of clients with owner ids carry a mark; give every client "
        "one");
  }
  if (!is_open(client)) {
    co_await open(client);
  }
  co_await client.revoke(dead_owner);
  std::uint64_t count = 0;
  for (std::size_t node = 0; node < pools_.size(); ++node) {
    const std::vector<std::uint64_t> numbers = co_await pools_[node].marked(client, dead_owner);
    for (const std::uint64_t number : numbers) {
      const bool mine = co_await claim_unlinked(client, {node, home_buckets_ + number}, dead_owner);
      if (mine) {
        co_await give_back(client, node, number);
        ++count;
      }
    }
  }
  co_return count;
}

// A bucket is linked only in the chain of the home bucket that it names: it is written before it is linked. Whoever
// takes a linked one out of its chain marks it as his own first. So the claim fails if that happens meanwhile.
Task<bool> HashTable::claim_unlinked(Client& client, Place place, std::uint16_t dead_owner) const {
  bool linked = true;
  try {
    linked = co_await is_linked(client, place);
  } catch (const StructureError&) {  // torn: nobody can tell where it belongs
  }
  if (linked) {
    co_return false;
  }
  const bool mine = co_await pools_[place.memory_node].claim(client, place.bucket - home_buckets_, dead_owner);
  co_return mine;
}

Task<bool> HashTable::is_linked(Client& client, Place place) const {
  Session& session = client.session(place.memory_node);
  ReadGuard guard = co_await read_bucket(session, place);
  if (!guard) {
    co_return true;  // the deadline passed; nobody knows
  }
  const BucketHeader header = BucketFormat::header_in(guard.payload());
  co_await guard.release();
  if (header.home == 0) {
    co_return false;  // never filled
  }
  if (header.home > home_buckets_) {
    co_return true;  // torn: nobody can tell where it belongs
  }
  for (;;) {
    Link link;
    bool lost = false;
    for (std::uint64_t steps = 0; !lost; ++steps) {
      const Place at = steps == 0 ? Place{place.memory_node, header.home - 1} : overflow(place.memory_node, link);
      if (at == place) {
        co_return true;
      }
      ReadGuard seen = co_await read_bucket(session, at);
      if (!seen || steps > overflow_buckets_) {
        co_return true;
      }
      const BucketHeader here = BucketFormat::header_in(seen.payload());
      co_await seen.release();
      lost = steps != 0 && !link.means(here, header.home - 1);
      link = {here.next, here.next_generation};
      if (!lost && !link.leads_anywhere()) {
        co_return false;
      }
    }
    client.count_restart();
    co_await client.give_way();
  }
}

}  // namespace sidelatch::structures

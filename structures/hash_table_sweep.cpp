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
  const Swept swept = co_await sweep_owner(client, dead_owner);
  co_return swept.count;
}

// A bucket is linked only in the chain of the home bucket that it names: it is written before it is linked. Whoever
// takes a linked one out of its chain marks it as his own first. So the claim fails if that happens meanwhile.
Task<HashTable::Swept> HashTable::sweep_owner(Client& client, std::uint16_t dead_owner) const {
  co_await client.revoke(dead_owner);
  Swept swept;
  for (std::size_t node = 0; node < pools_.size(); ++node) {
    const std::vector<std::uint64_t> numbers = co_await pools_[node].marked(client, dead_owner);
    for (const std::uint64_t number : numbers) {
      Linked linked = Linked::yes;
      try {
        linked = co_await is_linked(client, {node, home_buckets_ + number});
      } catch (const StructureError&) {  // torn: nobody can tell where it belongs
      }
      swept.complete = swept.complete && linked != Linked::unknown;
      if (linked != Linked::no) {
        continue;
      }
      const bool mine = co_await pools_[node].claim(client, number, dead_owner);
      if (mine) {
        co_await give_back(client, node, number);
        ++swept.count;
      }
    }
  }
  co_return swept;
}

// Sweeps the owners that this client has revoked, each once. False: the deadline passed, and the rest is for the next
// operation that finds no bucket.
Task<bool> HashTable::sweep_all_dead(Client& client) const {
  for (std::uint16_t owner = client.next_dead_owner(number_); owner != 0; owner = client.next_dead_owner(number_)) {
    Swept swept;
    try {
      swept = co_await sweep_owner(client, owner);
    } catch (const LatchError& error) {
      if (error.kind() != LatchError::Kind::takeover_refused) {
        throw;
      }  // a memory node does not know the owner: its buckets stay as they are
    }
    if (!swept.complete) {
      co_return false;
    }
    client.note_swept(number_, owner);
  }
  co_return true;
}

Task<HashTable::Linked> HashTable::is_linked(Client& client, Place place) const {
  Session& session = client.session(place.memory_node);
  ReadGuard guard = co_await read_bucket(session, place);
  if (!guard) {
    co_return Linked::unknown;
  }
  const BucketHeader header = BucketFormat::header_in(guard.payload());
  co_await guard.release();
  if (header.home == 0) {
    co_return Linked::no;  // never filled
  }
  if (header.home > home_buckets_) {
    co_return Linked::yes;  // torn: nobody can tell where it belongs
  }
  Attempts attempts(session);
  Link misled;  // the last walk
  for (;;) {
    Link link;
    for (std::uint64_t steps = 0;; ++steps) {
      const Place at = steps == 0 ? Place{place.memory_node, header.home - 1} : overflow(place.memory_node, link);
      if (at == place) {
        co_return Linked::yes;
      }
      ReadGuard seen = co_await read_bucket(session, at);
      if (!seen) {
        co_return Linked::unknown;
      }
      const BucketHeader here = BucketFormat::header_in(seen.payload());
      co_await seen.release();
      if (steps != 0 && !link.means(here, header.home - 1)) {
        break;
      }
      if (steps > overflow_buckets_ || !fault_of(at, here).empty()) {
        co_return Linked::yes;  // nobody can tell what is behind it
      }
      link = {here.next, here.next_generation};
      if (!link.leads_anywhere()) {
        co_return Linked::no;
      }
    }
    // The walk is lost. A bucket leaves its chain before it is filled anew, or torn by who fills it. So a walk that
    // begins afterwards does not meet the same link again, unless the bucket was torn where it is, or damaged.
    if (link == misled) {
      co_return Linked::yes;
    }
    if (attempts.expired()) {
      co_return Linked::unknown;
    }
    misled = link;
    client.count_restart();
    co_await client.give_way();
  }
}

}  // namespace sidelatch::structures

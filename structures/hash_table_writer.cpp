// Changes of a chained hash table.
#include <sidelatch/structures/hash_table.h>

#include <sidelatch/sync/latch_word.h>

#include "hash_table_detail.h"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

// A bucket is leaked if each of these attempts to give it back ends at its deadline.
constexpr int kAttemptsToGiveBack = 8;

}  // namespace

Task<void> HashTable::give_back(Client& client, std::size_t memory_node, std::uint64_t overflow) const {
  // The operation has taken effect, so its deadline must not end it. Each attempt has a deadline of its own.
  Session& session = client.session(memory_node);
  for (int attempt = 0; attempt < kAttemptsToGiveBack; ++attempt) {
    const Session::Operation operation(session, session.lease_clock());
    const Outcome outcome = co_await pools_[memory_node].give_back(client, overflow);
    if (outcome == Outcome::done) {
      co_return;
    }
  }
}

// A client must not wait for long with home latched: its lease would end, and others would take the client for dead. So
// it unlatches home before it takes over a dead client's latch, or takes an overflow bucket from the pool, whose latch
// may also be a dead client's. Then it begins again.
Task<Outcome> HashTable::change_chained(Client& client, Change change, std::uint64_t key,
                                        std::span<const std::byte> value) const {
  if (!is_open(client)) [[unlikely]] {
    co_await open(client);
  }
  Writer writer{.client = &client, .home = place_of(key)};
  Session& session = writer.session();
  const Session::Operation operation(session, session.lease_clock());
  std::exception_ptr error;
  Outcome outcome = Outcome::timed_out;
  Attempts attempts(session);
  for (bool again = true; again;) {
    again = false;
    bool has_changed = false;
    writer.wants_bucket = false;
    writer.held_up.reset();
    try {
      outcome = co_await change_chain(writer, change, Entry{key, value.data()});
      has_changed = outcome == Outcome::done;
      co_await end_guards(writer);
      if (writer.wants_bucket || writer.held_up) {
        outcome = co_await prepare(writer);
        again = outcome == Outcome::done;
      }
      if (again && writer.held_up) {
        if (attempts.expired()) {
          again = false;
          outcome = Outcome::timed_out;
        } else {
          co_await client.give_way();
        }
      }
    } catch (const LatchError&) {
      // If the change is there: the lease of home, which was taken over, has ended, and home is the dead holder's
      // again.
      error = has_changed ? nullptr : std::current_exception();
    } catch (...) {
      error = std::current_exception();
    }
  }
  // Without an error no latch is left, and what fails is that an unused bucket is given back. The outcome stands.
  try {
    co_await let_go(writer);
  } catch (const LatchError&) {      // the bucket stays this client's
  } catch (const StructureError&) {  // who needs the pool is told
  } catch (...) {
    error = error ? error : std::current_exception();
  }
  if (error) {
    std::rethrow_exception(error);
  }
  co_return outcome;
}

// Takes up to `most` overflow buckets. If there is none, those of dead clients come back first.
Task<Pool::Taken> HashTable::take_overflow(Client& client, std::size_t memory_node, std::uint64_t most) const {
  Pool::Taken taken = co_await pools_[memory_node].take(client, most);
  if (taken.outcome == Outcome::full && client.session(memory_node).options().owner != 0) {
    const bool complete = co_await sweep_all_dead(client);
    taken = co_await pools_[memory_node].take(client, most);
    if (taken.outcome == Outcome::full && !complete) {
      taken.outcome = Outcome::timed_out;
    }
  }
  co_return taken;
}

// Provides what change_chain() lacked. Any outcome but done is the operation's.
Task<Outcome> HashTable::prepare(Writer& writer) const {
  Client& client = *writer.client;
  if (writer.held_up) {
    client.count_restart();
    const bool free = co_await take_over(writer.session(), *writer.held_up);
    co_return free ? Outcome::done : Outcome::timed_out;
  }
  const Pool::Taken taken = co_await take_overflow(client, writer.home.memory_node, 1);
  if (taken.outcome != Outcome::done) {
    co_return taken.outcome;
  }
  writer.taken = taken.object;
  if (writer.session().has_lease()) {
    const bool free = co_await take_over(writer.session(), {writer.home.memory_node, home_buckets_ + taken.object});
    co_return free ? Outcome::done : Outcome::timed_out;
  }
  co_return Outcome::done;
}

// Waits until the bucket is unlatched, or takes over the latch of a dead holder. False if the deadline passed. Whoever
// reads a bucket that is torn then finds out whether that matters: it may have left its chain.
Task<bool> HashTable::take_over(Session& session, Place place) const {
  ExclusiveGuard guard = co_await latch_any(session, place);
  if (!guard) {
    co_return false;
  }
  co_await leave(guard);
  co_return true;
}

// Ends the latches that an operation still holds.
Task<void> HashTable::end_guards(Writer& writer) const {
  std::exception_ptr error;
  for (ExclusiveGuard* guard : {&writer.bucket, &writer.home_guard}) {
    try {
      if (*guard) {
        co_await leave(*guard);
      }
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

// Ends all latches that an operation holds, and gives back its unlinked bucket.
Task<void> HashTable::let_go(Writer& writer) const {
  co_await end_guards(writer);
  if (writer.taken) {
    const std::uint64_t number = *std::exchange(writer.taken, std::nullopt);
    co_await give_back(*writer.client, writer.home.memory_node, number);
  }
}

Task<Outcome> HashTable::change_chain(Writer& writer, Change change, Entry entry) const {
  writer.home_guard = co_await latch_bucket(writer.session(), writer.home);
  if (!writer.home_guard) {
    co_return Outcome::timed_out;
  }
  const BucketFormat format{options_.entries_per_bucket, options_.value_bytes};
  const std::span<std::byte> payload = writer.home_guard.payload();
  BucketHeader header = BucketFormat::header_in(payload);
  const std::string_view fault = fault_of(writer.home, header);
  if (!fault.empty()) {
    throw_damaged(writer.home, fault);
  }
  const auto slot = format.find(header, payload, entry.key);
  if (!slot) {
    const Search search = co_await search_chain(writer, entry.key);
    if (!search.complete || writer.held_up) {
      co_return Outcome::timed_out;
    }
    if (search.found) {
      const Outcome outcome = co_await change_overflow(writer, change, entry, search);
      co_return outcome;
    }
    if (change == Change::update || change == Change::remove) {
      co_return Outcome::absent;
    }
    const Outcome outcome = co_await add(writer, entry, search);
    co_return outcome;
  }
  if (change == Change::insert) {
    co_return Outcome::present;
  }
  if (change == Change::remove) {
    header.used &= ~(std::uint32_t{1} << *slot);
    BucketFormat::put_header(header, payload);
  } else {
    format.put_value(payload, *slot, entry.value);
  }
  co_await commit_bucket(writer.home_guard);
  co_return Outcome::done;
}

// The operation cannot continue before another client has unlatched that bucket. Without leases it only ends here when
// its deadline has passed.
void HashTable::hold_up(Writer& writer, Place place) {
  if (writer.session().has_lease() && !writer.session().deadline_passed()) {
    writer.held_up = place;
  }
}

// Latches a bucket while home is latched, and does not wait for long: its holder may be dead.
Task<void> HashTable::latch_beside_home(Writer& writer, Place place) const {
  const Session::Brief brief(writer.session());
  writer.bucket = co_await latch_bucket(writer.session(), place);
  if (writer.bucket) {
    keep_lease(writer);
  } else {
    hold_up(writer, place);
  }
}

// A chain may be too long for the lease. The operation ends while home is still this client's, or others would take the
// client for dead.
void HashTable::keep_lease(const Writer& writer) {
  if (writer.home_guard.lease_expired()) {
    const Lease& lease = writer.session().options().lease;
    throw LatchError(
        LatchError::Kind::lease_expired,
        fmt::format("the chain of home bucket {} of memory node {} took longer than the lease of {:g} ns with a margin "
                    "of {:g} allows: nothing was changed. Raise the lease of all clients, or make the table with more "
                    "capacity or entries per bucket, so that chains are shorter",
                    writer.home.bucket, writer.home.memory_node, to_ns(lease.length), to_ns(lease.margin)));
  }
}

// Searches the chain behind home for a key. Home's latch protects the chain, so its buckets need no latch.
Task<HashTable::Search> HashTable::search_chain(Writer& writer, std::uint64_t key) const {
  const BucketFormat format{options_.entries_per_bucket, options_.value_bytes};
  const BucketHeader home = BucketFormat::header_in(writer.home_guard.payload());
  Search search;
  Link link{home.next, home.next_generation};
  Place predecessor = writer.home;
  for (std::uint64_t steps = 1; link.leads_anywhere(); ++steps) {
    keep_lease(writer);
    const Place place = overflow(writer.home.memory_node, link);
    if (writer.session().has_lease()) {
      const std::uint64_t word =
          co_await scheme_->peek_latch(writer.session(), arrays_[place.memory_node].at(place.bucket));
      if (is_exclusive(word) && owner_of(word) != 0) {
        writer.held_up = place;
        co_return search;
      }
    }
    ReadGuard guard;
    {
      const Session::Brief brief(writer.session());
      guard = co_await read_bucket(writer.session(), place);
    }
    if (!guard) {
      hold_up(writer, place);
      co_return search;
    }
    const BucketHeader header = BucketFormat::header_in(guard.payload());
    const auto slot = format.find(header, guard.payload(), key);
    co_await guard.release();
    std::string_view fault = steps > overflow_buckets_ ? kCircle : fault_of(place, header);
    if (fault.empty() && !link.means(header, writer.home.bucket)) {
      fault = "is linked in a chain that it does not belong to";
    }
    if (!fault.empty()) {
      throw_damaged(place, fault);
    }
    if (slot) {
      search.found = place;
      search.predecessor = predecessor;
      search.next = {header.next, header.next_generation};
      search.alone = header.used == std::uint32_t{1} << *slot;
      break;
    }
    if (!search.room && !format.is_full(header)) {
      search.room = place;
    }
    predecessor = place;
    link = {header.next, header.next_generation};
  }
  search.complete = true;
  co_return search;
}

// Changes an entry that is in an overflow bucket.
Task<Outcome> HashTable::change_overflow(Writer& writer, Change change, Entry entry, Search search) const {
  if (change == Change::insert) {
    co_return Outcome::present;
  }
  if (change == Change::remove && search.alone) {
    const Outcome outcome = co_await unlink(writer, search);
    co_return outcome;
  }
  co_await latch_beside_home(writer, *search.found);
  if (!writer.bucket) {
    co_return Outcome::timed_out;
  }
  const BucketFormat format{options_.entries_per_bucket, options_.value_bytes};
  const std::span<std::byte> payload = writer.bucket.payload();
  BucketHeader header = BucketFormat::header_in(payload);
  const auto slot = format.find(header, payload, entry.key);
  if (!slot) {
    throw_damaged(*search.found, "was changed by a client that does not hold its home bucket's latch");
  }
  if (change == Change::remove) {
    header.used &= ~(std::uint32_t{1} << *slot);
    BucketFormat::put_header(header, payload);
  } else {
    format.put_value(payload, *slot, entry.value);
  }
  co_await commit_bucket(writer.bucket);
  // The next holder of home reads this bucket, perhaps without checking its latch.
  co_await writer.session().qp().drain();
  co_return Outcome::done;
}

// Removes the only entry of an overflow bucket, and with it the bucket. One WRITE of the predecessor does that. The
// bucket itself stays unchanged for readers that have a link to it.
Task<Outcome> HashTable::unlink(Writer& writer, Search search) const {
  const bool is_first = search.predecessor == writer.home;
  if (!is_first) {
    co_await latch_beside_home(writer, search.predecessor);
    if (!writer.bucket) {
      co_return Outcome::timed_out;
    }
  }
  ExclusiveGuard& predecessor = is_first ? writer.home_guard : writer.bucket;
  BucketHeader header = BucketFormat::header_in(predecessor.payload());
  const std::uint64_t number = search.found->bucket - home_buckets_;
  if (header.next != number + 1) {
    throw_damaged(search.predecessor, "was changed by a client that does not hold its home bucket's latch");
  }
  co_await pools_[writer.home.memory_node].mark(*writer.client, number);  // may throw: before the payload changes
  if (writer.session().options().owner != 0) {
    co_await writer.session().qp().drain();  // the mark must be there before the bucket leaves its chain
  }
  header.next = search.next.next;
  header.next_generation = search.next.generation;
  BucketFormat::put_header(header, predecessor.payload());
  co_await commit_bucket(predecessor);
  // Nobody may take the bucket or latch home before the link is gone: home's next holder may follow the old link.
  co_await writer.session().qp().drain();
  try {
    co_await end_guards(writer);
    co_await give_back(*writer.client, writer.home.memory_node, number);
  } catch (const LatchError&) {      // the key is gone; the bucket stays this client's
  } catch (const StructureError&) {  // who needs the pool is told
  }
  co_return Outcome::done;
}

// Adds an entry with a key that the chain does not have.
Task<Outcome> HashTable::add(Writer& writer, Entry entry, Search search) const {
  const BucketFormat format{options_.entries_per_bucket, options_.value_bytes};
  BucketHeader home = BucketFormat::header_in(writer.home_guard.payload());
  if (!format.is_full(home)) {
    home.home = writer.home.bucket + 1;
    format.add(home, writer.home_guard.payload(), entry.key, entry.value);
    BucketFormat::put_header(home, writer.home_guard.payload());
    co_await commit_bucket(writer.home_guard);
    co_return Outcome::done;
  }
  if (search.room) {
    co_await latch_beside_home(writer, *search.room);
    if (!writer.bucket) {
      co_return Outcome::timed_out;
    }
    BucketHeader header = BucketFormat::header_in(writer.bucket.payload());
    if (format.is_full(header)) {
      throw_damaged(*search.room, "was changed by a client that does not hold its home bucket's latch");
    }
    format.add(header, writer.bucket.payload(), entry.key, entry.value);
    BucketFormat::put_header(header, writer.bucket.payload());
    co_await commit_bucket(writer.bucket);
    co_await writer.session().qp().drain();  // see change_overflow()
    co_return Outcome::done;
  }
  if (!writer.taken) {
    writer.wants_bucket = true;
    co_return Outcome::full;
  }
  Link first{home.next, home.next_generation};
  const bool filled = co_await fill_overflow(writer, *writer.taken, std::span(&entry, 1), first);
  if (!filled) {
    co_return Outcome::timed_out;
  }
  // A link must lead to a bucket that is complete at the memory node.
  co_await writer.session().qp().drain();
  home.next = first.next;
  home.next_generation = first.generation;
  BucketFormat::put_header(home, writer.home_guard.payload());
  const std::optional<std::uint64_t> linked = std::exchange(writer.taken, std::nullopt);
  try {
    co_await commit_bucket(writer.home_guard);  // if the connection fails, it is unknown whether the bucket is linked
  } catch (const LatchError&) {                 // nothing was written
    writer.taken = linked;
    throw;
  }
  co_return Outcome::done;
}

// Fills an overflow bucket that nobody owns, even a torn one, and links it to the bucket of `first`; then `first` leads
// to the new one. False if the deadline passed.
Task<bool> HashTable::fill_overflow(Writer& writer, std::uint64_t number, std::span<const Entry> entries,
                                    Link& first) const {
  const Place place{writer.home.memory_node, home_buckets_ + number};
  {
    const Session::Brief brief(writer.session());
    writer.bucket = co_await latch_any(writer.session(), place);
  }
  if (!writer.bucket) {
    hold_up(writer, place);
    co_return false;
  }
  const BucketFormat format{options_.entries_per_bucket, options_.value_bytes};
  const std::span<std::byte> payload = writer.bucket.payload();
  const BucketHeader before = BucketFormat::header_in(payload);
  BucketHeader header{.home = writer.home.bucket + 1,
                      .next = first.next,
                      .next_generation = first.generation,
                      .generation = before.generation + 1};
  for (const Entry& entry : entries) {
    format.add(header, payload, entry.key, entry.value);
  }
  BucketFormat::put_header(header, payload);
  co_await commit_bucket(writer.bucket);
  first = {static_cast<std::uint32_t>(number + 1), header.generation};
  co_return true;
}

}  // namespace sidelatch::structures

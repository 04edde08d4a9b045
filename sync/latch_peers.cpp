#include <sidelatch/sync/latch_peers.h>

#include <sidelatch/sync/lease.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace sidelatch::sync {

using namespace fabric;

namespace {

// A line for each place, so that two places share none.
constexpr std::uint64_t kPlaceBytes = kLineBytes;
constexpr std::uint64_t kSuccessor = 0;
constexpr std::uint64_t kTurn = 8;
constexpr std::uint64_t kWordBytes = 8;
constexpr unsigned kCountShift = 32;
constexpr unsigned kFollowsShift = 48;
constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << kFollowsShift) - 1;

constexpr std::uint64_t number_of_place(std::uint16_t client, std::uint32_t place, std::uint16_t count) {
  return std::uint64_t{count} << kCountShift | std::uint64_t{client} << 16 | std::uint64_t{place} << 1 | 1;
}
constexpr std::uint16_t client_of(std::uint64_t place) { return static_cast<std::uint16_t>(place >> 16); }
constexpr std::uint32_t index_of(std::uint64_t place) { return static_cast<std::uint16_t>(place) >> 1U; }
constexpr std::uint64_t count_of(std::uint64_t place) { return place >> kCountShift & 0xffff; }
constexpr std::uint64_t offset_of(std::uint64_t place) { return index_of(place) * kPlaceBytes; }

// So many acquisitions of a place may pass without a word about it.
constexpr std::uint16_t kMostLag = 8192;

// Of two counts of one place, which begin anew after 65535. A word that was never written has the count 0.
constexpr bool is_before(std::uint64_t count, std::uint64_t other) {
  return count == 0 || static_cast<std::int16_t>(static_cast<std::uint16_t>(count - other)) < 0;
}

std::uint32_t checked_places(const Node& node, std::uint16_t number, std::uint32_t places) {
  if (number == 0) {
    throw std::invalid_argument(
        fmt::format("client 0 of a queue latch, on node {}: its number must be 1 to 65535", node.name()));
  }
  if (places == 0 || places > LatchPeers::kMostPlaces) {
    throw std::invalid_argument(fmt::format("{} places of client {} of a queue latch: it must be 1 to {}", places,
                                            number, LatchPeers::kMostPlaces));
  }
  return places;
}

}  // namespace

LatchPeers::LatchPeers(Node& node, std::uint16_t number, std::uint32_t places)
    : node_(&node),
      number_(number),
      words_(node.allocate(checked_places(node, number, places) * kPlaceBytes,
                           Access::remote_read | Access::remote_write)),
      outgoing_(node.allocate(std::uint64_t{places} * kPlaceBytes, Access::local_read | Access::local_write)),
      counts_(places) {
  for (std::uint32_t i = places; i-- > 0;) {
    free_.push_back(i);
  }
}

void LatchPeers::connect(LatchPeers& a, LatchPeers& b) {
  a.add(b.number_, *b.node_, b.remote());
  b.add(a.number_, *a.node_, a.remote());
}

void LatchPeers::connect_all(std::span<LatchPeers* const> clients) {
  for (std::size_t i = 0; i < clients.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      connect(*clients[k], *clients[i]);
    }
  }
}

void LatchPeers::add(std::uint16_t number, Node& node, const RemoteSpan& remote) {
  if (number == number_ || std::ranges::find(peers_, number, &Peer::number) != peers_.end()) {
    throw std::invalid_argument(
        fmt::format("client {} of a queue latch is there already, for client {} on node {}: "
                    "clients that share latches have numbers of their own",
                    number, number_, node_->name()));
  }
  // A place waits for its own WRITE, so no more are under way than there are places.
  peers_.push_back({number, node_->connect(node, QueuePairOptions{}), remote});
}

std::uint64_t LatchPeers::take_place() {
  if (free_.empty()) {
    throw LatchError(LatchError::Kind::buffers_exhausted,
                     fmt::format("client {} holds or waits for {} queue latches, and has no place for another: end a "
                                 "guard first, or give LatchPeers more places",
                                 number_, counts_.size()));
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  std::uint16_t& count = counts_[place];
  const std::uint16_t before = count;
  if (++count == 0) {
    ++count;  // of a word that was never written
  }
  if (count % kMostLag == 0) {
    let_say(place, before);
  }
  return number_of_place(number_, place, count);
}

// A place that nobody follows, and that waits for nobody, is not written. Its words must not lag so far behind its
// count that they seem to be ahead of it, or to be of the same round. Nobody knows of the place now.
void LatchPeers::let_say(std::uint32_t place, std::uint16_t count) {
  const std::uint64_t successor = std::uint64_t{count} << kFollowsShift;
  const std::uint64_t turn = number_of_place(number_, place, count);
  std::byte* const words = words_.local(place * kPlaceBytes, kPlaceBytes).data;
  std::memcpy(words + kSuccessor, &successor, sizeof successor);
  std::memcpy(words + kTurn, &turn, sizeof turn);
}

void LatchPeers::give_back(std::uint64_t place) noexcept { free_.push_back(index_of(place)); }

LatchPeers::Peer& LatchPeers::peer_of(std::uint64_t place) {
  const auto peer = std::ranges::find(peers_, client_of(place), &Peer::number);
  if (peer == peers_.end()) {
    throw std::invalid_argument(fmt::format(
        "client {} of a queue latch meets client {}, to which it is not connected: connect all clients that share "
        "latches (LatchPeers::connect_all)",
        number_, client_of(place)));
  }
  return *peer;
}

Task<void> LatchPeers::write(std::uint64_t from, std::uint64_t to, std::uint64_t offset, std::uint64_t word) {
  if (client_of(to) == number_) {  // another place of this client
    co_await node_->cpu().store(words_.local(offset_of(to) + offset, kWordBytes), word);
    co_return;
  }
  const Peer& peer = peer_of(to);
  QueuePair& queue_pair = *peer.queue_pair;
  const RemoteSpan target = peer.words.subspan(offset_of(to) + offset, kWordBytes);  // others add peers meanwhile
  if (queue_pair.state() == QueuePair::State::error) {
    co_await queue_pair.reconnect();
  }
  const LocalSpan payload = outgoing_.local(offset_of(from), kWordBytes);
  WorkRequest request = fabric::write(payload, target);
  std::memcpy(payload.data, &word, sizeof word);
  request.inlined = queue_pair.options().max_inline >= kWordBytes;
  co_await queue_pair.submit(request);
}

// A word of another place, as it is.
Task<std::uint64_t> LatchPeers::look(std::uint64_t from, std::uint64_t at, std::uint64_t offset) {
  if (client_of(at) == number_) {
    co_return co_await node_->cpu().load(words_.local(offset_of(at) + offset, kWordBytes));
  }
  const Peer& peer = peer_of(at);
  QueuePair& queue_pair = *peer.queue_pair;
  const RemoteSpan source = peer.words.subspan(offset_of(at) + offset, kWordBytes);
  if (queue_pair.state() == QueuePair::State::error) {
    co_await queue_pair.reconnect();
  }
  const LocalSpan found = outgoing_.local(offset_of(from), kWordBytes);
  co_await queue_pair.read(found, source);
  std::uint64_t word = 0;
  std::memcpy(&word, found.data, sizeof word);
  co_return word;
}

Task<void> LatchPeers::follow(std::uint64_t predecessor, std::uint64_t place) {
  return write(place, predecessor, kSuccessor, place | count_of(predecessor) << kFollowsShift);
}

// Nobody clears the words. So if the first WRITE has happened, the word says that, or what came later. If it has not,
// the predecessor waits for it, and its place is no other acquisition's. If the counts of the place have begun anew
// meanwhile, the predecessor has long given the turn.
Task<void> LatchPeers::follow_again(std::uint64_t predecessor, std::uint64_t place) {
  const std::uint64_t word = co_await look(place, predecessor, kSuccessor);
  const std::uint64_t turn = co_await node_->cpu().load(words_.local(offset_of(place) + kTurn, kWordBytes));
  if (turn != place && is_before(word >> kFollowsShift, count_of(predecessor))) {
    co_await follow(predecessor, place);
  }
}

Task<void> LatchPeers::wait_for_turn(std::uint64_t place) {
  Cpu& cpu = node_->cpu();
  co_await cpu.wait(words_.local(offset_of(place) + kTurn, kWordBytes), WordCondition::is(place));
}

Task<bool> LatchPeers::has_successor(std::uint64_t place) {
  const std::uint64_t word = co_await node_->cpu().load(words_.local(offset_of(place) + kSuccessor, kWordBytes));
  co_return word >> kFollowsShift == count_of(place);
}

Task<std::uint64_t> LatchPeers::wait_for_successor(std::uint64_t place) {
  Cpu& cpu = node_->cpu();
  const LocalSpan successor = words_.local(offset_of(place) + kSuccessor, kWordBytes);
  const std::uint64_t word =
      co_await cpu.wait(successor, WordCondition::is(count_of(place) << kFollowsShift).in(~kNumberMask));
  co_return word& kNumberMask;
}

Task<void> LatchPeers::give_turn(std::uint64_t place, std::uint64_t successor) {
  return write(place, successor, kTurn, successor);
}

// As in follow_again().
Task<void> LatchPeers::give_turn_again(std::uint64_t place, std::uint64_t successor) {
  const std::uint64_t word = co_await look(place, successor, kTurn);
  if (is_before(count_of(word), count_of(successor))) {
    co_await give_turn(place, successor);
  }
}

}  // namespace sidelatch::sync

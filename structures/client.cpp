#include <sidelatch/structures/client.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <vector>

namespace sidelatch::structures {

using namespace fabric;

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return "done";
    case Outcome::absent:
      return "absent";
    case Outcome::present:
      return "present";
    case Outcome::full:
      return "full";
    case Outcome::timed_out:
      return "timed out";
  }
  return "";
}

Statistics& Statistics::operator+=(const Statistics& other) {
  operations += other.operations;
  round_trips += other.round_trips;
  retries += other.retries;
  restarts += other.restarts;
  aborts += other.aborts;
  takeovers += other.takeovers;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

class Client::RevokerAtAll : public sync::Revoker {
 public:
  explicit RevokerAtAll(std::span<sync::Revoker* const> each) : each_(each.begin(), each.end()) {}

  Task<void> revoke(std::uint16_t owner) override {
    for (sync::Revoker* const one : each_) {
      co_await one->revoke(owner);
    }
  }

 private:
  std::vector<sync::Revoker*> each_;
};

Client::Client(Node& node, std::span<Node* const> memory_nodes, std::uint64_t bytes_per_buffer,
               const sync::SessionOptions& options, const QueuePairOptions& queue_pair,
               std::span<sync::Revoker* const> revokers) {
  if (memory_nodes.empty()) {
    throw std::invalid_argument("no memory node: a structure's client needs at least 1");
  }
  if (!revokers.empty() && revokers.size() != memory_nodes.size()) {
    throw std::invalid_argument(fmt::format("{} revokers for {} memory nodes: give one for each, or none",
                                            revokers.size(), memory_nodes.size()));
  }
  if (std::ranges::find(revokers, nullptr) != revokers.end()) {
    throw std::invalid_argument("a revoker is null: give one for each memory node, or none at all");
  }
  if (options.revoker != nullptr && revokers.empty() && memory_nodes.size() > 1) {
    throw std::invalid_argument(fmt::format(
        "one revoker for {} memory nodes: a dead client must be revoked at all of them; give a revoker for each memory "
        "node",
        memory_nodes.size()));
  }
  node.reactor().keep_out_of_state(std::as_bytes(std::span(tally_.get(), 1)));
  sync::SessionOptions session = options;
  if (!revokers.empty()) {
    revoker_ = std::make_unique<RevokerAtAll>(revokers);
    session.revoker = revoker_.get();
  }
  for (Node* const memory_node : memory_nodes) {
    queue_pairs_.push_back(node.connect(*memory_node, queue_pair));
    sessions_.push_back(std::make_unique<sync::Session>(*queue_pairs_.back(), bytes_per_buffer, session));
  }
}

Client::~Client() { end_sessions(); }

// The sessions end before their queue pairs: their ends wait for what these have posted.
Client& Client::operator=(Client&& other) noexcept {
  if (this != &other) {
    end_sessions();
    queue_pairs_ = std::move(other.queue_pairs_);
    revoker_ = std::move(other.revoker_);
    sessions_ = std::move(other.sessions_);
    tally_ = std::move(other.tally_);
    yields_ = other.yields_;
    swept_ = std::move(other.swept_);
    last_opened_ = other.last_opened_;
    opened_ = std::move(other.opened_);
  }
  return *this;
}

void Client::end_sessions() noexcept {
  if (!sessions_.empty() && !reactor().explores() && !reactor().abandons_tasks()) {
    end_sessions_in_time();
  }
  sessions_.clear();
}

// While one memory node is waited for, the others go on. So all are waited for together, but for half of the time only:
// then those that have answered end, and those that have not share what is left.
void Client::end_sessions_in_time() {
  Reactor& reactor = this->reactor();
  const auto idle = [](const auto& session) { return session->qp().outstanding_so_far() == 0; };
  const Duration linger = sessions_.front()->options().linger;  // of all sessions
  const Time until = reactor.now() + std::min(linger, Time::max() - reactor.now());
  const auto waits =
      std::partition(sessions_.begin(), sessions_.end(), [](const auto& session) { return !session->begin_end(); });
  if (sessions_.end() - waits > 1) {
    const Time half_way = reactor.now() + (until - reactor.now()) / 2;
    for (auto session = waits; session != sessions_.end(); ++session) {
      const Duration left = std::max(Duration::zero(), half_way - reactor.now());
      static_cast<void>(reactor.wait_until_idle((*session)->qp(), left));
    }
  }
  static_cast<void>(std::partition(waits, sessions_.end(), idle));
  for (auto session = waits; session != sessions_.end(); ++session) {
    (*session)->end_by(reactor.now() + (until - reactor.now()) / (sessions_.end() - session));
    session->reset();
  }
}

Task<void> Client::drain() {
  for (const auto& queue_pair : queue_pairs_) {
    co_await queue_pair->drain();
  }
}

Task<void> Client::reconnect() {
  std::exception_ptr error;
  std::vector<QueuePair*> connections;
  connections.reserve(queue_pairs_.size() + 1);
  for (const auto& queue_pair : queue_pairs_) {
    connections.push_back(queue_pair.get());
  }
  if (QueuePair* const latches = sessions_.front()->options().latches.queue_pair) {  // of all sessions
    connections.push_back(latches);
  }
  for (QueuePair* const queue_pair : connections) {
    try {
      if (queue_pair->state() == QueuePair::State::error) {
        co_await queue_pair->reconnect();
      }
    } catch (const FabricError&) {
      error = error ? error : std::current_exception();
    }
  }
  for (const auto& session : sessions_) {
    try {
      co_await session->settle();
    } catch (const FabricError&) {
      error = error ? error : std::current_exception();
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

Task<void> Client::close() {
  std::exception_ptr error;
  for (const auto& session : sessions_) {
    try {
      co_await session->close();
    } catch (const FabricError&) {
      error = error ? error : std::current_exception();
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

Task<void> Client::revoke(std::uint16_t owner) {
  if (owner == 0 || owner == sessions_.front()->options().owner) {
    throw std::invalid_argument(
        fmt::format("owner {} cannot be revoked here: name the owner id of a client that has died, not {}", owner,
                    owner == 0 ? "0, which means none" : "this client's own"));
  }
  sync::Revoker* const revoker = sessions_.front()->options().revoker;  // of all memory nodes
  if (revoker == nullptr) {
    throw sync::LatchError(sync::LatchError::Kind::takeover_refused,
                           fmt::format("owner {} cannot be revoked: this client has no Revoker; give it one for each "
                                       "memory node",
                                       owner));
  }
  co_await revoker->revoke(owner);
  for (const auto& session : sessions_) {
    session->note_dead(owner);
  }
}

std::uint16_t Client::next_dead_owner(std::uint64_t structure) const {
  for (const auto& session : sessions_) {
    for (const std::uint16_t owner : session->dead_owners()) {
      if (std::ranges::find(swept_, std::pair(structure, owner)) == swept_.end()) {
        return owner;
      }
    }
  }
  return 0;
}

void Client::look_at_connections() {
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    sync::Session& session = *sessions_[i];
    const QueuePair* const latches = session.options().latches.queue_pair;
    const bool lost_latches = latches != nullptr && latches->state() == QueuePair::State::error;
    if (session.has_lost_work() && (session.qp().state() == QueuePair::State::error || lost_latches)) {
      throw FabricError(Status::flushed,
                        fmt::format("the connection to {}memory node {} was lost with {} updates or unlatches that had "
                                    "not happened yet, although their operations had returned; reconnect() sends them "
                                    "again",
                                    lost_latches ? "the latches of " : "", i, session.owed()));
    }
  }
}

Reactor::SleepAwaiter Client::give_way() noexcept {
  constexpr std::uint32_t kMostDoublings = 20;
  sync::Session& session = *sessions_.front();
  const sync::Retry& retry = session.options().retry;
  const Duration bound = std::min(retry.first * (std::int64_t{1} << std::min(yields_, kMostDoublings)), retry.cap);
  ++yields_;
  return reactor().sleep(
      Duration{static_cast<std::int64_t>(session.random() % static_cast<std::uint64_t>(bound.count() + 1))});
}

Client::Operation::Operation(Client& client) {
  for (const auto& session : client.sessions_) {
    if (session->options().retry.deadline) {
      sessions_.emplace_back(*session, session->lease_clock());
    }
  }
}

Statistics Client::statistics() const {
  Statistics sum{.operations = tally_->operations, .restarts = tally_->restarts};
  for (const auto& session : sessions_) {
    const Counters& counters = session->qp().counters();
    sum += {.round_trips = counters.round_trips,
            .retries = session->counters().retries,
            .aborts = session->counters().deadlines,
            .takeovers = session->counters().takeovers,
            .bytes_read = counters.bytes_read,
            .bytes_written = counters.bytes_written};
  }
  return sum;
}

}  // namespace sidelatch::structures

#include "switch_service.h"

#include "server_line.h"
#include "switch_moves.h"
#include "switch_recovery.h"

#include <sidelatch/fabric/verbs/memory_server.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {

namespace {

std::array<std::uint8_t, 4> ipv4_of(const ibv_gid& gid, const char* whose) {
  if (!is_mapped_ipv4(gid)) {
    throw std::invalid_argument(fmt::format(
        "{} has no IPv4 address, and the switch looks into IPv4 packets only: choose such a GID (DeviceOptions)",
        whose));
  }
  std::array<std::uint8_t, 4> ip{};
  std::memcpy(ip.data(), gid.raw + 12, ip.size());
  return ip;
}

ibv_gid gid_of(const std::array<std::uint8_t, 4>& ip) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  std::memcpy(gid.raw + 12, ip.data(), ip.size());
  return gid;
}

// Of a possible address.
std::uint32_t mtu_bytes(std::uint8_t mtu) { return 128U << mtu; }

// A failure of `act` goes to `on_failure`, with its exception being handled; but not that of a conversation with the
// memory server, after which nothing else can be asked. A refusal leaves it as it was.
template <class Act, class OnFailure>
void unless_server_is_lost(Act act, OnFailure on_failure) {
  try {
    act();
  } catch (const Refusal& refusal) {
    on_failure(refusal);
  } catch (const SocketError&) {
    throw;
  } catch (const std::exception& error) {
    on_failure(error);
  }
}

bool is_within(const RemoteSpan& part, const RemoteSpan& all) {
  return part.rkey == all.rkey && part.address.value >= all.address.value && part.length <= all.length &&
         part.address.value - all.address.value <= all.length - part.length;
}

// What a client asks goes on to the memory server; the switch learns what concerns it.
class TupleService final : public SwitchService {
 public:
  TupleService(SharedSwitch& shared, SwitchRecovery& recovery, SwitchMoves& moves, const SwitchExchangeOptions& options,
               std::uint64_t switch_id, const std::atomic<bool>& is_leaving)
      : shared_(&shared),
        recovery_(&recovery),
        moves_(&moves),
        options_(&options),
        switch_id_(switch_id),
        is_leaving_(&is_leaving) {}

  exchange::Welcome welcome() override {
    server_.emplace(HostAndPort::parse(options_->memory, kDefaultPort), options_->silence);
    auto welcome = ask<exchange::Welcome>(exchange::Hello{options_->token, switch_id_});
    // Who gives up would never know whether the server has done what was asked, as the end of a queue pair.
    server_->wait_while([this] {
      if (!*is_leaving_) {
        shared_->report(fmt::format(
            "the memory server has not answered for {} ms. The switch waits: until it answers, clients that "
            "have ended keep their latches",
            options_->silence.count()));
      }
      return !*is_leaving_;
    });
    welcome.manager = {};
    welcome.no_manager = "connections through a switch are made by the exchange, which the switch can follow";
    memory_node_ = welcome.gid;
    shared_regions_ = welcome.regions;
    return welcome;
  }

  std::optional<exchange::Message> answer(const exchange::Message& message) override {
    std::optional<exchange::Message> answered;
    unless_server_is_lost(
        [&] { answered = answer_or_throw(message); },
        [&](const std::exception& error) {
          const auto* const refusal = dynamic_cast<const Refusal*>(&error);
          answered = exchange::Refused{error.what(), refusal == nullptr ? std::uint8_t{0} : refusal->code()};
        });
    return answered;
  }

  void end() override {
    if (!server_) {
      return;
    }
    std::vector<SwitchControl::ConnectionId> fenced;
    std::vector<std::uint32_t> numbers;
    for (const auto& [number, connection] : connections_) {
      if (connection.at_switch) {
        shared_->fence(*connection.at_switch);
      }
      numbers.push_back(number);
    }
    if (!numbers.empty()) {
      static_cast<void>(ask<exchange::Placed>(exchange::Place{}));
    }
    std::exception_ptr not_ended;
    for (const std::uint32_t number : numbers) {
      // The others' latches need not be held for one that does not end.
      unless_server_is_lost([&] { end_connection(number); },
                            [&](const std::exception&) { not_ended = std::current_exception(); });
    }
    if (not_ended != nullptr) {
      std::rethrow_exception(not_ended);
    }
    for (const auto& [number, span] : regions_) {
      static_cast<void>(ask<exchange::Released>(exchange::Release{number}));
      shared_->forget(span);
    }
    connections_.clear();
    regions_.clear();
  }

  void leave() override {
    if (server_) {
      server_->tell(exchange::Leave{});
    }
  }

 private:
  struct Connection {
    std::uint16_t owner = 0;
    std::optional<SwitchControl::ConnectionId> at_switch;  // empty: revoked
  };

  template <class Answer>
  Answer ask(const exchange::Message& question) {
    return server_->ask_for<Answer>(question, "the memory server");
  }

  // The server's record stays, so that it refuses the connection from then on.
  void end_connection(std::uint32_t number) {
    const auto found = connections_.find(number);
    if (found == connections_.end() || !found->second.at_switch) {
      static_cast<void>(ask<exchange::Revoked>(exchange::Disconnect{number, 1}));
      return;
    }
    const auto changing = shared_->change_holders();
    std::optional<SwitchControl::ConnectionId>& at_switch = found->second.at_switch;
    const std::vector<exchange::Mark> marks = recovery_->marks_of({&*at_switch, 1});
    static_cast<void>(ask<exchange::Revoked>(exchange::Disconnect{number, 1, first_of(marks)}));
    note(rest_of(marks));
    shared_->release(*std::exchange(at_switch, std::nullopt));
  }
  // A message has room for so many.
  static std::vector<exchange::Mark> first_of(std::span<const exchange::Mark> marks) {
    const auto some = marks.first(std::min(marks.size(), exchange::kMostMarks));
    return {some.begin(), some.end()};
  }
  static std::span<const exchange::Mark> rest_of(std::span<const exchange::Mark> marks) {
    return marks.subspan(std::min(marks.size(), exchange::kMostMarks));
  }
  // Their connections have ended.
  void note(std::span<const exchange::Mark> marks) {
    for (; !marks.empty(); marks = rest_of(marks)) {
      static_cast<void>(ask<exchange::Noted>(exchange::NoteMarks{first_of(marks)}));
    }
  }
  // Fences first, and waits until all that was acknowledged is placed.
  void revoke(std::uint32_t number) {
    const auto found = connections_.find(number);
    if (found != connections_.end() && found->second.at_switch) {
      shared_->fence(*found->second.at_switch);
      static_cast<void>(ask<exchange::Placed>(exchange::Place{}));
    }
    end_connection(number);
  }
  // The client's end is gone. It expects no answer, and would take one for that to its next question.
  void forget_connection(const exchange::Disconnect& wanted) {
    bool has_ended = true;
    unless_server_is_lost(
        [&] {
          if (connections_.contains(wanted.connection)) {  // else it was refused, and has no end anywhere
            revoke(wanted.connection);
          }
        },
        [&](const std::exception& why) {
          has_ended = false;
          shared_->report(fmt::format("a client's connection stays fenced: {}", why.what()));
        });
    if (has_ended) {
      connections_.erase(wanted.connection);
      server_->tell(wanted);
    }
  }
  // The same for all connections of an owner, whichever client made them. If the server refuses, they stay fenced.
  exchange::Message revoke_owner(std::uint16_t owner) {
    const std::vector<SwitchControl::ConnectionId> fenced = shared_->fence_owner(owner);
    if (!fenced.empty()) {
      static_cast<void>(ask<exchange::Placed>(exchange::Place{}));
    }
    const auto changing = shared_->change_holders();
    const std::vector<exchange::Mark> marks = recovery_->marks_of(fenced);
    exchange::Message answer = server_->ask(exchange::Revoke{owner, first_of(marks)});
    if (std::holds_alternative<exchange::Revoked>(answer)) {
      note(rest_of(marks));
      for (const SwitchControl::ConnectionId connection : fenced) {
        shared_->release(connection);
      }
    } else if (fenced.empty()) {
      shared_->admit_owner(owner);
    }
    return answer;
  }

  std::optional<exchange::Message> answer_or_throw(const exchange::Message& message) {
    if (const auto* const connect = std::get_if<exchange::Connect>(&message)) {
      return this->connect(*connect);
    }
    if (std::holds_alternative<exchange::Announce>(message)) {
      return exchange::Refused{"connections through a switch are made by the exchange (ConnectionOptions::through)"};
    }
    if (const auto* const disconnect = std::get_if<exchange::Disconnect>(&message)) {
      if (disconnect->confirm != 0) {
        revoke(disconnect->connection);
        return exchange::Revoked{};
      }
      forget_connection(*disconnect);
      return std::nullopt;
    }
    if (std::holds_alternative<exchange::Allocate>(message)) {
      exchange::Message answer = server_->ask(message);
      if (const auto* const allocated = std::get_if<exchange::Allocated>(&answer)) {
        regions_[allocated->region] = allocated->span;
      }
      return answer;
    }
    if (const auto* const released = std::get_if<exchange::Release>(&message)) {
      exchange::Message answer = server_->ask(message);
      if (const auto found = regions_.find(released->region); found != regions_.end()) {
        shared_->forget(found->second);
        regions_.erase(found);
      }
      return answer;
    }
    if (const auto* const tuples = std::get_if<exchange::KeepVersions>(&message)) {
      return keep(*tuples);
    }
    if (const auto* const inherit = std::get_if<exchange::Inherit>(&message)) {
      return this->inherit(*inherit);
    }
    if (const auto* const move = std::get_if<exchange::Move>(&message)) {
      const std::uint32_t tuple = shared_->tuple_at(move->span);
      if (move->to_hot != 0) {
        moves_->heat(tuple);
      } else {
        moves_->cool(tuple);
      }
      return exchange::Noted{};
    }
    if (const auto* const resume = std::get_if<exchange::Resume>(&message)) {
      const auto connection = connection_of(resume->connection);
      if (resume->version > ~std::uint64_t{0} - 3) {
        throw std::invalid_argument(fmt::format("{} is no version of a tuple", resume->version));
      }
      const auto changing = shared_->change_holders();
      // An update makes an even version out of the one that was latched.
      const Resumption resumption = recovery_->resume(connection, resume->span, resume->version / 2 * 2 + 2);
      return exchange::Resumed{static_cast<std::uint8_t>(resumption)};
    }
    if (const auto* const settle = std::get_if<exchange::Settle>(&message)) {
      if (settle->owner == 0) {
        throw std::invalid_argument("settled() needs RemoteOptions::owner, the same as before the switch ended");
      }
      recovery_->settle(settle->owner);
      return exchange::Noted{};
    }
    if (const auto* const revoke = std::get_if<exchange::Revoke>(&message)) {
      return revoke_owner(revoke->owner);
    }
    if (std::holds_alternative<exchange::Publish>(message) || std::holds_alternative<exchange::Find>(message) ||
        std::holds_alternative<exchange::Place>(message)) {
      return server_->ask(message);
    }
    throw std::invalid_argument("a message that only servers send, or a second hello");
  }

  exchange::Message connect(const exchange::Connect& wanted) {
    SwitchedEnds ends{.client = ipv4_of(wanted.address.gid, "the client"),
                      .client_queue_pair = wanted.address.queue_pair,
                      .client_psn = wanted.address.packet_number};
    require_possible(wanted.address);
    const auto [place, is_new] = connections_.try_emplace(wanted.connection, Connection{wanted.owner, {}});
    if (place->second.owner != wanted.owner) {
      return exchange::Refused{exchange::other_owner_text(wanted.connection, place->second.owner, wanted.owner)};
    }
    auto& record = place->second.at_switch;
    if (record) {
      shared_->fence(*record);
      static_cast<void>(ask<exchange::Placed>(exchange::Place{}));
    }
    exchange::Message answer = server_->ask(wanted);
    auto* const accepted = std::get_if<exchange::Accepted>(&answer);
    if (accepted == nullptr) {
      if (record) {
        end_connection(wanted.connection);  // the server may have kept the old queue pair
      } else if (is_new) {
        connections_.erase(place);  // the server has none, and may refuse to end it
      }
      return answer;
    }
    if (record) {  // the server's queue pair has begun anew
      const auto changing = shared_->change_holders();
      note(recovery_->marks_of({&*record, 1}));
      shared_->release(*std::exchange(record, std::nullopt));
    }
    try {
      require_possible(accepted->address);
      ends.memory_node = ipv4_of(accepted->address.gid, "the memory node");
      ends.memory_queue_pair = accepted->address.queue_pair;
      ends.path_mtu = mtu_bytes(std::min(wanted.address.mtu, accepted->address.mtu));
      record = shared_->connect(ends, wanted.owner);
    } catch (const std::exception&) {
      revoke(wanted.connection);
      connections_.erase(wanted.connection);
      server_->tell(exchange::Disconnect{wanted.connection, 0});
      throw;
    }
    accepted->address.responder = std::min<std::uint8_t>(accepted->address.responder, 1);  // one in flight
    return answer;
  }

  exchange::Message keep(const exchange::KeepVersions& wanted) {
    const SwitchedTuples tuples{.memory_node = ipv4_of(memory_node_, "the memory node"),
                                .memory = wanted.span,
                                .count = wanted.count,
                                .tuple_bytes = wanted.tuple_bytes,
                                .slot_bytes = wanted.slot_bytes};
    const auto shared_region = std::ranges::find_if(
        shared_regions_, [&](const exchange::SharedRegion& one) { return is_within(wanted.span, one.span); });
    const bool outlives_switch = shared_region != shared_regions_.end();
    if (outlives_switch && shared_->with([](SwitchControl& control) { return control.cache() != nullptr; })) {
      throw std::invalid_argument(
          fmt::format("region '{}' outlives the switch, and p4/switch_cached.p4 does not recover tuples here, as it "
                      "cannot latch all "
                      "of them meanwhile: keep them in memory of allocate(), or run p4/switch_optimistic.p4",
                      shared_region->name));
    }
    // Before other switches end for it.
    if (outlives_switch && !allows(shared_region->access, Access::remote_read | Access::remote_write)) {
      throw std::invalid_argument(
          fmt::format("region '{}' may not be both read and written by clients, and tuples are", shared_region->name));
    }
    if (!outlives_switch &&
        std::ranges::none_of(regions_, [&](const auto& one) { return is_within(wanted.span, one.second); })) {
      throw std::invalid_argument(
          fmt::format("{} bytes at {:#x} are not of this client's allocate(), and not shared by the server: the switch "
                      "cannot know that nobody has written there, and what versions it has",
                      wanted.span.length, wanted.span.address.value));
    }
    if (wanted.slot_bytes == 0 || wanted.count > wanted.span.length / wanted.slot_bytes) {
      throw std::invalid_argument(fmt::format("{} slots of {} bytes do not fit {} bytes of memory", wanted.count,
                                              wanted.slot_bytes, wanted.span.length));
    }
    if (outlives_switch) {
      recovery_->keep(tuples);
    } else {
      shared_->keep(tuples);
    }
    return exchange::VersionsKept{};
  }

  exchange::Message inherit(const exchange::Inherit& wanted) {
    const auto connection = connection_of(wanted.connection);
    const std::uint32_t tuple = shared_->tuple_at(wanted.span);
    const auto changing = shared_->change_holders();
    const auto notes = recovery_->notes_of_heir(connection, wanted.span, tuple);
    if (!notes) {
      return exchange::Inherited{0};
    }
    for (const exchange::NoteHeir& note : *notes) {
      static_cast<void>(ask<exchange::Noted>(note));
    }
    const bool done = shared_->with([&](SwitchControl& control) { return control.inherit(connection, tuple); });
    return exchange::Inherited{static_cast<std::uint8_t>(done ? 1 : 0)};
  }
  [[nodiscard]] SwitchControl::ConnectionId connection_of(std::uint32_t number) const {
    const auto found = connections_.find(number);
    if (found == connections_.end() || !found->second.at_switch) {
      throw std::invalid_argument(fmt::format("there is no connection {}", number));
    }
    return *found->second.at_switch;
  }

  SharedSwitch* shared_;
  SwitchRecovery* recovery_;
  SwitchMoves* moves_;
  const SwitchExchangeOptions* options_;
  std::uint64_t switch_id_;
  const std::atomic<bool>* is_leaving_;
  std::optional<Conversation> server_;
  std::vector<exchange::SharedRegion> shared_regions_;
  ibv_gid memory_node_{};
  std::map<std::uint32_t, Connection> connections_;
  std::map<std::uint32_t, RemoteSpan> regions_;
};

// The switch itself is the other end.
class WordService final : public SwitchService {
 public:
  WordService(SharedSwitch& shared, const SwitchExchangeOptions& options) : shared_(&shared), options_(&options) {}

  exchange::Welcome welcome() override {
    return {.node = "switch",
            .regions = {{"words", options_->words, Access::remote_all}},
            .manager = {},
            .no_manager = "a switch has none",
            .gid = gid_of(options_->ip)};
  }

  std::optional<exchange::Message> answer(const exchange::Message& message) override {
    try {
      if (const auto* const connect = std::get_if<exchange::Connect>(&message)) {
        return this->connect(*connect);
      }
      if (const auto* const disconnect = std::get_if<exchange::Disconnect>(&message)) {
        if (disconnect->confirm == 0) {
          forget_connection(disconnect->connection);
          return std::nullopt;
        }
        disconnect_at_switch(disconnect->connection);
        revoked_.insert(disconnect->connection);
        return exchange::Revoked{};
      }
      if (const auto* const find = std::get_if<exchange::Find>(&message)) {
        return exchange::Found{find->name == "words" ? options_->words : RemoteSpan{}};
      }
      return exchange::Refused{"a switch has words, and no memory, owners or versions: ask the memory server"};
    } catch (const std::exception& error) {
      return exchange::Refused{error.what()};
    }
  }

  void end() override {
    std::exception_ptr not_ended;
    while (!connections_.empty()) {
      try {
        disconnect_at_switch(connections_.begin()->first);
      } catch (const std::exception&) {
        not_ended = std::current_exception();
        connections_.erase(connections_.begin());
      }
    }
    if (not_ended != nullptr) {
      std::rethrow_exception(not_ended);
    }
  }

 private:
  exchange::Message connect(const exchange::Connect& wanted) {
    if (revoked_.contains(wanted.connection)) {
      return exchange::Refused{"the connection was revoked: make a new one"};
    }
    require_possible(wanted.address);
    const std::array<std::uint8_t, 4> client = ipv4_of(wanted.address.gid, "the client");
    disconnect_at_switch(wanted.connection);  // of before
    const std::uint32_t queue_pair = shared_->next_queue_pair();
    const SwitchedEnds ends{.client = client,
                            .client_queue_pair = wanted.address.queue_pair,
                            .client_psn = wanted.address.packet_number,
                            .memory_node = options_->ip,
                            .memory_queue_pair = queue_pair,
                            .path_mtu = mtu_bytes(wanted.address.mtu)};
    connections_[wanted.connection] = shared_->with([&](SwitchControl& control) { return control.connect(ends); });
    constexpr std::uint8_t kInFlight = 16;  // of p4/switch_atomics.p4
    return exchange::Accepted{wanted.connection, Address{.gid = gid_of(options_->ip),
                                                         .queue_pair = queue_pair,
                                                         .packet_number = 0,
                                                         .lid = 0,
                                                         .mtu = wanted.address.mtu,
                                                         .responder = kInFlight}};
  }

  // The client expects no answer.
  void forget_connection(std::uint32_t number) {
    try {
      disconnect_at_switch(number);
    } catch (const std::exception& error) {
      shared_->report(fmt::format("a client's connection stays at the switch: {}", error.what()));
    }
  }

  void disconnect_at_switch(std::uint32_t number) {
    if (const auto found = connections_.find(number); found != connections_.end()) {
      shared_->with([&](SwitchControl& control) { control.release(found->second); });
      connections_.erase(found);
    }
  }

  SharedSwitch* shared_;
  const SwitchExchangeOptions* options_;
  std::map<std::uint32_t, SwitchControl::ConnectionId> connections_;
  std::set<std::uint32_t> revoked_;
};

}  // namespace

bool is_same_row(const SwitchedTuples& a, const SwitchedTuples& b) {
  return a.memory_node == b.memory_node && a.memory.rkey == b.memory.rkey &&
         a.memory.address.value == b.memory.address.value && a.count == b.count && a.tuple_bytes == b.tuple_bytes &&
         a.slot_bytes == b.slot_bytes;
}

RecoveredTuples SwitchControl::recover_tuples(const SwitchedTuples& /*tuples*/, std::uint64_t /*latest*/) {
  throw std::logic_error("this switch cannot recover tuples");
}
bool SwitchControl::in_doubt(std::uint32_t /*tuple*/) { return false; }
void SwitchControl::unlatch(std::uint32_t /*tuple*/) {}
void SwitchControl::check_tuples(const SwitchedTuples& /*tuples*/) {}
std::uint64_t SwitchControl::version(std::uint32_t /*tuple*/) {
  throw std::logic_error("this switch cannot recover tuples");
}

SwitchControl::ConnectionId SharedSwitch::connect(const SwitchedEnds& ends, std::uint16_t owner) {
  const std::scoped_lock lock(mutex_);
  if (revoked_.contains(owner)) {
    throw std::runtime_error(fmt::format("owner {} was revoked: a client that comes back takes a new id", owner));
  }
  const SwitchControl::ConnectionId connection = control_->connect(ends);
  owners_[connection] = owner;
  return connection;
}

void SharedSwitch::fence(SwitchControl::ConnectionId connection) {
  const std::scoped_lock lock(mutex_);
  if (owners_.contains(connection)) {
    control_->fence(connection);
  }
}

void SharedSwitch::release(SwitchControl::ConnectionId connection) {
  const std::scoped_lock lock(mutex_);
  if (owners_.contains(connection)) {
    control_->release(connection);
    owners_.erase(connection);
  }
}

std::vector<HeldTuple> SharedSwitch::held(SwitchControl::ConnectionId connection) {
  const std::scoped_lock lock(mutex_);
  return owners_.contains(connection) ? control_->held(connection) : std::vector<HeldTuple>();
}

std::vector<SwitchControl::ConnectionId> SharedSwitch::fence_owner(std::uint16_t owner) {
  const std::scoped_lock lock(mutex_);
  std::vector<SwitchControl::ConnectionId> fenced;
  if (owner == 0) {
    return fenced;
  }
  revoked_.insert(owner);
  for (const auto& [connection, its_owner] : owners_) {
    if (its_owner == owner) {
      control_->fence(connection);
      fenced.push_back(connection);
    }
  }
  return fenced;
}

void SharedSwitch::admit_owner(std::uint16_t owner) {
  const std::scoped_lock lock(mutex_);
  revoked_.erase(owner);
}

std::uint16_t SharedSwitch::owner_of(SwitchControl::ConnectionId connection) {
  const std::scoped_lock lock(mutex_);
  const auto found = owners_.find(connection);
  return found == owners_.end() ? std::uint16_t{0} : found->second;
}

RecoveredTuples SharedSwitch::recover(const SwitchedTuples& tuples, std::uint64_t latest) {
  const std::scoped_lock lock(mutex_);
  const RecoveredTuples recovered = control_->recover_tuples(tuples, latest);
  rows_.push_back({tuples, recovered.first});
  return recovered;
}

void SharedSwitch::keep(const SwitchedTuples& tuples) {
  const std::scoped_lock lock(mutex_);
  for (const Row& row : rows_) {
    if (is_same_row(row.tuples, tuples)) {
      return;
    }
  }
  rows_.push_back({tuples, control_->add_tuples(tuples)});
}

void SharedSwitch::forget(const RemoteSpan& memory) noexcept {
  const std::scoped_lock lock(mutex_);
  std::erase_if(rows_, [&](const Row& row) {
    if (!is_within(row.tuples.memory, memory)) {
      return false;
    }
    try {
      control_->remove_tuples(row.first);
    } catch (const std::exception& error) {
      report(error.what());
    }
    return true;
  });
}

std::uint32_t SharedSwitch::tuple_at(const RemoteSpan& at) {
  const std::scoped_lock lock(mutex_);
  for (const Row& row : rows_) {
    const std::uint64_t offset = at.address.value - row.tuples.memory.address.value;
    if (row.tuples.memory.rkey == at.rkey && at.address.value >= row.tuples.memory.address.value &&
        offset % row.tuples.slot_bytes == 0 && offset / row.tuples.slot_bytes < row.tuples.count) {
      return row.first + static_cast<std::uint32_t>(offset / row.tuples.slot_bytes);
    }
  }
  throw std::invalid_argument(fmt::format("no tuple begins at {:#x}", at.address.value));
}

std::optional<RemoteSpan> SharedSwitch::word_of(std::uint32_t tuple) {
  const std::scoped_lock lock(mutex_);
  for (const Row& row : rows_) {
    if (tuple >= row.first && tuple - row.first < row.tuples.count) {
      constexpr std::uint64_t kWordBytes = 8;
      return row.tuples.memory.subspan((tuple - row.first) * row.tuples.slot_bytes, kWordBytes);
    }
  }
  return std::nullopt;
}

std::uint32_t SharedSwitch::next_queue_pair() {
  const std::scoped_lock lock(mutex_);
  constexpr std::uint32_t kLast = 0xff'fffe;
  queue_pair_ = queue_pair_ == kLast ? 0x100 : queue_pair_ + 1;
  return queue_pair_;
}

void SharedSwitch::report(std::string problem) {
  const std::scoped_lock lock(reporting_);
  problem_ = std::move(problem);
}

std::string SharedSwitch::problem() {
  const std::scoped_lock lock(reporting_);
  return problem_;
}

std::optional<std::array<std::uint8_t, 4>> memory_node_behind(const SwitchExchangeOptions& options) {
  ServerLine server(options, secret_number());
  try {
    return ipv4_of(server.address(), "the memory node");
  } catch (const Refusal&) {
    throw;
  } catch (const SocketError&) {
    return std::nullopt;
  }
}

std::unique_ptr<SwitchService> make_tuple_service(SharedSwitch& shared, SwitchRecovery& recovery, SwitchMoves& moves,
                                                  const SwitchExchangeOptions& options, std::uint64_t switch_id,
                                                  const std::atomic<bool>& is_leaving) {
  return std::make_unique<TupleService>(shared, recovery, moves, options, switch_id, is_leaving);
}

std::unique_ptr<SwitchService> make_word_service(SharedSwitch& shared, const SwitchExchangeOptions& options) {
  return std::make_unique<WordService>(shared, options);
}

}  // namespace sidelatch::fabric::verbs

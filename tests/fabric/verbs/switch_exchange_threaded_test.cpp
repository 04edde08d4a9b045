// SwitchExchange between a client and a memory server, both played here: in which order a connection begins and ends,
// and what is refused.
#include "no_threads.h"

#include "fabric/verbs/epoch_notes.h"
#include "fabric/verbs/exchange.h"
#include "fabric/verbs/socket.h"

#include <sidelatch/fabric/verbs/memory_server.h>
#include <sidelatch/fabric/verbs/switch_exchange.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// What happened, in order.
class Log {
 public:
  void add(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    all_.push_back(what);
    added_.notify_all();
  }
  std::vector<std::string> first_with(const std::string& what) {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return std::ranges::find(all_, what) != all_.end(); });
    return all_;
  }
  std::vector<std::string> first(std::size_t count) {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::string> all_;
};

Address address_of(std::uint8_t last, std::uint32_t queue_pair) {
  Address address;
  address.gid.raw[10] = address.gid.raw[11] = 0xff;
  address.gid.raw[12] = 10;
  address.gid.raw[15] = last;
  address.queue_pair = queue_pair;
  address.packet_number = 5;
  address.mtu = 3;
  address.responder = 16;
  return address;
}

class LoggedSwitch final : public SwitchControl {
 public:
  explicit LoggedSwitch(Log& log) : log_(&log) {}
  ConnectionId connect(const SwitchedEnds& ends) override {
    if (ends.client_queue_pair == 666) {
      throw std::invalid_argument("the switch has no room");
    }
    log_->add("switch: connect " + std::to_string(ends.client_queue_pair) + " to " +
              std::to_string(ends.memory_queue_pair) + ", MTU " + std::to_string(ends.path_mtu));
    const std::scoped_lock lock(mutex_);
    if (ends.client_queue_pair == 22) {
      written_.erase(101);
    }
    return ends.client_queue_pair;
  }
  void fence(ConnectionId connection) override { log_->add("switch: fence " + std::to_string(connection)); }
  std::vector<HeldTuple> held(ConnectionId connection) override {
    ++looks_;
    const std::scoped_lock lock(mutex_);
    if (connection == 22 &&
        !written_.contains(
            101)) {  // has the latch of tuple 101, and has not written it; a WRITE of tuple 103 is on its way
      return {{.tuple = 101, .version = 1001, .in_doubt = false}, {.tuple = 103, .version = 1001, .in_doubt = true}};
    }
    return {};
  }
  void release(ConnectionId connection) override {
    if (connection == 44) {
      throw std::runtime_error("the switch does not forget connection 44");
    }
    {
      const std::scoped_lock lock(mutex_);
      std::erase_if(holders_, [&](const auto& one) { return one.second == connection; });
      if (connection == 22) {
        written_.insert(101);
      }
    }
    log_->add("switch: release " + std::to_string(connection));
  }
  void check_tuples(const SwitchedTuples& tuples) override {
    if (tuples.tuple_bytes == 666) {
      throw std::invalid_argument("tuple_bytes 666: the switch does not like it");
    }
  }
  std::uint32_t add_tuples(const SwitchedTuples& tuples) override {
    log_->add("switch: tuples " + std::to_string(tuples.count));
    return 0;
  }
  RecoveredTuples recover_tuples(const SwitchedTuples& tuples, std::uint64_t latest) override {
    log_->add("switch: recovers " + std::to_string(tuples.count) + " above " + std::to_string(latest));
    return {.first = 100, .version = 1000};
  }
  void unlatch(std::uint32_t tuple) override { log_->add("switch: unlatch " + std::to_string(tuple)); }
  void remove_tuples(std::uint32_t first) override { log_->add("switch: no tuples " + std::to_string(first)); }
  bool in_doubt(std::uint32_t tuple) override {
    const std::scoped_lock lock(mutex_);
    return !written_.contains(tuple) && !holders_.contains(tuple);
  }
  bool inherit(ConnectionId to, std::uint32_t tuple) override {
    if (tuple < 100) {
      return tuple == 1;
    }
    if (to == 33) {
      throw std::invalid_argument("connection 33 is fenced");
    }
    const std::scoped_lock lock(mutex_);
    if (written_.contains(tuple) || !holders_.emplace(tuple, to).second) {
      return false;
    }
    log_->add("switch: latch of " + std::to_string(tuple));
    return true;
  }
  std::uint64_t version(std::uint32_t tuple) override {
    const std::scoped_lock lock(mutex_);
    return written_.contains(tuple) ? 1002 : 1001;
  }
  // Calls of held().
  [[nodiscard]] int looks() const { return looks_; }
  // Who has its latch has written the tuple.
  void write(std::uint32_t tuple) {
    const std::scoped_lock lock(mutex_);
    holders_.erase(tuple);
    written_.insert(tuple);
  }

 private:
  std::atomic<int> looks_{0};
  std::mutex mutex_;
  std::map<std::uint32_t, ConnectionId> holders_;  // of recovered tuples
  std::set<std::uint32_t> written_;
  Log* log_;
};

// Of shared memory. The word of its second tuple is odd: the tuple is in doubt.
constexpr RemoteSpan kDoubtful{{0x8400}, 768, {11}};

// Answers as a memory server does, for one client after the other.
class PlayedServer {
 public:
  explicit PlayedServer(Log& log) : log_(&log), listening_(listen_on(at_)), thread_([this] { run(); }) {}
  PlayedServer(const PlayedServer&) = delete;
  PlayedServer& operator=(const PlayedServer&) = delete;
  ~PlayedServer() {
    ::shutdown(listening_.number(), SHUT_RDWR);
    thread_.join();
    for (std::thread& client : clients_) {
      client.join();
    }
  }
  [[nodiscard]] std::string address() const { return at_.to_string(); }
  // It ends no queue pair meanwhile.
  void stand_still() {
    const std::scoped_lock lock(mutex_);
    stands_still_ = true;
  }
  void go_on() {
    const std::scoped_lock lock(mutex_);
    stands_still_ = false;
    goes_on_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      pollfd one{listening_.number(), POLLIN, 0};
      ::poll(&one, 1, -1);
      FileDescriptor socket(::accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket.valid()) {
        return;
      }
      clients_.emplace_back([this, socket = std::move(socket)] { serve(socket.number()); });
    }
  }
  void serve(int socket) {
    std::vector<std::byte> received;
    std::array<std::byte, 4096> more{};
    for (;;) {
      std::span<const std::byte> bytes = received;
      if (const auto message = exchange::decode(bytes)) {
        received.erase(received.begin(), received.end() - static_cast<std::ptrdiff_t>(bytes.size()));
        if (const auto answer = answer_to(*message)) {
          const auto out = exchange::encode(*answer);
          ASSERT_EQ(::send(socket, out.data(), out.size(), MSG_NOSIGNAL), static_cast<ssize_t>(out.size()));
        }
        continue;
      }
      const ssize_t count = ::recv(socket, more.data(), more.size(), 0);
      if (count <= 0) {
        return;
      }
      received.insert(received.end(), more.begin(), more.begin() + count);
    }
  }
  std::optional<exchange::Message> answer_to(const exchange::Message& message) {
    if (std::holds_alternative<exchange::Hello>(message)) {
      exchange::Welcome welcome;
      welcome.node = "storage";
      welcome.gid = address_of(1, 0).gid;
      welcome.regions = {{"objects", {{0x8000}, 4096, {11}}, Access::remote_all},
                         {"archive", {{0x20000}, 4096, {12}}, Access::remote_read}};
      return welcome;
    }
    if (const auto* const connect = std::get_if<exchange::Connect>(&message)) {
      if (connect->address.queue_pair == 555) {
        return exchange::Refused{"it has 1 connections already"};
      }
      log_->add("server: connect");
      return exchange::Accepted{connect->connection,
                                address_of(1, connect->address.queue_pair == 777 ? 0x1'000'000 : 77)};
    }
    if (std::holds_alternative<exchange::Place>(message)) {
      log_->add("server: place");
      return exchange::Placed{};
    }
    if (const auto* const disconnect = std::get_if<exchange::Disconnect>(&message)) {
      {
        std::unique_lock lock(mutex_);
        goes_on_.wait(lock, [&] { return !stands_still_; });
      }
      if (disconnect->connection == 55 && disconnect->confirm != 0) {  // 55 it cannot end, nor make a record of
        return exchange::Refused{"connection 55 does not end"};
      }
      log_->add(disconnect->confirm != 0 ? "server: end" : "server: forget");
      note(disconnect->marks);
      return disconnect->confirm != 0 ? std::optional<exchange::Message>(exchange::Revoked{}) : std::nullopt;
    }
    if (const auto* const revoke = std::get_if<exchange::Revoke>(&message)) {
      log_->add("server: revoke " + std::to_string(revoke->owner));
      note(revoke->marks);
      return revoke->owner == 9 ? exchange::Message(exchange::Refused{"owner 9 has never connected here"})
                                : exchange::Message(exchange::Revoked{revoke->owner});
    }
    if (const auto* const allocate = std::get_if<exchange::Allocate>(&message)) {
      return exchange::Allocated{allocate->region, {{0x1000}, allocate->bytes, {9}}};
    }
    if (const auto* const release = std::get_if<exchange::Release>(&message)) {
      log_->add("server: release memory");
      return exchange::Released{release->region};
    }
    if (std::holds_alternative<exchange::TakeOver>(message)) {
      log_->add("server: take over");
      return exchange::TakenOver{{7, 8}, 0, 5};
    }
    if (const auto* const read = std::get_if<exchange::ReadWords>(&message)) {
      if (read->stride % 8 != 0) {
        return exchange::Refused{"they are not words"};
      }
      log_->add("server: words");
      exchange::Words words;
      const bool has_doubts = read->span.address.value == kDoubtful.address.value;
      for (std::uint64_t i = 0; i < read->count; ++i) {
        words.words.push_back(i != 1 ? 4 : has_doubts ? 5 : 6);
      }
      return words;
    }
    if (const auto* const write = std::get_if<exchange::WriteWords>(&message)) {
      log_->add("server: " + std::to_string(write->count) + " words from " +
                std::to_string((write->span.address.value - 0x8000) / write->stride) + " on are " +
                std::to_string(write->value));
      return exchange::Noted{};
    }
    if (const auto* const epoch = std::get_if<exchange::NoteEpoch>(&message)) {
      log_->add("server: notes epoch " + std::to_string(epoch->value));
      return exchange::Noted{};
    }
    if (const auto* const grant = std::get_if<exchange::NoteGrant>(&message)) {
      log_->add("server: notes grant of " + std::to_string(grant->version));
      return exchange::Noted{};
    }
    if (const auto* const marks = std::get_if<exchange::NoteMarks>(&message)) {
      note(marks->marks);
      return exchange::Noted{};
    }
    if (const auto* const heir = std::get_if<exchange::NoteHeir>(&message)) {
      const std::uint64_t tuple = (heir->span.address.value - 0x8000) / 256;
      const std::scoped_lock lock(mutex_);
      fates_[{tuple, heir->version}] = {Fate::unknown, heir->owner};
      log_->add("server: version " + std::to_string(heir->version) + " of " + std::to_string(tuple) + " is owner " +
                std::to_string(heir->owner) + "'s");
      return exchange::Noted{};
    }
    if (const auto* const asked = std::get_if<exchange::Recall>(&message)) {
      // What became of versions of switches before is the server's to say.
      const Fate fate = asked->version == 102 ? Fate::happened : asked->version == 104 ? Fate::lost : Fate::undecided;
      const std::scoped_lock lock(mutex_);
      const auto noted = fates_.find({(asked->span.address.value - 0x8000) / 256, asked->version});
      const bool is_told = noted != fates_.end() && noted->second.heir != asked->owner;
      return exchange::Recalled{static_cast<std::uint8_t>(is_told ? noted->second.fate : fate), asked->version};
    }
    if (const auto* const settle = std::get_if<exchange::Settle>(&message)) {
      log_->add("server: settled " + std::to_string(settle->owner));
      return exchange::Noted{};
    }
    return exchange::Refused{"not played"};
  }

  void note(const std::vector<exchange::Mark>& marks) {
    const std::scoped_lock lock(mutex_);
    for (const exchange::Mark& mark : marks) {
      const std::uint64_t tuple = (mark.word.address.value - 0x8000) / 256;
      if (mark.in_doubt != 0) {
        log_->add("server: the word of " + std::to_string(tuple) + " is " + std::to_string(mark.version));
      } else {
        fates_[{tuple, mark.version + 1}] = {Fate::lost, 0};
        log_->add("server: version " + std::to_string(mark.version + 1) + " of " + std::to_string(tuple) + " is lost");
      }
    }
  }

  Log* log_;
  std::mutex mutex_;
  std::condition_variable goes_on_;
  bool stands_still_ = false;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Decided> fates_;
  HostAndPort at_{"127.0.0.1", 0};
  FileDescriptor listening_;
  std::list<std::thread> clients_;  // of `thread_`, until it has ended
  std::thread thread_;
};

class SwitchExchangeThreads : public ::testing::Test {
 protected:
  void greet(Conversation& client) {
    const auto welcome = client.ask(exchange::Hello{"secret"});
    ASSERT_TRUE(std::holds_alternative<exchange::Welcome>(welcome));
    EXPECT_EQ(std::get<exchange::Welcome>(welcome).manager.port, 0);
  }
  [[nodiscard]] HostAndPort at() const { return HostAndPort::parse(exchange_.address(), 0); }
  static std::string refusal(Conversation& client, const exchange::Message& question) {
    const auto answer = client.ask(question);
    const auto* const refused = std::get_if<exchange::Refused>(&answer);
    return refused == nullptr ? "taken" : refused->why;
  }

  Log log_;
  PlayedServer server_{log_};
  LoggedSwitch switch_{log_};
  SwitchExchange exchange_{switch_, {.any_port = true, .token = "secret", .memory = server_.address()}};
};

constexpr std::chrono::milliseconds kPatience{20'000};

constexpr RemoteSpan kShared{{0x8000}, 1024, {11}};
constexpr RemoteSpan tuple_of(std::uint64_t i) { return {{0x8000 + i * 256}, 256, {11}}; }

int resumed(Conversation& client, std::uint64_t tuple, std::uint64_t version) {
  const auto answer = client.ask(exchange::Resume{1, tuple_of(tuple), version});
  const auto* const resumed = std::get_if<exchange::Resumed>(&answer);
  return resumed == nullptr ? -1 : resumed->resumption;
}
constexpr int kGranted = static_cast<int>(Resumption::granted);
constexpr int kHappened = static_cast<int>(Resumption::happened);
constexpr int kLost = static_cast<int>(Resumption::lost);

// In memory the tuples have versions 4, 6, 4 and 4. Owners 7 and 8 were cut off.
TEST_F(SwitchExchangeThreads, TuplesOfSharedMemoryWaitForWhoWasCutOffAndTheirWritesAreMadeAgain) {
  Conversation first(at(), kPatience);
  Conversation second(at(), kPatience);
  greet(first);
  greet(second);
  const exchange::KeepVersions tuples{kShared, 4, 200, 256};
  EXPECT_EQ(refusal(first, tuples), "taken");
  EXPECT_EQ(refusal(second, tuples), "taken");  // once
  static_cast<void>(first.ask(exchange::Connect{1, 7, address_of(2, 17)}));
  static_cast<void>(second.ask(exchange::Connect{1, 8, address_of(3, 18)}));

  EXPECT_EQ(resumed(first, 0, 4), kGranted);   // would have made 6 of 4, which is not there
  EXPECT_EQ(resumed(first, 1, 5), kGranted);   // made 6 of 4: may be torn
  EXPECT_EQ(resumed(first, 2, 2), kGranted);   // made 4 of 2: may be torn
  EXPECT_EQ(resumed(first, 2, 0), kHappened);  // would have made 2, and there is a later one
  EXPECT_EQ(resumed(second, 1, 2), kHappened);
  EXPECT_EQ(resumed(second, 0, 6), kLost);  // an earlier one was made again
  EXPECT_THAT(refusal(second, exchange::Resume{1, {{0x9000}, 8, {11}}, 4}), HasSubstr("has not recovered"));
  EXPECT_THAT(refusal(second, exchange::Resume{9, tuple_of(0), 4}), HasSubstr("there is no connection 9"));
  // Nobody inherits what may be made again.
  EXPECT_EQ(std::get<exchange::Inherited>(second.ask(exchange::Inherit{1, tuple_of(3)})).done, 0);

  EXPECT_EQ(refusal(first, exchange::Settle{7}), "taken");
  // Notes come before what they are notes of.
  EXPECT_THAT(log_.first(15),
              ElementsAre("server: take over", "server: words", "switch: recovers 4 above 6",
                          "server: notes epoch 1000", "server: connect", "switch: connect 17 to 77, MTU 1024",
                          "server: connect", "switch: connect 18 to 77, MTU 1024", "server: notes grant of 6",
                          "switch: latch of 100", "server: notes grant of 6", "switch: latch of 101",
                          "server: notes grant of 4", "switch: latch of 102", "server: settled 7"));
  EXPECT_THAT(refusal(second, exchange::Settle{0}), HasSubstr("RemoteOptions::owner"));
  EXPECT_EQ(refusal(second, exchange::Settle{8}), "taken");
  const auto all = log_.first(18);
  EXPECT_THAT(std::vector(all.begin() + 15, all.end()),
              ElementsAre("server: settled 8", "server: 1 words from 3 on are 1000", "switch: unlatch 103"));
  EXPECT_EQ(resumed(second, 3, 4), kLost);  // others may have used it since
}

TEST_F(SwitchExchangeThreads, WhatBecameOfAWriteOfTheSwitchBeforeTheLastOneIsTheServersToSay) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  static_cast<void>(client.ask(exchange::Connect{1, 7, address_of(2, 17)}));
  EXPECT_EQ(resumed(client, 0, 100), kHappened);
  EXPECT_EQ(resumed(client, 0, 102), kLost);
  EXPECT_EQ(resumed(client, 0, 104), kGranted);
}

// A client that is cut off from the switch that has just given it the latch comes back, and asks again. Its old
// connection may not have ended yet.
TEST_F(SwitchExchangeThreads, AWriteThatIsToBeMadeAgainHasNotHappenedBeforeItIsMade) {
  std::optional<Conversation> first(std::in_place, at(), kPatience);
  Conversation again(at(), kPatience);
  greet(*first);
  greet(again);
  EXPECT_EQ(refusal(*first, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  static_cast<void>(first->ask(exchange::Connect{1, 7, address_of(2, 17)}));
  static_cast<void>(again.ask(exchange::Connect{1, 7, address_of(2, 18)}));
  EXPECT_EQ(resumed(*first, 0, 4), kGranted);
  EXPECT_EQ(resumed(*first, 0, 4), kGranted);  // it has not been written since
  EXPECT_THAT(refusal(again, exchange::Resume{1, tuple_of(0), 4}), HasSubstr("has not ended yet"));
  first.reset();
  static_cast<void>(log_.first_with("switch: release 17"));
  EXPECT_EQ(resumed(again, 0, 4), kGranted);
  switch_.write(100);
  EXPECT_EQ(resumed(again, 0, 4), kHappened);
}

// Through this switch itself. Its version is 1000 at first, and 1002 when the tuple is written.
TEST_F(SwitchExchangeThreads, AClientThatIsCutOffFromASwitchThatLivesOnIsToldWhatBecameOfItsWrite) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  static_cast<void>(client.ask(exchange::Connect{1, 7, address_of(2, 17)}));
  switch_.write(100);
  EXPECT_EQ(resumed(client, 0, 1001), kHappened);
  EXPECT_EQ(resumed(client, 2, 1001), kGranted);  // in doubt
  {
    Conversation dies(at(), kPatience);
    greet(dies);
    static_cast<void>(dies.ask(exchange::Connect{1, 8, address_of(3, 22)}));
  }
  static_cast<void>(log_.first_with("switch: release 22"));
  EXPECT_EQ(resumed(client, 1, 1001), kLost);  // its version is given, and by no WRITE
  Conversation other(at(), kPatience);
  greet(other);
  static_cast<void>(other.ask(exchange::Connect{1, 8, address_of(3, 23)}));
  EXPECT_THAT(refusal(other, exchange::Resume{1, tuple_of(2), 1001}), HasSubstr("has not ended yet"));
}

// The server must know what the next switch is to tell, as soon as the connection has ended.
TEST_F(SwitchExchangeThreads, TheServerNotesWhatAClientThatEndsHasLeft) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  const auto left = [](const char* ended) {
    return ElementsAre(ended, "server: version 1002 of 1 is lost", "server: the word of 3 is 1001",
                       "switch: release 22");
  };
  {
    Conversation dies(at(), kPatience);
    greet(dies);
    static_cast<void>(dies.ask(exchange::Connect{1, 8, address_of(3, 22)}));
  }
  const auto all = log_.first_with("switch: release 22");
  ASSERT_GE(all.size(), 4U);
  EXPECT_THAT(std::vector(all.end() - 4, all.end()), left("server: end"));

  // A client that connects again, and one whose owner is revoked.
  static_cast<void>(client.ask(exchange::Connect{1, 8, address_of(3, 22)}));
  static_cast<void>(client.ask(exchange::Connect{1, 8, address_of(3, 23)}));
  const auto again = log_.first(all.size() + 9);
  EXPECT_THAT(std::vector(again.begin() + static_cast<std::ptrdiff_t>(all.size()) + 2, again.end()),
              ElementsAre("switch: fence 22", "server: place", "server: connect", "server: version 1002 of 1 is lost",
                          "server: the word of 3 is 1001", "switch: release 22", "switch: connect 23 to 77, MTU 1024"));
  static_cast<void>(client.ask(exchange::Connect{2, 6, address_of(3, 22)}));
  EXPECT_EQ(refusal(client, exchange::Revoke{6}), "taken");
  const auto revoked = log_.first(again.size() + 8);
  EXPECT_THAT(std::vector(revoked.end() - 4, revoked.end()), left("server: revoke 6"));
}

// A mark that comes later would undo what an heir has written meanwhile.
TEST_F(SwitchExchangeThreads, OnlyOneEndsAConnectionAtATime) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  server_.stand_still();
  {
    Conversation dies(at(), kPatience);
    greet(dies);
    static_cast<void>(dies.ask(exchange::Connect{1, 8, address_of(3, 22)}));
  }
  while (switch_.looks() == 0) {
    std::this_thread::yield();
  }
  std::thread revokes([&] { EXPECT_EQ(refusal(client, exchange::Revoke{8}), "taken"); });
  // One that does not wait would look at once.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (switch_.looks() == 1 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  EXPECT_EQ(switch_.looks(), 1);
  server_.go_on();
  revokes.join();
  const auto all = log_.first_with("switch: release 22");
  EXPECT_EQ(std::ranges::count(all, "server: the word of 3 is 1001"), 1);
}

// Others are told that the WRITE is made again, so nobody may use the tuple as if it never were.
TEST_F(SwitchExchangeThreads, ATupleWhoseGrantIsNotedStaysLatchedIfItsHolderIsEnded) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 2, 200, 256}), "taken");
  static_cast<void>(client.ask(exchange::Connect{1, 7, address_of(2, 33)}));
  static_cast<void>(client.ask(exchange::Connect{2, 7, address_of(2, 34)}));
  EXPECT_THAT(refusal(client, exchange::Resume{1, tuple_of(0), 4}), HasSubstr("connection 33 is fenced"));
  EXPECT_EQ(refusal(client, exchange::Settle{7}), "taken");
  EXPECT_EQ(refusal(client, exchange::Settle{8}), "taken");
  const auto all = log_.first_with("switch: unlatch 101");
  EXPECT_EQ(all.at(all.size() - 2), "server: 1 words from 1 on are 1000");
  EXPECT_EQ(std::ranges::count(all, "switch: unlatch 100"), 0);
  const auto again = client.ask(exchange::Resume{2, tuple_of(0), 4});
  EXPECT_EQ(std::get<exchange::Resumed>(again).resumption, kGranted);
}

TEST_F(SwitchExchangeThreads, WhoseTupleWasInheritedIsNotToldThatItsWriteHasHappened) {
  Conversation client(at(), kPatience);
  Conversation heir(at(), kPatience);
  greet(client);
  greet(heir);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  static_cast<void>(client.ask(exchange::Connect{1, 7, address_of(2, 17)}));
  static_cast<void>(heir.ask(exchange::Connect{1, 8, address_of(3, 18)}));
  static_cast<void>(heir.ask(exchange::Connect{2, 0, address_of(3, 19)}));
  const auto inherits = [&](std::uint64_t tuple) {
    return std::get<exchange::Inherited>(heir.ask(exchange::Inherit{1, tuple_of(tuple)})).done != 0;
  };
  EXPECT_FALSE(inherits(0)) << "it may be made again";
  EXPECT_EQ(refusal(client, exchange::Settle{7}), "taken");
  EXPECT_EQ(refusal(heir, exchange::Settle{8}), "taken");
  EXPECT_THAT(refusal(heir, exchange::Inherit{2, tuple_of(0)}), HasSubstr("must have a RemoteOptions::owner"));
  EXPECT_TRUE(inherits(0));
  EXPECT_FALSE(inherits(0)) << "the heir has it";
  const auto all = log_.first_with("switch: latch of 100");
  EXPECT_EQ(all.at(all.size() - 2), "server: version 1002 of 0 is owner 8's");
  switch_.write(100);
  EXPECT_THAT(refusal(client, exchange::Resume{1, tuple_of(0), 1001}), HasSubstr("another owner has inherited"));
  EXPECT_EQ(resumed(heir, 0, 1001), kHappened);
}

// The switch before has left it so. Only an heir, or whose WRITE was in doubt, may have it.
TEST_F(SwitchExchangeThreads, ATupleInDoubtStaysLatchedAtTheNextSwitch) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kDoubtful, 3, 200, 256}), "taken");
  static_cast<void>(client.ask(exchange::Connect{1, 7, address_of(2, 17)}));
  EXPECT_EQ(refusal(client, exchange::Settle{7}), "taken");
  Conversation other(at(), kPatience);
  greet(other);
  static_cast<void>(other.ask(exchange::Connect{1, 8, address_of(3, 18)}));
  EXPECT_EQ(refusal(other, exchange::Settle{8}), "taken");
  const auto all = log_.first_with("switch: unlatch 102");
  ASSERT_GE(all.size(), 4U);
  EXPECT_THAT(std::vector(all.end() - 4, all.end()),
              ElementsAre("server: 1 words from 4 on are 1000", "server: 1 words from 6 on are 1000",
                          "switch: unlatch 100", "switch: unlatch 102"));
  constexpr RemoteSpan kInDoubt{{0x8500}, 256, {11}};
  const auto resumed = other.ask(exchange::Resume{1, kInDoubt, 4});  // the grace is over
  EXPECT_EQ(std::get<exchange::Resumed>(resumed).resumption, kGranted);
}

// Its heir may be the only one that knows what was in it.
TEST_F(SwitchExchangeThreads, ATupleThatWasInDoubtBeforeIsNotMadeAgainOnceItIsInherited) {
  Conversation client(at(), kPatience);
  Conversation heir(at(), kPatience);
  greet(client);
  greet(heir);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kDoubtful, 3, 200, 256}), "taken");
  static_cast<void>(client.ask(exchange::Connect{1, 7, address_of(2, 17)}));
  static_cast<void>(heir.ask(exchange::Connect{1, 8, address_of(3, 18)}));
  EXPECT_EQ(refusal(client, exchange::Settle{7}), "taken");
  EXPECT_EQ(refusal(heir, exchange::Settle{8}), "taken");
  constexpr RemoteSpan kInDoubt{{0x8500}, 256, {11}};
  EXPECT_EQ(std::get<exchange::Inherited>(heir.ask(exchange::Inherit{1, kInDoubt})).done, 1);
  EXPECT_THAT(refusal(client, exchange::Resume{1, kInDoubt, 4}), HasSubstr("another owner has inherited"));
}

TEST_F(SwitchExchangeThreads, NoSwitchIsReplacedForTuplesThatThisOneCannotKeep) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_THAT(refusal(client, exchange::KeepVersions{kShared, 4, 666, 256}), HasSubstr("tuple_bytes 666"));
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  EXPECT_THAT(log_.first(4), ElementsAre("server: take over", "server: words", "switch: recovers 4 above 6",
                                         "server: notes epoch 1000"));
}

TEST_F(SwitchExchangeThreads, WhatTheServerRefusesIsRefusedAndTheClientGoesOn) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_THAT(refusal(client, exchange::KeepVersions{kShared, 4, 200, 252}), HasSubstr("are not words"));
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
}

TEST_F(SwitchExchangeThreads, AWriteIsResumedByItsTuplesBeginAndAVersionThatCanBe) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  static_cast<void>(client.ask(exchange::Connect{1, 7, address_of(2, 17)}));
  EXPECT_THAT(refusal(client, exchange::Resume{1, {{0x8008}, 8, {11}}, 4}), HasSubstr("a tuple at 0x8008"));
  EXPECT_THAT(refusal(client, exchange::Resume{1, tuple_of(0), ~std::uint64_t{0}}), HasSubstr("no version"));
  EXPECT_EQ(resumed(client, 0, 4), kGranted);
}

TEST(SwitchExchangeGraceThreads, WhenTheGraceIsOverNobodyIsWaitedFor) {
  Log log;
  const PlayedServer server(log);
  LoggedSwitch device(log);
  const SwitchExchange exchange(device,
                                {.any_port = true, .memory = server.address(), .grace = std::chrono::milliseconds(1)});
  Conversation client(HostAndPort::parse(exchange.address(), 0), kPatience);
  static_cast<void>(client.ask(exchange::Hello{}));
  static_cast<void>(client.ask(exchange::KeepVersions{kShared, 2, 200, 256}));
  EXPECT_THAT(log.first(8),
              ElementsAre("server: take over", "server: words", "switch: recovers 2 above 6",
                          "server: notes epoch 1000", "server: settled 0", "server: 2 words from 0 on are 1000",
                          "switch: unlatch 100", "switch: unlatch 101"));
}

// A clock that counts on from now would run over, and the grace be over at once.
TEST(SwitchExchangeGraceThreads, WaitsThatNoClockCanCountAreRefused) {
  Log log;
  LoggedSwitch device(log);
  const auto refused = [&](const SwitchExchangeOptions& options) -> std::string {
    try {
      const SwitchExchange exchange(device, options);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "taken";
  };
  constexpr auto kForEver = std::chrono::milliseconds::max();
  EXPECT_THAT(refused({.any_port = true, .grace = kForEver}), HasSubstr("grace is 9223372036854775807 ms"));
  EXPECT_THAT(refused({.any_port = true, .silence = kForEver}), HasSubstr("silence is 9223372036854775807 ms"));
  constexpr std::chrono::milliseconds kDay = std::chrono::hours(24);
  EXPECT_EQ(refused({.any_port = true, .grace = kDay, .silence = kDay}), "taken");
}

TEST_F(SwitchExchangeThreads, AClientThatDiesIsFencedPlacedEndedAndReleasedInThisOrder) {
  {
    Conversation client(at(), kPatience);
    greet(client);
    const auto answer = client.ask(exchange::Connect{1, 0, address_of(2, 17)});
    ASSERT_TRUE(std::holds_alternative<exchange::Accepted>(answer));
    EXPECT_EQ(std::get<exchange::Accepted>(answer).address.responder, 1);  // one request in flight
    static_cast<void>(client.ask(exchange::Allocate{3, 4096, Access::remote_all}));
    EXPECT_EQ(refusal(client, exchange::KeepVersions{{{0x1000}, 4096, {9}}, 16, 200, 256}), "taken");
    EXPECT_EQ(refusal(client, exchange::KeepVersions{{{0x1000}, 4096, {9}}, 16, 200, 256}), "taken");  // once
  }
  EXPECT_THAT(log_.first(9), ElementsAre("server: connect", "switch: connect 17 to 77, MTU 1024", "switch: tuples 16",
                                         "switch: fence 17", "server: place", "server: end", "switch: release 17",
                                         "server: release memory", "switch: no tuples 0"));
}

// As a machine that is moved, or swaps.
TEST(SwitchExchangeSilenceThreads, AClientIsReleasedAlsoIfTheServerConfirmsItsEndLate) {
  Log log;
  PlayedServer server(log);
  LoggedSwitch device(log);
  std::optional<SwitchExchange> exchange(
      std::in_place, device,
      SwitchExchangeOptions{.any_port = true, .memory = server.address(), .silence = std::chrono::milliseconds(20)});
  const auto connect = [&](std::uint32_t queue_pair) {
    auto client = std::make_unique<Conversation>(HostAndPort::parse(exchange->address(), 0), kPatience);
    static_cast<void>(client->ask(exchange::Hello{}));
    static_cast<void>(client->ask(exchange::Connect{1, 0, address_of(2, queue_pair)}));
    return client;
  };
  const auto wait_for_problem = [&] {
    while (exchange->problem().empty()) {
      std::this_thread::yield();
    }
  };
  auto first = connect(17);
  server.stand_still();
  first.reset();
  wait_for_problem();
  EXPECT_THAT(exchange->problem(), HasSubstr("has not answered for 20 ms"));
  server.go_on();
  EXPECT_THAT(log.first_with("switch: release 17"),
              ElementsAre("server: connect", "switch: connect 17 to 77, MTU 1024", "switch: fence 17", "server: place",
                          "server: end", "switch: release 17"));
  // A switch that ends waits for nobody.
  const auto second = connect(18);
  server.stand_still();
  exchange.reset();
  // It may have asked the server, whose answer has not come.
  EXPECT_THAT(log.first_with("switch: fence 18"), ::testing::Not(::testing::Contains("switch: release 18")));
  server.go_on();
}

// All that the switch has acknowledged to the owner is placed before its queue pairs end, whoever asks.
TEST_F(SwitchExchangeThreads, AnOwnerThatIsRevokedIsFencedPlacedEndedAndReleasedInThisOrder) {
  std::optional<Conversation> revoked(std::in_place, at(), kPatience);
  Conversation other(at(), kPatience);
  greet(*revoked);
  greet(other);
  static_cast<void>(revoked->ask(exchange::Connect{1, 7, address_of(2, 17)}));
  static_cast<void>(other.ask(exchange::Connect{1, 8, address_of(3, 18)}));
  static_cast<void>(revoked->ask(exchange::Connect{2, 7, address_of(2, 19)}));
  static_cast<void>(other.ask(exchange::Connect{2, 0, address_of(3, 20)}));
  EXPECT_EQ(refusal(other, exchange::Revoke{7}), "taken");
  auto all = log_.first(14);
  EXPECT_THAT(std::vector(all.begin() + 8, all.end()),
              ElementsAre("switch: fence 17", "switch: fence 19", "server: place", "server: revoke 7",
                          "switch: release 17", "switch: release 19"));
  // It may be about to connect once more, and its client ends later.
  EXPECT_THAT(refusal(*revoked, exchange::Connect{3, 7, address_of(2, 21)}), HasSubstr("owner 7 was revoked"));
  revoked.reset();
  all = log_.first(20);
  EXPECT_THAT(std::vector(all.begin() + 14, all.end()), ElementsAre("server: connect", "server: end", "server: forget",
                                                                    "server: place", "server: end", "server: end"));
}

TEST_F(SwitchExchangeThreads, AnOwnerWhoseRevocationIsRefusedMayConnect) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::Revoke{9}), "owner 9 has never connected here");
  EXPECT_EQ(refusal(client, exchange::Revoke{0}), "taken");  // of the played server; nobody is fenced
  EXPECT_EQ(refusal(client, exchange::Connect{1, 9, address_of(2, 17)}), "taken");
  EXPECT_EQ(refusal(client, exchange::Connect{2, 0, address_of(2, 18)}), "taken");
}

TEST_F(SwitchExchangeThreads, TuplesOfMemoryThatNobodyMayWriteAreRefusedBeforeAnotherSwitchEnds) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_THAT(refusal(client, exchange::KeepVersions{{{0x20000}, 1024, {12}}, 4, 200, 256}), HasSubstr("'archive'"));
  EXPECT_EQ(refusal(client, exchange::KeepVersions{kShared, 4, 200, 256}), "taken");
  EXPECT_EQ(log_.first(1).front(), "server: take over");
  EXPECT_EQ(log_.first(4).back(), "server: notes epoch 1000");
}

TEST_F(SwitchExchangeThreads, AConnectionThatComesAgainReplacesTheOldOne) {
  Conversation client(at(), kPatience);
  greet(client);
  static_cast<void>(client.ask(exchange::Connect{1, 0, address_of(2, 17)}));
  static_cast<void>(client.ask(exchange::Connect{1, 0, address_of(2, 18)}));
  EXPECT_THAT(log_.first(7),
              ElementsAre("server: connect", "switch: connect 17 to 77, MTU 1024", "switch: fence 17", "server: place",
                          "server: connect", "switch: release 17", "switch: connect 18 to 77, MTU 1024"));
}

// Nothing of the connection that it has is stopped for that.
TEST_F(SwitchExchangeThreads, AConnectionThatComesAgainStaysItsOwners) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::Connect{1, 3, address_of(2, 17)}), "taken");
  EXPECT_THAT(refusal(client, exchange::Connect{1, 4, address_of(2, 18)}),
              AllOf(HasSubstr("owner 3"), HasSubstr("owner 4")));
  EXPECT_EQ(refusal(client, exchange::Connect{2, 4, address_of(2, 19)}), "taken");
  EXPECT_THAT(log_.first(4), ElementsAre("server: connect", "switch: connect 17 to 77, MTU 1024", "server: connect",
                                         "switch: connect 19 to 77, MTU 1024"));
  client.tell(exchange::Disconnect{1, 0});
  EXPECT_EQ(refusal(client, exchange::Connect{1, 4, address_of(2, 20)}), "taken") << "another one of the same number";
}

TEST_F(SwitchExchangeThreads, AServersEndThatCannotBeEndsAtTheServer) {
  Conversation client(at(), kPatience);
  greet(client);
  ASSERT_THAT(refusal(client, exchange::Connect{1, 0, address_of(2, 777)}), HasSubstr("0x1000000"));
  EXPECT_THAT(log_.first(3), ElementsAre("server: connect", "server: end", "server: forget"));
}

TEST_F(SwitchExchangeThreads, WhatTheSwitchRefusesEndsAtTheServer) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::Connect{1, 0, address_of(2, 666)}), "the switch has no room");
  EXPECT_THAT(log_.first(3), ElementsAre("server: connect", "server: end", "server: forget"));
}

TEST_F(SwitchExchangeThreads, OneConnectionThatTheServerDoesNotEndKeepsNoOtherOfItsClient) {
  {
    Conversation client(at(), kPatience);
    greet(client);
    EXPECT_EQ(refusal(client, exchange::Connect{55, 0, address_of(2, 17)}), "taken");
    EXPECT_EQ(refusal(client, exchange::Connect{56, 0, address_of(2, 18)}), "taken");
  }
  EXPECT_THAT(log_.first(9), ElementsAre("server: connect", "switch: connect 17 to 77, MTU 1024", "server: connect",
                                         "switch: connect 18 to 77, MTU 1024", "switch: fence 17", "switch: fence 18",
                                         "server: place", "server: end", "switch: release 18"));
}

// The client's library ends what it could not connect.
TEST_F(SwitchExchangeThreads, WhoEndsAConnectionThatWasRefusedGetsNoAnswerToThat) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::Connect{55, 0, address_of(2, 555)}), "it has 1 connections already");
  client.tell(exchange::Disconnect{55, 0});
  EXPECT_EQ(refusal(client, exchange::Connect{1, 0, address_of(2, 17)}), "taken");
  EXPECT_EQ(exchange_.problem(), "");
}

TEST_F(SwitchExchangeThreads, WhoseConnectionTheServerDoesNotEndGetsNoAnswerToItsEnd) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::Connect{55, 0, address_of(2, 17)}), "taken");
  client.tell(exchange::Disconnect{55, 0});
  EXPECT_EQ(refusal(client, exchange::Connect{1, 0, address_of(2, 18)}), "taken");
  EXPECT_THAT(exchange_.problem(), HasSubstr("stays fenced: the memory server refuses: connection 55 does not end"));
}

TEST(SwitchExchangeWordsThreads, WhoseConnectionTheSwitchDoesNotForgetGetsNoAnswerToItsEnd) {
  Log log;
  LoggedSwitch device(log);
  const SwitchExchange exchange(device, {.any_port = true, .ip = {10, 0, 0, 9}, .words = {{0}, 4096, {1}}});
  Conversation client(HostAndPort::parse(exchange.address(), 0), kPatience);
  static_cast<void>(client.ask(exchange::Hello{}));
  static_cast<void>(client.ask(exchange::Connect{1, 0, address_of(2, 44)}));
  client.tell(exchange::Disconnect{1, 0});
  EXPECT_TRUE(std::holds_alternative<exchange::Accepted>(client.ask(exchange::Connect{2, 0, address_of(2, 17)})));
  EXPECT_THAT(exchange.problem(), HasSubstr("connection 44"));
}

// Nor does it end the connection that it would replace.
TEST(SwitchExchangeWordsThreads, AnEndThatCannotBeIsRefused) {
  Log log;
  LoggedSwitch device(log);
  const SwitchExchange exchange(device, {.any_port = true, .ip = {10, 0, 0, 9}, .words = {{0}, 4096, {1}}});
  Conversation client(HostAndPort::parse(exchange.address(), 0), kPatience);
  static_cast<void>(client.ask(exchange::Hello{}));
  const auto refusal_of = [&](const Address& address) {
    const auto answer = client.ask(exchange::Connect{1, 0, address});
    const auto* const refused = std::get_if<exchange::Refused>(&answer);
    return refused == nullptr ? "taken" : refused->why;
  };
  EXPECT_EQ(refusal_of(address_of(2, 17)), "taken");
  Address wrong = address_of(2, 18);
  wrong.mtu = 6;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("path MTU is 6"));
  wrong = address_of(2, 18);
  wrong.responder = 0;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("no READs"));
  EXPECT_THAT(refusal_of(address_of(2, 0x1'000'000)), HasSubstr("24 bits"));
  wrong = address_of(2, 18);
  wrong.gid.raw[10] = 0;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("the client has no IPv4 address"));
  EXPECT_THAT(log.first(1), ElementsAre("switch: connect 17 to 256, MTU 1024"));
  EXPECT_EQ(refusal_of(address_of(2, 18)), "taken");
  EXPECT_THAT(log.first(3), ElementsAre("switch: connect 17 to 256, MTU 1024", "switch: release 17",
                                        "switch: connect 18 to 257, MTU 1024"));
}

TEST(SwitchExchangeWordsThreads, OneConnectionThatTheSwitchDoesNotForgetKeepsNoOtherOfItsClient) {
  Log log;
  LoggedSwitch device(log);
  const SwitchExchange exchange(device, {.any_port = true, .ip = {10, 0, 0, 9}, .words = {{0}, 4096, {1}}});
  {
    Conversation client(HostAndPort::parse(exchange.address(), 0), kPatience);
    static_cast<void>(client.ask(exchange::Hello{}));
    static_cast<void>(client.ask(exchange::Connect{1, 0, address_of(2, 44)}));
    static_cast<void>(client.ask(exchange::Connect{2, 0, address_of(2, 17)}));
  }
  EXPECT_EQ(log.first(3).back(), "switch: release 17");
}

// A switch that caches. Its exchange asks for cache() between its two threads: then `between` is called, once.
class CachingSwitch final : public SwitchControl, private SwitchCache {
 public:
  explicit CachingSwitch(std::function<void()> between) : between_(std::move(between)) {}
  ConnectionId connect(const SwitchedEnds& /*ends*/) override {
    const Call call(*this);
    ++connections_;
    return 0;
  }
  void fence(ConnectionId /*connection*/) override {}
  std::vector<HeldTuple> held(ConnectionId /*connection*/) override { return {}; }
  void release(ConnectionId /*connection*/) override { --connections_; }
  std::uint32_t add_tuples(const SwitchedTuples& /*tuples*/) override { return 0; }
  void remove_tuples(std::uint32_t /*first*/) override {}
  bool inherit(ConnectionId /*to*/, std::uint32_t /*tuple*/) override { return false; }
  [[nodiscard]] SwitchCache* cache() override {
    const Call call(*this);
    if (const auto between = std::exchange(between_, {})) {
      between();
    }
    return this;
  }
  [[nodiscard]] int connections() const { return connections_; }
  // Whether it was called while another call of it went on.
  [[nodiscard]] bool was_called_twice() const { return was_called_twice_; }

 private:
  class Call {
   public:
    explicit Call(CachingSwitch& of) : of_(&of) {
      if (++of.calls_ > 1) {
        of.was_called_twice_ = true;
      }
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { --of_->calls_; }

   private:
    CachingSwitch* of_;
  };
  [[nodiscard]] std::vector<std::uint32_t> take_asked() override { return {}; }
  [[nodiscard]] bool heat(std::uint32_t /*tuple*/, Words& /*words*/) override { return false; }
  [[nodiscard]] bool cool(std::uint32_t /*tuple*/, Words& /*words*/) override { return false; }

  std::function<void()> between_;
  std::atomic<int> connections_{0};
  std::atomic<int> calls_{0};
  std::atomic<bool> was_called_twice_{false};
};

std::string error_of_beginning(SwitchControl& device, const SwitchExchangeOptions& options) {
  try {
    const SwitchExchange exchange(device, options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

// Where an exchange can listen, for clients that come before its constructor has returned.
HostAndPort free_address() {
  HostAndPort at{"127.0.0.1", 0};
  static_cast<void>(listen_on(at));
  return at;
}

TEST(SwitchExchangeWithoutThreads, IsAnErrorAndNothingStays) {
  std::optional<NoThreads> none;
  CachingSwitch caching([&] { none.emplace(); });
  EXPECT_THAT(error_of_beginning(caching, {.any_port = true}), AllOf(HasSubstr("no thread"), HasSubstr("ulimit -u")));
  EXPECT_THAT(error_of_beginning(caching, {.any_port = true}), HasSubstr("no thread")) << "not even the first";
  none.reset();
  EXPECT_EQ(error_of_beginning(caching, {.any_port = true}), "no error");
}

TEST(SwitchExchangeWithoutThreads, EndsClientsThatHaveComeMeanwhile) {
  const HostAndPort at = free_address();
  std::optional<Conversation> client;
  std::optional<NoThreads> none;
  CachingSwitch caching([&] {
    client.emplace(at, kPatience);
    ASSERT_TRUE(std::holds_alternative<exchange::Welcome>(client->ask(exchange::Hello{})));
    client->tell(exchange::Connect{1, 0, address_of(2, 17)});
    none.emplace();
  });
  EXPECT_THAT(error_of_beginning(caching, {.address = at.to_string()}), HasSubstr("no thread"));
  EXPECT_EQ(caching.connections(), 0);
  none.reset();
  // One answer may have come: that to Connect.
  const auto ask_twice = [&] {
    static_cast<void>(client->ask(exchange::Find{"words"}));
    static_cast<void>(client->ask(exchange::Find{"words"}));
  };
  EXPECT_THROW(ask_twice(), SocketError);
}

TEST(SwitchExchangeWithoutThreads, TakesNoClientAndGoesOn) {
  CachingSwitch caching({});
  const SwitchExchange exchange(caching, {.any_port = true});
  const auto greet = [&] {
    Conversation client(HostAndPort::parse(exchange.address(), 0), kPatience);
    return std::holds_alternative<exchange::Welcome>(client.ask(exchange::Hello{}));
  };
  {
    const NoThreads none;
    EXPECT_THROW(static_cast<void>(greet()), SocketError);
  }
  while (exchange.problem().empty()) {
    std::this_thread::yield();
  }
  EXPECT_THAT(exchange.problem(), AllOf(HasSubstr("no thread for a client"), HasSubstr("ulimit -u")));
  EXPECT_TRUE(greet());
}

// Other failures keep their text.
TEST(SwitchExchangeWithoutThreads, IsNotAnySystemError) {
  CachingSwitch failing([] { throw std::system_error(ETIMEDOUT, std::generic_category(), "the switch is silent"); });
  EXPECT_THAT(error_of_beginning(failing, {.any_port = true}),
              AllOf(HasSubstr("the switch is silent"), Not(HasSubstr("thread"))));
  EXPECT_EQ(error_of_beginning(failing, {.any_port = true}), "no error");
}

TEST(SwitchExchangeCallsThreads, AreOneAtATimeFromTheBeginning) {
  const HostAndPort at = free_address();
  std::optional<Conversation> client;
  CachingSwitch* device = nullptr;
  CachingSwitch caching([&] {
    client.emplace(at, kPatience);
    ASSERT_TRUE(std::holds_alternative<exchange::Welcome>(client->ask(exchange::Hello{})));
    client->tell(exchange::Connect{1, 0, address_of(2, 17)});
    // It must not come to that, so there is no end to wait for.
    const auto long_enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (!device->was_called_twice() && std::chrono::steady_clock::now() < long_enough) {
      std::this_thread::yield();
    }
  });
  device = &caching;
  const SwitchExchange exchange(caching, {.address = at.to_string()});
  while (caching.connections() == 0) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(caching.was_called_twice());
}

TEST_F(SwitchExchangeThreads, WhatMeansNothingIsRefusedAndOthersGoOn) {
  Conversation stranger(at(), kPatience);
  EXPECT_THAT(refusal(stranger, exchange::Hello{"guess"}), HasSubstr("token"));
  Conversation early(at(), kPatience);
  EXPECT_THAT(refusal(early, exchange::Connect{1, 0, address_of(2, 17)}), HasSubstr("must be a hello"));

  Conversation client(at(), kPatience);
  greet(client);
  Address ipv6 = address_of(2, 17);
  ipv6.gid.raw[0] = 0x20;
  EXPECT_THAT(refusal(client, exchange::Connect{1, 0, ipv6}), HasSubstr("IPv4"));
  Address no_mtu = address_of(2, 17);
  no_mtu.mtu = 0;
  EXPECT_THAT(refusal(client, exchange::Connect{1, 0, no_mtu}), HasSubstr("path MTU"));
  EXPECT_THAT(refusal(client, exchange::Connect{1, 0, address_of(2, 0x1'000'000)}), HasSubstr("24 bits"));
  EXPECT_THAT(refusal(client, exchange::KeepVersions{{{0x1000}, 4096, {9}}, 16, 200, 256}), HasSubstr("allocate()"));
  EXPECT_THAT(refusal(client, exchange::Inherit{5, {{0x1000}, 8, {9}}}), HasSubstr("there is no connection 5"));
  EXPECT_THAT(refusal(client, exchange::Announce{1, 0}), HasSubstr("made by the exchange"));
  EXPECT_THAT(refusal(client, exchange::Hello{"secret"}), HasSubstr("second hello"));
  static_cast<void>(client.ask(exchange::Allocate{3, 4096, Access::remote_all}));
  EXPECT_THAT(refusal(client, exchange::KeepVersions{{{0x1000}, 4096, {9}}, 17, 200, 256}), HasSubstr("do not fit"));
  EXPECT_THAT(refusal(client, exchange::KeepVersions{{{0x1000}, 4096, {9}}, 1, 200, 0}), HasSubstr("do not fit"));
  EXPECT_EQ(refusal(client, exchange::Connect{1, 0, address_of(2, 17)}), "taken");
}

TEST_F(SwitchExchangeThreads, ATupleInDoubtIsInheritedByItsAddress) {
  Conversation client(at(), kPatience);
  greet(client);
  static_cast<void>(client.ask(exchange::Allocate{3, 4096, Access::remote_all}));
  static_cast<void>(client.ask(exchange::KeepVersions{{{0x1000}, 4096, {9}}, 16, 200, 256}));
  static_cast<void>(client.ask(exchange::Connect{1, 0, address_of(2, 17)}));
  const auto inherited = [&](std::uint64_t address) {
    return std::get<exchange::Inherited>(client.ask(exchange::Inherit{1, {{address}, 8, {9}}})).done != 0;
  };
  EXPECT_TRUE(inherited(0x1100));
  EXPECT_FALSE(inherited(0x1200));
  EXPECT_THAT(refusal(client, exchange::Inherit{1, {{0x1108}, 8, {9}}}), HasSubstr("no tuple begins at 0x1108"));
  EXPECT_THAT(refusal(client, exchange::Inherit{1, {{0x2000}, 8, {9}}}), HasSubstr("no tuple begins at 0x2000"));
}

}  // namespace
}  // namespace sidelatch::fabric::verbs

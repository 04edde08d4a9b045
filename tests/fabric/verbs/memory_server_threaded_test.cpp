// A memory server over the stub provider, and clients that say what none of this library's would say. Clients of the
// library are in tests/vm/verbs.
#include "fabric/verbs/exchange.h"
#include "fabric/verbs/socket.h"
#include "no_threads.h"
#include "stub_provider.h"

#include <sidelatch/fabric/verbs/memory_server.h>
#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <variant>

namespace sidelatch::fabric::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MemoryServerThreads : public ::testing::Test {
 protected:
  MemoryServerThreads() : fabric_((stub_device() = StubDevice(), DeviceOptions{})) {
    server_.share("tuples", tuples_);
    server_.share("archive", archive_);
    server_.start();
  }
  [[nodiscard]] HostAndPort at() const { return HostAndPort::parse(server_.address(), 0); }
  static void greet(Conversation& client, std::uint64_t switch_id = 0) {
    ASSERT_TRUE(std::holds_alternative<exchange::Welcome>(client.ask(exchange::Hello{{}, switch_id})));
  }
  static std::string refusal(Conversation& client, const exchange::Message& question) {
    const auto answer = client.ask(question);
    const auto* const refused = std::get_if<exchange::Refused>(&answer);
    return refused == nullptr ? "taken" : refused->why;
  }
  static Address an_address() {
    Address address;
    std::memcpy(address.gid.raw, stub_device().gids.front().gid.raw, sizeof address.gid.raw);
    address.queue_pair = 0x77;
    address.packet_number = 5;
    address.mtu = 3;
    address.responder = 1;
    return address;
  }
  static exchange::Mark mark(const MemoryRegion& region) { return {region.remote(0, 8), 13, 1}; }
  static std::uint64_t word(const MemoryRegion& region) {
    std::uint64_t value = 0;
    std::memcpy(&value, region.bytes().data(), sizeof value);
    return value;
  }

  static constexpr std::chrono::milliseconds kPatience{20'000};
  VerbsFabric fabric_;
  Node& storage_ = fabric_.add_node("storage");
  MemoryRegion tuples_ = storage_.allocate(4096, Access::remote_all);
  MemoryRegion archive_ = storage_.allocate(4096, Access::remote_read);
  MemoryServer server_{storage_, {.address = "127.0.0.1", .any_port = true}};
};

TEST_F(MemoryServerThreads, RefusesAnEndThatCannotBe) {
  Conversation client(at(), kPatience);
  greet(client);
  const auto refusal_of = [&](const Address& address) { return refusal(client, exchange::Connect{1, 0, address}); };
  Address wrong = an_address();
  wrong.mtu = 0;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("path MTU is 0"));
  wrong.mtu = 6;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("path MTU is 6"));
  wrong = an_address();
  wrong.queue_pair = 0x1'000'000;
  EXPECT_THAT(refusal_of(wrong), AllOf(HasSubstr("0x1000000"), HasSubstr("24 bits")));
  wrong = an_address();
  wrong.packet_number = 0xff00'0000;
  EXPECT_THAT(refusal_of(wrong), AllOf(HasSubstr("0xff000000"), HasSubstr("24 bits")));
  wrong = an_address();
  wrong.responder = 0;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("no READs"));
  Address last = an_address();
  last.queue_pair = last.packet_number = 0xff'ffff;
  last.mtu = 5;
  EXPECT_EQ(refusal_of(last), "taken");
}

// The end of its owner's connections would not end it, or that of another owner would.
TEST_F(MemoryServerThreads, AConnectionStaysItsOwners) {
  Conversation client(at(), kPatience);
  greet(client);
  EXPECT_EQ(refusal(client, exchange::Connect{1, 3, an_address()}), "taken");
  EXPECT_THAT(refusal(client, exchange::Connect{1, 4, an_address()}),
              AllOf(HasSubstr("owner 3"), HasSubstr("owner 4")));
  EXPECT_THAT(refusal(client, exchange::Connect{1, 0, an_address()}), HasSubstr("owner 3"));
  EXPECT_EQ(refusal(client, exchange::Connect{1, 3, an_address()}), "taken") << "it has not ended";
  EXPECT_EQ(refusal(client, exchange::Connect{2, 4, an_address()}), "taken") << "another one may have another owner";
  client.tell(exchange::Disconnect{2, 0});
  EXPECT_EQ(refusal(client, exchange::Connect{2, 5, an_address()}), "taken") << "so may the next of this number";
  EXPECT_EQ(refusal(client, exchange::Revoke{3}), "taken");
  EXPECT_THAT(refusal(client, exchange::Connect{1, 4, an_address()}), HasSubstr("revoked"));
}

// A refusal must come before the connection has ended: its switch would go on holding it fenced.
TEST_F(MemoryServerThreads, MarksAreMadeOnlyWhereClientsMayWrite) {
  Conversation of_switch(at(), kPatience);
  greet(of_switch, 5);
  EXPECT_EQ(refusal(of_switch, exchange::Connect{1, 3, an_address()}), "taken");
  EXPECT_THAT(refusal(of_switch, exchange::Disconnect{1, 1, {mark(tuples_), mark(archive_)}}),
              AllOf(HasSubstr("'archive'"), HasSubstr("may not be written")));
  EXPECT_EQ(word(tuples_), 0U);
  EXPECT_EQ(refusal(of_switch, exchange::Connect{1, 3, an_address()}), "taken") << "it has not ended";
  EXPECT_THAT(refusal(of_switch, exchange::NoteMarks{{mark(tuples_), mark(archive_)}}), HasSubstr("'archive'"));
  EXPECT_EQ(word(tuples_), 0U);
  EXPECT_EQ(refusal(of_switch, exchange::Disconnect{1, 1, {mark(tuples_)}}), "taken");
  EXPECT_EQ(word(tuples_), 13U);
}

TEST(MemoryServerWithoutThreads, IsAnErrorAndMayBeStartedLater) {
  stub_device() = StubDevice();
  VerbsFabric fabric;
  MemoryServer server(fabric.add_node("storage"), {.address = "127.0.0.1", .any_port = true});
  {
    const NoThreads none;
    try {
      server.start();
      ADD_FAILURE() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("no thread for the memory server"), HasSubstr("ulimit -u")));
    }
  }
  server.start();
  Conversation client(HostAndPort::parse(server.address(), 0), std::chrono::seconds(20));
  EXPECT_TRUE(std::holds_alternative<exchange::Welcome>(client.ask(exchange::Hello{})));
}

}  // namespace
}  // namespace sidelatch::fabric::verbs

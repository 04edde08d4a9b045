// Messages of the bootstrap: they arrive as sent, and other data is refused.
#include "fabric/verbs/exchange.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sidelatch::fabric::verbs::exchange {
namespace {

using ::testing::HasSubstr;

Address an_address() {
  Address address;
  for (std::uint8_t i = 0; i < 16; ++i) {
    address.gid.raw[i] = static_cast<std::uint8_t>(200 + i);
  }
  address.queue_pair = 0xabcdef;
  address.packet_number = 0x123456;
  address.lid = 0xfedc;
  address.mtu = 5;
  address.responder = 128;
  return address;
}

template <class T>
T decoded(std::span<const std::byte> bytes) {
  const std::optional<Message> message = decode(bytes);
  EXPECT_TRUE(message && std::holds_alternative<T>(*message));
  EXPECT_TRUE(bytes.empty());
  return message ? std::get<T>(*message) : T{};
}

std::string error_of(std::span<const std::byte> bytes) {
  try {
    const bool complete = decode(bytes).has_value();
    return complete ? "a message" : "incomplete";
  } catch (const ExchangeError& error) {
    return error.what();
  }
}

std::vector<Message> one_of_each() {
  return {Hello{"secret", 0x0123'4567'89ab'cdef},
          Welcome{"storage",
                  {{"table", {{0x7f0000001000}, 1 << 20, {0x1234}}, Access::remote_all}},
                  {an_address().gid, 0x8642},
                  "none",
                  an_address().gid},
          Connect{7, 3, an_address()},
          Accepted{7, an_address()},
          Disconnect{7, 1, {{{{0x7f0000001000}, 8, {0x1234}}, 13, 1}}},
          Revoke{3, {{{{0x7f0000001000}, 8, {0x1234}}, 13, 0}}},
          Revoked{3},
          Refused{"why", Refused::kUnknownOwner},
          Allocate{5, 1 << 20, Access::remote_read},
          Allocated{5, {{0x7f0000001000}, 1 << 20, {0x1234}}},
          Release{5},
          Released{5},
          Publish{5, "board"},
          Published{5},
          Find{"board"},
          Found{{{0x7f0000001000}, 4096, {0x1234}}},
          Announce{8, 4},
          Ticket{8, 0x0123'4567'89ab'cdef},
          Place{},
          Placed{},
          KeepVersions{{{0x7f0000001000}, 1 << 20, {0x1234}}, 1000, 200, 256},
          VersionsKept{},
          Inherit{7, {{0x7f0000001000}, 8, {0x1234}}},
          Inherited{1},
          TakeOver{},
          TakenOver{{3, 500}, 1, 9},
          Leave{},
          Settle{500},
          Noted{},
          ReadWords{{{0x7f0000001000}, 1 << 20, {0x1234}}, 256, 1000},
          Words{{1, std::uint64_t{7} << 32}},
          WriteWords{{{0x7f0000001000}, 1 << 20, {0x1234}}, 256, 1000, std::uint64_t{7} << 32},
          NoteEpoch{{{0x7f0000001000}, 1 << 20, {0x1234}}, 256, 1000, std::uint64_t{7} << 32},
          NoteGrant{{{0x7f0000001000}, 8, {0x1234}}, std::uint64_t{7} << 32, 12},
          NoteMarks{{{{{0x7f0000001000}, 8, {0x1234}}, 13, 1}}},
          NoteHeir{{{0x7f0000001000}, 8, {0x1234}}, 12, 2},
          Recall{{{0x7f0000001000}, 8, {0x1234}}, 12, 3},
          Recalled{2, 12},
          Move{{{0x7f0000001000}, 8, {0x1234}}, 1},
          Resume{7, {{0x7f0000001000}, 8, {0x1234}}, 12},
          Resumed{2}};
}

TEST(Wire, FieldsComeOutAsTheyWentIn) {
  EXPECT_EQ(decoded<Hello>(encode(Hello{"secret"})).token, "secret");
  EXPECT_EQ(decoded<Hello>(encode(Hello{"secret", 12})).switch_id, 12U);
  const auto taken = decoded<TakenOver>(encode(TakenOver{{3, 500}, 1, std::uint64_t{7} << 32}));
  EXPECT_EQ(taken.latest_epoch, std::uint64_t{7} << 32);
  EXPECT_EQ(taken.owners, (std::vector<std::uint16_t>{3, 500}));
  EXPECT_EQ(taken.others, 1U);
  EXPECT_EQ(decoded<Settle>(encode(Settle{500})).owner, 500U);
  const auto to_read = decoded<ReadWords>(encode(ReadWords{{{0x1000}, 4096, {5}}, 256, 16}));
  EXPECT_EQ(to_read.span.address.value, 0x1000U);
  EXPECT_EQ(to_read.stride, 256U);
  EXPECT_EQ(to_read.count, 16U);
  EXPECT_EQ(decoded<Words>(encode(Words{{1, 2}})).words, (std::vector<std::uint64_t>{1, 2}));
  const auto to_write = decoded<WriteWords>(encode(WriteWords{{{0x1000}, 4096, {5}}, 256, 16, 9}));
  EXPECT_EQ(to_write.count, 16U);
  EXPECT_EQ(to_write.value, 9U);
  const auto epoch = decoded<NoteEpoch>(encode(NoteEpoch{{{0x1000}, 4096, {5}}, 256, 16, 9}));
  EXPECT_EQ(epoch.stride, 256U);
  EXPECT_EQ(epoch.count, 16U);
  EXPECT_EQ(epoch.value, 9U);
  const auto grant = decoded<NoteGrant>(encode(NoteGrant{{{0x1000}, 8, {5}}, 9, 12}));
  EXPECT_EQ(grant.span.address.value, 0x1000U);
  EXPECT_EQ(grant.epoch, 9U);
  EXPECT_EQ(grant.version, 12U);
  const auto heir = decoded<NoteHeir>(encode(NoteHeir{{{0x1000}, 8, {5}}, 12, 3}));
  EXPECT_EQ(heir.span.rkey.value, 5U);
  EXPECT_EQ(heir.version, 12U);
  EXPECT_EQ(heir.owner, 3U);
  const std::vector<Mark> marks{{{{0x1000}, 8, {5}}, 13, 1}, {{{0x1100}, 8, {5}}, 15, 0}};
  for (const std::vector<Mark>& all :
       {decoded<NoteMarks>(encode(NoteMarks{marks})).marks, decoded<Disconnect>(encode(Disconnect{7, 1, marks})).marks,
        decoded<Revoke>(encode(Revoke{7, marks})).marks}) {
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].word.address.value, 0x1000U);
    EXPECT_EQ(all[0].version, 13U);
    EXPECT_EQ(all[0].in_doubt, 1U);
    EXPECT_EQ(all[1].version, 15U);
    EXPECT_EQ(all[1].in_doubt, 0U);
  }
  EXPECT_EQ(decoded<Recall>(encode(Recall{{{0x1000}, 8, {5}}, 12, 3})).owner, 3U);
  EXPECT_EQ(decoded<Recall>(encode(Recall{{{0x1000}, 8, {5}}, 12})).version, 12U);
  EXPECT_EQ(decoded<Recalled>(encode(Recalled{2, 12})).fate, 2U);
  EXPECT_EQ(decoded<Recalled>(encode(Recalled{2, 12})).version, 12U);
  const auto move = decoded<Move>(encode(Move{{{0x1000}, 8, {5}}, 1}));
  EXPECT_EQ(move.span.rkey.value, 5U);
  EXPECT_EQ(move.to_hot, 1U);
  const auto resume = decoded<Resume>(encode(Resume{7, {{0x1000}, 8, {5}}, 12}));
  EXPECT_EQ(resume.connection, 7U);
  EXPECT_EQ(resume.version, 12U);
  EXPECT_EQ(decoded<Resumed>(encode(Resumed{2})).resumption, 2U);
  const auto welcome = decoded<Welcome>(encode(one_of_each()[1]));
  EXPECT_EQ(welcome.node, "storage");
  ASSERT_EQ(welcome.regions.size(), 1U);
  EXPECT_EQ(welcome.regions[0].name, "table");
  EXPECT_EQ(welcome.regions[0].span.address.value, 0x7f0000001000U);
  EXPECT_EQ(welcome.regions[0].span.length, 1U << 20);
  EXPECT_EQ(welcome.regions[0].span.rkey.value, 0x1234U);
  EXPECT_EQ(welcome.regions[0].access, Access::remote_all);
  EXPECT_EQ(std::to_integer<int>(std::byte{welcome.manager.ip.raw[15]}), 215);
  EXPECT_EQ(welcome.manager.port, 0x8642U);
  EXPECT_EQ(welcome.no_manager, "none");
  EXPECT_EQ(std::to_integer<int>(std::byte{welcome.gid.raw[15]}), 215);
  const auto connect = decoded<Connect>(encode(one_of_each()[2]));
  EXPECT_EQ(connect.connection, 7U);
  EXPECT_EQ(connect.owner, 3U);
  EXPECT_EQ(std::to_integer<int>(std::byte{connect.address.gid.raw[15]}), 215);
  EXPECT_EQ(connect.address.queue_pair, 0xabcdefU);
  EXPECT_EQ(connect.address.packet_number, 0x123456U);
  EXPECT_EQ(connect.address.lid, 0xfedcU);
  EXPECT_EQ(connect.address.mtu, 5U);
  EXPECT_EQ(connect.address.responder, 128U);
  EXPECT_EQ(decoded<Disconnect>(encode(Disconnect{7, 1})).confirm, 1U);
  const auto refused = decoded<Refused>(encode(Refused{"why", Refused::kUnknownOwner}));
  EXPECT_EQ(refused.why, "why");
  EXPECT_EQ(refused.code, Refused::kUnknownOwner);
  const auto announce = decoded<Announce>(encode(Announce{8, 4}));
  EXPECT_EQ(announce.connection, 8U);
  EXPECT_EQ(announce.owner, 4U);
  const auto ticket = decoded<Ticket>(encode(Ticket{8, 0x0123'4567'89ab'cdef}));
  EXPECT_EQ(ticket.connection, 8U);
  EXPECT_EQ(ticket.ticket, 0x0123'4567'89ab'cdefU);
  const auto allocate = decoded<Allocate>(encode(Allocate{5, std::uint64_t{1} << 40, Access::remote_read}));
  EXPECT_EQ(allocate.region, 5U);
  EXPECT_EQ(allocate.bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(allocate.access, Access::remote_read);
  const auto allocated = decoded<Allocated>(encode(Allocated{5, {{0x7f0000001000}, 1 << 20, {0x1234}}}));
  EXPECT_EQ(allocated.region, 5U);
  EXPECT_EQ(allocated.span.rkey.value, 0x1234U);
  EXPECT_EQ(decoded<Release>(encode(Release{5})).region, 5U);
  const auto publish = decoded<Publish>(encode(Publish{5, "board"}));
  EXPECT_EQ(publish.region, 5U);
  EXPECT_EQ(publish.name, "board");
  EXPECT_EQ(decoded<Find>(encode(Find{"board"})).name, "board");
  EXPECT_EQ(decoded<Found>(encode(Found{{{0x7f0000001000}, 4096, {0x1234}}})).span.length, 4096U);
  const auto tuples =
      decoded<KeepVersions>(encode(KeepVersions{{{0x7f0000001000}, 1 << 20, {0x1234}}, 1000, 200, 256}));
  EXPECT_EQ(tuples.span.rkey.value, 0x1234U);
  EXPECT_EQ(tuples.count, 1000U);
  EXPECT_EQ(tuples.tuple_bytes, 200U);
  EXPECT_EQ(tuples.slot_bytes, 256U);
  const auto inherit = decoded<Inherit>(encode(Inherit{7, {{0x7f0000001000}, 8, {0x1234}}}));
  EXPECT_EQ(inherit.connection, 7U);
  EXPECT_EQ(inherit.span.address.value, 0x7f0000001000U);
  EXPECT_EQ(decoded<Inherited>(encode(Inherited{1})).done, 1U);
}

// Same bytes as in the header's comment, from which another implementation can be written.
TEST(Wire, BytesAreAsDocumented) {
  const std::vector<std::uint8_t> expected = {'S', 'L', 'c', 'h', 7, 0, 6, 0, 4, 0, 0, 0, 0x34, 0x12, 0, 0};
  const std::vector<std::byte> bytes = encode(Revoke{0x1234});
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(std::to_integer<std::uint8_t>(bytes[i]), expected[i]) << i;
  }
}

TEST(Wire, EveryBeginningIsIncomplete) {
  for (const Message& message : one_of_each()) {
    const std::vector<std::byte> bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_EQ(error_of(std::span(bytes).first(length)), "incomplete") << message.index() << " " << length;
    }
  }
}

TEST(Wire, MessagesFollowEachOther) {
  std::vector<std::byte> bytes;
  for (const Message& message : one_of_each()) {
    const std::vector<std::byte> one = encode(message);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  std::span<const std::byte> rest = bytes;
  for (const Message& message : one_of_each()) {
    const std::optional<Message> next = decode(rest);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->index(), message.index());
  }
  EXPECT_TRUE(rest.empty());
}

TEST(Wire, WhatIsNoMessageIsNamed) {
  const auto changed = [](std::size_t offset, std::uint8_t value) {
    std::vector<std::byte> bytes = encode(Hello{"secret"});
    bytes[offset] = std::byte{value};
    return bytes;
  };
  EXPECT_THAT(error_of(changed(0, 'G')), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(error_of(changed(4, 8)), HasSubstr("version 8"));
  EXPECT_THAT(error_of(changed(6, 99)), HasSubstr("type 99"));
  EXPECT_THAT(error_of(changed(6, 0)), HasSubstr("unknown"));
  EXPECT_THAT(error_of(changed(10, 2)), HasSubstr("announced"));    // 128 KiB and more
  EXPECT_THAT(error_of(changed(8, 7)), HasSubstr("early"));         // the payload is longer than it says
  EXPECT_THAT(error_of(changed(12, 5)), HasSubstr("left behind"));  // the text is shorter
  const std::string http = "GET / HTTP/1.1\r\n";
  EXPECT_THAT(error_of(std::as_bytes(std::span(http))), HasSubstr("does not speak this protocol"));
}

TEST(Wire, WhatIsTooLongIsNotSent) {
  EXPECT_THROW(static_cast<void>(encode(Hello{std::string(70'000, 'x')})), ExchangeError);
  Welcome welcome;
  for (int i = 0; i < 1000; ++i) {
    welcome.regions.push_back({std::string(200, 'r'), {}, {}});
  }
  EXPECT_THROW(static_cast<void>(encode(welcome)), ExchangeError);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs::exchange

// Conversations over TCP that end with an error, once.
#include "fabric/verbs/socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

TEST(Conversation, WithNobodyEndsWithAnErrorThatNamesTheAddress) {
  HostAndPort at{"127.0.0.1", 0};
  {
    const FileDescriptor listening = listen_on(at);
    EXPECT_NE(at.port, 0);
    // It accepts and stays silent.
    Conversation silent(at, std::chrono::milliseconds(200));
    EXPECT_THROW(static_cast<void>(silent.ask(exchange::Hello{})), SocketError);
  }
  try {
    const Conversation gone(at, std::chrono::milliseconds(200));
    ADD_FAILURE();
  } catch (const SocketError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(at.to_string()));
  }
  EXPECT_THROW(Conversation({"no.such.host.invalid", 1}, std::chrono::milliseconds(200)), SocketError);
}

// An answer that comes too late must not be taken for the next question's.
TEST(Conversation, EndsWithItsFirstError) {
  HostAndPort at{"127.0.0.1", 0};
  const FileDescriptor listening = listen_on(at);
  Conversation conversation(at, std::chrono::milliseconds(200));
  pollfd readable{listening.number(), POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 10'000), 1);
  const FileDescriptor server(::accept(listening.number(), nullptr, nullptr));
  EXPECT_THROW(static_cast<void>(conversation.ask(exchange::Revoke{3})), SocketError);
  const std::vector<std::byte> late = exchange::encode(exchange::Revoked{3});
  static_cast<void>(::send(server.number(), late.data(), late.size(), MSG_NOSIGNAL));
  try {
    static_cast<void>(conversation.ask(exchange::Revoke{5}));
    ADD_FAILURE() << "the late answer was taken for this question's";
  } catch (const SocketError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("has not answered within 200 ms"));
  }
  EXPECT_THROW(conversation.tell(exchange::Disconnect{1, 0}), SocketError);
}

TEST(Conversation, WithOneWhoReadsNothingEndsAndNamesTheLimit) {
  HostAndPort at{"127.0.0.1", 0};
  const FileDescriptor listening = listen_on(at);
  Conversation conversation(at, std::chrono::milliseconds(50));
  const exchange::Disconnect long_one{1, 0, std::vector<exchange::Mark>(exchange::kMostMarks)};
  try {
    for (;;) {
      conversation.tell(long_one);
    }
  } catch (const SocketError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(at.to_string() + " has taken no message within 50 ms"));
  }
}

}  // namespace
}  // namespace sidelatch::fabric::verbs

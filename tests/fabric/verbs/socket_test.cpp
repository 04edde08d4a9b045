// Addresses as users write them.
#include "fabric/verbs/socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace sidelatch::fabric::verbs {
namespace {

std::string parsed(const char* text) { return HostAndPort::parse(text, 18515).to_string(); }

TEST(HostAndPort, MayLeaveThePortOut) {
  EXPECT_EQ(parsed("storage1"), "storage1:18515");
  EXPECT_EQ(parsed("10.0.0.1:99"), "10.0.0.1:99");
  EXPECT_EQ(parsed("[::1]"), "[::1]:18515");
  EXPECT_EQ(parsed("[fe80::1]:65535"), "[fe80::1]:65535");
}

TEST(HostAndPort, OthersAreQuoted) {
  for (const char* text : {"", ":99", "host:", "host:0", "host:65536", "host:x", "host:1x", "::1", "[::1", "[::1]99",
                           "[]:99", "host:-1", "host: 1"}) {
    try {
      static_cast<void>(HostAndPort::parse(text, 18515));
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("'" + std::string(text) + "'"));
    }
  }
}

TEST(Conversation, WithNobodyEndsWithAnErrorThatNamesTheAddress) {
  HostAndPort at{"127.0.0.1", 0};
  {
    const FileDescriptor listening = listen_on(at);
    EXPECT_NE(at.port, 0);
    // It accepts and says nothing.
    Conversation silent(at, std::chrono::milliseconds(200));
    EXPECT_THROW(static_cast<void>(silent.ask(wire::Hello{})), SocketError);
  }
  try {
    const Conversation gone(at, std::chrono::milliseconds(200));
    ADD_FAILURE();
  } catch (const SocketError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(at.to_string()));
  }
  EXPECT_THROW(Conversation({"no.such.host.invalid", 1}, std::chrono::milliseconds(200)), SocketError);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs

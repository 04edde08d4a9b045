// Addresses in users' notation, and sockets that say in time what is wrong.
#include "common/tcp.h"

#include "tests/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>

namespace sidelatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr auto kSoon = std::chrono::milliseconds(50);
constexpr auto kPatience = std::chrono::seconds(60);

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
    EXPECT_THAT(message_of<std::invalid_argument>([&] { static_cast<void>(HostAndPort::parse(text, 18515)); }),
                HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(HostAndPort, HasItsPortWhereThereIsNoDefault) {
  EXPECT_EQ(HostAndPort::parse("[::1]:99").to_string(), "[::1]:99");
  EXPECT_EQ(HostAndPort::parse_to_listen("[::1]:0").to_string(), "[::1]:0");
  for (const char* text : {"", "storage1", "[::1]", "storage1:"}) {
    EXPECT_THROW(static_cast<void>(HostAndPort::parse(text)), std::invalid_argument) << text;
    EXPECT_THROW(static_cast<void>(HostAndPort::parse_to_listen(text)), std::invalid_argument) << text;
  }
  EXPECT_THAT(message_of([] { static_cast<void>(HostAndPort::parse("storage1:0")); }),
              HasSubstr("it must be HOST:PORT or [IPv6]:PORT, with a port of 1 to 65535"));
  EXPECT_THAT(message_of([] { static_cast<void>(HostAndPort::parse_to_listen("storage1")); }),
              HasSubstr("with a port of 0 to 65535"));
}

TEST(Listening, SaysWhatToDoAboutAnAddressThatCannotBeHad) {
  HostAndPort at{"127.0.0.1", 0};
  const FileDescriptor listening = listen_on(at);
  const auto refusal = [](HostAndPort where) {
    return message_of<SocketError>([&] { static_cast<void>(listen_on(where)); });
  };
  EXPECT_THAT(refusal(at), AllOf(HasSubstr(at.to_string()), HasSubstr("another port")));
  EXPECT_THAT(refusal({"192.0.2.1", 0}), HasSubstr("give an address of this machine"));
  EXPECT_THAT(refusal({"no.such.host.invalid", 0}), HasSubstr("no.such.host.invalid:0: cannot find this host"));
}

TEST(Connecting, TellsTheReasonOrTheTimeThatIsOver) {
  int error = 0;
  HostAndPort at{"127.0.0.1", 0};
  FileDescriptor listening = listen_on(at);
  FileDescriptor client = connect_to(at, Clock::now() + kPatience, error);
  ASSERT_TRUE(client.valid());
  EXPECT_EQ(error, 0);
  listening.close();
  EXPECT_FALSE(connect_to(at, Clock::now() + kPatience, error).valid());
  EXPECT_EQ(error, ECONNREFUSED);
  EXPECT_THROW(static_cast<void>(connect_to({"no.such.host.invalid", 1}, Clock::now() + kPatience, error)),
               SocketError);
}

TEST(Waiting, IsForWhatComesBeforeTheDeadline) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const FileDescriptor here(pair[0]);
  const FileDescriptor there(pair[1]);
  EXPECT_FALSE(wait_for(here.number(), POLLIN, Clock::now() + kSoon));
  EXPECT_FALSE(wait_for(here.number(), POLLIN, Clock::now() - kSoon));
  ASSERT_EQ(::send(there.number(), "x", 1, 0), 1);
  EXPECT_TRUE(wait_for(here.number(), POLLIN, Clock::now() + kPatience));
  EXPECT_TRUE(wait_for(here.number(), POLLIN, Clock::now() - kSoon)) << "it is there already";
}

}  // namespace
}  // namespace sidelatch

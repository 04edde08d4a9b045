#include "common/tcp.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

namespace sidelatch {

namespace {

using AddressList = std::unique_ptr<addrinfo, decltype([](addrinfo* list) { ::freeaddrinfo(list); })>;
using Clock = std::chrono::steady_clock;

AddressList resolve(const HostAndPort& name, bool to_listen) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(name.host.c_str(), std::to_string(name.port).c_str(), &hints, &list);
  if (error != 0) {
    throw SocketError(fmt::format("{}: cannot find this host: {}", name.to_string(),
                                  error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error)));
  }
  return AddressList(list);
}

// 0, or the errno of the failure.
int connect_within(int socket, const addrinfo& to, Clock::time_point deadline) {
  if (::connect(socket, to.ai_addr, to.ai_addrlen) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  if (!wait_for(socket, POLLOUT, deadline)) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

HostAndPort parse_address(std::string_view text, std::optional<std::uint16_t> default_port, std::uint16_t least) {
  const auto refuse = [&] {
    throw std::invalid_argument(
        fmt::format("'{}' is no address: it must be {}HOST:PORT or [IPv6]:PORT, with a port of {} to 65535", text,
                    default_port ? "HOST, " : "", least));
  };
  HostAndPort result{std::string(text), default_port.value_or(0)};
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || (end + 1 < text.size() && text[end + 1] != ':')) {
      refuse();
    }
    result.host = text.substr(1, end - 1);
    if (end + 1 < text.size()) {
      port = text.substr(end + 2);
    }
  } else if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    if (text.find(':') != colon) {
      refuse();  // IPv6 without brackets
    }
    result.host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (port) {
    const auto [end, error] = std::from_chars(port->data(), port->data() + port->size(), result.port);
    if (error != std::errc{} || end != port->data() + port->size() || result.port < least) {
      refuse();
    }
  }
  if (result.host.empty() || (!port && !default_port)) {
    refuse();
  }
  return result;
}

}  // namespace

HostAndPort HostAndPort::parse(std::string_view text, std::optional<std::uint16_t> default_port) {
  return parse_address(text, default_port, 1);
}

HostAndPort HostAndPort::parse_to_listen(std::string_view text) { return parse_address(text, std::nullopt, 0); }

std::string HostAndPort::to_string() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

FileDescriptor listen_on(HostAndPort& at) {
  const AddressList list = resolve(at, true);
  FileDescriptor socket(::socket(list->ai_family, list->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, list->ai_protocol));
  const int yes = 1;
  constexpr int kBacklog = 128;
  if (!socket.valid() || ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket.number(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(socket.number(), kBacklog) != 0) {
    const int error = errno;
    const char* const advice = error == EADDRINUSE ? "; another program has this port: end it, or give another port"
                               : error == EADDRNOTAVAIL ? "; give an address of this machine"
                                                        : "";
    throw SocketError(fmt::format("cannot listen on {}: {}{}", at.to_string(), std::strerror(error), advice));
  }
  const sockaddr_storage bound = bound_to(socket);
  at.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                              : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return socket;
}

sockaddr_storage bound_to(const FileDescriptor& socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    throw SocketError(fmt::format("a socket does not tell its address: {}", std::strerror(errno)));
  }
  return bound;
}

void watch_over(const FileDescriptor& socket) noexcept {
  const int yes = 1;
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  // A machine that is gone sends nothing, so probe it.
  const int idle_s = 5;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
  const int probes = 3;
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  // Applies also while an answer is on its way to the client.
  const unsigned unanswered_ms = 20'000;
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

bool wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd one{socket, events, 0};
    const int count = ::poll(&one, 1, left.count() < 0 ? 0 : static_cast<int>(left.count()) + 1);
    if (count > 0) {
      return true;
    }
    if (count == 0 || errno != EINTR) {
      return false;
    }
  }
}

FileDescriptor connect_to(const HostAndPort& to, Clock::time_point deadline, int& error) {
  const AddressList list = resolve(to, false);
  int left = 0;
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    ++left;
  }
  // Each address has its share of the time: one that leads nowhere leaves the others theirs.
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next, --left) {
    const auto now = Clock::now();
    const auto until = now + (deadline - now) / left;
    FileDescriptor socket(
        ::socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol));
    error = socket.valid() ? connect_within(socket.number(), *address, until) : errno;
    if (error == 0) {
      return socket;
    }
  }
  return {};
}

}  // namespace sidelatch

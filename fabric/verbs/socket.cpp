#include "socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace sidelatch::fabric::verbs {

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

// Whether the socket can be read or written, or has failed, before the deadline.
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

}  // namespace

HostAndPort HostAndPort::parse(std::string_view text, std::uint16_t default_port) {
  const auto refuse = [&] {
    throw std::invalid_argument(
        fmt::format("'{}' is no address: it must be HOST, HOST:PORT or [IPv6]:PORT, with a port of 1 to 65535", text));
  };
  HostAndPort result{std::string(text), default_port};
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
    if (error != std::errc{} || end != port->data() + port->size() || result.port == 0) {
      refuse();
    }
  }
  if (result.host.empty()) {
    refuse();
  }
  return result;
}

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

bool same_token(const std::string& a, const std::string& b) noexcept {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] != (i < b.size() ? b[i] : '\0'));
  }
  return difference == 0;
}

std::uint64_t secret_number() {
  std::uint64_t number = 0;
  while (number == 0) {
    if (::getrandom(&number, sizeof number, 0) != sizeof number) {
      throw std::runtime_error(fmt::format("the system gives no random numbers: {}", std::strerror(errno)));
    }
  }
  return number;
}

Conversation::Conversation(const HostAndPort& to, std::chrono::milliseconds limit)
    : peer_(to.to_string()), limit_(limit) {
  const AddressList list = resolve(to, false);
  const Clock::time_point deadline = Clock::now() + limit;
  int error = 0;
  for (const addrinfo* address = list.get(); address != nullptr && !socket_.valid(); address = address->ai_next) {
    FileDescriptor socket(
        ::socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol));
    error = socket.valid() ? connect_within(socket.number(), *address, deadline) : errno;
    if (error == 0) {
      socket_ = std::move(socket);
    }
  }
  if (!socket_.valid()) {
    throw SocketError(
        fmt::format("cannot connect to {}: {}; start the memory server first, and see that no firewall is "
                    "between",
                    peer_, std::strerror(error)));
  }
  const int yes = 1;
  ::setsockopt(socket_.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void Conversation::end(const std::string& why) {
  ended_ = why;
  {
    const std::unique_lock lock(closing_);
    socket_ = FileDescriptor();
  }
  throw SocketError(why);
}

void Conversation::send(std::span<const std::byte> bytes) {
  if (!socket_.valid()) {
    throw ConversationEnded(fmt::format(
        "the conversation with {} has ended earlier ({}); make a new RemoteNode, and connect new queue pairs", peer_,
        ended_));
  }
  const Clock::time_point deadline = Clock::now() + limit_;
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EINTR && (errno != EAGAIN || !wait_for(socket_.number(), POLLOUT, deadline))) {
      end(fmt::format("{} takes no message: {}", peer_, std::strerror(errno)));
    }
  }
}

void Conversation::interrupt() noexcept {
  const std::unique_lock lock(closing_);
  if (socket_.valid()) {
    ::shutdown(socket_.number(), SHUT_RDWR);
  }
}

void Conversation::tell(const exchange::Message& message) { send(exchange::encode(message)); }

exchange::Message Conversation::ask(const exchange::Message& question) {
  tell(question);
  return receive();
}

exchange::Message Conversation::receive() {
  const Clock::time_point deadline = Clock::now() + limit_;
  for (;;) {
    std::span<const std::byte> bytes = received_;
    std::optional<exchange::Message> answer;
    try {
      answer = exchange::decode(bytes);
    } catch (const exchange::ExchangeError& error) {
      end(fmt::format("{}: {}", peer_, error.what()));
    }
    if (answer) {
      received_.assign(bytes.begin(), bytes.end());
      return *std::move(answer);
    }
    std::array<std::byte, 4096> more{};
    const ssize_t count = ::recv(socket_.number(), more.data(), more.size(), 0);
    if (count > 0) {
      received_.insert(received_.end(), more.begin(), more.begin() + count);
    } else if (count == 0) {
      end(fmt::format("{} has closed the connection", peer_));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.number(), POLLIN, deadline)) {
        end(fmt::format("{} has not answered within {} ms", peer_, limit_.count()));
      }
    } else if (errno != EINTR) {
      end(fmt::format("{}: {}", peer_, std::strerror(errno)));
    }
  }
}

}  // namespace sidelatch::fabric::verbs

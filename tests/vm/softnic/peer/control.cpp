#include "control.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

namespace sidelatch::peer {

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("control: {}: {}", what, std::strerror(errno)));
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw std::runtime_error("control: the path is too long: " + path);
  }
  path.copy(address.sun_path, path.size());
  Address result;
  std::memcpy(&result.storage, &address, sizeof address);
  result.length = sizeof address;
  return result;
}

Address internet_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    throw std::runtime_error("control: neither a path nor HOST:PORT: " + text);
  }
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(text.substr(0, colon).c_str(), text.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) {
    throw std::runtime_error(fmt::format("control: {}: {}", text, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  Address result;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.length = found->ai_addrlen;
  return result;
}

int accept_one(const Address& address, const std::string& text) {
  const int listener = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const timeval limit = {.tv_sec = kPatience.count(), .tv_usec = 0};
  ::setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::bind(listener, address.get(), address.length) != 0 || ::listen(listener, 1) != 0) {
    fail("cannot listen at " + text);
  }
  const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) {
    fail("nobody connected to " + text);
  }
  ::close(listener);
  return socket;
}

// The other side may not be listening yet.
int connect_to(const Address& address, const std::string& text) {
  const auto until = Clock::now() + kPatience;
  for (;;) {
    const int socket = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, address.get(), address.length) == 0) {
      return socket;
    }
    if (Clock::now() > until) {
      fail("cannot connect to " + text);
    }
    ::close(socket);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

Control Control::open(int rank, const std::string& address) {
  const Address where = address.starts_with('/') ? unix_address(address) : internet_address(address);
  const int socket = rank == 0 ? accept_one(where, address) : connect_to(where, address);
  if (where.storage.ss_family != AF_UNIX) {
    const int yes = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  const timeval limit = {.tv_sec = kPatience.count(), .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return Control(socket);
}

Control::Control(Control&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

Control::~Control() {
  if (socket_ >= 0) {
    ::close(socket_);
  }
}

void Control::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      fail("cannot send");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

// False if the other peer has ended.
bool Control::receive(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) {
      return false;
    }
    if (got < 0) {
      fail("nothing comes");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

void Control::exchange_bytes(std::string_view tag, std::span<const std::byte> mine, std::span<std::byte> theirs) {
  constexpr std::size_t kTagBytes = 48;
  std::array<char, kTagBytes> own_tag{};
  std::array<char, kTagBytes> their_tag{};
  tag.copy(own_tag.data(), own_tag.size() - 1);
  send(std::as_bytes(std::span(own_tag)));
  send(mine);
  if (!receive(std::as_writable_bytes(std::span(their_tag)))) {
    throw std::runtime_error(fmt::format("the other peer ended, this one is at '{}'", tag));
  }
  if (own_tag != their_tag) {
    throw std::runtime_error(fmt::format("the other peer is at '{}', this one at '{}'", their_tag.data(), tag));
  }
  if (!receive(theirs)) {
    throw std::runtime_error(fmt::format("the other peer ended within '{}'", tag));
  }
}

void Control::wait_for_end() {
  std::byte more{};
  if (receive(std::span(&more, 1))) {
    throw std::runtime_error("the other peer did not end");
  }
}

}  // namespace sidelatch::peer

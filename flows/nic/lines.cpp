#include "lines.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace sidelatch::flows::exchange {

namespace {

constexpr std::size_t kLongestLine = 64 << 10;
using Names = std::unique_ptr<addrinfo, decltype([](addrinfo* list) { ::freeaddrinfo(list); })>;

Names names_of(const Address& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &list);
  if (error != 0) {
    throw std::runtime_error(error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
  }
  return Names(list);
}

bool wait_until_ready(int socket, short events, std::chrono::milliseconds at_most) {
  pollfd one{socket, events, 0};
  return ::poll(&one, 1, static_cast<int>(at_most.count())) > 0;
}

}  // namespace

Address Address::parse(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  if (colon == std::string::npos || colon == 0 || std::from_chars(text.data() + colon + 1, end, port).ptr != end ||
      colon + 1 == text.size()) {
    throw std::invalid_argument(fmt::format("'{}' is no address of a flow: HOST:PORT, as 127.0.0.1:18517", text));
  }
  return {.host = text.substr(0, colon), .port = text.substr(colon + 1)};
}

FileDescriptor listen_at(Address& at) {
  const auto refuse = [&](const char* why) {
    throw std::runtime_error(fmt::format("cannot listen at {}: {}", at.to_string(), why));
  };
  const Names list = names_of(at, AI_PASSIVE);
  FileDescriptor socket(::socket(list->ai_family, list->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, list->ai_protocol));
  const int yes = 1;
  constexpr int kBacklog = 128;
  if (!socket.valid() || ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket.number(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(socket.number(), kBacklog) != 0) {
    refuse(std::strerror(errno));
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  std::array<char, NI_MAXSERV> port{};
  if (::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&bound), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&bound), length, nullptr, 0, port.data(), port.size(),
                    NI_NUMERICSERV) != 0) {
    refuse("its port is not known");
  }
  at.port = port.data();
  return socket;
}

FileDescriptor connect_to(const Address& to, std::chrono::milliseconds at_most) {
  const Names list = names_of(to, 0);
  int error = 0;
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    FileDescriptor socket(::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol));
    error = ::connect(socket.number(), one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      if (wait_until_ready(socket.number(), POLLOUT, at_most)) {
        socklen_t length = sizeof error;
        ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
    }
    if (error == 0) {
      return socket;
    }
  }
  throw std::runtime_error(std::strerror(error));
}

Lines::Lines(FileDescriptor socket) : socket_(std::move(socket)) {
  // A machine that is gone says nothing: it is noticed after a minute.
  const int yes = 1;
  ::setsockopt(socket_.number(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::fcntl(socket_.number(), F_SETFL, ::fcntl(socket_.number(), F_GETFL) | O_NONBLOCK);
}

bool Lines::send(const std::string& line) {
  const std::string text = line + "\n";
  has_ended_ = has_ended_ ||
               ::send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size());
  return !has_ended_;
}

void Lines::read() {
  std::array<char, 4096> some{};
  while (!has_ended_) {
    const ssize_t count = ::recv(socket_.number(), some.data(), some.size(), 0);
    if (count > 0) {
      text_.append(some.data(), static_cast<std::size_t>(count));
      has_ended_ = text_.size() > kLongestLine;  // no program of ours
    } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      has_ended_ = true;
    } else if (errno != EINTR) {
      return;
    }
  }
}

std::optional<std::string> Lines::next() {
  std::size_t end = text_.find('\n');
  if (end == std::string::npos) {
    read();
    end = text_.find('\n');
  }
  if (end == std::string::npos) {
    return std::nullopt;
  }
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return line;
}

std::optional<std::string> Lines::await(std::chrono::milliseconds at_most) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  for (;;) {
    if (auto line = next()) {
      return line;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (has_ended_ || left.count() <= 0) {
      return std::nullopt;
    }
    wait_until_ready(socket_.number(), POLLIN, left);
  }
}

bool Lines::is_gone() {
  read();
  return has_ended_ && text_.find('\n') == std::string::npos;
}

std::string_view Words::word() {
  const std::size_t end = rest_.find(' ');
  const std::string_view result = rest_.substr(0, end);
  rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
  if (result.empty()) {
    throw WrongLine("a word is missing");
  }
  return result;
}

std::uint64_t Words::number(std::uint64_t most) { return numbers(1, most).front(); }

std::vector<std::uint64_t> Words::numbers(std::size_t count, std::uint64_t most) {
  const std::string_view text = word();
  std::vector<std::uint64_t> result;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (result.size() < count) {
    std::uint64_t value = 0;
    const auto [behind, error] = std::from_chars(at, end, value);
    const bool is_last = result.size() + 1 == count;
    if (error != std::errc{} || value > most || (is_last ? behind != end : behind == end || *behind != ':')) {
      throw WrongLine(fmt::format("'{}' is not {} numbers of at most {}", text, count, most));
    }
    result.push_back(value);
    at = behind + 1;
  }
  return result;
}

void Words::end() const {
  if (!rest_.empty()) {
    throw WrongLine(fmt::format("'{}' is too much", rest_));
  }
}

}  // namespace sidelatch::flows::exchange

#include "socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace sidelatch::fabric::verbs {

using Clock = std::chrono::steady_clock;

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
  int error = 0;
  socket_ = connect_to(to, Clock::now() + limit, error);
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
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.number(), POLLOUT, deadline)) {
        end(fmt::format("{} has taken no message within {} ms", peer_, limit_.count()));
      }
    } else if (errno != EINTR) {
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
  Clock::time_point deadline = Clock::now() + limit_;
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
      if (wait_for(socket_.number(), POLLIN, deadline)) {
        continue;
      }
      if (is_patient_ && is_patient_()) {
        deadline = Clock::now() + limit_;
      } else {
        end(fmt::format("{} has not answered within {} ms", peer_, limit_.count()));
      }
    } else if (errno != EINTR) {
      end(fmt::format("{}: {}", peer_, std::strerror(errno)));
    }
  }
}

}  // namespace sidelatch::fabric::verbs

#include "lines.h"

#include "common/tcp.h"

#include <fmt/format.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>

namespace sidelatch::flows::exchange {

namespace {

constexpr std::size_t kLongestLine = 64 << 10;

}  // namespace

Lines::Lines(FileDescriptor socket) : socket_(std::move(socket)) { watch_over(socket_); }

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
    if (has_ended_ || !wait_for(socket_.number(), POLLIN, deadline)) {
      return std::nullopt;
    }
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

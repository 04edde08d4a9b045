#include "commands.h"

#include "common/same_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace sidelatch::tools {

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr std::int64_t kQuietNs = 2'000'000'000;

}  // namespace

bool on_terminal(int file_descriptor) { return ::isatty(file_descriptor) == 1 && std::getenv("NO_COLOR") == nullptr; }

void say_text(const std::string& text) noexcept {
  std::fputs(text.c_str(), stderr);  // not fmt::print(), which throws where stderr takes nothing
}

void keep_standard_streams_apart() {
  // Standard output is for reading only, so that a write to it is an error, as before.
  constexpr std::array<int, 3> kModes = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      // It gets the lowest number that is free, which is this stream's.
      static_cast<void>(::open("/dev/null", kModes[static_cast<std::size_t>(stream)] | O_CLOEXEC));
    }
  }
}

namespace {

void (*limit_signal_before)(int) = SIG_DFL;

}  // namespace

void fail_writes_that_are_too_long() { limit_signal_before = std::signal(SIGXFSZ, SIG_IGN); }
void restore_limit_signal() { std::signal(SIGXFSZ, limit_signal_before); }

std::string progress_bar(std::size_t done, std::size_t all) {
  constexpr std::size_t kCells = 30;
  const std::size_t full = all == 0 ? kCells : std::min(done, all) * kCells / all;
  const std::string total = std::to_string(all);
  return fmt::format("[{:#<{}}{:{}}] {:>{}} of {}", "", full, "", kCells - full, done, total.size(), total);
}

namespace {

winsize size_of_terminal() {
  winsize size{};
  static_cast<void>(::ioctl(STDERR_FILENO, TIOCGWINSZ, &size));
  return size;  // 0 where it is not known
}

// A line that is longer than the terminal would take several of its lines, and who goes back over it would not know.
std::string cut_for(const winsize& size, const std::string& text) {
  std::string kept;
  std::size_t column = 0;
  std::size_t row = 1;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // a character of UTF-8
    column += begins ? 1 : 0;
    if (c == '\n') {
      column = 0;
      ++row;
    }
    if (size.ws_col == 0 || column <= size.ws_col) {
      kept += c;
    }
    if (size.ws_row != 0 && row >= size.ws_row) {
      break;
    }
  }
  return kept;
}

}  // namespace

std::size_t show_over(const std::string& text, std::size_t lines) {
  if (lines > 0) {
    say("\x1b[{}A\x1b[J", lines);
  }
  const std::string shown = cut_for(size_of_terminal(), text);
  say_text(shown);
  return static_cast<std::size_t>(std::ranges::count(shown, '\n'));
}

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1), started_ns_(now_ns()) {}

Progress::~Progress() {
  if (shown_) {
    say("\r\x1b[K");
  }
}

void Progress::show(std::size_t done, std::size_t all) {
  if (terminal_ && now_ns() - started_ns_ > kQuietNs) {
    shown_ = true;
    const winsize size = size_of_terminal();
    std::string text = fmt::format("{}{}{}", what_, what_.empty() ? "" : " ", progress_bar(done, all));
    if (size.ws_col != 0 && text.size() > size.ws_col) {  // without the bar
      text = fmt::format("{:>{}} of {} {}", done, std::to_string(all).size(), all, what_);
    }
    say("\r{}", cut_for(size, text));
  }
}

void require_budget(double seconds) {
  constexpr double kMost = 1e9;
  if (!(seconds >= 0 && seconds <= kMost)) {
    throw std::invalid_argument(
        fmt::format("--budget {}: it must be a number of seconds from 0 (no limit) to {}", seconds, kMost));
  }
}

std::string read_file(const std::string& path) {
  if (path.empty()) {
    throw std::invalid_argument("cannot read a file whose name is empty, as that of a variable that was not set");
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw std::invalid_argument(fmt::format("cannot read {}: it is a folder", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::invalid_argument(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  }
  // A file without an end (/dev/zero) would fill the memory.
  constexpr std::size_t kLargest = std::size_t{256} << 20;
  std::string text;
  std::array<char, std::size_t{1} << 16> part{};
  while (file.read(part.data(), part.size()), file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLargest) {
      throw std::invalid_argument(fmt::format("cannot read {}: it has more than {} bytes", path, kLargest));
    }
  }
  if (file.bad()) {
    throw std::invalid_argument(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  }
  if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark)) {
    text.erase(0, kMark.size());
  }
  return text;
}

void require_writable(const std::string& path) {
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(path, ignored);
  if (!std::ofstream(path, std::ios::app)) {
    throw std::invalid_argument(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  if (is_new) {
    std::filesystem::remove(std::filesystem::canonical(path, ignored), ignored);  // what a link leads to
  }
}

void require_apart(const std::string& option, const std::string& file, const std::string& other,
                   const std::string& as) {
  if (is_same_file(file, other)) {
    throw std::invalid_argument(fmt::format("{} {}: this would overwrite {}; give another file", option, file, as));
  }
}

namespace {

// The error number; 0: all is written.
int try_write(const std::filesystem::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? 0 : errno;
}

}  // namespace

// What was in the file stays until the new text is on the disk, which may be full. A device is written as it is.
void write_file(const std::string& path, const std::string& text) {
  std::error_code ignored;
  int error = 0;
  if (const auto followed = std::filesystem::canonical(path, ignored);
      !ignored && std::filesystem::is_regular_file(followed, ignored)) {
    const std::filesystem::path beside = followed.string() + fmt::format(".{}", ::getpid());
    error = try_write(beside, text);
    if (error == 0) {
      std::filesystem::permissions(beside, std::filesystem::status(followed, ignored).permissions(), ignored);
      std::filesystem::rename(beside, followed, ignored);
      if (!ignored) {
        return;
      }
    }
    std::filesystem::remove(beside, ignored);
  }
  // Perhaps only the folder does not take a new file.
  if (error == 0 || error == EACCES || error == EPERM || error == EROFS) {
    error = try_write(path, text);
  }
  if (error != 0) {
    throw std::invalid_argument(fmt::format("cannot write {}: {}", path, std::strerror(error)));
  }
}

void save_and_print(const std::function<void()>& save, const std::string& text) {
  std::exception_ptr failed;
  try {
    save();
  } catch (...) {
    failed = std::current_exception();
  }
  fmt::print("{}", text);
  std::fflush(stdout);
  if (failed) {
    std::rethrow_exception(failed);
  }
}

}  // namespace sidelatch::tools

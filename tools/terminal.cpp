#include "commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace sidelatch::tools {

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr std::int64_t kQuietNs = 2'000'000'000;

}  // namespace

bool on_terminal(int file_descriptor) { return ::isatty(file_descriptor) == 1 && std::getenv("NO_COLOR") == nullptr; }

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1), started_ns_(now_ns()) {}

Progress::~Progress() {
  if (shown_) {
    fmt::print(stderr, "\r\x1b[K");
  }
}

void Progress::show(std::size_t done, std::size_t all) {
  if (terminal_ && now_ns() - started_ns_ > kQuietNs) {
    shown_ = true;
    fmt::print(stderr, "\r{} of {}", done, all);
  }
}

CLI::Validator whole_number() {
  return {[](const std::string& text) -> std::string {
            const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            return digits ? "" : fmt::format("{}: it must be a whole number, 0 or more", text);
          },
          "", "whole number"};
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    throw std::runtime_error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
}

}  // namespace sidelatch::tools

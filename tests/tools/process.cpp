#include "tests/tools/process.h"

#include "tests/paths.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <stdexcept>

namespace sidelatch::tools {

Process::Process(const std::vector<std::string>& command) {
  std::signal(SIGPIPE, SIG_IGN);  // of one that has ended: write_line() tells
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe failed");
  }
  input_ = in[1];
  output_ = out[0];
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
  const int error = ::posix_spawn(&process_, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  if (error != 0) {
    process_ = 0;
    throw std::runtime_error("cannot run " + command.front());
  }
}

Process::~Process() {
  if (process_ != 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ::close(input_);
  ::close(output_);
}

bool Process::read_more() {
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t bytes = ::read(output_, part.data(), part.size());
    if (bytes > 0) {
      text_.append(part.data(), static_cast<std::size_t>(bytes));
      return true;
    }
    if (bytes == 0 || errno != EINTR) {
      return false;
    }
  }
}

void Process::await(const std::string& text) {
  while (text_.find(text) == std::string::npos) {
    if (!read_more()) {
      throw std::runtime_error("it ended without saying '" + text + "': " + text_);
    }
  }
}

bool Process::says(const std::string& text, std::chrono::milliseconds within) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (text_.find(text) == std::string::npos) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd output{output_, POLLIN, 0};
    if (left <= 0 || ::poll(&output, 1, static_cast<int>(left)) == 0 || !read_more()) {
      return false;
    }
  }
  return true;
}

void Process::write_line(const std::string& line) const {
  const std::string text = line + "\n";
  if (::write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the process takes no input");
  }
}

void Process::signal(int number) const { ::kill(process_, number); }

int Process::wait() {
  while (read_more()) {
  }
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool works = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(socket);
  if (!works) {
    throw std::runtime_error("no free port");
  }
  return std::to_string(ntohs(address.sin_port));
}

std::string latch_peer() {
  return (std::filesystem::path(program_path()).parent_path() / "tests" / "latch_peer").string();
}

}  // namespace sidelatch::tools

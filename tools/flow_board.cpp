#include "flow_board.h"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>

namespace sidelatch::tools {

namespace {

constexpr std::uint64_t kNumberBits = 48;
constexpr std::uint64_t kNumber = (std::uint64_t{1} << kNumberBits) - 1;
constexpr std::uint64_t kNext = 0x9e37'79b9'7f4a'7c15;  // from one word of an item to the next

std::uint64_t first_word(std::span<const std::byte> item) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, item.data(), sizeof word);
  return word;
}

// From one producer's bits to the next one's.
std::size_t words_of_producer(const FlowTask& task) noexcept { return (task.items + 63) / 64; }

}  // namespace

void FlowUnitRow::end(FlowUnitPhase how, const std::string& why) noexcept {
  const std::size_t length = std::min(why.size(), message.size() - 1);
  std::memcpy(message.data(), why.data(), length);
  message[length] = '\0';
  phase.store(how, std::memory_order_release);
}

std::size_t FlowBoard::words_of(const FlowTask& task) noexcept {
  return task.kind == flows::FlowKind::balance ? std::size_t{task.producers} * task.consumers * words_of_producer(task)
                                               : 0;
}

FlowBoard::FlowBoard(const FlowTask& task) : file_(::memfd_create("sidelatch-flow", 0)) {
  const std::size_t bytes = sizeof(Shared) + words_of(task) * sizeof(std::uint64_t);
  if (!file_.valid() || ::ftruncate(file_.number(), static_cast<off_t>(bytes)) != 0) {
    throw std::runtime_error(fmt::format("cannot make {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  }
  map(bytes);
  new (shared_) Shared{};
  shared_->task = task;
}

FlowBoard::FlowBoard(int file) : file_(file) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) < sizeof(Shared)) {
    throw std::invalid_argument(fmt::format("--unit {}: `sidelatch flow` starts its units itself", file));
  }
  map(static_cast<std::size_t>(status.st_size));
}

FlowBoard::~FlowBoard() { ::munmap(shared_, bytes_); }

void FlowBoard::map(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  }
  shared_ = static_cast<Shared*>(memory);
  bytes_ = bytes;
}

std::span<std::uint64_t> FlowBoard::got(std::uint32_t consumer, std::uint32_t producer) noexcept {
  const std::size_t words = words_of_producer(task());
  auto* const bits = reinterpret_cast<std::uint64_t*>(shared_ + 1);
  return {bits + (std::size_t{consumer} * task().producers + producer) * words, words};
}

void fill_item(std::span<std::byte> item, std::uint32_t producer, std::uint64_t number) noexcept {
  std::uint64_t word = (std::uint64_t{producer} << kNumberBits) | number;
  std::size_t at = 0;
  for (; at + sizeof word <= item.size(); at += sizeof word, word += kNext) {
    std::memcpy(item.data() + at, &word, sizeof word);
  }
  std::memcpy(item.data() + at, &word, item.size() - at);
}

ItemName name_of_item(std::span<const std::byte> item) noexcept {
  const std::uint64_t word = first_word(item);
  return {static_cast<std::uint32_t>(word >> kNumberBits), word & kNumber};
}

bool is_whole_item(std::span<const std::byte> item) noexcept {
  std::uint64_t word = first_word(item);
  std::uint64_t differs = 0;
  std::size_t at = 0;
  for (; at + sizeof word <= item.size(); at += sizeof word, word += kNext) {
    std::uint64_t found = 0;
    std::memcpy(&found, item.data() + at, sizeof found);
    differs |= found ^ word;
  }
  return differs == 0 && std::memcmp(item.data() + at, &word, item.size() - at) == 0;
}

}  // namespace sidelatch::tools

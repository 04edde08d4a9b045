// What the probes share: payloads of numbers, and who else takes part.
#pragma once

#include <sidelatch/fabric/node.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>

namespace sidelatch::checker {

inline constexpr std::uint64_t kWord = 8;

/// Every word gets the number.
inline void fill(std::span<std::byte> bytes, std::uint64_t number) {
  for (std::size_t i = 0; i < bytes.size(); i += kWord) {
    std::memcpy(bytes.data() + i, &number, kWord);
  }
}

[[nodiscard]] inline std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, kWord);
  return word;
}

/// Asks `keep_going` once for so many rounds: it may look at a clock.
[[nodiscard]] inline bool goes_on(std::uint64_t rounds, const std::function<bool()>& keep_going) {
  constexpr std::uint64_t kAskEvery = 256;
  return rounds % kAskEvery != 0 || keep_going();
}

inline void require_client(std::span<fabric::Node* const> clients) {
  if (clients.empty()) {
    throw std::invalid_argument("no client: there must be at least 1");
  }
}

/// Helpers are spread over all clients but the first, which is the probe's own unless there is no other.
[[nodiscard]] inline fabric::Node& client_of_helper(std::span<fabric::Node* const> clients, std::size_t helper) {
  return *clients[clients.size() == 1 ? 0 : 1 + helper % (clients.size() - 1)];
}

}  // namespace sidelatch::checker

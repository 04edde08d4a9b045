// Shared by the probes: payloads of numbers, and the helpers that take part.
#pragma once

#include <sidelatch/checker/schemes.h>
#include <sidelatch/checker/switch_place.h>
#include <sidelatch/fabric/node.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

namespace sidelatch::checker {

inline constexpr std::uint64_t kWord = 8;
/// Largest block or object of a probe, in bytes.
inline constexpr std::uint64_t kLargestBlock = 1U << 20;

/// Why a probe that needs the CPU of the memory's machine is skipped.
inline constexpr const char* kNoCpuThere =
    "the memory is on another machine, whose CPU takes no part; run the check on that machine alone";

/// Fills every word with the number.
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

/// Whether all words are equal: compares the block with itself, shifted by a word.
[[nodiscard]] inline bool uniform(std::span<const std::byte> bytes) {
  return bytes.size() <= kWord || std::memcmp(bytes.data(), bytes.data() + kWord, bytes.size() - kWord) == 0;
}

[[nodiscard]] inline std::vector<std::uint64_t> words_of(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> words(bytes.size() / kWord);
  std::memcpy(words.data(), bytes.data(), words.size() * kWord);
  return words;
}

/// A record of at most `bytes` whose payload consists of whole words, so that each can carry a number.
[[nodiscard]] inline sync::RecordShape shape_of_words(const SelectedScheme& selected, std::uint64_t bytes) {
  const std::uint64_t payload = selected.scheme->largest_payload(bytes, selected.layout);
  return selected.scheme->shape(std::max(payload / kWord * kWord, kWord), selected.layout);
}

/// Asks `keep_going` only once in so many rounds, because it may look at a clock.
[[nodiscard]] inline bool goes_on(std::uint64_t rounds, const std::function<bool()>& keep_going) {
  constexpr std::uint64_t kAskEvery = 256;
  return rounds % kAskEvery != 0 || keep_going();
}

inline void require_client(std::span<fabric::Node* const> clients) {
  if (clients.empty()) {
    throw std::invalid_argument("no client: there must be at least 1");
  }
}

inline void require_chances(std::uint64_t chances) {
  if (chances == 0) {
    throw std::invalid_argument("0 chances: there must be at least 1");
  }
}

/// Spreads helpers over all clients but the first, which is the probe's own unless there is no other.
[[nodiscard]] inline fabric::Node& client_of_helper(std::span<fabric::Node* const> clients, std::size_t helper) {
  return *clients[clients.size() == 1 ? 0 : 1 + helper % (clients.size() - 1)];
}

/// Lets the switch that a scheme needs know the objects, before a client connects.
inline void serve_at(SwitchPlace* place, const fabric::MemoryRegion& memory, const sync::ObjectArray& objects) {
  if (place != nullptr) {
    place->serve(memory.remote(), objects);
  }
}
[[nodiscard]] inline sync::SessionOptions complete(SwitchPlace* place, fabric::Node& client,
                                                   const sync::SessionOptions& options) {
  return place == nullptr ? options : place->options(client, options);
}

}  // namespace sidelatch::checker

#include "switch_moves.h"

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::fabric::verbs {

namespace {

constexpr std::uint64_t kVersionBytes = 8;

}  // namespace

// Its functions are called without the lock of `shared_`, as they ask the server.
SwitchCache& SwitchMoves::cache() {
  SwitchCache* const cache = shared_->with([](SwitchControl& control) { return control.cache(); });
  if (cache == nullptr) {
    throw std::invalid_argument(
        "this switch keeps the versions of all tuples: only with p4/switch_cached.p4 they become hot and cold");
  }
  return *cache;
}

RemoteSpan SwitchMoves::word_of(std::uint32_t tuple) {
  const std::optional<RemoteSpan> word = shared_->word_of(tuple);
  if (!word) {
    throw std::invalid_argument(fmt::format("there is no tuple {}", tuple));
  }
  return *word;
}

std::uint64_t SwitchMoves::read(std::uint32_t tuple) {
  static_cast<void>(server_.ask<exchange::Placed>(exchange::Place{}));
  return server_.read_words({.memory = word_of(tuple), .count = 1, .slot_bytes = kVersionBytes}).front();
}

void SwitchMoves::write(std::uint32_t tuple, std::uint64_t version) {
  static_cast<void>(server_.ask<exchange::Noted>(exchange::WriteWords{word_of(tuple), kVersionBytes, 1, version}));
}

void SwitchMoves::heat(std::uint32_t tuple) {
  const std::scoped_lock lock(mutex_);
  if (!cache().heat(tuple, *this)) {
    throw std::runtime_error(fmt::format(
        "the tuple at {:#x} cannot become hot: the switch has versions for no more (--hot), and all of those "
        "are latched or in doubt",
        word_of(tuple).address.value));
  }
}

void SwitchMoves::cool(std::uint32_t tuple) {
  const std::scoped_lock lock(mutex_);
  if (!cache().cool(tuple, *this)) {
    throw std::runtime_error(
        fmt::format("the tuple at {:#x} is latched or in doubt: it cannot become cold", word_of(tuple).address.value));
  }
}

void SwitchMoves::look() noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    for (const std::uint32_t tuple : cache().take_asked()) {
      try {
        static_cast<void>(cache().heat(tuple, *this));  // if all hot ones are held, its client tries again
      } catch (const SocketError&) {
        throw;
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
        // It was removed.
      }
    }
  } catch (const std::exception& error) {
    shared_->report(fmt::format("a tuple cannot become hot: {}", error.what()));
  }
}

}  // namespace sidelatch::fabric::verbs

#include "switch_moves.h"

#include <sidelatch/fabric/verbs/memory_server.h>

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <vector>

namespace sidelatch::fabric::verbs {

namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr std::uint64_t kVersionBytes = 8;

}  // namespace

template <class Answer>
Answer SwitchMoves::ask(const exchange::Message& question) {
  try {
    if (!server_) {
      server_.emplace(HostAndPort::parse(options_->memory, kDefaultPort), kPatience);
      try {
        static_cast<void>(
            server_->ask_for<exchange::Welcome>(exchange::Hello{options_->token, switch_id_}, "the memory server"));
      } catch (...) {
        server_.reset();
        throw;
      }
    }
    return server_->ask_for<Answer>(question, "the memory server");
  } catch (const Refusal&) {
    throw;
  } catch (const SocketError&) {
    server_.reset();
    throw;
  }
}

template <class Use>
auto SwitchMoves::with_cache(Use use) {
  return shared_->with([&](SwitchControl& control) {
    SwitchCache* const cache = control.cache();
    if (cache == nullptr) {
      throw std::invalid_argument(
          "this switch keeps the versions of all tuples: only with p4/switch_cached.p4 they become hot and cold");
    }
    return use(*cache);
  });
}

RemoteSpan SwitchMoves::word_of(std::uint32_t tuple) {
  const std::optional<RemoteSpan> word = shared_->word_of(tuple);
  if (!word) {
    throw std::invalid_argument(fmt::format("there is no tuple {}", tuple));
  }
  return *word;
}

std::uint64_t SwitchMoves::read(const RemoteSpan& word) {
  const auto words = ask<exchange::Words>(exchange::ReadWords{word, kVersionBytes, 1});
  if (words.words.size() != 1) {
    throw SocketError("the memory server answers with another number of words");
  }
  return words.words.front();
}

void SwitchMoves::heat(std::uint32_t tuple) {
  const std::scoped_lock lock(mutex_);
  heat_one(tuple);
}

void SwitchMoves::cool(std::uint32_t tuple) {
  const std::scoped_lock lock(mutex_);
  if (!cool_one(tuple)) {
    throw std::runtime_error(
        fmt::format("the tuple at {:#x} is latched or in doubt: it cannot become cold", word_of(tuple).address.value));
  }
}

void SwitchMoves::look() noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    for (const std::uint32_t tuple : with_cache([](SwitchCache& cache) { return cache.take_asked(); })) {
      try {
        heat_one(tuple);
      } catch (const SocketError&) {
        throw;
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
        // It was removed, or all hot ones are held: its client tries again.
      }
    }
  } catch (const std::exception& error) {
    shared_->report(fmt::format("a tuple cannot become hot: {}", error.what()));
  }
}

void SwitchMoves::heat_one(std::uint32_t tuple) {
  const RemoteSpan word = word_of(tuple);
  if (with_cache([&](SwitchCache& cache) { return cache.is_hot(tuple); })) {
    return;
  }
  const auto begin = [&] { return with_cache([&](SwitchCache& cache) { return cache.begin_to_heat(tuple); }); };
  if (!begin() && !(make_room() && begin())) {
    throw std::runtime_error(fmt::format(
        "the tuple at {:#x} cannot become hot: the switch has versions for no more (--hot), and all of those "
        "are latched or in doubt",
        word.address.value));
  }
  try {
    const std::uint64_t version = read(word);
    with_cache([&](SwitchCache& cache) { cache.end_to_heat(tuple, version); });
  } catch (...) {
    give_up(tuple);
    throw;
  }
}

bool SwitchMoves::cool_one(std::uint32_t tuple) {
  const RemoteSpan word = word_of(tuple);
  if (!with_cache([&](SwitchCache& cache) { return cache.is_hot(tuple); })) {
    return true;
  }
  const auto version = with_cache([&](SwitchCache& cache) { return cache.begin_to_cool(tuple); });
  if (!version) {
    return false;
  }
  try {
    static_cast<void>(ask<exchange::Placed>(exchange::Place{}));
    if (read(word) != *version) {
      static_cast<void>(ask<exchange::Noted>(exchange::WriteWords{word, kVersionBytes, 1, *version}));
    }
    with_cache([&](SwitchCache& cache) { cache.end_to_cool(tuple); });
  } catch (...) {
    give_up(tuple);
    throw;
  }
  return true;
}

bool SwitchMoves::make_room() {
  const std::uint32_t begin = hand_;
  for (int round = 0; round < 2;) {
    const auto tuple = with_cache([&](SwitchCache& cache) { return cache.next_hot(hand_); });
    if (!tuple || (round == 1 && *tuple >= begin)) {
      hand_ = 0;  // from the beginning to where this has begun
      ++round;
      continue;
    }
    hand_ = *tuple + 1;
    if (cool_one(*tuple)) {
      return true;
    }
  }
  return false;
}

// The tuple may have ended with its memory meanwhile.
void SwitchMoves::give_up(std::uint32_t tuple) noexcept {
  try {
    with_cache([&](SwitchCache& cache) {
      if (cache.is_moving(tuple)) {
        cache.give_up_move(tuple);
      }
    });
  } catch (const std::exception& error) {
    shared_->report(fmt::format("a move of tuple {} cannot be given up: {}", tuple, error.what()));
  }
}

}  // namespace sidelatch::fabric::verbs

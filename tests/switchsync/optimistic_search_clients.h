// The clients of a search: what their scripts send, and what they must be answered.
#pragma once

#include "optimistic_search.h"
#include "optimistic_search_world.h"

#include <sidelatch/switchsync/optimistic_switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sidelatch::switchsync::packets {

// Of p4/broken/switch_as_published.p4.
inline constexpr std::uint64_t kTryLatch = ~std::uint64_t{0} - 1;

inline void record(SearchResult& result, const std::string& violation) {
  if (result.violation.empty()) {
    result.violation = violation;
  }
}

class ClientScripts {
 public:
  ClientScripts(const SearchOptions& options, SearchResult& result) : options_(&options), result_(&result) {}

  void post_next(World& world, std::size_t i) {
    ClientState& client = world.clients[i];
    const std::uint8_t own = static_cast<std::uint8_t>(i + 1);
    const std::uint64_t base = world.base;
    if (client.writes_again != kNoContent) {
      write_again(world, i);
      return;
    }
    switch (options_->clients[i]) {
      case Script::reader:
        post(world, i, read_tuple());
        break;
      case Script::intruder:
        post(world, i, write_tuple(own));
        break;
      case Script::heir:
        if (!world.is_in_doubt) {
          client.is_done = true;
        } else if (client.step == 0) {
          post(world, i, read_tuple());
        } else {
          note_content(world, client.version + 1, own);
          post(world, i, write_tuple(own));
        }
        break;
      case Script::verifier:
        post(world, i, client.step == 0 ? read_tuple() : Frame{.opcode = Opcode::read_request});
        break;
      case Script::writer:
        if (client.step == 0) {
          post(world, i, swap(base, base + 1));
        } else if (client.step == 1) {
          post(world, i, read_tuple());
        } else {
          note_content(world, base + 2, own);
          post(world, i, write_tuple(own));
        }
        break;
      case Script::blind:
        if (client.step == 0) {
          post(world, i, {.opcode = Opcode::read_request});
        } else if (client.step == 1) {
          post(world, i, swap(client.version, client.version + 1));
        } else {
          note_content(world, client.version + 2, own);
          post(world, i, write_tuple(own));
        }
        break;
      case Script::published:
        if (client.step == 0) {
          post(world, i, swap(kTryLatch, kTryLatch + 1));
        } else {
          note_content(world, client.version + 2, own);
          post(world, i, write_tuple(own));
        }
        break;
      case Script::twice: {
        const std::uint64_t from = base + client.step / 3 * 2U;
        const auto content = static_cast<std::uint8_t>(own + client.step / 3);
        if (client.step % 3 == 0) {
          post(world, i, swap(from, from + 1));
        } else if (client.step % 3 == 1) {
          post(world, i, read_tuple());
        } else {
          note_content(world, from + 2, content);
          post(world, i, write_tuple(content));
        }
        break;
      }
      case Script::updater:
        if (client.step == 0) {
          post(world, i, read_tuple());
        } else if (client.step == 1) {
          post(world, i, swap(client.version, client.version + 1));
        } else {
          note_content(world, client.version + 2, static_cast<std::uint8_t>(client.content + 1));
          post(world, i, write_tuple(static_cast<std::uint8_t>(client.content + 1)));
        }
        break;
      case Script::aborter:
        if (client.step == 0) {
          post(world, i, swap(base, base + 1));
        } else {
          note_content(world, base + 2, world.contents[index_of(base)]);
          post(world, i, swap(base + 1, base + 2));
        }
        break;
    }
  }

  // After a restart, before anybody else uses the tuple, which may be torn.
  void write_again(World& world, std::size_t i) {
    const ClientState& client = world.clients[i];
    if (client.step == 0) {  // without latches_again
      post(world, i, swap(world.base, world.base + 1));
    } else if (client.step == 1) {
      post(world, i, read_tuple());
    } else {
      note_content(world, world.base + 2, client.writes_again);
      post(world, i, write_tuple(client.writes_again));
    }
  }

  // An answer reaches its client.
  void answered(World& world, std::size_t i, const Frame& answer) {
    ClientState& client = world.clients[i];
    if (!client.is_waiting || answer.psn != client.request.psn) {
      return;
    }
    if (answer.is_nak) {
      fail(fmt::format("client {} gets a NAK", i));
      return;
    }
    const Opcode asked = client.request.opcode;
    const Opcode expected = asked == Opcode::read_request   ? Opcode::read_response_only
                            : asked == Opcode::compare_swap ? Opcode::atomic_acknowledge
                                                            : Opcode::acknowledge;
    if (answer.opcode != expected || answer.is_tuple != (client.request.is_tuple && asked == Opcode::read_request)) {
      return;
    }
    client.is_waiting = false;
    client.psn = (client.psn + 1) & 0xffffff;
    ++client.step;
    if (asked == Opcode::compare_swap && options_->clients[i] == Script::published) {
      constexpr std::uint32_t kMostTries = 3;  // each has a PSN of its own: without a bound the states have no end
      client.version = answer.word;
      const bool is_latched = answer.word % 2 == 0;
      client.step = is_latched ? client.step : std::uint8_t{0};
      client.is_done = !is_latched && ((client.psn - kFirstPsn) & 0xffffff) >= kMostTries;
    } else if (asked == Opcode::compare_swap) {
      const bool is_unlatch = client.request.word % 2 == 1;
      if (is_unlatch && answer.word != client.request.word) {
        fail(fmt::format("client {} has lost its latch: the version is {}", i, answer.word));
      }
      if (is_unlatch) {
        world.newest = std::max(world.newest, client.request.swap);
      }
      client.is_done = is_unlatch || answer.word != client.request.word;
      if (!is_unlatch && world.place == Place::hot && world.moves == 0 && options_->moves == 0 &&
          answer.word == kColdWord) {
        fail(fmt::format("client {} is told that a tuple is cold that never was", i));
      }
    } else if (asked == Opcode::write_only) {
      ++world.updates;
      // A holder that has read under its latch has read the odd version.
      world.newest = std::max(world.newest, client.version / 2 * 2 + 2);
      client.is_done = options_->clients[i] != Script::twice || client.step == 6 || client.writes_again != kNoContent;
      world.first = world.first == i + 1 ? std::uint8_t{0} : world.first;
      // Else it may be an acknowledgement of before the dead client's latch.
      const bool is_latest = options_->clients[i] == Script::heir || world.restart == Restart::recovered;
      world.may_be_torn = world.may_be_torn && !is_latest;
    } else if (!client.request.is_tuple) {
      client.version = answer.word;
      client.is_done = options_->clients[i] != Script::blind || answer.word % 2 == 1;
      if (answer.word % 2 == 0 && !is_unknown(world, answer.word) &&
          (answer.word < client.oldest || world.contents.at(index_of(answer.word)) == kNoContent)) {
        fail(fmt::format("client {} is told version {}, which is not the tuple's", i, answer.word));
      }
    } else {
      const bool is_good = answer.word % 2 == 0;
      if (is_good && is_unknown(world, answer.word)) {
        client.is_done = true;  // the checksum may be wrong
        return;
      }
      client.version = answer.word;
      client.content = answer.lines[0];
      const bool is_heir = options_->clients[i] == Script::heir;
      const bool is_again = client.writes_again != kNoContent;
      const bool is_holder =
          options_->clients[i] == Script::writer || options_->clients[i] == Script::twice || is_heir || is_again;
      const std::uint8_t latched = world.contents.at(index_of(answer.word) % world.contents.size());
      if (is_holder && (answer.word % 2 == 0 || answer.word != world.base + client.step / 3 * 2U + 1 ||
                        (!is_heir && !is_again && !is_unknown(world, answer.word) &&
                         answer.lines != std::array<std::uint8_t, 2>{latched, latched}))) {
        fail(fmt::format("client {} reads version {} under its latch", i, answer.word));
      }
      client.is_done = options_->clients[i] == Script::reader || (!is_good && !is_holder);
      if (is_good && (answer.lines[0] != answer.lines[1] || index_of(answer.word) >= world.contents.size() ||
                      world.contents[index_of(answer.word)] != answer.lines[0])) {
        fail(fmt::format("client {} takes lines {} and {} for version {}", i, answer.lines[0], answer.lines[1],
                         answer.word));
      }
      if (is_good) {
        world.seen_versions = static_cast<std::uint8_t>(world.seen_versions | 1U << (index_of(answer.word) % 8));
      }
      if (is_good && answer.word < client.oldest) {
        fail(fmt::format("client {} reads version {} after {} was done", i, answer.word, client.oldest));
      }
    }
    if (!client.is_done) {
      post_next(world, i);
    }
  }

 private:
  void fail(const std::string& what) { record(*result_, what); }

  static Frame read_tuple() { return {.opcode = Opcode::read_request, .is_tuple = true}; }
  static Frame swap(std::uint64_t from, std::uint64_t to) {
    return {.opcode = Opcode::compare_swap, .word = from, .swap = to};
  }
  static Frame write_tuple(std::uint8_t content) {
    return {.opcode = Opcode::write_only, .lines = {content, content}, .is_tuple = true};
  }

  void post(World& world, std::size_t i, Frame request) {
    ClientState& client = world.clients[i];
    request.psn = client.psn;
    client.request = request;
    client.is_waiting = true;
    client.retries = 0;
    if (request.opcode == Opcode::read_request) {
      client.oldest = world.newest;
    }
    world.links[i][client_to_switch].push_back(request);
  }
  // The version that an update gives has this content from now on.
  void note_content(World& world, std::uint64_t version, std::uint8_t content) {
    std::uint8_t& noted = world.contents.at(index_of(version));
    if (noted != kNoContent && noted != content) {
      fail(fmt::format("version {} comes twice", version));
    }
    noted = content;
  }

  const SearchOptions* options_;
  SearchResult* result_;
};

}  // namespace sidelatch::switchsync::packets

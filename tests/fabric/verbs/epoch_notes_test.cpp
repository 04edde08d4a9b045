// What clients are told of WRITEs that a switch's end has left without an answer, in every execution of two clients,
// one tuple, and a switch that ends up to three times, also in the middle of a recovery.
//
// The decisions are those of epoch_notes.h, as SwitchRecovery and the memory server take them; the rest is a model of
// them. A WRITE places the word first, and may be torn behind it. Who comes back before the grace is over must not be
// told that such a WRITE has happened.
#include "fabric/verbs/epoch_notes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::fabric::verbs {
namespace {

struct SearchOptions {
  int restarts = 3;
  bool recalls = true;            // false: by the word alone, as before there were notes
  bool notes_grants = true;       // as resume() must
  bool notes_before = true;       // the words are noted before they change
  bool follows_grants = true;     // a WRITE that was made again has the version that it was given then
  bool asks_of_the_first = true;  // a client asks of the version that it latched first, however often
};

enum class Client : std::uint8_t { idle, latched, posted, begun, placed, passed, in_doubt, granted, done };
enum class Phase : std::uint8_t { down, taken, waiting, half, open };

struct ClientState {
  Client state = Client::idle;
  std::uint64_t version = 0;  // that its WRITE gives
  std::uint64_t asks = 0;     // the version of which it asks
  std::uint8_t seen = 0;      // updates that it has read
};

struct World {
  // Memory node: the tuple's word, the updates in it as bits, and the server's notes.
  std::uint64_t word = 0;
  std::uint8_t updates = 0;
  int torn_by = -1;  // a client, whose WRITE has not placed all
  std::vector<TupleNote> notes{};
  // Switch.
  Phase phase = Phase::open;
  std::uint64_t version = 0;
  int holder = -1;
  std::uint64_t granted = 0;
  std::uint64_t found = 0;
  std::uint64_t epoch = 0;
  std::array<ClientState, 2> clients{};
  int restarts = 0;

  [[nodiscard]] std::vector<std::uint64_t> key() const {
    std::vector<std::uint64_t> all{static_cast<std::uint64_t>(torn_by + 1),
                                   word,
                                   updates,
                                   static_cast<std::uint64_t>(phase),
                                   version,
                                   static_cast<std::uint64_t>(holder + 1),
                                   granted,
                                   found,
                                   epoch,
                                   static_cast<std::uint64_t>(restarts)};
    for (const ClientState& client : clients) {
      all.insert(all.end(), {static_cast<std::uint64_t>(client.state), client.version, client.asks, client.seen});
    }
    for (const TupleNote& note : notes) {
      all.insert(all.end(), {note.epoch, note.word, note.granted});
    }
    return all;
  }
};

class Search {
 public:
  explicit Search(const SearchOptions& options) : options_(options) {
    World world;
    world.restarts = options.restarts;
    visit(world);
    std::ranges::reverse(trace_);
  }
  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }
  /// How often a client was told so, by an answer to resume().
  [[nodiscard]] std::size_t told_happened() const { return told_happened_; }
  [[nodiscard]] std::size_t told_lost() const { return told_lost_; }
  [[nodiscard]] std::size_t told_late() const { return told_late_; }
  [[nodiscard]] std::string trace() const {
    std::string all = violation_;
    for (const std::string& step : trace_) {
      all += "\n  " + step;
    }
    return all;
  }

 private:
  static std::uint8_t bit_of(std::size_t i) { return static_cast<std::uint8_t>(1U << i); }

  void visit(const World& world) {
    if (!violation_.empty() || !seen_.insert(world.key()).second) {
      return;
    }
    for (std::size_t i = 0; i < world.clients.size(); ++i) {
      step_client(world, i);
    }
    step_switch(world);
  }

  template <class Change>
  void then(const World& world, const std::string& what, const Change& change) {
    if (!violation_.empty()) {
      return;
    }
    World next = world;
    change(next);
    visit(next);
    if (!violation_.empty()) {
      trace_.push_back(what);
    }
  }

  void tell(World& world, std::size_t i, bool happened) {
    ClientState& client = world.clients[i];
    const bool is_there = (world.updates & bit_of(i)) != 0;
    if (is_there != happened && violation_.empty()) {
      violation_ = "client " + std::to_string(i) + " is told that its WRITE " +
                   (happened ? "has happened, and it has not" : "is lost, and it is there");
    }
    if (happened && world.torn_by == static_cast<int>(i) && violation_.empty()) {
      violation_ = "client " + std::to_string(i) + " is told that its WRITE has happened, and it is torn";
    }
    client = {.state = Client::done};
  }

  void step_client(const World& world, std::size_t i) {
    const std::string name = "client " + std::to_string(i);
    const bool is_up = world.phase >= Phase::waiting;
    switch (world.clients[i].state) {
      case Client::idle:
        if (is_up && world.version % 2 == 0 && world.holder < 0) {
          then(world, name + " latches and reads version " + std::to_string(world.version), [&](World& next) {
            next.clients[i] = {
                .state = Client::latched, .version = next.version + 2, .asks = next.version + 2, .seen = next.updates};
            ++next.version;
            next.holder = static_cast<int>(i);
          });
        }
        break;
      case Client::latched:
        then(world, name + " posts its WRITE", [&](World& next) { next.clients[i].state = Client::posted; });
        break;
      case Client::granted:
        then(world, name + " posts its WRITE again", [&](World& next) {
          next.clients[i].state = Client::posted;
          next.clients[i].asks = options_.asks_of_the_first ? next.clients[i].asks : next.clients[i].version;
        });
        break;
      case Client::posted:
        then(world, name + "'s WRITE places the word", [&](World& next) {
          ClientState& client = next.clients[i];
          client.state = Client::begun;
          next.word = client.version;
          next.updates = static_cast<std::uint8_t>(client.seen | bit_of(i));
          next.torn_by = static_cast<int>(i);
        });
        break;
      case Client::begun:
        then(world, "and the rest", [&](World& next) {
          next.clients[i].state = Client::placed;
          next.torn_by = -1;
        });
        break;
      case Client::placed:
        if (is_up) {
          then(world, "its acknowledgement passes the switch", [&](World& next) {
            next.clients[i].state = Client::passed;
            next.version = next.clients[i].version;
            next.holder = -1;
          });
        }
        break;
      case Client::passed:
        then(world, name + " gets its acknowledgement", [&](World& next) { tell(next, i, true); });
        break;
      case Client::in_doubt:
        if (is_up && world.phase != Phase::half) {
          resume(world, i);
        }
        break;
      case Client::done:
        break;
    }
  }

  // SwitchRecovery::resume().
  void resume(const World& world, std::size_t i) {
    const ClientState& client = world.clients[i];
    std::vector<TupleNote> notes = world.notes;
    Recalled recalled{Fate::undecided, client.asks};
    if (options_.recalls) {
      recalled = recall(notes, client.asks);
      recalled.version = options_.follows_grants ? recalled.version : client.asks;
    }
    Fate fate = recalled.fate;
    told_late_ += fate != Fate::undecided ? 1 : 0;
    if (fate == Fate::undecided) {
      fate = fate_now({.epoch = world.epoch, .word = world.found, .granted = world.granted}, world.phase == Phase::open,
                      recalled.version);
    }
    if (fate == Fate::undecided && world.granted != 0 && world.version != world.epoch + 1) {
      fate = Fate::happened;
    }
    const std::string asked = "client " + std::to_string(i) + " asks of version " + std::to_string(client.asks);
    if (fate != Fate::undecided) {
      (fate == Fate::happened ? told_happened_ : told_lost_) += 1;
      then(world, asked, [&](World& next) { tell(next, i, fate == Fate::happened); });
    } else if (world.holder < 0) {
      then(world, asked + ": the latch is its", [&](World& next) {
        next.clients[i].state = Client::granted;
        next.clients[i].version = next.epoch + 2;
        next.clients[i].seen = next.updates;
        next.holder = static_cast<int>(i);
        next.granted = recalled.version;
        if (options_.notes_grants && !next.notes.empty()) {
          next.notes.back().granted = recalled.version;
        }
      });
    }
  }

  static std::uint64_t next_epoch_of(std::uint64_t word) { return ((word >> 32) + 1) << 32; }

  void note(World& world) const { world.notes.push_back({.epoch = world.epoch, .word = world.word, .granted = 0}); }

  void step_switch(const World& world) {
    if (world.restarts > 0 && world.phase != Phase::down) {
      then(world, "the switch ends, and all queue pairs", [](World& next) {
        --next.restarts;
        next.phase = Phase::down;
        for (ClientState& client : next.clients) {
          switch (client.state) {
            case Client::latched:  // nothing is in doubt
              client = {};
              break;
            case Client::granted:
            case Client::posted:
            case Client::begun:
            case Client::placed:
            case Client::passed:
              client = {.state = Client::in_doubt, .asks = client.asks};
              break;
            default:
              break;
          }
        }
      });
    }
    switch (world.phase) {
      case Phase::down:
        then(world, "another one reads the word " + std::to_string(world.word), [](World& next) {
          next.phase = Phase::taken;
          next.found = next.word;
          next.epoch = next_epoch_of(next.word);
          next.granted = 0;
        });
        break;
      case Phase::taken:
        then(world, "the server notes it; the tuple is latched", [&](World& next) {
          next.phase = Phase::waiting;
          next.version = next.epoch + 1;
          next.holder = -1;
          if (options_.notes_before) {
            note(next);
          }
        });
        break;
      case Phase::waiting:  // all have settled, or the grace is over
        then(world, "it waits no more: the word gets its epoch", [&](World& next) {
          next.phase = Phase::half;
          next.word = next.granted == 0 ? next.epoch : next.word;
          next.torn_by = next.granted == 0 ? -1 : next.torn_by;  // a checksum must tell (docs/switch.md)
          if (!options_.notes_before) {
            note(next);
          }
        });
        break;
      case Phase::half:
        then(world, "and is unlatched", [](World& next) {
          next.phase = Phase::open;
          next.version = next.granted == 0 ? next.epoch : next.version;
        });
        break;
      case Phase::open:
        break;
    }
  }

  SearchOptions options_;
  std::set<std::vector<std::uint64_t>> seen_;
  std::vector<std::string> trace_;
  std::string violation_;
  std::size_t told_happened_ = 0;
  std::size_t told_lost_ = 0;
  std::size_t told_late_ = 0;
};

TEST(EpochNotesSearch, NobodyIsToldWhatIsNotSoAfterAnyNumberOfRestarts) {
  for (const int restarts : {1, 2, 3}) {
    const Search search({.restarts = restarts});
    std::printf("%zu states, told %zu times happened, %zu lost\n", search.states(), search.told_happened(),
                search.told_lost());
    EXPECT_EQ(search.violation(), "") << search.trace();
    EXPECT_GT(search.told_happened(), 0U);
    EXPECT_GT(search.told_lost(), 0U);
    EXPECT_EQ(search.told_late() > 0, restarts > 1);
  }
}

void expect_broken(const SearchOptions& options) {
  const Search search(options);
  EXPECT_NE(search.violation(), "") << search.states() << " states";
  std::printf("%s\n", search.trace().c_str());
}

// Without the notes one restart is decided right, and two are not.
TEST(EpochNotesSearch, TheWordAloneTellsAfterOneRestartAndNotAfterTwo) {
  const Search one({.restarts = 1, .recalls = false});
  EXPECT_EQ(one.violation(), "") << one.trace();
  expect_broken({.restarts = 2, .recalls = false});
}
TEST(EpochNotesSearch, AGrantThatIsNotNotedIsTakenForNone) { expect_broken({.restarts = 2, .notes_grants = false}); }
TEST(EpochNotesSearch, AWordThatIsNotedTooLateIsOfTheNextEpoch) {
  expect_broken({.restarts = 2, .notes_before = false});
}
TEST(EpochNotesSearch, AWriteThatWasMadeAgainIsNotWhatItWasBefore) {
  expect_broken({.restarts = 2, .follows_grants = false});
}
// The first of its WRITEs may have been placed, and the second not.
TEST(EpochNotesSearch, WhoAsksOfTheVersionThatAGrantGaveIsToldWrong) {
  expect_broken({.restarts = 2, .asks_of_the_first = false});
}

constexpr RemoteSpan kRow{{0x1000}, 1024, {7}};
constexpr std::uint64_t kEpoch = std::uint64_t{1} << 32;
constexpr RemoteSpan tuple_of(std::uint64_t i) { return {{0x1000 + i * 256}, 8, {7}}; }

TEST(EpochNotes, EachTupleHasItsOwn) {
  EpochNotes notes;
  notes.begin(kRow, 256, kEpoch, {4, 6, 4, 4});
  notes.grant(tuple_of(2), kEpoch, 6);
  notes.begin(kRow, 256, 2 * kEpoch, {kEpoch, kEpoch, kEpoch + 2, 4});
  EXPECT_EQ(notes.recall(tuple_of(0), 6).fate, Fate::lost);
  EXPECT_EQ(notes.recall(tuple_of(0), 4).fate, Fate::happened);
  EXPECT_EQ(notes.recall(tuple_of(1), 6).fate, Fate::happened);
  const Recalled again = notes.recall(tuple_of(2), 6);
  EXPECT_EQ(again.fate, Fate::undecided);
  EXPECT_EQ(again.version, kEpoch + 2);
  EXPECT_EQ(notes.recall(tuple_of(2), 4).fate, Fate::happened);
  EXPECT_EQ(notes.recall(tuple_of(2), 8).fate, Fate::lost);
  EXPECT_EQ(notes.recall(tuple_of(3), 6).fate, Fate::undecided);
  EXPECT_EQ(notes.recall({{0x1004}, 8, {7}}, 6).fate, Fate::undecided) << "no tuple begins there";
  EXPECT_EQ(notes.recall({{0x1000}, 8, {8}}, 6).fate, Fate::undecided) << "another region";
}

TEST(EpochNotes, AGrantIsOfTheLatestEpoch) {
  EpochNotes notes;
  EXPECT_THROW(notes.grant(tuple_of(0), kEpoch, 6), std::invalid_argument);
  notes.begin(kRow, 256, kEpoch, {4, 6, 4, 4});
  notes.begin(kRow, 256, 2 * kEpoch, {4, 6, 4, 4});
  EXPECT_THROW(notes.grant(tuple_of(0), kEpoch, 6), std::invalid_argument);
  EXPECT_THROW(notes.grant(tuple_of(4), 2 * kEpoch, 6), std::invalid_argument);
  notes.grant(tuple_of(0), 2 * kEpoch, 6);
}

TEST(EpochNotes, WhatIsForgottenIsNotGuessed) {
  EpochNotes notes;
  for (std::uint64_t i = 0; i < EpochNotes::kMostEpochs + 1; ++i) {
    notes.begin(kRow, 256, (i + 1) * kEpoch, std::vector<std::uint64_t>(4, i * kEpoch));
  }
  EXPECT_THROW(static_cast<void>(notes.recall(tuple_of(0), 2)), std::out_of_range);
  EXPECT_EQ(notes.recall(tuple_of(0), kEpoch + 2).fate, Fate::lost);
}

// A row that was recovered once does not forget because another one was recovered often.
TEST(EpochNotes, ARowForgetsNothingBecauseOfAnother) {
  EpochNotes notes;
  for (std::uint64_t i = 0; i < EpochNotes::kMostEpochs + 2; ++i) {
    notes.begin(kRow, 256, (i + 1) * kEpoch, std::vector<std::uint64_t>(4, i * kEpoch));
  }
  const RemoteSpan other{{kRow.address.value + 4096}, 4 * 256, kRow.rkey};
  notes.begin(other, 256, kEpoch, std::vector<std::uint64_t>(4, 4));
  EXPECT_EQ(notes.recall(other.subspan(0, 8), 6).fate, Fate::undecided);
  EXPECT_THROW(static_cast<void>(notes.recall(tuple_of(0), 2)), std::out_of_range);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs

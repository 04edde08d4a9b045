// What clients are told of WRITEs that a switch's end has left without an answer, in every execution of two clients,
// one tuple, and a switch that ends up to three times, also in the middle of a recovery.
//
// The decisions are those of epoch_notes.h, as SwitchRecovery and the memory server take them; the rest is a model of
// them. A WRITE places the word first, and may be torn behind it. Who comes back before the grace is over must not be
// told that such a WRITE has happened.
#include "fabric/verbs/epoch_notes.h"

#include "tests/sampled.h"

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
  std::size_t clients = 2;
  int cuts = 0;             // how often a switch that lives on releases a client
  bool marks_doubt = true;  // in the tuple's word
  bool notes_heirs = true;
  bool notes_given = true;       // versions that came without a WRITE
  bool notes_old_doubts = true;  // of a heir's tuple, since before this switch
  bool knows_heirs = true;       // an heir is not told that its own WRITE is unknown
  bool checks_latch = true;      // a WRITE is made again only if nobody has had the latch since
};

enum class Client : std::uint8_t { idle, latched, posted, begun, placed, passed, in_doubt, granted, done, dead };
enum class Phase : std::uint8_t { down, taken, waiting, half, open };

struct ClientState {
  Client state = Client::idle;
  std::uint64_t version = 0;  // that its WRITE gives
  std::uint64_t asks = 0;     // the version of which it asks
  std::uint8_t seen = 0;      // updates that it has read
  bool must_write = false;    // a tuple that was in doubt
  bool is_heir = false;
};

struct World {
  // Memory node: the tuple's word, the updates in it as bits, and the server's notes.
  std::uint64_t word = 0;
  std::uint8_t updates = 0;
  int torn_by = -1;  // a client, whose WRITE has not placed all
  std::vector<TupleNote> notes{};
  Fates decided{};
  bool torn_before = false;    // torn since its writer was released, and not only since the switch ended
  std::uint8_t confirmed = 0;  // updates whose clients were told that they have happened
  // Switch.
  Phase phase = Phase::open;
  std::uint64_t version = 0;
  int holder = -1;
  std::uint64_t granted = 0;
  std::uint64_t found = 0;
  std::uint64_t epoch = 0;
  std::vector<ClientState> clients{};
  int restarts = 0;
  int cuts = 0;

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
                                   static_cast<std::uint64_t>(restarts),
                                   static_cast<std::uint64_t>(cuts),
                                   static_cast<std::uint64_t>(torn_before),
                                   confirmed};
    for (const ClientState& client : clients) {
      all.insert(all.end(),
                 {static_cast<std::uint64_t>(client.state), client.version, client.asks, client.seen,
                  static_cast<std::uint64_t>(client.must_write), static_cast<std::uint64_t>(client.is_heir)});
    }
    for (const auto& [decided_version, fate] : decided) {
      all.insert(all.end(), {decided_version, static_cast<std::uint64_t>(fate.fate), fate.heir});
    }
    all.push_back(~std::uint64_t{0});
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
    world.clients.resize(options.clients);
    world.restarts = options.restarts;
    world.cuts = options.cuts;
    visit(world);
    std::ranges::reverse(trace_);
  }
  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }
  /// How often a client was told so, by an answer to resume().
  [[nodiscard]] std::size_t told_happened() const { return told_happened_; }
  [[nodiscard]] std::size_t told_lost() const { return told_lost_; }
  [[nodiscard]] std::size_t told_unknown() const { return told_unknown_; }
  [[nodiscard]] std::size_t granted_here() const { return granted_here_; }
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
      cut(world, i);
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
    world.confirmed = static_cast<std::uint8_t>(world.confirmed | (happened ? bit_of(i) : 0));
    client = {.state = Client::done};
  }
  [[nodiscard]] std::uint16_t owner_of(std::size_t i) const {
    return options_.knows_heirs ? static_cast<std::uint16_t>(i + 1) : std::uint16_t{0};
  }
  void tell_unknown(const World& world, std::size_t i, const std::string& asked) {
    ++told_unknown_;
    then(world, asked + ": unknown", [&](World& next) { next.clients[i] = {.state = Client::done}; });
  }

  void step_client(const World& world, std::size_t i) {
    const std::string name = "client " + std::to_string(i);
    const bool is_up = world.phase >= Phase::waiting;
    switch (world.clients[i].state) {
      case Client::idle:
        if (is_up && world.version % 2 == 0 && world.holder < 0) {
          then(world, name + " latches and reads version " + std::to_string(world.version), [&](World& next) {
            if (next.torn_by >= 0 && violation_.empty()) {
              violation_ = name + " reads a torn tuple";
            }
            next.clients[i] = {
                .state = Client::latched, .version = next.version + 2, .asks = next.version + 2, .seen = next.updates};
            ++next.version;
            next.holder = static_cast<int>(i);
          });
        }
        if (world.phase == Phase::open && world.version % 2 != 0 && world.holder < 0) {
          then(world, name + " inherits the tuple, and reads it", [&](World& next) {
            const std::uint64_t version = next.version + 1;
            next.clients[i] = {.state = Client::granted,
                               .version = version,
                               .asks = version,
                               .seen = next.updates,
                               .must_write = true,
                               .is_heir = true};
            next.holder = static_cast<int>(i);
            if (options_.notes_heirs) {
              next.decided[version] = {Fate::unknown, owner_of(i)};
              if (is_in_doubt(next.found) && options_.notes_old_doubts) {  // since before this switch
                next.decided[next.found + 1] = {Fate::unknown, owner_of(i)};
              }
            }
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
          next.torn_before = false;
          if ((next.updates & next.confirmed) != next.confirmed && violation_.empty()) {
            violation_ = name + " undoes an update that was told to have happened";
          }
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
      case Client::dead:
        break;
    }
  }

  // The switch lives on, and fences, ends and releases the client's connection. Its WRITE stays as it is.
  void cut(const World& world, std::size_t i) {
    const ClientState& client = world.clients[i];
    if (world.cuts == 0 || world.phase < Phase::waiting || world.phase == Phase::half ||
        client.state < Client::latched || (client.state > Client::passed && client.state != Client::granted)) {
      return;
    }
    const std::string name = "client " + std::to_string(i) + " is released";
    const bool has_posted = client.state != Client::latched && (client.state != Client::granted || !client.is_heir);
    const bool is_held = client.state != Client::passed;
    const bool may_have_passed =
        client.state == Client::posted || client.state == Client::begun || client.state == Client::placed;
    const bool must_have_passed = may_have_passed && client.state != Client::posted;
    for (const bool passed : {false, true}) {
      if ((passed && !may_have_passed) || (!passed && must_have_passed)) {
        continue;
      }
      for (const bool dies : {false, true}) {
        then(world, name + (passed ? ", its WRITE has passed" : "") + (dies ? ", and it is dead" : ""),
             [&](World& next) {
               ClientState& own = next.clients[i];
               --next.cuts;
               if (is_held) {
                 next.holder = -1;
                 release(next, passed || own.must_write);
               }
               if (dies) {
                 own = {.state = Client::dead};
               } else if (has_posted) {
                 own = {.state = Client::in_doubt, .asks = own.asks, .seen = own.seen};
               } else {
                 own = {};
               }
             });
      }
    }
  }
  void release(World& world, bool is_in_doubt) const {
    if (is_in_doubt) {
      world.torn_before = world.torn_by >= 0;
      world.word = options_.marks_doubt ? world.version : world.word;
      return;
    }
    ++world.version;
    if (options_.notes_given) {
      world.decided[world.version] = {Fate::lost, 0};
    }
  }

  // Of a WRITE by the switch that still serves.
  void resume_here(const World& world, std::size_t i) {
    const ClientState& client = world.clients[i];
    const std::string asked = "client " + std::to_string(i) + " asks of version " + std::to_string(client.asks);
    const Fate known = recall({}, world.decided, client.asks, owner_of(i)).fate;
    if (known == Fate::unknown) {
      tell_unknown(world, i, asked);
    } else if (world.version >= client.asks) {
      const bool happened = known != Fate::lost;
      (happened ? told_happened_ : told_lost_) += 1;
      then(world, asked, [&](World& next) { tell(next, i, happened); });
    } else if (world.holder < 0) {
      ++granted_here_;
      then(world, asked + ": the latch is its", [&](World& next) {
        next.clients[i] = {.state = Client::granted,
                           .version = client.asks,
                           .asks = client.asks,
                           .seen = client.seen,
                           .must_write = true};
        next.holder = static_cast<int>(i);
      });
    }
  }

  // SwitchRecovery::resume().
  void resume(const World& world, std::size_t i) {
    const ClientState& client = world.clients[i];
    if (client.asks > world.epoch) {
      resume_here(world, i);
      return;
    }
    std::vector<TupleNote> notes = world.notes;
    Recalled recalled{Fate::undecided, client.asks};
    if (options_.recalls) {
      recalled = recall(notes, world.decided, client.asks, owner_of(i));
      recalled.version = options_.follows_grants ? recalled.version : client.asks;
    }
    Fate fate = recalled.fate;
    told_late_ += fate != Fate::undecided ? 1 : 0;
    if (fate == Fate::undecided) {
      fate = fate_now({.epoch = world.epoch, .word = world.found, .granted = world.granted}, world.phase == Phase::open,
                      recalled.version);
    }
    if (options_.checks_latch && fate == Fate::undecided &&
        recall({}, world.decided, world.epoch + 2, owner_of(i)).fate == Fate::unknown) {
      fate = Fate::unknown;
    }
    if (fate == Fate::undecided && (options_.checks_latch || world.granted != 0) && world.version != world.epoch + 1) {
      fate = world.granted != 0 ? Fate::happened : Fate::unknown;
    }
    const std::string asked = "client " + std::to_string(i) + " asks of version " + std::to_string(client.asks);
    if (fate == Fate::unknown) {
      tell_unknown(world, i, asked);
    } else if (fate != Fate::undecided) {
      (fate == Fate::happened ? told_happened_ : told_lost_) += 1;
      then(world, asked, [&](World& next) { tell(next, i, fate == Fate::happened); });
    } else if (world.holder < 0) {
      then(world, asked + ": the latch is its", [&](World& next) {
        next.clients[i].state = Client::granted;
        next.clients[i].version = next.epoch + 2;
        next.clients[i].must_write = true;
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
              // An heir that has not posted its WRITE has none in doubt.
              client = client.is_heir
                           ? ClientState{}
                           : ClientState{.state = Client::in_doubt, .asks = client.asks, .seen = client.seen};
              break;
            case Client::posted:
            case Client::begun:
            case Client::placed:
            case Client::passed:
              client = {.state = Client::in_doubt, .asks = client.asks, .seen = client.seen};
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
          next.epoch = next_epoch_of(std::max(next.word + next.word % 2, next.epoch));
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
          if (next.granted == 0 && !is_in_doubt(next.found)) {
            next.word = next.epoch;
            // Whoever has not asked until now has died with its switch: a checksum must tell (docs/switch.md).
            const bool is_excused = next.torn_by >= 0 && !next.torn_before &&
                                    next.clients[static_cast<std::size_t>(next.torn_by)].state == Client::in_doubt;
            next.torn_by = is_excused ? -1 : next.torn_by;
          }
          if (!options_.notes_before) {
            note(next);
          }
        });
        break;
      case Phase::half:
        then(world, "and is unlatched", [](World& next) {
          next.phase = Phase::open;
          next.version = next.granted == 0 && !is_in_doubt(next.found) ? next.epoch : next.version;
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
  std::size_t told_unknown_ = 0;
  std::size_t granted_here_ = 0;
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

// Clients that a living switch releases while their WRITE is on its way, and heirs.
TEST(EpochNotesSearch, NobodyReadsATornTupleOrIsToldWhatIsNotSoWhenClientsAreReleased) {
  for (const int restarts : {0, 1, 2}) {
    const Search search({.restarts = restarts, .cuts = 2});
    std::printf("%zu states, told %zu times happened, %zu lost, %zu unknown; granted %zu times by the same switch\n",
                search.states(), search.told_happened(), search.told_lost(), search.told_unknown(),
                search.granted_here());
    EXPECT_EQ(search.violation(), "") << search.trace();
    EXPECT_GT(search.told_happened(), 0U);
    EXPECT_GT(search.told_lost(), 0U);
    EXPECT_GT(search.told_unknown(), 0U);
    EXPECT_GT(search.granted_here(), 0U);
  }
}

TEST(EpochNotesSearch, NeitherIsSoWithAThirdClient) {
  for (int restarts = 0; restarts <= (is_sampled() ? 0 : 1); ++restarts) {
    const Search search({.restarts = restarts, .clients = 3, .cuts = 2});
    std::printf("%zu states\n", search.states());
    EXPECT_EQ(search.violation(), "") << search.trace();
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

TEST(EpochNotesSearch, ADoubtThatTheNextSwitchDoesNotKnowShowsATornTuple) {
  expect_broken({.restarts = 1, .cuts = 1, .marks_doubt = false});
}
TEST(EpochNotesSearch, AnHeirThatIsNotNotedIsTakenForWhoWasInDoubt) {
  expect_broken({.restarts = 0, .cuts = 1, .notes_heirs = false});
  expect_broken({.restarts = 1, .cuts = 1, .notes_heirs = false});
}
TEST(EpochNotesSearch, AnHeirThatMayNotMakeItsWriteAgainLeavesATornTuple) {
  expect_broken({.restarts = 1, .clients = 3, .cuts = 1, .knows_heirs = false});
}
TEST(EpochNotesSearch, AnHeirOfAnEarlierDoubtIsTakenForWhoWasInDoubt) {
  expect_broken({.restarts = 2, .cuts = 2, .notes_old_doubts = false});
}
TEST(EpochNotesSearch, AWriteThatIsMadeAgainAfterAnHeirsUndoesIt) {
  expect_broken({.restarts = 1, .clients = 3, .cuts = 2, .notes_old_doubts = false, .checks_latch = false});
}
TEST(EpochNotesSearch, AVersionThatCameWithoutAWriteIsTakenForOne) {
  expect_broken({.restarts = 0, .cuts = 1, .notes_given = false});
  expect_broken({.restarts = 1, .cuts = 1, .notes_given = false});
}

constexpr RemoteSpan kRow{{0x1000}, 1024, {7}};
constexpr std::uint64_t kEpoch = std::uint64_t{1} << 32;
constexpr RemoteSpan tuple_of(std::uint64_t i) { return {{0x1000 + i * 256}, 8, {7}}; }

TEST(EpochNotes, EachTupleHasItsOwn) {
  EpochNotes notes;
  notes.begin(kRow, 256, kEpoch, {4, 6, 4, 4});
  notes.grant(tuple_of(2), kEpoch, 6);
  notes.begin(kRow, 256, 2 * kEpoch, {kEpoch, kEpoch, kEpoch + 2, 4});
  EXPECT_EQ(notes.recall(tuple_of(0), 6, 1).fate, Fate::lost);
  EXPECT_EQ(notes.recall(tuple_of(0), 4, 1).fate, Fate::happened);
  EXPECT_EQ(notes.recall(tuple_of(1), 6, 1).fate, Fate::happened);
  const Recalled again = notes.recall(tuple_of(2), 6, 1);
  EXPECT_EQ(again.fate, Fate::undecided);
  EXPECT_EQ(again.version, kEpoch + 2);
  EXPECT_EQ(notes.recall(tuple_of(2), 4, 1).fate, Fate::happened);
  EXPECT_EQ(notes.recall(tuple_of(2), 8, 1).fate, Fate::lost);
  EXPECT_EQ(notes.recall(tuple_of(3), 6, 1).fate, Fate::undecided);
  EXPECT_EQ(notes.recall({{0x1004}, 8, {7}}, 6, 1).fate, Fate::undecided) << "no tuple begins there";
  EXPECT_EQ(notes.recall({{0x1000}, 8, {8}}, 6, 1).fate, Fate::undecided) << "another region";
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
  EXPECT_THROW(static_cast<void>(notes.recall(tuple_of(0), 2, 1)), std::out_of_range);
  EXPECT_EQ(notes.recall(tuple_of(0), kEpoch + 2, 1).fate, Fate::lost);
}

// A row that was recovered once does not forget because another one was recovered often.
TEST(EpochNotes, ARowForgetsNothingBecauseOfAnother) {
  EpochNotes notes;
  for (std::uint64_t i = 0; i < EpochNotes::kMostEpochs + 2; ++i) {
    notes.begin(kRow, 256, (i + 1) * kEpoch, std::vector<std::uint64_t>(4, i * kEpoch));
  }
  const RemoteSpan other{{kRow.address.value + 4096}, 4 * 256, kRow.rkey};
  notes.begin(other, 256, kEpoch, std::vector<std::uint64_t>(4, 4));
  EXPECT_EQ(notes.recall(other.subspan(0, 8), 6, 1).fate, Fate::undecided);
  EXPECT_THROW(static_cast<void>(notes.recall(tuple_of(0), 2, 1)), std::out_of_range);
}

}  // namespace
}  // namespace sidelatch::fabric::verbs

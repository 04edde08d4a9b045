// p4/switch_atomics.p4 in every execution of two clients that latch one object by a word at the switch, with RC's
// retransmission, a network that loses, repeats and reorders frames, and a switch that restarts once.
//
// The object has two lines at a memory node. A holder reads them, one by one; writes them, which are placed one by one;
// and unlatches when both are placed, as latch-switch does (sync/switch_latch.h). Queue pairs to the memory node lose
// nothing: the explorer searches those. Checked: one holder at a time; an unlatch finds its own word; a holder reads
// both lines as the holder before has written them; no latch is left, no client gives up.
#include "changed_program.h"
#include "optimistic_search_world.h"

#include "common/sanitizers.h"
#include "roce/packet.h"
#include "tests/sampled.h"

#include <sidelatch/p4/switch.h>
#include <sidelatch/switchsync/word_switch.h>

#include <p4/switch_atomics.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace words_searched {

using packets::StateHash;
using roce::Opcode;

constexpr std::uint32_t kPsn = 0xffffff;  // the first; its next one is 0
constexpr std::uint8_t kRetries = 7;
constexpr std::size_t kClients = 2;
constexpr std::uint32_t kWordKey = 0x5eed;
constexpr std::uint64_t kWordAddress = 0x1000;
constexpr std::array<std::uint32_t, 4> kPlaces{15, 0, 1, 2};  // of the results that are kept, by PSN

struct Options {
  bool writes = true;  // the second client, too; else it only reads
  int losses = 0;
  int repeats = 0;
  int overtakings = 0;
  int early_timers = 0;
  bool restarts = false;
  bool ends_queue_pairs = true;    // of the memory node, before a restarted switch serves
  bool unlatches_at_once = false;  // with the WRITE, not behind it
};

struct Frame {
  bool is_nak = false;
  std::uint32_t psn = 0;
  std::uint64_t compare = 0;  // of a request; or the old value
  std::uint64_t swap = 0;
};

enum class Doing : std::uint8_t { latching, reading, writing, unlatching, done };

struct ClientState {
  Doing doing = Doing::latching;
  bool is_waiting = false;
  bool writes_again = false;
  bool has_unlatched = false;  // while it writes
  std::uint8_t lines_done = 0;
  std::uint8_t retries = 0;
  std::uint8_t early_timers = 0;
  std::uint32_t psn = kPsn;
  Frame request{};
};

struct World {
  std::array<ClientState, kClients> clients{};
  std::array<std::array<std::vector<Frame>, 2>, kClients> links{};  // to the switch, to the client
  std::array<std::array<std::uint64_t, 10>, kClients> registers{};  // next PSN, count, kept PSNs, kept values
  std::uint64_t word = 0;
  std::array<std::uint8_t, 2> lines{};
  std::uint8_t content = 0;
  std::uint8_t holder = 0;
  std::uint8_t first = 0;    // client + 1 that must write again before others go on
  std::uint8_t restart = 0;  // 1: stopped; 2: served again
  std::uint8_t losses = 0;
  std::uint8_t repeats = 0;
  std::uint8_t overtakings = 0;
};

StateHash hash_of(const World& world) {
  packets::Bytes bytes;
  const auto add = [&](const Frame& frame) {
    bytes.add(frame.is_nak);
    bytes.add(frame.psn);
    bytes.add(frame.compare);
    bytes.add(frame.swap);
  };
  for (const ClientState& client : world.clients) {
    bytes.add(client.doing);
    bytes.add(client.is_waiting);
    bytes.add(client.writes_again);
    bytes.add(client.has_unlatched);
    bytes.add(client.lines_done);
    bytes.add(client.retries);
    bytes.add(client.early_timers);
    bytes.add(client.psn);
    add(client.request);
  }
  for (const auto& hops : world.links) {
    for (const std::vector<Frame>& link : hops) {
      bytes.add(static_cast<std::uint8_t>(link.size()));
      std::ranges::for_each(link, add);
    }
  }
  bytes.add(world.registers);
  bytes.add(world.word);
  bytes.add(world.lines);
  bytes.add(world.content);
  bytes.add(world.holder);
  bytes.add(world.first);
  bytes.add(world.restart);
  bytes.add(world.losses);
  bytes.add(world.repeats);
  bytes.add(world.overtakings);
  return bytes.hash();
}

struct Result {
  std::string violation{};
  std::vector<std::string> trace{};
  std::uint64_t states = 0;
  std::uint64_t ends = 0;
};

class Search {
 public:
  Search(const std::shared_ptr<const p4::Program>& program, const Options& options)
      : options_(options), device_(program, {.ports = kClients + 1}), control_(device_.state()) {
    control_.serve(kIp, kMac);
    control_.add_words({.rkey = kWordKey, .address = kWordAddress, .first = 0, .count = 1});
    for (std::size_t i = 0; i < kClients; ++i) {
      control_.connect({.ip = kIp,
                        .queue_pair = pair_of(i),
                        .client = ip_of(i),
                        .client_queue_pair = pair_of(i),
                        .client_psn = kPsn});
    }
    next_psn_ = &device_.state().reg("Serve.next_psn");
    counts_ = &device_.state().reg("Serve.msn");
    kept_psn_ = &device_.state().reg("Serve.kept_psn");
    kept_value_ = &device_.state().reg("Serve.kept_value");
    words_ = &device_.state().reg("Serve.words");
  }

  Result run() {
    World first;
    for (std::size_t i = 0; i < kClients; ++i) {
      first.clients[i].early_timers = static_cast<std::uint8_t>(options_.early_timers);
      first.registers[i][0] = kPsn;
    }
    first.losses = static_cast<std::uint8_t>(options_.losses);
    first.repeats = static_cast<std::uint8_t>(options_.repeats);
    first.overtakings = static_cast<std::uint8_t>(options_.overtakings);
    visit(first);
    std::ranges::reverse(result_.trace);
    result_.states = seen_.size();
    return result_;
  }

 private:
  static constexpr std::array<std::uint8_t, 4> kIp{10, 0, 0, 100};
  static constexpr std::array<std::uint8_t, 6> kMac{2, 0, 0, 0, 0, 100};
  static std::uint32_t pair_of(std::size_t i) { return static_cast<std::uint32_t>(0x100 + i); }
  static roce::Ipv4Address ip_of(std::size_t i) { return {10, 0, 0, static_cast<std::uint8_t>(i + 1)}; }
  static std::uint64_t own(std::size_t i) { return i + 1; }

  void fail(const std::string& what) {
    if (result_.violation.empty()) {
      result_.violation = what;
    }
  }

  void visit(const World& world) {
    if (!result_.violation.empty() || !seen_.insert(hash_of(world)).second) {
      return;
    }
    if (std::ranges::all_of(world.clients, [](const ClientState& c) { return c.doing == Doing::done; })) {
      ++result_.ends;
      if (world.word != 0 || world.lines[0] != world.content || world.lines[1] != world.content) {
        fail(fmt::format("at the end the word is {}, and the lines are {} and {} of {}", world.word, world.lines[0],
                         world.lines[1], world.content));
      }
    }
    for (std::size_t i = 0; i < kClients; ++i) {
      step_client(world, i);
      step_links(world, i);
    }
    step_restart(world);
  }

  template <class Change>
  void then(const World& world, const std::string& what, const Change& change) {
    if (!result_.violation.empty()) {
      return;
    }
    World next = world;
    change(next);
    visit(next);
    if (!result_.violation.empty()) {
      result_.trace.push_back(what);
    }
  }

  // ---- Clients.

  static void post(World& world, std::size_t i, std::uint64_t compare, std::uint64_t swap) {
    ClientState& client = world.clients[i];
    client.request = {.psn = client.psn, .compare = compare, .swap = swap};
    client.is_waiting = true;
    client.retries = 0;
    world.links[i][0].push_back(client.request);
  }

  void step_client(const World& world, std::size_t i) {
    const ClientState& client = world.clients[i];
    const bool goes_on_anyhow = !options_.ends_queue_pairs;
    if (client.doing == Doing::done || (world.restart == 1 && !goes_on_anyhow) ||
        (world.first != 0 && world.first != i + 1)) {
      return;
    }
    if (client.is_waiting) {
      const bool is_quiet = world.links[i][0].empty() && world.links[i][1].empty();
      if (world.restart != 1 && (is_quiet || client.early_timers != 0)) {
        then(world, fmt::format("client {}'s timer fires", i), [&](World& next) {
          ClientState& waiting = next.clients[i];
          waiting.early_timers = static_cast<std::uint8_t>(waiting.early_timers - (is_quiet ? 0 : 1));
          if (++waiting.retries > kRetries) {
            fail(fmt::format("client {} gives up", i));
          }
          next.links[i][0].push_back(waiting.request);
        });
      }
    } else if (client.doing == Doing::latching) {
      then(world, fmt::format("client {} sends its CAS", i), [&](World& next) { post(next, i, 0, own(i)); });
    } else if (client.doing == Doing::unlatching) {
      then(world, fmt::format("client {} unlatches", i), [&](World& next) { unlatch(next, i); });
    }
    for (unsigned line = 0; line < 2; ++line) {
      const bool touches = client.doing == Doing::reading || client.doing == Doing::writing;
      if (touches && (client.lines_done >> line & 1U) == 0) {
        then(world,
             fmt::format("line {} of client {}'s {}", line, i, client.doing == Doing::reading ? "READ" : "WRITE"),
             [&](World& next) { touch(next, i, line); });
      }
    }
  }

  static void unlatch(World& world, std::size_t i) {
    world.holder = 0;
    post(world, i, own(i), 0);
  }

  void touch(World& world, std::size_t i, unsigned line) {
    ClientState& client = world.clients[i];
    const bool reads = client.doing == Doing::reading;
    if (reads && world.lines.at(line) != world.content) {
      fail(fmt::format("client {} reads line {} as {}, and not as {}", i, line, world.lines.at(line), world.content));
    }
    if (!reads) {
      world.lines.at(line) = static_cast<std::uint8_t>(world.content + 1);
    }
    client.lines_done = static_cast<std::uint8_t>(client.lines_done | 1U << line);
    if (client.lines_done != 3) {
      return;
    }
    client.lines_done = 0;
    if (reads && (i == 0 || options_.writes)) {
      client.doing = Doing::writing;
      if (options_.unlatches_at_once) {
        client.has_unlatched = true;
        unlatch(world, i);
      }
      return;
    }
    if (!reads) {
      ++world.content;
    }
    client.doing = client.has_unlatched && !client.is_waiting ? Doing::done : Doing::unlatching;
  }

  void answered(World& world, std::size_t i, const Frame& answer) {
    ClientState& client = world.clients[i];
    if (!client.is_waiting || answer.psn != client.request.psn) {
      return;
    }
    if (answer.is_nak) {
      fail(fmt::format("client {} gets a NAK", i));
      return;
    }
    client.is_waiting = false;
    client.psn = (client.psn + 1) & 0xffffff;
    if (client.request.compare != 0) {
      if (answer.compare != own(i)) {
        fail(fmt::format("client {} finds word {} as it unlatches", i, answer.compare));
      }
      world.first = world.first == i + 1 ? std::uint8_t{0} : world.first;
      client.doing = client.doing == Doing::writing ? Doing::writing : Doing::done;
    } else if (answer.compare != 0) {
      client.doing = Doing::done;  // another has it
    } else {
      if (world.holder != 0) {
        fail(fmt::format("clients {} and {} hold the latch", world.holder - 1, i));
      }
      world.holder = static_cast<std::uint8_t>(i + 1);
      client.doing = client.writes_again ? Doing::writing : Doing::reading;
    }
  }

  // ---- The network, and the switch.

  void step_links(const World& world, std::size_t i) {
    for (const unsigned hop : {0U, 1U}) {
      const std::vector<Frame>& link = world.links[i][hop];
      for (std::size_t at = 0; at < link.size() && (at == 0 || world.overtakings != 0); ++at) {
        const std::string name = fmt::format("{} client {}: PSN {:#x}, {} -> {}", hop == 0 ? "of" : "to", i,
                                             link[at].psn, link[at].compare, link[at].swap);
        const auto take = [&](World& next) {
          const Frame frame = next.links[i][hop][at];
          next.links[i][hop].erase(next.links[i][hop].begin() + static_cast<std::ptrdiff_t>(at));
          next.overtakings = static_cast<std::uint8_t>(next.overtakings - (at == 0 ? 0 : 1));
          return frame;
        };
        then(world, name, [&](World& next) {
          const Frame frame = take(next);
          if (hop == 1) {
            answered(next, i, frame);
          } else if (next.restart != 1) {
            through_switch(next, i, frame);
          }
        });
        if (world.losses != 0) {
          then(world, name + " is lost", [&](World& next) {
            static_cast<void>(take(next));
            --next.losses;
          });
        }
        if (world.repeats != 0) {
          then(world, name + " is repeated", [&](World& next) {
            --next.repeats;
            const Frame frame = next.links[i][hop][at];
            next.links[i][hop].push_back(frame);
          });
        }
      }
    }
  }

  void through_switch(World& world, std::size_t i, const Frame& frame) {
    for (std::size_t c = 0; c < kClients; ++c) {
      next_psn_->write(c, world.registers[c][0]);
      counts_->write(c, world.registers[c][1]);
      for (std::size_t k = 0; k < kPlaces.size(); ++k) {
        kept_psn_->write(16 * c + kPlaces[k], world.registers[c][2 + k]);
        kept_value_->write(16 * c + kPlaces[k], world.registers[c][6 + k]);
      }
    }
    words_->write(0, world.word);
    roce::Packet packet;
    packet.ethernet = {.destination = kMac, .source = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)}};
    roce::Ipv4 ip;
    ip.source = ip_of(i);
    ip.destination = kIp;
    packet.ip = ip;
    packet.bth.opcode = Opcode::compare_swap;
    packet.bth.destination_qp = pair_of(i);
    packet.bth.psn = roce::Psn(frame.psn);
    packet.atomic = {
        .virtual_address = kWordAddress, .r_key = kWordKey, .swap_or_add = frame.swap, .compare = frame.compare};
    const auto bytes = std::get<std::size_t>(roce::build(packet, buffer_));
    device_.receive(static_cast<std::uint16_t>(i), std::span(buffer_).first(bytes));
    device_.run();
    while (const auto departed = device_.departed()) {
      const auto parsed = std::get<roce::Packet>(roce::parse_frame(departed->bytes, roce::IcrcCheck::no));
      world.links.at(departed->port)[1].push_back({.is_nak = parsed.bth.opcode == Opcode::acknowledge,
                                                   .psn = parsed.bth.psn.value(),
                                                   .compare = parsed.atomic_ack.original});
    }
    for (std::size_t c = 0; c < kClients; ++c) {
      world.registers[c][0] = static_cast<std::uint64_t>(next_psn_->read(c));
      world.registers[c][1] = static_cast<std::uint64_t>(counts_->read(c));
      for (std::size_t k = 0; k < kPlaces.size(); ++k) {
        world.registers[c][2 + k] = static_cast<std::uint64_t>(kept_psn_->read(16 * c + kPlaces[k]));
        world.registers[c][6 + k] = static_cast<std::uint64_t>(kept_value_->read(16 * c + kPlaces[k]));
      }
    }
    world.word = static_cast<std::uint64_t>(words_->read(0));
  }

  // ---- A switch that restarts: all its words are 0. The memory node ends the clients' queue pairs before it serves.

  void step_restart(const World& world) {
    if (options_.restarts && world.restart == 0) {
      then(world, "the switch restarts", [](World& next) { next.restart = 1; });
    } else if (world.restart == 1) {
      then(world, "queue pairs are ended and made again, and the switch serves",
           [&](World& next) { serve_again(next); });
    }
  }

  void serve_again(World& world) const {
    world.restart = 2;
    world.word = 0;
    for (std::size_t i = 0; i < kClients; ++i) {
      ClientState& client = world.clients[i];
      world.registers[i] = {kPsn};
      world.links[i] = {};
      client.psn = kPsn;
      client.is_waiting = false;
      if (client.doing == Doing::done || (!options_.ends_queue_pairs && client.doing != Doing::latching)) {
        continue;
      }
      if (client.doing == Doing::unlatching) {
        client.doing = Doing::done;  // what it has written is placed
        continue;
      }
      if (client.doing == Doing::writing) {
        client.writes_again = true;
        world.first = static_cast<std::uint8_t>(i + 1);
      }
      client.doing = Doing::latching;
      client.lines_done = 0;
    }
    world.holder = options_.ends_queue_pairs ? std::uint8_t{0} : world.holder;
  }

  Options options_;
  p4::Switch device_;
  WordSwitch control_;
  p4::RegisterState* next_psn_ = nullptr;
  p4::RegisterState* counts_ = nullptr;
  p4::RegisterState* kept_psn_ = nullptr;
  p4::RegisterState* kept_value_ = nullptr;
  p4::RegisterState* words_ = nullptr;
  std::array<std::byte, 256> buffer_{};
  std::unordered_set<StateHash, StateHash::Of> seen_;
  Result result_;
};

std::string trace_of(const Result& result) {
  std::string text = result.violation;
  for (const std::string& step : result.trace) {
    text += "\n  " + step;
  }
  return text;
}

void expect_none(const Options& options) {
  const Result result = Search(p4::programs::switch_atomics(), options).run();
  std::printf("%llu states, %llu ends\n", static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.ends));
  EXPECT_EQ(result.violation, "") << trace_of(result);
  EXPECT_GT(result.ends, 0U);
}

void expect_caught(const std::shared_ptr<const p4::Program>& program, const Options& options) {
  const Result result = Search(program, options).run();
  EXPECT_NE(result.violation, "") << result.states << " states";
  EXPECT_FALSE(result.trace.empty());
  std::printf("%s\n", trace_of(result).c_str());
}

constexpr int kEarlyTimers = SIDELATCH_IS_SANITIZED ? 0 : 1;

class WordsSearch : public testing::TestWithParam<bool> {};

TEST_P(WordsSearch, OneHoldsTheLatchWhateverTheNetworkDoes) {
  expect_none({.writes = GetParam(), .losses = 1, .repeats = 1, .overtakings = 1, .early_timers = kEarlyTimers});
}

TEST_P(WordsSearch, ARestartLosesNothingIfQueuePairsEndBefore) {
  if (takes_long()) {
    expect_none(
        {.writes = GetParam(), .losses = 1, .repeats = 1, .overtakings = 1, .early_timers = 1, .restarts = true});
    return;
  }
  expect_none({.writes = GetParam(), .losses = 1, .repeats = 1, .restarts = true});
  expect_none({.writes = GetParam(), .repeats = 1, .overtakings = 1, .restarts = true});
  expect_none({.writes = GetParam(), .early_timers = kEarlyTimers, .restarts = true});
}

INSTANTIATE_TEST_SUITE_P(SecondClient, WordsSearch, testing::Bool(),
                         [](const auto& one) { return std::string(one.param ? "Writes" : "Reads"); });

TEST(WordsSearchSpecimen, ARepeatedLatchThatIsExecutedAgainIsCaught) {
  expect_caught(changed_program("switch_atomics.p4", "bool executes = is_new && fault == ACK;",
                                "bool executes = (is_new || is_repeated) && fault == ACK;"),
                {.losses = 1, .repeats = 1, .overtakings = 1});
}
TEST(WordsSearchSpecimen, AnAnswerThatIsNotKeptIsCaught) {
  expect_caught(changed_program("switch_atomics.p4", "                kept_value.read(old, place);\n", ""),
                {.losses = 1});
}
TEST(WordsSearchSpecimen, AnUnlatchBesideTheWriteIsCaught) {
  expect_caught(p4::programs::switch_atomics(), {.unlatches_at_once = true});
}
TEST(WordsSearchSpecimen, AHolderThatOutlivesARestartIsCaught) {
  expect_caught(p4::programs::switch_atomics(), {.restarts = true, .ends_queue_pairs = false});
}

}  // namespace words_searched
}  // namespace
}  // namespace sidelatch::switchsync

// One source, every world: random clients that use the library as strangers do run in the simulator, and each end that
// they have there must be one that the explorer has seen. Unlike the oracle's programs these have operations of the
// library, tasks that tasks spawn, and coroutines that they start by themselves.
#include "checker/explore/mutation.h"
#include "checking.h"
#include "clients.h"
#include "started.h"
#include "tests/sampled.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/explore/check.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/structures/client.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/structures/superblock.h>
#include <sidelatch/sync/scheme.h>
#include <sidelatch/sync/session.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::explore {
namespace simulated_ends {
namespace {

using namespace fabric;
using fabric::model::Preset;

enum class What : std::uint8_t {
  update,  // of an object: adds `value`; of a table: put() of it
  read,    // of an object, into the log; of a table: get()
  write,   // of a word, and waits
  send,    // of a word, and does not wait
  add,     // to a word; the old value comes into the log
  swap,    // of a word, if it is 0; the old value comes into the log
  poke,    // adds to a word of an object behind the scheme's back; the old value comes into the log
  drain,
  sleep,
  tell,   // adds to the client's flag
  look,   // at the flag, into the log
  spawn,  // list `value` as a task of the reactor
  start,  // list `value` as a coroutine by itself
};
constexpr std::array kNames = {"update", "read",  "write", "send", "add",   "swap", "poke",
                               "drain",  "sleep", "tell",  "look", "spawn", "start"};

struct Statement {
  What what = What::update;
  std::uint8_t at = 0;  // object or word
  std::uint64_t value = 0;
};
using List = std::vector<Statement>;

constexpr std::uint64_t kObjects = 1;
constexpr std::uint64_t kWords = 2;
constexpr std::uint64_t kPlaces = 5;  // of a record: the payload, and its first words

struct Text {
  std::string_view scheme;
  bool of_table = false;                   // the object is the one value of a hash table over the scheme
  std::uint64_t tasks = 1;                 // of each client: so many of its lists
  std::vector<std::vector<List>> clients;  // of each the lists of its tasks, and those that they start

  [[nodiscard]] std::string to_string() const {
    std::string text = fmt::format("{}{}, {} tasks\n", of_table ? "a table over " : "", scheme, tasks);
    for (std::size_t client = 0; client < clients.size(); ++client) {
      for (std::size_t number = 0; number < clients[client].size(); ++number) {
        text += fmt::format("client {}, list {}:", client, number);
        for (const Statement& one : clients[client][number]) {
          text += fmt::format(" {} {} {};", kNames.at(static_cast<std::size_t>(one.what)), one.at, one.value);
        }
        text += '\n';
      }
    }
    return text;
  }
};

Text text_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  constexpr std::array kSchemes = {
      "latch-exclusive/basic",   "latch-exclusive/speculative",   "latch-exclusive/combined",
      "latch-exclusive/async",   "latch-exclusive/write-unlatch", "latch-rw/combined",
      "latch-ticket/combined",   "optimistic/two-read",           "optimistic/farm",
      "optimistic/copy-on-write"};
  Text text{.scheme = kSchemes.at(below(kSchemes.size())), .tasks = 1 + (below(3) == 0 ? 1U : 0U), .clients = {}};
  text.of_table = seed % 3 == 0 && text.scheme != "latch-ticket/combined";  // of which structures cannot be
  const std::uint64_t clients = 1 + below(2);
  const std::uint64_t size = clients * text.tasks;
  for (std::uint64_t client = 0; client < clients; ++client) {
    std::vector<List> lists(text.tasks);
    const auto fill = [&](List& list, std::uint64_t most, bool is_main) {
      const std::uint64_t length = 1 + below(most);
      while (list.size() < length) {
        // What the library does and what starts something come more often.
        constexpr std::array kDraw = {What::update, What::update, What::update, What::read,  What::read, What::write,
                                      What::send,   What::add,    What::swap,   What::poke,  What::poke, What::poke,
                                      What::poke,   What::drain,  What::sleep,  What::tell,  What::look, What::spawn,
                                      What::spawn,  What::spawn,  What::spawn,  What::spawn, What::start};
        Statement one{kDraw.at(below(kDraw.size())), 0, 0};
        const bool starts = one.what == What::spawn || one.what == What::start;
        if (starts && (!is_main || lists.size() > text.tasks + 1)) {
          continue;
        }
        const bool of_object = one.what == What::update || one.what == What::read;
        one.at = static_cast<std::uint8_t>(below(of_object ? kObjects : one.what == What::poke ? kPlaces : kWords));
        one.value =
            starts ? lists.size() : std::uint64_t{1} << (4 * (client * 8 + lists.size() * 2 + list.size()) % 60);
        if (starts) {
          lists.emplace_back();
        }
        list.push_back(one);
      }
    };
    for (std::size_t number = 0; number < lists.size(); ++number) {
      List list;  // `lists` may grow
      const bool is_main = number < text.tasks;
      fill(list, is_main ? (size == 1 ? 4 : 2) : (size == 1 ? 2 : 1), is_main);
      lists[number] = std::move(list);
    }
    text.clients.push_back(std::move(lists));
  }
  return text;
}

// ---- The program, in any world.

struct Place {
  Place(Node& the_node, const Text& text)
      : scheme(checker::select_scheme(text.scheme).scheme),
        options{.addressing = structures::Addressing::perfect, .value_bytes = 8, .capacity = kObjects},
        begins(text.of_table ? structures::kSuperblockBytes : 0),
        layout(scheme->shape(8, scheme->default_layout()), scheme->default_layout(), kObjects),
        node(&the_node),
        memory(node->allocate(begins + layout.total_bytes(), Access::remote_all)),
        words(node->allocate(kWords * 64, Access::remote_all)),
        objects(layout, memory.remote(begins, layout.total_bytes())) {
    if (text.of_table) {
      table.emplace(*scheme, options, std::array{memory.remote()});
    }
  }

  std::unique_ptr<sync::Scheme> scheme;
  structures::HashTableOptions options;
  std::uint64_t begins;  // the objects, behind the superblock of a table, which the explorer does not write
  sync::Layout layout;
  Node* node;
  MemoryRegion memory;
  MemoryRegion words;
  sync::ObjectArray objects;
  std::optional<structures::HashTable> table;
};

struct Worker {
  Worker(Place& the_place, Node& node, std::unique_ptr<QueuePair> queue_pair, const std::vector<List>& the_lists)
      : place(&the_place),
        lists(&the_lists),
        buffers(node.allocate(the_lists.size() * 8 * 64, Access::local_write)),
        qp(std::move(queue_pair)) {
    for (std::size_t i = 0; i < lists->size(); ++i) {
      if (place->table) {
        const std::array memory_nodes = {place->node};
        clients.push_back(std::make_unique<structures::Client>(node, memory_nodes, place->table->buffer_bytes()));
      } else {
        sessions.push_back(std::make_unique<sync::Session>(*qp, sync::buffer_bytes(place->layout.shape())));
      }
    }
  }
  [[nodiscard]] Duration pause() {
    return jitter == 0 ? from_ns(100)
                       : from_ns(static_cast<double>(
                             1 + (jitter = jitter * 6364136223846793005U + 1442695040888963407U) % 4096));
  }
  void log(std::uint64_t value) { logged.at(length++) = value; }

  Place* place;
  const std::vector<List>* lists;
  MemoryRegion buffers;
  std::unique_ptr<QueuePair> qp;
  std::vector<std::unique_ptr<sync::Session>> sessions;      // of each list
  std::vector<std::unique_ptr<structures::Client>> clients;  // the same
  std::array<std::uint64_t, 32> logged{};
  std::size_t length = 0;
  std::uint64_t flag = 0;
  std::uint64_t under_way = 0;
  std::uint64_t jitter = 0;  // of sleeps; 0: they are equally long
  std::vector<std::unique_ptr<Started>> started;
};

Task<void> do_list(Worker* own, std::size_t number);

Task<void> do_beside(Worker* own, std::size_t number) {
  co_await do_list(own, number);
  --own->under_way;
}

Started do_by_itself(Worker* own, std::size_t number) { co_await do_beside(own, number); }

Task<void> update(Worker* own, std::size_t number, Statement one) {
  if (own->place->table) {
    std::array<std::byte, 8> value{};
    std::memcpy(value.data(), &one.value, sizeof one.value);
    const structures::Outcome outcome = co_await own->place->table->put(*own->clients[number], one.at, value);
    own->log(static_cast<std::uint64_t>(outcome));
    co_return;
  }
  const bool updated = co_await own->place->scheme->update(*own->sessions[number], own->place->objects.at(one.at),
                                                           [one](std::span<std::byte> payload) {
                                                             const std::uint64_t sum = word_in(payload) + one.value;
                                                             std::memcpy(payload.data(), &sum, sizeof sum);
                                                           });
  own->log(updated ? 1 : 0);
}

Task<void> read(Worker* own, std::size_t number, Statement one) {
  std::array<std::byte, 8> payload{};
  bool was_read = false;
  if (own->place->table) {
    const structures::Outcome outcome = co_await own->place->table->get(*own->clients[number], one.at, payload);
    was_read = outcome == structures::Outcome::done;
  } else {
    const sync::ReadResult result =
        co_await own->place->scheme->read(*own->sessions[number], own->place->objects.at(one.at), payload);
    was_read = result.accepted;
  }
  own->log(was_read ? word_in(payload) : ~std::uint64_t{0});
}

Task<void> do_list(Worker* own, std::size_t number) {
  const List& list = (*own->lists)[number];
  QueuePair& qp = *own->qp;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Statement& one = list[i];
    const LocalSpan local = own->buffers.local((number * 8 + i) * 64, 8);
    const RemoteSpan word = own->place->words.remote(one.at % kWords * 64, 8);
    switch (one.what) {
      case What::update:
        co_await update(own, number, one);
        break;
      case What::read:
        co_await read(own, number, one);
        break;
      case What::write:
      case What::send:
        std::memcpy(local.data, &one.value, sizeof one.value);
        if (one.what == What::write) {
          co_await qp.write(local, word);
        } else {
          co_await qp.enqueue(fabric::write(local, word));
        }
        break;
      case What::add: {
        const std::uint64_t old = co_await qp.fetch_add(word, one.value);
        own->log(old);
        break;
      }
      case What::swap: {
        const std::uint64_t old = co_await qp.compare_swap(word, 0, one.value);
        own->log(old);
        break;
      }
      case What::poke: {
        const RemoteSpan record = own->place->objects.at(0).record();
        const std::uint64_t payload = own->place->layout.shape().payload;
        const std::uint64_t at = one.at == 0 ? payload : (one.at - 1) * std::uint64_t{8} % record.length;
        const std::uint64_t old = co_await qp.fetch_add({{record.address.value + at}, 8, record.rkey}, one.value);
        own->log(old);
        break;
      }
      case What::drain:
        co_await qp.drain();
        break;
      case What::sleep:
        co_await qp.reactor().sleep(own->pause());
        break;
      case What::tell:
        own->flag += one.value;
        break;
      case What::look:
        own->log(own->flag);
        break;
      case What::spawn:
        ++own->under_way;
        qp.reactor().spawn(do_beside(own, one.value));
        break;
      case What::start:
        ++own->under_way;
        own->started.push_back(std::unique_ptr<Started>(new Started(do_by_itself(own, one.value))));
        break;
    }
  }
}

Task<void> do_all(Worker* own, std::size_t number) {
  Reactor& reactor = own->qp->reactor();
  if (own->jitter != 0) {
    co_await reactor.sleep(own->pause());
  }
  co_await do_list(own, number);
  const auto loop = reactor.begin_retries();
  while (own->under_way != 0) {
    co_await reactor.retry(loop, from_ns(100));
  }
}

// All memory, and what each client has seen.
using End = std::vector<std::uint64_t>;
template <class Workers>
End end_of(const Place& place, const Workers& workers) {
  End end;
  for (const std::span<const std::byte> bytes : {place.memory.bytes().subspan(place.begins), place.words.bytes()}) {
    for (std::uint64_t at = 0; at + 8 <= bytes.size(); at += 8) {
      end.push_back(word_in(bytes, at));
    }
  }
  for (const auto& worker : workers) {
    end.insert(end.end(), worker->logged.begin(), worker->logged.begin() + static_cast<std::ptrdiff_t>(worker->length));
    end.push_back(worker->flag);
  }
  return end;
}

End simulate(const Text& text, std::uint64_t seed) {
  static const sim::Profile profile = sim::load_profile("connectx5");
  // What holds under the strict rules may happen under the others, and READs then keep their place.
  sim::Simulation world(
      {.profile = profile, .rules = rules_of(seed % 2 == 0 ? Preset::strict : Preset::observed), .seed = seed});
  Place place(world.add_node("memory"), text);
  std::vector<std::unique_ptr<Worker>> workers;
  for (const std::vector<List>& lists : text.clients) {
    Node& node = world.add_node("client");
    workers.push_back(std::make_unique<Worker>(place, node, node.connect(*place.node), lists));
    workers.back()->jitter = seed * 977 + workers.size();
    for (std::size_t number = 0; number < text.tasks; ++number) {
      world.reactor().spawn(do_all(workers.back().get(), number));
    }
  }
  world.reactor().run();
  world.reactor().run_for(from_ns(1e6));  // until everything is placed
  return end_of(place, workers);
}

struct Explored {
  Verdict verdict;
  std::mutex mutex;
  std::set<End> ends;
};

void explore_all(const Text& text, Options options, Explored& found) {
  options.walks = 0;
  options.look_for_shorter = 0;
  found.verdict = check(
      [&](World& world) {
        auto& place = world.make<Place>(world.add_node("memory"), text);
        auto& workers = world.make<std::vector<Worker*>>();
        for (const std::vector<List>& lists : text.clients) {
          Node& node = world.add_node("client");
          auto& worker = world.make<Worker>(place, node, world.connect(node, *place.node, 0, {}), lists);
          workers.push_back(&worker);
          for (std::size_t number = 0; number < text.tasks; ++number) {
            world.spawn(node, do_all(&worker, number));
          }
        }
        world.at_end([&place, &workers, &found](const Order&) {
          const std::scoped_lock lock(found.mutex);
          found.ends.insert(end_of(place, workers));
        });
      },
      options);
}

struct Count {
  std::uint64_t compared = 0;
  std::uint64_t with_several_ends = 0;  // in the simulator
  std::uint64_t with_spawned = 0;
};

bool spawns(const Text& text) {
  return std::ranges::any_of(text.clients, [](const std::vector<List>& lists) {
    return std::ranges::any_of(lists.front(), [](const Statement& one) { return one.what == What::spawn; });
  });
}

// What the simulator shows and the explorer does not, or nothing. A program that the explorer cannot finish, or in
// which a client waits for ever, is left out.
std::string unseen(std::uint64_t program, Mode mode, Count& count) {
  const Text text = text_of(program);
  Options options = under(Preset::observed);
  options.mode = mode;
  options.max_executions = takes_long() ? 20'000 : kSanitized ? 500 : 3000;
  options.max_states = takes_long() ? 100'000 : kSanitized ? 2000 : 15'000;
  Explored explored;
  explore_all(text, options, explored);
  if (explored.verdict.outcome != Outcome::safe) {
    return "";
  }
  constexpr std::uint64_t kRuns = 60;
  std::set<End> ends;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    ends.insert(simulate(text, seed));
  }
  ++count.compared;
  count.with_several_ends += ends.size() > 1 ? 1U : 0U;
  count.with_spawned += spawns(text) ? 1U : 0U;
  for (const End& end : ends) {
    if (!explored.ends.contains(end)) {
      return fmt::format("{}the simulator shows an end that the explorer has not among its {}:\n  {}\n",
                         text.to_string(), explored.ends.size(), fmt::join(end, " "));
    }
  }
  return "";
}

class SimulatedEndsBy : public ::testing::TestWithParam<Mode> {};

// To run a part: SIDELATCH_SIMULATED_FIRST=501 SIDELATCH_SIMULATED_PROGRAMS=500.
TEST_P(SimulatedEndsBy, AreAmongThoseThatTheExplorerSees) {
  const std::uint64_t first = number_or("SIDELATCH_SIMULATED_FIRST", 1);
  const std::uint64_t programs = number_or("SIDELATCH_SIMULATED_PROGRAMS", takes_long() ? 120 : kSanitized ? 8 : 40);
  Count count;
  for (std::uint64_t program = first; program < first + programs; ++program) {
    EXPECT_EQ(unseen(program, GetParam(), count), "") << "program " << program;
  }
  if (!kSanitized) {
    EXPECT_GE(count.compared, programs / 2);
    EXPECT_GE(count.with_spawned, programs / 8);
    EXPECT_GE(count.with_several_ends, programs / 20);
  }
  fmt::print("{} compared, {} with several ends, {} with spawned tasks\n", count.compared, count.with_several_ends,
             count.with_spawned);
}

INSTANTIATE_TEST_SUITE_P(BothSearches, SimulatedEndsBy, ::testing::Values(Mode::exhaustive, Mode::states),
                         [](const auto& mode) { return mode.param == Mode::states ? "States" : "Executions"; });

TEST(SimulatedEnds, ShowAFaultInTheExplorer) {
  if (is_sampled()) {
    GTEST_SKIP() << kLeftOut;
  }
  planted_mutation = Mutation::heads_are_waits;
  constexpr std::uint64_t kFirst = 30;
  constexpr std::uint64_t kPrograms = 100;
  Count count;
  std::string text;
  for (std::uint64_t program = kFirst; program < kFirst + kPrograms && text.empty(); ++program) {
    text = unseen(program, Mode::states, count);
  }
  planted_mutation = Mutation::none;
  EXPECT_NE(text, "");
}

}  // namespace
}  // namespace simulated_ends
}  // namespace sidelatch::explore

#include "optimistic_search.h"
#include "optimistic_search_clients.h"
#include "optimistic_search_frames.h"
#include "optimistic_search_restart.h"
#include "optimistic_search_world.h"

#include "switchsync/tuple_registers.h"

#include <sidelatch/p4/switch.h>
#include <sidelatch/switchsync/optimistic_switch.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <unordered_set>
#include <utility>
#include <variant>

namespace sidelatch::switchsync {

namespace packets {
namespace {

class Search {
 public:
  Search(const std::shared_ptr<const p4::Program>& program, const SearchOptions& options)
      : options_(&options),
        device_(program, {.ports = options.clients.size() + 1}),
        memory_port_(options.clients.size()),
        control_(device_.state()) {
    control_.add_tuples({.memory_node = kMemoryIp,
                         .rkey = kKey,
                         .address = kAddress,
                         .count = 1,
                         .tuple_bytes = kTupleBytes,
                         .slot_bytes = kTupleBytes,
                         .is_new = true});
    for (std::size_t i = 0; i < options.clients.size(); ++i) {
      ids_.push_back(connect(i));
      control_.add_station(mac_of(i), static_cast<std::uint16_t>(i));
    }
    control_.add_station(mac_of(memory_port_), static_cast<std::uint16_t>(memory_port_));
    const std::vector<const char*> names = tuples_.has_short_versions()
                                               ? std::vector{"Serve.ends", "wanted", "seen", "kept"}
                                               : std::vector{"Serve.state", "wanted", "seen", "answered", "kept"};
    for (const char* const name : names) {
      registers_.push_back(&device_.state().reg(name));
    }
    if (control_.is_cache()) {
      registers_.push_back(&device_.state().reg("Serve.places"));
      moves_ = &device_.state().reg("Serve.moves");
    }
    for (std::size_t r = 0; r < registers_.size(); ++r) {
      fresh_.at(r) = static_cast<std::uint64_t>(registers_[r]->read(0));
    }
  }

  SearchResult run() {
    World first;
    for (std::size_t i = 0; i < options_->clients.size(); ++i) {
      first.clients.push_back({.early_timers = static_cast<std::uint8_t>(options_->early_timers)});
      first.links.emplace_back();
      first.pairs.emplace_back();
      first.second_passes.emplace_back();
      first.connections.push_back(fresh_);
    }
    first.place = options_->is_cold ? Place::cold : Place::hot;
    first.moves_left = static_cast<std::uint8_t>(options_->moves);
    first.losses = static_cast<std::uint8_t>(options_->losses);
    first.repeats = static_cast<std::uint8_t>(options_->repeats);
    first.overtakings = static_cast<std::uint8_t>(options_->overtakings);
    visit(first);
    std::ranges::reverse(result_.trace);
    result_.states = seen_.size();
    return std::move(result_);
  }

 private:
  OptimisticSwitch::ConnectionId connect(std::size_t i) {
    return control_.connect({.client = client_ip(i),
                             .client_queue_pair = client_pair(i),
                             .client_psn = kFirstPsn,
                             .memory_node = kMemoryIp,
                             .memory_queue_pair = memory_pair(i)});
  }

  void fail(const std::string& what) { record(result_, what); }

  void visit(const World& world) {
    if (!result_.violation.empty() || !result_.is_complete || !seen_.insert(hash_of(world)).second) {
      return;
    }
    if (seen_.size() > options_->most_states) {
      result_.is_complete = false;
      return;
    }
    const bool is_settled = (world.death == Death::none || world.death == Death::released) &&
                            (world.restart == Restart::none || world.restart == Restart::recovered) &&
                            (world.place == Place::hot || world.place == Place::cold);
    if (is_settled && std::ranges::all_of(world.clients, &ClientState::is_done)) {
      ++result_.ends;
      check_end(world);
    }
    for (std::size_t i = 0; i < world.clients.size(); ++i) {
      step_client(world, i);
      step_links(world, i);
      step_second_passes(world, i);
      step_memory(world, i);
    }
    step_death(world);
    step_restart(world);
    step_move(world);
  }

  // `what` makes the step's name, for a trace.
  template <class What, class Change>
  void then(const World& world, const What& what, const Change& change) {
    if (!result_.violation.empty()) {
      return;
    }
    World next = world;
    change(next);
    visit(next);
    if (!result_.violation.empty()) {
      result_.trace.push_back(what());
    }
  }

  // ---- Clients.

  void step_client(const World& world, std::size_t i) {
    const ClientState& client = world.clients[i];
    const bool is_served = world.restart == Restart::none || world.restart == Restart::recovered;
    if (client.is_done || !is_served || (world.first != 0 && world.first != i + 1)) {
      return;
    }
    if (options_->clients[i] == Script::heir && !client.is_waiting) {
      const bool is_needless =
          world.death == Death::none && world.clients[static_cast<std::size_t>(options_->dies)].is_done;
      if (world.death == Death::released || is_needless) {
        then(
            world, [&] { return fmt::format("client {} looks after what the dead one has left", i); },
            [&](World& next) { clients_.post_next(next, i); });
      }
      return;
    }
    if (!client.is_waiting) {  // later requests are posted as soon as the earlier one is answered
      then(
          world, [&] { return fmt::format("client {} posts its first request", i); },
          [&](World& next) { clients_.post_next(next, i); });
      return;
    }
    const bool is_quiet = std::ranges::all_of(world.links[i], [](const auto& link) { return link.empty(); }) &&
                          world.second_passes[i].empty() &&
                          std::ranges::all_of(world.pairs[i].jobs, &Job::has_answered);
    if (is_quiet || client.early_timers != 0) {
      then(
          world, [&] { return fmt::format("client {}'s timer fires{}", i, is_quiet ? "" : " early"); },
          [&](World& next) {
            ClientState& waiting = next.clients[i];
            waiting.early_timers = static_cast<std::uint8_t>(waiting.early_timers - (is_quiet ? 0 : 1));
            if (++waiting.retries > kMostRetries) {
              fail(fmt::format("client {} has sent its request {} times, and gives up", i, kMostRetries));
              return;
            }
            next.links[i][client_to_switch].push_back(waiting.request);
          });
    }
  }

  void check_end(const World& world) {
    const bool is_empty = std::ranges::all_of(world.links, [](const auto& hops) {
      return std::ranges::all_of(hops, [](const auto& link) { return link.empty(); });
    });
    const bool is_over = std::ranges::all_of(world.second_passes, [](const auto& passes) { return passes.empty(); });
    const bool is_placed = std::ranges::all_of(world.pairs, [](const MemoryPair& pair) { return pair.jobs.empty(); });
    if (!is_empty || !is_over || !is_placed) {
      return;
    }
    const bool has_heir = std::ranges::any_of(options_->clients, [](Script s) { return s == Script::heir; });
    if (world.is_in_doubt && !has_heir && world.version % 2 == 1 && world.holder == 0) {
      return;  // until give_latch()
    }
    if (world.place == Place::cold) {
      check_cold_end(world);
      return;
    }
    if (world.version % 2 != 0 || world.holder != 0) {
      fail(fmt::format("a latch is left: version {}, holder {}", world.version, world.holder));
    }
    check_count(world);
    if (is_unknown(world, world.version)) {
      return;
    }
    if (world.lines[0] != world.contents.at(index_of(world.version)) || world.lines[1] != world.lines[0]) {
      fail(fmt::format("version {} is at the end, and its content is another one", world.version));
    }
  }

  // The word is the version.
  void check_cold_end(const World& world) {
    if (world.word % 2 != 0 || world.word < world.newest) {
      fail(fmt::format("the tuple is cold, and its word is {}, and not {} or later", world.word, world.newest));
    }
    check_count(world);
    if (!is_unknown(world, world.word) &&
        (world.lines[0] != world.contents.at(index_of(world.word)) || world.lines[1] != world.lines[0])) {
      fail(fmt::format("the tuple is cold, and the content of version {} is another one", world.word));
    }
  }

  void check_count(const World& world) {
    const bool counts =
        options_->dies < 0 && std::ranges::all_of(options_->clients, [](Script s) { return s == Script::updater; });
    if (counts && (world.lines[0] != world.updates || world.lines[1] != world.updates)) {
      fail(fmt::format("{} updates, and the tuple counts {}", world.updates, world.lines[0]));
    }
  }

  // ---- The network.

  void step_links(const World& world, std::size_t i) {
    for (const Hop hop : {client_to_switch, switch_to_memory, memory_to_switch, switch_to_client}) {
      const std::vector<Frame>& link = world.links[i][hop];
      for (std::size_t at = 0; at < link.size() && (at == 0 || world.overtakings != 0); ++at) {
        const auto take = [&](World& next) {
          const Frame frame = next.links[i][hop][at];
          next.links[i][hop].erase(next.links[i][hop].begin() + static_cast<std::ptrdiff_t>(at));
          next.overtakings = static_cast<std::uint8_t>(next.overtakings - (at == 0 ? 0 : 1));
          return frame;
        };
        const auto name = [&] { return fmt::format("{}, connection {}: {}", kHops[hop], i, text(link[at])); };
        then(world, name, [&](World& next) { arrive(next, i, hop, take(next)); });
        if (world.losses != 0) {
          then(
              world, [&] { return name() + " is lost"; },
              [&](World& next) {
                static_cast<void>(take(next));
                --next.losses;
              });
        }
        if (world.repeats != 0) {
          then(
              world, [&] { return name() + " is repeated"; },
              [&](World& next) {
                --next.repeats;
                const Frame frame = next.links[i][hop][at];
                next.links[i][hop].push_back(frame);
              });
        }
      }
    }
  }

  static std::string text(const Frame& frame) {
    return fmt::format("opcode {:#x}{} PSN {:#x} word {} lines {} {}", static_cast<unsigned>(frame.opcode),
                       frame.is_nak ? " NAK" : "", frame.psn, frame.word, frame.lines[0], frame.lines[1]);
  }

  void arrive(World& world, std::size_t i, Hop hop, const Frame& frame) {
    switch (hop) {
      case client_to_switch:
      case memory_to_switch:
        through_switch(world, i, hop == client_to_switch, frame);
        break;
      case switch_to_memory:
        if (!is_dead(i) || world.death < Death::ended) {  // a restart empties the links as it ends all queue pairs
          reach_memory(world, i, frame);
        }
        break;
      case switch_to_client:
        clients_.answered(world, i, frame);
        break;
    }
  }

  // The program itself decides.
  void through_switch(World& world, std::size_t i, bool is_request, const Frame& frame) {
    const bool is_stopped =
        options_->fences_switch && world.restart != Restart::none && world.restart != Restart::recovered;
    if ((is_dead(i) && world.death >= Death::fenced) || is_stopped) {
      return;
    }
    load(world);
    if (pass_once(i, is_request, frame)) {
      world.second_passes[i].push_back({.hop = is_request ? client_to_switch : memory_to_switch,
                                        .frame = frame,
                                        .connection = world.connections[i],
                                        .version = world.version,
                                        .holder = world.holder});
      store(world);
      device_.run();  // away with it
      while (device_.departed()) {
      }
      return;
    }
    leave(world, i);
  }

  // Returns whether the packet waits for a second pass.
  bool pass_once(std::size_t i, bool is_request, const Frame& frame) {
    device_.receive(static_cast<std::uint16_t>(is_request ? i : memory_port_),
                    encode(i, memory_port_, is_request, frame, buffer_));
    device_.step();
    return device_.arrived() != 0;
  }

  // Other packets may come between.
  void step_second_passes(const World& world, std::size_t i) {
    for (std::size_t at = 0; at < world.second_passes[i].size(); ++at) {
      then(
          world,
          [&] {
            return fmt::format("switch, connection {}: {}, second pass", i, text(world.second_passes[i][at].frame));
          },
          [&](World& next) { pass_again(next, i, at); });
    }
  }

  void pass_again(World& world, std::size_t i, std::size_t at) {
    const SecondPass pass = world.second_passes[i][at];
    world.second_passes[i].erase(world.second_passes[i].begin() + static_cast<std::ptrdiff_t>(at));
    if (is_dead(i) && world.death >= Death::fenced) {
      return;
    }
    World before = world;
    before.connections[i] = pass.connection;
    before.version = pass.version;
    before.holder = pass.holder;
    load(before);
    EXPECT_TRUE(pass_once(i, pass.hop == client_to_switch, pass.frame));
    load(world);
    device_.step();
    EXPECT_EQ(device_.arrived(), 0U) << "a packet is resubmitted once";
    leave(world, i);
  }

  void leave(World& world, std::size_t i) {
    device_.run();
    while (const auto departed = device_.departed()) {
      const bool to_memory = departed->port == memory_port_;
      world.links[i][to_memory ? switch_to_memory : switch_to_client].push_back(decode(departed->bytes));
    }
    store(world);
  }

  // The registers, from and to a state.
  void load(const World& world) {
    if (control_.is_cache()) {
      be(world.place == Place::cold ? Place::cold : Place::hot);
    }
    load_registers(world);
  }
  void load_registers(const World& world) {
    if (control_.is_cache()) {
      moves_->write(0, world.moves);
    }
    for (std::size_t c = 0; c < world.connections.size(); ++c) {
      for (std::size_t r = 0; r < registers_.size(); ++r) {
        registers_[r]->write(c, world.connections[c][r]);
      }
    }
    tuples_.write_version(0, world.version);
    tuples_.write_holder(0, static_cast<std::uint32_t>(world.holder));
    if (tuples_.has_short_versions() && upper_half_ != world.base >> 32) {
      upper_half_ = world.base >> 32;
      p4::TableState& regions = device_.state().table("Serve.regions");
      std::vector<p4::U128> arguments = regions.rows().front().arguments;
      arguments.back() = upper_half_;
      regions.modify(regions.rows().front().handle, "tuples", arguments);
    }
  }
  void store(World& world) const {
    for (std::size_t c = 0; c < world.connections.size(); ++c) {
      for (std::size_t r = 0; r < registers_.size(); ++r) {
        world.connections[c][r] = static_cast<std::uint64_t>(registers_[r]->read(c));
      }
    }
    if (control_.is_cache()) {
      world.moves = static_cast<std::uint64_t>(moves_->read(0));
    }
    world.version = tuples_.version(0) | (tuples_.has_short_versions() ? upper_half_ << 32 : 0);
    world.holder = tuples_.holder(0);
  }

  // ---- A tuple that becomes hot or cold, in the steps of TupleMoves.

  // The device's table and the control plane are made so; what this does to registers is written over.
  void be(Place place) {
    if (place == Place::hot && !control_.is_hot(0)) {
      EXPECT_TRUE(control_.begin_to_heat(0));
      control_.end_to_heat(0, 0);
    } else if (place == Place::cold && control_.is_hot(0)) {
      tuples_.write_version(0, 0);
      EXPECT_TRUE(control_.begin_to_cool(0));
      control_.end_to_cool(0);
    }
  }

  void step_move(const World& world) {
    if (!control_.is_cache() || (world.restart != Restart::none && world.restart != Restart::recovered)) {
      return;
    }
    const auto becomes = [&](const char* what, const auto& change) {
      then(
          world, [&] { return std::string(what); }, change);
    };
    switch (world.place) {
      case Place::cold:
        if (world.moves_left != 0) {
          becomes("begin_to_heat()", [&](World& next) { begin_to_heat(next); });
        }
        break;
      case Place::heats:
        becomes("the control plane reads the word", [](World& next) {
          next.place = Place::has_word;
          next.place_word = next.word;
        });
        break;
      case Place::has_word:
        becomes("end_to_heat()", [&](World& next) { end_to_heat(next); });
        break;
      case Place::hot:
        if (world.moves_left != 0 && (world.version % 2 == 0 || !options_->keeps_out)) {
          becomes("begin_to_cool()", [&](World& next) { begin_to_cool(next); });
        }
        break;
      case Place::cools:
        becomes("the control plane's READ of the word arrives", [&](World& next) {
          next.place = options_->drains ? Place::reading : Place::has_read;
          begin_own_read(next);
        });
        break;
      case Place::reading:
        if (may_own_read_end(world)) {
          becomes("it has read the word", [](World& next) { next.place = Place::has_read; });
        }
        break;
      case Place::has_read:
        becomes("it writes the word, and that is placed", [&](World& next) {
          next.place = Place::is_written;
          next.word = options_->writes_word ? next.place_word : next.word;
        });
        break;
      case Place::is_written:
        becomes("end_to_cool()", [&](World& next) { end_to_cool(next); });
        break;
    }
  }

  void begin_to_heat(World& world) {
    --world.moves_left;
    load(world);
    EXPECT_TRUE(control_.begin_to_heat(0));
    const std::uint64_t moves = world.moves;
    store(world);
    world.moves = options_->counts_moves ? world.moves : moves;
    world.place = Place::heats;
    control_.end_to_heat(0, 0);
  }
  void end_to_heat(World& world) {
    be(Place::cold);
    EXPECT_TRUE(control_.begin_to_heat(0));
    world.place = Place::hot;
    load_registers(world);
    if (world.place_word % 2 != 0) {
      fail(fmt::format("the word of a tuple that becomes hot is {}", world.place_word));
      control_.end_to_heat(0, 0);
      return;
    }
    control_.end_to_heat(0, std::exchange(world.place_word, 0));
    store(world);
  }
  void begin_to_cool(World& world) {
    --world.moves_left;
    world.place_word = world.version;
    world.place = Place::cools;
    load(world);
    if (options_->keeps_out) {
      EXPECT_EQ(control_.begin_to_cool(0), world.place_word);
      store(world);
      control_.give_up_move(0);
    }
  }
  void end_to_cool(World& world) {
    be(Place::hot);
    tuples_.write_version(0, 0);
    EXPECT_TRUE(control_.begin_to_cool(0));
    load_registers(world);
    control_.end_to_cool(0);
    store(world);
    world.place = Place::cold;
    world.place_word = 0;
  }

  // ---- A client that dies, and what the control plane does then, in the order of optimistic_switch.h.

  [[nodiscard]] bool is_dead(std::size_t i) const { return options_->dies == static_cast<int>(i); }

  void step_death(const World& world) {
    if (options_->dies < 0) {
      return;
    }
    const auto dead = static_cast<std::size_t>(options_->dies);
    const auto becomes = [&](Death death, const char* what) {
      then(
          world, [&] { return fmt::format("{} (connection {})", what, dead); },
          [&](World& next) {
            next.death = death;
            enter(next, dead);
          });
    };
    if (world.death == Death::none) {
      if (!world.clients[dead].is_done) {
        becomes(Death::dead, "the client dies");
      }
      return;
    }
    if (world.restart != Restart::none && world.restart != Restart::recovered) {
      return;  // the control plane that would go on has ended
    }
    switch (world.death) {
      case Death::none:
      case Death::dead:
        becomes(Death::fenced, "fence()");
        break;
      case Death::fenced:
        becomes(options_->reads_before_end ? Death::reading : Death::has_read, "a READ of the control plane arrives");
        break;
      case Death::reading:
        if (may_own_read_end(world)) {
          becomes(Death::has_read, "it has read");
        }
        break;
      case Death::has_read:
        becomes(Death::ended, "the memory node ends the queue pair");
        break;
      case Death::ended:
        becomes(Death::released, "release()");
        break;
      case Death::released:
        break;
    }
  }

  void enter(World& world, std::size_t dead) {
    if (world.death == Death::dead) {
      world.may_be_torn = world.clients[dead].is_waiting && world.clients[dead].request.opcode == Opcode::write_only;
      world.first = world.first == dead + 1 ? std::uint8_t{0} : world.first;
      world.clients[dead].is_done = true;
      world.clients[dead].is_waiting = false;
    } else if (world.death == Death::reading) {
      begin_own_read(world);
    } else if (world.death == Death::ended && options_->ends_queue_pair) {
      world.pairs[dead].jobs.clear();  // what is not placed is lost (rule 10)
    } else if (world.death == Death::released) {
      release(world, dead);
    }
  }

  // The control plane itself.
  void release(World& world, std::size_t dead) {
    const std::uint64_t before = world.version;
    load(world);
    control_.fence(ids_[dead]);
    const Released released = control_.release(ids_[dead]);
    world.is_in_doubt = !released.in_doubt.empty();
    world.may_be_torn = world.may_be_torn && world.is_in_doubt;
    for (std::size_t i = 0; i < options_->clients.size(); ++i) {
      if (world.is_in_doubt && options_->clients[i] == Script::heir) {
        control_.give_latch(0, ids_[i]);
      }
    }
    store(world);
    if (world.is_in_doubt || !released.tuples.empty()) {
      // The version that the dead client's WRITE would have given, if it had come to the switch.
      const std::uint64_t next = before + 1;
      if ((unsigned{world.seen_versions} >> index_of(next) & 1U) != 0) {
        fail(fmt::format("version {} comes twice: it was read before the dead client was released", next));
      }
      world.contents.at(index_of(next)) = world.is_in_doubt ? kNoContent : world.contents.at(index_of(before));
    }
    // The device's tables and the control plane serve the next execution; this one does not look at them any more.
    ids_[dead] = connect(dead);
  }

  // ---- A switch that restarts.

  void step_restart(const World& world) {
    const auto becomes = [&](const char* what, const auto& change) {
      then(
          world, [&] { return std::string(what); }, change);
    };
    if (!options_->restarts) {
      return;
    }
    switch (world.restart) {
      case Restart::none:
        becomes("the switch restarts", [&](World& next) { stop(next, options_->fences_switch); });
        break;
      case Restart::stopped:
        becomes("a READ of the control plane arrives", [&](World& next) {
          next.restart = options_->reads_before_end ? Restart::reading : Restart::has_read;
          if (options_->reads_before_end) {
            begin_own_read(next);
          }
        });
        break;
      case Restart::reading:
        if (may_own_read_end(world)) {
          becomes("it has read", [](World& next) { next.restart = Restart::has_read; });
        }
        break;
      case Restart::has_read:
        becomes("the memory node ends all queue pairs", [&](World& next) { end_all(next, *options_); });
        break;
      case Restart::ended:
        becomes("the version is read back, and clients connect again", [&](World& next) {
          const std::string error = begin_again(next, *options_, fresh_);
          if (!error.empty()) {
            fail(error);
          }
        });
        break;
      case Restart::recovered:
        break;
    }
  }

  // ---- The memory node.

  void step_memory(const World& world, std::size_t i) {
    const std::vector<Job>& jobs = world.pairs[i].jobs;
    for (std::size_t at = 0; at < jobs.size(); ++at) {
      const Job& job = jobs[at];
      const bool is_write = job.request.opcode == Opcode::write_only;
      const bool is_first_unanswered =
          std::ranges::all_of(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(at), &Job::has_answered);
      for (unsigned line = 0; line < 2; ++line) {
        if ((job.done >> line & 1U) != 0 || (is_write && job.is_repeated) || !may_touch(world, i, at)) {
          continue;
        }
        then(
            world,
            [&] {
              return fmt::format("memory node, connection {}: line {} is {}", i, line, is_write ? "placed" : "sampled");
            },
            [&](World& next) { touch(next, i, at, line); });
      }
      const bool can_answer = is_write || job.done == 3;
      if (!job.has_answered && is_first_unanswered && can_answer) {
        then(
            world, [&] { return fmt::format("memory node, connection {}: the answer leaves", i); },
            [&](World& next) { answer(next, i, at); });
      }
    }
  }

  const SearchOptions* options_;
  p4::Switch device_;
  std::size_t memory_port_;
  OptimisticSwitch control_;
  std::vector<OptimisticSwitch::ConnectionId> ids_;
  std::vector<p4::RegisterState*> registers_;
  TupleRegisters tuples_{device_.state()};
  Registers fresh_{};
  std::uint64_t upper_half_ = 0;  // of versions, if the program has the other one
  p4::RegisterState* moves_ = nullptr;
  std::array<std::byte, 512> buffer_{};
  std::unordered_set<StateHash, StateHash::Of> seen_;
  SearchResult result_;
  ClientScripts clients_{*options_, result_};
};

}  // namespace
}  // namespace packets

std::string trace_of(const SearchResult& result) {
  std::string text = result.violation;
  for (const std::string& step : result.trace) {
    text += "\n  " + step;
  }
  return text;
}

SearchResult search(const std::shared_ptr<const p4::Program>& program, const SearchOptions& options) {
  return packets::Search(program, options).run();
}

}  // namespace sidelatch::switchsync

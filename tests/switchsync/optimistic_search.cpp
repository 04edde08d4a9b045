#include "optimistic_search.h"
#include "optimistic_search_frames.h"
#include "optimistic_search_world.h"

#include <sidelatch/p4/switch.h>
#include <sidelatch/switchsync/optimistic_switch.h>

#include <fmt/format.h>

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
    for (const char* const name : {"Serve.state", "wanted", "seen", "answered", "kept"}) {
      registers_.push_back(&device_.state().reg(name));
    }
    versions_ = &device_.state().reg("versions");
    holders_ = &device_.state().reg("holders");
  }

  SearchResult run() {
    World first;
    for (std::size_t i = 0; i < options_->clients.size(); ++i) {
      first.clients.push_back({.early_timers = static_cast<std::uint8_t>(options_->early_timers)});
      first.links.emplace_back();
      first.pairs.emplace_back();
      first.connections.push_back({kFirstPsn, 0, ~std::uint64_t{0}, 0, 0});
    }
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

  void fail(const std::string& what) {
    if (result_.violation.empty()) {
      result_.violation = what;
    }
  }

  void visit(const World& world) {
    if (!result_.violation.empty() || !result_.is_complete || !seen_.insert(hash_of(world)).second) {
      return;
    }
    if (seen_.size() > options_->most_states) {
      result_.is_complete = false;
      return;
    }
    const bool is_settled = world.death == Death::none || world.death == Death::released;
    if (is_settled && std::ranges::all_of(world.clients, &ClientState::is_done)) {
      ++result_.ends;
      check_end(world);
    }
    for (std::size_t i = 0; i < world.clients.size(); ++i) {
      step_client(world, i);
      step_links(world, i);
      step_memory(world, i);
    }
    step_death(world);
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
    std::uint8_t& noted = world.contents.at(version / 2);
    if (noted != kNoContent && noted != content) {
      fail(fmt::format("version {} comes twice", version));
    }
    noted = content;
  }

  void step_client(const World& world, std::size_t i) {
    const ClientState& client = world.clients[i];
    if (client.is_done) {
      return;
    }
    if (options_->clients[i] == Script::heir && !client.is_waiting) {
      const bool is_needless =
          world.death == Death::none && world.clients[static_cast<std::size_t>(options_->dies)].is_done;
      if (world.death == Death::released || is_needless) {
        then(
            world, [&] { return fmt::format("client {} looks after what the dead one has left", i); },
            [&](World& next) { post_next(next, i); });
      }
      return;
    }
    if (!client.is_waiting) {  // later requests are posted as soon as the earlier one is answered
      then(
          world, [&] { return fmt::format("client {} posts its first request", i); },
          [&](World& next) { post_next(next, i); });
      return;
    }
    const bool is_quiet = std::ranges::all_of(world.links[i], [](const auto& link) { return link.empty(); }) &&
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

  void post_next(World& world, std::size_t i) {
    ClientState& client = world.clients[i];
    const std::uint8_t own = static_cast<std::uint8_t>(i + 1);
    switch (options_->clients[i]) {
      case Script::reader:
        post(world, i, read_tuple());
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
          post(world, i, swap(0, 1));
        } else if (client.step == 1) {
          post(world, i, read_tuple());
        } else {
          note_content(world, 2, own);
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
      case Script::twice: {
        const std::uint64_t base = client.step / 3 * 2U;
        const auto content = static_cast<std::uint8_t>(own + client.step / 3);
        if (client.step % 3 == 0) {
          post(world, i, swap(base, base + 1));
        } else if (client.step % 3 == 1) {
          post(world, i, read_tuple());
        } else {
          note_content(world, base + 2, content);
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
          post(world, i, swap(0, 1));
        } else {
          note_content(world, 2, world.contents[0]);
          post(world, i, swap(1, 2));
        }
        break;
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
    if (asked == Opcode::compare_swap) {
      const bool is_unlatch = client.request.word % 2 == 1;
      if (is_unlatch && answer.word != client.request.word) {
        fail(fmt::format("client {} has lost its latch: the version is {}", i, answer.word));
      }
      if (is_unlatch) {
        world.newest = std::max(world.newest, client.request.swap);
      }
      client.is_done = is_unlatch || answer.word != client.request.word;
    } else if (asked == Opcode::write_only) {
      ++world.updates;
      // A holder that has read under its latch has read the odd version.
      world.newest = std::max(world.newest, client.version / 2 * 2 + 2);
      client.is_done = options_->clients[i] != Script::twice || client.step == 6;
    } else if (!client.request.is_tuple) {
      client.version = answer.word;
      client.is_done = options_->clients[i] != Script::blind || answer.word % 2 == 1;
      if (answer.word % 2 == 0 && (answer.word < client.oldest || world.contents.at(answer.word / 2) == kNoContent)) {
        fail(fmt::format("client {} is told version {}, which is not the tuple's", i, answer.word));
      }
    } else {
      const bool is_good = answer.word % 2 == 0;
      client.version = answer.word;
      client.content = answer.lines[0];
      const bool is_heir = options_->clients[i] == Script::heir;
      const bool is_holder = options_->clients[i] == Script::writer || options_->clients[i] == Script::twice || is_heir;
      const std::uint8_t latched = world.contents.at(answer.word / 2 % world.contents.size());
      if (is_holder && (answer.word % 2 == 0 || answer.word != client.step / 3 * 2U + 1 ||
                        (!is_heir && answer.lines != std::array<std::uint8_t, 2>{latched, latched}))) {
        fail(fmt::format("client {} reads version {} under its latch", i, answer.word));
      }
      client.is_done = options_->clients[i] == Script::reader || (!is_good && !is_holder);
      if (is_good && (answer.lines[0] != answer.lines[1] || answer.word / 2 >= world.contents.size() ||
                      world.contents[answer.word / 2] != answer.lines[0])) {
        fail(fmt::format("client {} takes lines {} and {} for version {}", i, answer.lines[0], answer.lines[1],
                         answer.word));
      }
      if (is_good) {
        world.seen_versions = static_cast<std::uint8_t>(world.seen_versions | 1U << (answer.word / 2 % 8));
      }
      if (is_good && answer.word < client.oldest) {
        fail(fmt::format("client {} reads version {} after {} was done", i, answer.word, client.oldest));
      }
    }
    if (!client.is_done) {
      post_next(world, i);
    }
  }

  void check_end(const World& world) {
    const bool is_empty = std::ranges::all_of(world.links, [](const auto& hops) {
      return std::ranges::all_of(hops, [](const auto& link) { return link.empty(); });
    });
    const bool is_placed = std::ranges::all_of(world.pairs, [](const MemoryPair& pair) { return pair.jobs.empty(); });
    if (!is_empty || !is_placed) {
      return;
    }
    const bool has_heir = std::ranges::any_of(options_->clients, [](Script s) { return s == Script::heir; });
    if (world.is_in_doubt && !has_heir && world.version % 2 == 1 && world.holder == 0) {
      return;  // until give_latch()
    }
    if (world.version % 2 != 0 || world.holder != 0) {
      fail(fmt::format("a latch is left: version {}, holder {}", world.version, world.holder));
    }
    const bool counts =
        options_->dies < 0 && std::ranges::all_of(options_->clients, [](Script s) { return s == Script::updater; });
    if (counts && (world.lines[0] != world.updates || world.lines[1] != world.updates)) {
      fail(fmt::format("{} updates, and the tuple counts {}", world.updates, world.lines[0]));
    }
    if (world.lines[0] != world.contents.at(world.version / 2) || world.lines[1] != world.lines[0]) {
      fail(fmt::format("version {} is at the end, and its content is another one", world.version));
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
        if (!is_dead(i) || world.death < Death::ended) {
          reach_memory(world, i, frame);
        }
        break;
      case switch_to_client:
        answered(world, i, frame);
        break;
    }
  }

  // The program itself decides.
  void through_switch(World& world, std::size_t i, bool is_request, const Frame& frame) {
    if (is_dead(i) && world.death >= Death::fenced) {
      return;
    }
    load(world);
    device_.receive(static_cast<std::uint16_t>(is_request ? i : memory_port_),
                    encode(i, memory_port_, is_request, frame, buffer_));
    device_.run();
    while (const auto departed = device_.departed()) {
      const bool to_memory = departed->port == memory_port_;
      world.links[i][to_memory ? switch_to_memory : switch_to_client].push_back(decode(departed->bytes));
    }
    store(world);
  }

  // The registers, from and to a state.
  void load(const World& world) {
    for (std::size_t c = 0; c < world.connections.size(); ++c) {
      for (std::size_t r = 0; r < registers_.size(); ++r) {
        registers_[r]->write(c, world.connections[c][r]);
      }
    }
    versions_->write(0, world.version);
    holders_->write(0, world.holder);
  }
  void store(World& world) const {
    for (std::size_t c = 0; c < world.connections.size(); ++c) {
      for (std::size_t r = 0; r < registers_.size(); ++r) {
        world.connections[c][r] = static_cast<std::uint64_t>(registers_[r]->read(c));
      }
    }
    world.version = static_cast<std::uint64_t>(versions_->read(0));
    world.holder = static_cast<std::uint64_t>(holders_->read(0));
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
    switch (world.death) {
      case Death::none:
        if (!world.clients[dead].is_done) {
          becomes(Death::dead, "the client dies");
        }
        break;
      case Death::dead:
        becomes(Death::fenced, "fence()");
        break;
      case Death::fenced:
        becomes(options_->reads_before_end ? Death::reading : Death::has_read, "a READ of the control plane arrives");
        break;
      case Death::reading:
        if (is_placed(world)) {
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
      world.clients[dead].is_done = true;
      world.clients[dead].is_waiting = false;
    } else if (world.death == Death::reading) {
      for (std::size_t i = 0; i < world.pairs.size(); ++i) {
        const bool waits = std::ranges::any_of(world.pairs[i].jobs, [](const Job& job) {
          return job.request.opcode == Opcode::write_only && job.has_answered;
        });
        world.read_waits_for = static_cast<std::uint8_t>(world.read_waits_for | (waits ? 1U << i : 0U));
      }
    } else if (world.death == Death::ended && options_->ends_queue_pair) {
      world.pairs[dead].jobs.clear();  // what is not placed is lost (rule 10)
    } else if (world.death == Death::released) {
      release(world, dead);
    }
  }

  // Whether the control plane's READ may be answered (rule 2).
  static bool is_placed(const World& world) {
    for (std::size_t i = 0; i < world.pairs.size(); ++i) {
      const bool waits =
          (world.read_waits_for >> i & 1U) != 0 && std::ranges::any_of(world.pairs[i].jobs, [](const Job& job) {
            return job.request.opcode == Opcode::write_only && job.has_answered;
          });
      if (waits) {
        return false;
      }
    }
    return true;
  }

  // The control plane itself.
  void release(World& world, std::size_t dead) {
    const std::uint64_t before = world.version;
    load(world);
    control_.fence(ids_[dead]);
    const Released released = control_.release(ids_[dead]);
    world.is_in_doubt = !released.in_doubt.empty();
    for (std::size_t i = 0; i < options_->clients.size(); ++i) {
      if (world.is_in_doubt && options_->clients[i] == Script::heir) {
        control_.give_latch(0, ids_[i]);
      }
    }
    store(world);
    if (world.is_in_doubt || !released.tuples.empty()) {
      // The version that the dead client's WRITE would have given, if it had come to the switch.
      const std::uint64_t next = before + 1;
      if ((world.seen_versions >> (next / 2) & 1U) != 0) {
        fail(fmt::format("version {} comes twice: it was read before the dead client was released", next));
      }
      world.contents.at(next / 2) = world.is_in_doubt ? kNoContent : world.contents.at(before / 2);
    }
    // The device's tables and the control plane serve the next execution; this one does not look at them any more.
    ids_[dead] = connect(dead);
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
  p4::RegisterState* versions_ = nullptr;
  p4::RegisterState* holders_ = nullptr;
  std::array<std::byte, 512> buffer_{};
  std::unordered_set<StateHash, StateHash::Of> seen_;
  SearchResult result_;
};

}  // namespace
}  // namespace packets

SearchResult search(const std::shared_ptr<const p4::Program>& program, const SearchOptions& options) {
  return packets::Search(program, options).run();
}

}  // namespace sidelatch::switchsync

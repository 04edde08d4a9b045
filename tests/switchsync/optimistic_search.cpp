#include "optimistic_search.h"

#include "roce/packet.h"

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

namespace {
namespace packets {

using roce::Opcode;

constexpr std::uint32_t kTupleBytes = 128;
constexpr std::uint64_t kAddress = 0x10000;
constexpr std::uint32_t kKey = 77;
constexpr roce::Ipv4Address kMemoryIp{10, 0, 0, 100};
constexpr std::uint32_t kFirstPsn = 0xffffff;  // its next one is 0
constexpr std::uint8_t kMostRetries = 7;
constexpr std::uint8_t kNoContent = 0xff;

// What a frame says.
struct Frame {
  Opcode opcode{};
  bool is_nak = false;
  std::uint32_t psn = 0;
  std::uint64_t word = 0;  // the first word of a payload, an atomic's operand or its old value
  std::array<std::uint8_t, 2> lines{};
  bool is_tuple = false;  // of 128 bytes, not of 8
  std::uint64_t swap = 0;
};

enum Hop : std::uint8_t { client_to_switch, switch_to_memory, memory_to_switch, switch_to_client };
constexpr std::array<const char*, 4> kHops{"client to switch", "switch to memory", "memory to switch",
                                           "switch to client"};

struct ClientState {
  std::uint8_t step = 0;
  bool is_waiting = false;
  bool is_done = false;
  std::uint8_t retries = 0;
  std::uint8_t early_timers = 0;
  std::uint32_t psn = kFirstPsn;
  std::uint64_t version = 0;
  std::uint8_t content = 0;
  std::uint64_t oldest = 0;  // version that a READ must have at least
  Frame request{};
};

// A request that the memory node works on.
struct Job {
  Frame request{};
  bool is_repeated = false;
  std::uint8_t done = 0;  // lines, as bits
  bool has_answered = false;
  std::array<std::uint8_t, 2> lines{};
  std::uint64_t word = 0;
  std::uint8_t waits_for = 0;  // connections whose WRITEs it waits for, as bits
};

struct MemoryPair {
  std::uint32_t psn = kFirstPsn;
  bool has_sent_nak = false;
  std::vector<Job> jobs{};
};

struct World {
  std::vector<ClientState> clients{};
  std::vector<std::array<std::vector<Frame>, 4>> links{};
  std::vector<MemoryPair> pairs{};
  std::uint64_t word = 0;
  std::array<std::uint8_t, 2> lines{};
  // The switch.
  std::vector<std::array<std::uint64_t, 5>> connections{};
  std::uint64_t version = 0;
  std::uint64_t holder = 0;
  // What versions hold, by version / 2.
  std::array<std::uint8_t, 8> contents{0,          kNoContent, kNoContent, kNoContent,
                                       kNoContent, kNoContent, kNoContent, kNoContent};
  std::uint64_t newest = 0;  // version of the latest update that its client knows to be done
  std::uint8_t updates = 0;
  std::uint8_t losses = 0;
  std::uint8_t repeats = 0;
  std::uint8_t overtakings = 0;
};

struct StateHash {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  friend bool operator==(const StateHash&, const StateHash&) = default;
  struct Of {
    std::size_t operator()(const StateHash& hash) const noexcept { return hash.a; }
  };
};

class Bytes {
 public:
  template <class T>
  void add(const T& value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add(const Frame& frame) {
    add(frame.opcode);
    add(frame.is_nak);
    add(frame.psn);
    add(frame.word);
    add(frame.lines);
    add(frame.is_tuple);
    add(frame.swap);
  }
  // 128 bits: two states with the same are less likely than a fault of the machine.
  [[nodiscard]] StateHash hash() const {
    StateHash hash{0x9e37'79b9'7f4a'7c15, 0xc2b2'ae3d'27d4'eb4f};
    for (std::size_t at = 0; at < text_.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text_.data() + at, std::min(sizeof word, text_.size() - at));
      hash.a = (hash.a ^ word) * 0xff51'afd7'ed55'8ccd;
      hash.a ^= hash.a >> 32;
      hash.b = (hash.b + word) * 0xc4ce'b9fe'1a85'ec53;
      hash.b ^= hash.b >> 29;
    }
    hash.a ^= text_.size();
    return hash;
  }

 private:
  std::string text_;
};

StateHash hash_of(const World& world) {
  Bytes bytes;
  for (const ClientState& client : world.clients) {
    bytes.add(client.step);
    bytes.add(client.is_waiting);
    bytes.add(client.is_done);
    bytes.add(client.retries);
    bytes.add(client.early_timers);
    bytes.add(client.psn);
    bytes.add(client.version);
    bytes.add(client.content);
    bytes.add(client.oldest);
    bytes.add(client.request);
  }
  for (const auto& hops : world.links) {
    for (const std::vector<Frame>& link : hops) {
      bytes.add(static_cast<std::uint8_t>(link.size()));
      for (const Frame& frame : link) {
        bytes.add(frame);
      }
    }
  }
  for (const MemoryPair& pair : world.pairs) {
    bytes.add(pair.psn);
    bytes.add(pair.has_sent_nak);
    bytes.add(static_cast<std::uint8_t>(pair.jobs.size()));
    for (const Job& job : pair.jobs) {
      bytes.add(job.request);
      bytes.add(job.is_repeated);
      bytes.add(job.done);
      bytes.add(job.has_answered);
      bytes.add(job.lines);
      bytes.add(job.word);
      bytes.add(job.waits_for);
    }
  }
  bytes.add(world.word);
  bytes.add(world.lines);
  for (const auto& registers : world.connections) {
    bytes.add(registers);
  }
  bytes.add(world.version);
  bytes.add(world.holder);
  bytes.add(world.contents);
  bytes.add(world.newest);
  bytes.add(world.updates);
  bytes.add(world.losses);
  bytes.add(world.repeats);
  bytes.add(world.overtakings);
  return bytes.hash();
}

class Search {
 public:
  Search(const std::shared_ptr<const p4::Program>& program, const SearchOptions& options)
      : options_(&options),
        device_(program, {.ports = options.clients.size() + 1}),
        memory_port_(options.clients.size()) {
    OptimisticSwitch control(device_.state());
    control.add_tuples({.memory_node = kMemoryIp,
                        .rkey = kKey,
                        .address = kAddress,
                        .count = 1,
                        .tuple_bytes = kTupleBytes,
                        .slot_bytes = kTupleBytes,
                        .is_new = true});
    for (std::size_t i = 0; i < options.clients.size(); ++i) {
      control.connect({.client = client_ip(i),
                       .client_queue_pair = client_pair(i),
                       .client_psn = kFirstPsn,
                       .memory_node = kMemoryIp,
                       .memory_queue_pair = memory_pair(i)});
      control.add_station(mac_of(i), static_cast<std::uint16_t>(i));
    }
    control.add_station(mac_of(memory_port_), static_cast<std::uint16_t>(memory_port_));
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
  static roce::Ipv4Address client_ip(std::size_t i) { return {10, 0, 0, static_cast<std::uint8_t>(i + 1)}; }
  static std::uint32_t client_pair(std::size_t i) { return static_cast<std::uint32_t>(0x100 + i); }
  static std::uint32_t memory_pair(std::size_t i) { return static_cast<std::uint32_t>(0x200 + i); }
  static roce::MacAddress mac_of(std::size_t i) { return {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)}; }

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
    if (std::ranges::all_of(world.clients, &ClientState::is_done)) {
      ++result_.ends;
      check_end(world);
    }
    for (std::size_t i = 0; i < world.clients.size(); ++i) {
      step_client(world, i);
      step_links(world, i);
      step_memory(world, i);
    }
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
      const bool is_holder = options_->clients[i] == Script::writer || options_->clients[i] == Script::twice;
      const std::uint8_t latched = world.contents.at(answer.word / 2 % world.contents.size());
      if (is_holder && (answer.word % 2 == 0 || answer.word != client.step / 3 * 2U + 1 ||
                        answer.lines != std::array<std::uint8_t, 2>{latched, latched})) {
        fail(fmt::format("client {} reads version {} under its latch", i, answer.word));
      }
      client.is_done = options_->clients[i] == Script::reader || (!is_good && !is_holder);
      if (is_good && (answer.lines[0] != answer.lines[1] || answer.word / 2 >= world.contents.size() ||
                      world.contents[answer.word / 2] != answer.lines[0])) {
        fail(fmt::format("client {} takes lines {} and {} for version {}", i, answer.lines[0], answer.lines[1],
                         answer.word));
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
    if (world.version % 2 != 0 || world.holder != 0) {
      fail(fmt::format("a latch is left: version {}, holder {}", world.version, world.holder));
    }
    const bool counts = std::ranges::all_of(options_->clients, [](Script s) { return s == Script::updater; });
    if (counts && (world.lines[0] != world.updates || world.lines[1] != world.updates)) {
      fail(fmt::format("{} updates, and the tuple counts {}", world.updates, world.lines[0]));
    }
    if (world.lines[0] != world.contents.at(world.version / 2)) {
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
        reach_memory(world, i, frame);
        break;
      case switch_to_client:
        answered(world, i, frame);
        break;
    }
  }

  // The program itself decides.
  void through_switch(World& world, std::size_t i, bool is_request, const Frame& frame) {
    for (std::size_t c = 0; c < world.connections.size(); ++c) {
      for (std::size_t r = 0; r < registers_.size(); ++r) {
        registers_[r]->write(c, world.connections[c][r]);
      }
    }
    versions_->write(0, world.version);
    holders_->write(0, world.holder);
    device_.receive(static_cast<std::uint16_t>(is_request ? i : memory_port_), encode(i, is_request, frame));
    device_.run();
    while (const auto departed = device_.departed()) {
      const bool to_memory = departed->port == memory_port_;
      world.links[i][to_memory ? switch_to_memory : switch_to_client].push_back(decode(departed->bytes));
    }
    for (std::size_t c = 0; c < world.connections.size(); ++c) {
      for (std::size_t r = 0; r < registers_.size(); ++r) {
        world.connections[c][r] = static_cast<std::uint64_t>(registers_[r]->read(c));
      }
    }
    world.version = static_cast<std::uint64_t>(versions_->read(0));
    world.holder = static_cast<std::uint64_t>(holders_->read(0));
  }

  std::span<const std::byte> encode(std::size_t i, bool is_request, const Frame& frame) {
    roce::Packet packet;
    packet.ethernet = {.destination = mac_of(is_request ? memory_port_ : i),
                       .source = mac_of(is_request ? i : memory_port_)};
    roce::Ipv4 ip;
    ip.source = is_request ? client_ip(i) : kMemoryIp;
    ip.destination = is_request ? kMemoryIp : client_ip(i);
    packet.ip = ip;
    packet.bth.opcode = frame.opcode;
    packet.bth.destination_qp = is_request ? memory_pair(i) : client_pair(i);
    packet.bth.psn = roce::Psn(frame.psn);
    packet.reth = {.virtual_address = kAddress, .r_key = kKey, .dma_length = frame.is_tuple ? kTupleBytes : 8};
    packet.atomic = {.virtual_address = kAddress, .r_key = kKey, .swap_or_add = frame.swap, .compare = frame.word};
    packet.aeth.syndrome =
        frame.is_nak ? roce::Syndrome::nak(roce::NakCode::psn_sequence_error) : roce::Syndrome::ack();
    std::array<std::byte, kTupleBytes> payload{};
    std::memcpy(payload.data(), &frame.word, sizeof frame.word);
    payload[8] = static_cast<std::byte>(frame.lines[0]);
    payload[64] = static_cast<std::byte>(frame.lines[1]);
    if (frame.opcode == Opcode::write_only || frame.opcode == Opcode::read_response_only) {
      packet.payload = payload;
    }
    const auto built = roce::build(packet, buffer_);
    if (std::holds_alternative<roce::Refusal>(built)) {
      throw std::logic_error("a frame that cannot be built");
    }
    return {buffer_.data(), std::get<std::size_t>(built)};
  }

  static Frame decode(std::span<const std::byte> bytes) {
    const auto parsed = roce::parse_frame(bytes, roce::IcrcCheck::no);
    const auto* const packet = std::get_if<roce::Packet>(&parsed);
    if (packet == nullptr) {
      throw std::logic_error("the switch has sent something that is no packet");
    }
    Frame frame{.opcode = packet->bth.opcode, .psn = packet->bth.psn.value()};
    frame.is_nak = frame.opcode == Opcode::acknowledge && packet->aeth.syndrome.kind() != roce::Syndrome::Kind::ack;
    if (frame.opcode == Opcode::compare_swap) {
      frame.word = packet->atomic.compare;
      frame.swap = packet->atomic.swap_or_add;
    } else if (frame.opcode == Opcode::atomic_acknowledge) {
      frame.word = packet->atomic_ack.original;
    } else if (packet->payload.size() >= 8) {
      std::memcpy(&frame.word, packet->payload.data(), 8);
      frame.is_tuple = packet->payload.size() == kTupleBytes;
      if (frame.is_tuple) {
        frame.lines = {static_cast<std::uint8_t>(packet->payload[8]), static_cast<std::uint8_t>(packet->payload[64])};
      }
    } else if (frame.opcode == Opcode::read_request) {
      frame.is_tuple = packet->reth.dma_length == kTupleBytes;
    }
    return frame;
  }

  // ---- The memory node.

  void reach_memory(World& world, std::size_t i, const Frame& frame) {
    MemoryPair& pair = world.pairs[i];
    const std::uint32_t ahead = (frame.psn - pair.psn) & 0xffffff;
    if (ahead != 0 && ahead < 0x800000) {
      if (!pair.has_sent_nak) {
        pair.has_sent_nak = true;
        world.links[i][memory_to_switch].push_back({.opcode = Opcode::acknowledge, .is_nak = true, .psn = pair.psn});
      }
      return;
    }
    Job job{.request = frame, .is_repeated = ahead != 0};
    if (ahead == 0) {
      pair.psn = (pair.psn + 1) & 0xffffff;
      pair.has_sent_nak = false;
    }
    if (frame.opcode == Opcode::read_request) {
      for (std::size_t other = 0; other < world.pairs.size(); ++other) {
        const bool waits = std::ranges::any_of(world.pairs[other].jobs, [&](const Job& earlier) {
          return earlier.request.opcode == Opcode::write_only && (earlier.has_answered || other == i);
        });
        job.waits_for = static_cast<std::uint8_t>(job.waits_for | (waits ? 1U << other : 0U));
      }
    }
    pair.jobs.push_back(job);
  }

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

  static bool may_touch(const World& world, std::size_t i, std::size_t at) {
    const Job& job = world.pairs[i].jobs[at];
    for (std::size_t other = 0; other < world.pairs.size(); ++other) {
      if ((job.waits_for >> other & 1U) == 0) {
        continue;
      }
      const std::vector<Job>& jobs = world.pairs[other].jobs;
      const std::size_t end = other == i ? at : jobs.size();
      for (std::size_t k = 0; k < end; ++k) {
        if (jobs[k].request.opcode == Opcode::write_only && !jobs[k].is_repeated &&
            (jobs[k].has_answered || other == i) && jobs[k].done != 3) {
          return false;
        }
      }
    }
    return true;
  }

  static void touch(World& world, std::size_t i, std::size_t at, unsigned line) {
    Job& job = world.pairs[i].jobs[at];
    job.done = static_cast<std::uint8_t>(job.done | 1U << line);
    if (job.request.opcode == Opcode::write_only) {
      world.lines.at(line) = job.request.lines.at(line);
      if (line == 0) {
        world.word = job.request.word;
      }
    } else {
      job.lines.at(line) = world.lines.at(line);
      if (line == 0) {
        job.word = world.word;
      }
    }
    forget_finished(world, i);
  }

  static void answer(World& world, std::size_t i, std::size_t at) {
    Job& job = world.pairs[i].jobs[at];
    job.has_answered = true;
    Frame frame{.psn = job.request.psn};
    if (job.request.opcode == Opcode::write_only) {
      frame.opcode = Opcode::acknowledge;
    } else {
      frame.opcode = Opcode::read_response_only;
      frame.word = job.word;
      frame.lines = job.lines;
      frame.is_tuple = true;
    }
    world.links[i][memory_to_switch].push_back(frame);
    forget_finished(world, i);
  }

  static void forget_finished(World& world, std::size_t i) {
    std::erase_if(world.pairs[i].jobs,
                  [](const Job& job) { return job.has_answered && (job.done == 3 || job.is_repeated); });
  }

  const SearchOptions* options_;
  p4::Switch device_;
  std::size_t memory_port_;
  std::vector<p4::RegisterState*> registers_;
  p4::RegisterState* versions_ = nullptr;
  p4::RegisterState* holders_ = nullptr;
  std::array<std::byte, 512> buffer_{};
  std::unordered_set<StateHash, StateHash::Of> seen_;
  SearchResult result_;
};

}  // namespace packets
}  // namespace

SearchResult search(const std::shared_ptr<const p4::Program>& program, const SearchOptions& options) {
  return packets::Search(program, options).run();
}

}  // namespace sidelatch::switchsync

#include <sidelatch/explore/scheme_program.h>

#include "execution.h"
#include "scheme_monitor.h"

#include <sidelatch/sync/latch_peers.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace sidelatch::explore {

using namespace fabric;
using namespace sync;

namespace {

constexpr std::uint32_t kMostClients = 16;
// Readers' requests use numbers that no update has.
constexpr std::uint64_t kFirstTagOfReads = std::uint64_t{1} << 48;

struct Operation {
  bool writes = false;
  std::uint32_t client = 0;
  std::uint64_t tag = 0;  // of a read's requests
  Moment began = 0;
  Moment inside = 0;     // the latch was taken, or the value accepted
  Moment leaves = 0;     // commit() or validate() was called
  Moment attempt = 0;    // of a read: its last attempt began after this moment
  Moment last_post = 0;  // the last post that led to accepting a read
  Moment ended = 0;
  bool has_ended = false;
  bool accepted = true;
  std::uint64_t number = 0;
};

// State that all executions of a program share.
struct Setting {
  const Scheme* scheme;
  checker::Promise promise;
  Workload workload;
  LayoutKind kind;
  RecordShape shape;
  // The record after that many updates one after another, indexed by their number; made on first use.
  std::mutex mutex{};
  std::vector<std::vector<std::byte>> images{};
};

// The object of one execution.
struct Place {
  std::shared_ptr<Setting> setting;
  World* world;
  Layout layout;
  MemoryRegion memory;
  ObjectArray objects;
  Node* latch_node = nullptr;  // of a scheme with latches apart: in the switch's place
  MemoryRegion latches;

  Place(std::shared_ptr<Setting> the_setting, World& the_world, Node& storage)
      : setting(std::move(the_setting)),
        world(&the_world),
        layout(setting->shape, setting->kind, 1),
        memory(storage.allocate(layout.total_bytes(), Access::remote_all)),
        objects(layout, memory.remote()) {
    if (setting->scheme->place() == LatchPlace::words_at_switch) {
      latch_node = &world->add_node("switch");
      latches = latch_node->allocate(sizeof(std::uint64_t), Access::remote_all);
    }
  }

  // The latch's word, wherever it is.
  [[nodiscard]] std::uint64_t latch_word() const {
    std::uint64_t word = 0;
    const std::byte* const at =
        latch_node != nullptr ? latches.bytes().data() : memory.bytes().data() + layout.latch(0);
    std::memcpy(&word, at, sizeof word);
    return word;
  }

  [[nodiscard]] SessionOptions options_for(Node& client, SessionOptions options) const {
    if (latch_node != nullptr) {
      auto& pair = world->make<std::unique_ptr<QueuePair>>(client.connect(*latch_node));
      options.latches = {
          .queue_pair = pair.get(), .words = latches.remote(), .first = memory.remote().address, .granule = kLineBytes};
    }
    return options;
  }
};

// What one client did. A client reaches only its own: what others write down is no part of its state.
struct ClientRun {
  ClientRun(const Place& the_place, std::uint32_t the_number) : place(&the_place), client(the_number) {}
  const Place* place;
  std::uint32_t client;
  std::vector<Operation> operations{};
  SchemeMonitor* monitor = nullptr;  // judges at once, in a search that runs all orders; then nothing is written down
};

// An operation of a client, for those who judge it.
class Noted {
 public:
  Noted(ClientRun* run, bool writes) : run_(run) {
    if (run->monitor != nullptr) {
      run->monitor->began(run->client, writes);
      return;
    }
    which_ = run->operations.size();
    run->operations.push_back({.writes = writes, .client = run->client, .began = world().moment()});
    if (!writes) {
      run->operations.back().tag = tag();
    }
  }
  [[nodiscard]] std::uint64_t tag() const {
    constexpr std::uint64_t kFirst = kFirstTagOfReads;
    return kFirst + run_->client * std::uint64_t{1000} + which_;
  }
  void entered() const {
    if (run_->monitor != nullptr) {
      run_->monitor->entered(run_->client);
    } else {
      operation().inside = world().moment();
    }
  }
  void leaves() const {
    if (run_->monitor != nullptr) {
      run_->monitor->left(run_->client);
    } else {
      operation().leaves = world().moment();
    }
  }
  /// Of a read: its present attempt counts.
  void has_read(std::uint64_t number) const {
    if (run_->monitor == nullptr) {
      operation().attempt = std::max(operation().began, world().last_retry());
      operation().number = number;
    }
  }
  /// What was posted so far led to accepting the read.
  void accepts(std::uint64_t number) const {
    if (run_->monitor != nullptr) {
      run_->monitor->accepts(run_->client, number);
    } else {
      operation().last_post = world().last_post();
    }
  }
  void refuses() const {
    if (run_->monitor != nullptr) {
      run_->monitor->refused(run_->client);
    } else {
      operation().accepted = false;
    }
  }
  void ended(std::uint64_t number) const {
    if (run_->monitor != nullptr) {
      run_->monitor->ended(run_->client, number);
    } else {
      operation().number = number;
      operation().ended = world().moment();
      operation().has_ended = true;
    }
  }

 private:
  [[nodiscard]] World& world() const { return *run_->place->world; }
  [[nodiscard]] Operation& operation() const { return run_->operations[which_]; }
  ClientRun* run_;
  std::size_t which_ = 0;
};

// State of one execution, for its judges.
struct Run {
  const Place* place = nullptr;
  std::vector<const ClientRun*> clients{};
  std::vector<Operation> operations{};  // of all clients, at the end
  const SchemeMonitor* monitor = nullptr;

  void collect() {
    operations.clear();
    for (const ClientRun* client : clients) {
      operations.insert(operations.end(), client->operations.begin(), client->operations.end());
    }
  }
};

// Revokes a dead client's writes, or only claims to.
class WorldRevoker final : public Revoker {
 public:
  WorldRevoker(World& world, Node& client, Node& storage, QueuePair& dead, bool revokes)
      : world_(&world), client_(&client), storage_(&storage), dead_(&dead), revokes_(revokes) {}
  [[nodiscard]] Task<void> revoke(std::uint16_t /*owner*/) override {
    if (revokes_) {
      if (!dynamic_cast<const Execution&>(*world_).may_revoke_in_this_step()) {
        co_await world_->yield(*client_);
      }
      storage_->revoke(*dead_);
    }
    co_return;
  }

 private:
  World* world_;
  Node* client_;
  Node* storage_;
  QueuePair* dead_;
  bool revokes_;
};

std::uint64_t word_for(std::uint64_t number, std::uint64_t salt, bool first) {
  return first || number == 0 ? number : number + salt;
}

void fill(std::span<std::byte> payload, std::uint64_t number, std::uint64_t salt) {
  for (std::size_t i = 0; i < payload.size(); i += 8) {
    const std::uint64_t word = word_for(number, salt, i == 0);
    std::memcpy(payload.data() + i, &word, std::min<std::size_t>(8, payload.size() - i));
  }
}

std::uint64_t number_in(std::span<const std::byte> payload) {
  std::uint64_t number = 0;
  std::memcpy(&number, payload.data(), std::min<std::size_t>(8, payload.size()));
  return number;
}

bool is_whole(std::span<const std::byte> payload, std::uint64_t salt) {
  const std::uint64_t number = number_in(payload);
  for (std::size_t i = 0; i < payload.size(); i += 8) {
    const std::uint64_t word = word_for(number, salt, i == 0);
    if (std::memcmp(payload.data() + i, &word, std::min<std::size_t>(8, payload.size() - i)) != 0) {
      return false;
    }
  }
  return true;
}

std::string words_of(std::span<const std::byte> payload) {
  std::string text;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i + 8 <= payload.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, payload.data() + i, 8);
    if (i == 0 || word != last) {
      text += fmt::format("{}{}", text.empty() ? "" : ", then ", word);
    }
    last = word;
  }
  return text;
}

Task<void> write_object(ClientRun* run, Session* session) {
  const Setting& setting = *run->place->setting;
  World& world = *run->place->world;
  std::uint64_t own = 0;
  bool took_over = false;
  for (std::uint32_t i = 0; i < setting.workload.updates; ++i) {
    const Noted operation(run, true);
    ExclusiveGuard guard = co_await setting.scheme->latch(*session, run->place->objects.at(0));
    operation.entered();
    std::uint64_t number = number_in(guard.payload());
    if (guard.inherited()) {
      took_over = true;
    } else if (!is_whole(guard.payload(), setting.workload.salt)) {
      world.fail(Kind::torn_read,
                 fmt::format("a writer latched the object and found its words to be {}", words_of(guard.payload())));
    } else if (took_over && number < own) {  // others only count on
      world.fail(Kind::lost_update, fmt::format("after a takeover {} was written, and {} is there: the dead client's "
                                                "late WRITE erased it",
                                                own, number));
    }
    own = number + (guard.inherited() ? 10 : 1);
    world.tag(own);
    fill(guard.payload(), own, setting.workload.salt);
    operation.leaves();
    co_await guard.commit();
    world.tag(0);
    operation.ended(own);
    // Nobody needs these any more; what is left in a frame makes states differ.
    number = 0;
    own = took_over ? own : 0;
  }
}

Task<void> read_object(ClientRun* run, Session* session) {
  const Setting& setting = *run->place->setting;
  World& world = *run->place->world;
  for (std::uint32_t i = 0; i < setting.workload.reads; ++i) {
    const Noted operation(run, false);
    world.tag(operation.tag());
    ReadGuard guard;
    try {
      guard = co_await setting.scheme->begin_read(*session, run->place->objects.at(0));
    } catch (const LatchError& error) {
      if (error.kind() != LatchError::Kind::holder_lost) {
        throw;
      }
    }
    if (!guard) {
      co_return;  // its holder crashed, and readers do not take over
    }
    operation.entered();
    const std::uint64_t number = number_in(guard.payload());
    const std::uint64_t version = guard.version();
    const bool whole = is_whole(guard.payload(), setting.workload.salt);
    const std::string words = whole ? "" : words_of(guard.payload());
    const auto judge = [&] {
      if (!whole) {
        world.fail(Kind::torn_read, fmt::format("a reader accepted an object whose words are {}", words));
      } else if (setting.promise == checker::Promise::latch_equivalent && version != number &&
                 !setting.workload.crash) {
        // (A takeover leaves a gap between the numbers.)
        world.fail(Kind::torn_read,
                   fmt::format("a reader accepted version {} with the data of version {}", version, number));
      }
    };
    operation.has_read(number);
    operation.leaves();
    if (guard.fresh() || setting.promise == checker::Promise::consistent) {
      operation.accepts(number);
      judge();
      co_await guard.release();
    } else {
      const bool unchanged = co_await guard.validate();
      operation.accepts(number);
      if (!unchanged) {
        // Counts as a failed attempt, which Scheme::read would repeat, so this program need not judge it.
        operation.refuses();
        co_return;
      }
      judge();
    }
    operation.ended(number);
  }
}

bool overlap(const Operation& a, const Operation& b, const Order& order) {
  return !order.before(a.leaves, b.inside) && !order.before(b.leaves, a.inside);
}

void judge_exclusion(const Run& run, const Order& order) {
  const bool latch = run.place->setting->promise == checker::Promise::exclusion;
  for (std::size_t i = 0; i < run.operations.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const Operation& a = run.operations[i];
      const Operation& b = run.operations[k];
      const bool exclude = (a.writes && b.writes) || (latch && (a.writes || b.writes));
      if (exclude && a.client != b.client && a.has_ended && b.has_ended && overlap(a, b, order)) {
        run.place->world->fail(Kind::mutual_exclusion,
                               fmt::format("clients {} and {} were inside at once", b.client, a.client));
        return;
      }
    }
  }
}

// Finds an operation `older` with a smaller number than `newer`, although `newer` had ended before it began.
void judge_age(const Run& run, const Order& order) {
  for (const Operation& newer : run.operations) {
    for (const Operation& older : run.operations) {
      if (&newer == &older || !newer.has_ended || !older.has_ended || newer.number <= older.number ||
          (older.writes && newer.writes)) {
        continue;
      }
      // A client's operations are in program order.
      const bool same_client = newer.client == older.client && &newer < &older;
      if (same_client || (newer.client != older.client && !order.before(older.began, newer.ended))) {
        run.place->world->fail(
            Kind::linearizability,
            fmt::format("client {} {} number {} although client {}'s {} of number {} had ended before", older.client,
                        older.writes ? "wrote" : "read", older.number, newer.client, newer.writes ? "update" : "read",
                        newer.number));
        return;
      }
    }
  }
  if (run.place->setting->promise != checker::Promise::latch_equivalent) {
    return;
  }
  // Nothing newer may be placed in the memory read before the validation begins. The latch is not part of that memory.
  const RemoteAddress latch = run.place->memory.remote().address + run.place->layout.latch(0);
  for (std::size_t i = 0; i < run.operations.size(); ++i) {
    const Operation& read = run.operations[i];
    if (read.writes || !read.has_ended) {
      continue;
    }
    const auto was_read = [&](const Order::Access& change) {
      return std::ranges::any_of(order.samples(), [&](const Order::Access& sample) {
        return sample.tag == read.tag && sample.moment > read.attempt && sample.node == change.node &&
               sample.address < change.address + change.length && change.address < sample.address + sample.length;
      });
    };
    for (const Order::Access& change : order.changes()) {
      const bool newer = change.tag > read.number && change.tag < kFirstTagOfReads;
      const bool is_latch = change.length == 8 && change.address == latch;
      if (newer && !is_latch && !order.before(read.last_post, change.moment) && was_read(change)) {
        run.place->world->fail(
            Kind::linearizability,
            fmt::format("client {} accepted number {} after a part of number {} had been placed: it would "
                        "not have kept the object unchanged as a shared latch does",
                        read.client, read.number, change.tag));
        return;
      }
    }
  }
}

std::vector<std::byte> image_of(const std::shared_ptr<Setting>& setting, std::uint64_t updates);

void judge_result(const Run& run) {
  std::vector<std::uint64_t> numbers;
  if (run.monitor != nullptr) {
    numbers = run.monitor->numbers();
  }
  for (const Operation& operation : run.operations) {
    if (operation.writes && operation.has_ended) {
      numbers.push_back(operation.number);
    }
  }
  std::ranges::sort(numbers);
  const auto twice = std::ranges::adjacent_find(numbers);
  if (twice != numbers.end()) {
    run.place->world->fail(Kind::lost_update,
                           fmt::format("two updates gave the number {}: one of them is lost", *twice));
    return;
  }
  const Place& place = *run.place;
  const std::uint64_t latch = place.latch_word();
  if (!place.setting->scheme->is_free(latch)) {
    run.place->world->fail(Kind::deadlock, fmt::format("everybody has unlatched, and the latch word is {:#x}", latch));
    return;
  }
  const std::span<const std::byte> record =
      place.memory.bytes().subspan(place.layout.record(0), place.setting->shape.bytes);
  std::vector<std::byte> right = image_of(place.setting, numbers.size());
  if (place.setting->scheme->queues()) {  // a free latch may count its holders
    std::memcpy(right.data() + (place.layout.latch(0) - place.layout.record(0)), &latch, sizeof latch);
  }
  if (std::memcmp(record.data(), right.data(), right.size()) == 0) {
    return;
  }
  std::size_t wrong = 0;
  while (record[wrong] == right[wrong]) {
    ++wrong;
  }
  const RecordShape& shape = place.setting->shape;
  const bool in_header = wrong >= shape.header && wrong < shape.header + shape.header_bytes;
  run.place->world->fail(
      Kind::lost_update,
      fmt::format("after {} updates byte {} of the object{} is not what they make of it one after another",
                  numbers.size(), wrong, in_header ? ", in its header," : ""));
}

// For a scheme whose clients reach each other: connects this one to those before it.
LatchPeers* peers_of(const Setting& setting, World& world, Node& node, std::uint32_t client,
                     std::vector<LatchPeers*>& others) {
  if (!setting.scheme->needs_peers()) {
    return nullptr;
  }
  auto& made = world.make<LatchPeers>(node, static_cast<std::uint16_t>(client + 1), 1U);
  for (LatchPeers* const other : others) {
    LatchPeers::connect(*other, made);
  }
  others.push_back(&made);
  return &made;
}

void build(const std::shared_ptr<Setting>& setting, World& world) {
  const Workload& workload = setting->workload;
  Node& storage = world.add_node("memory", workload.nics);
  const Place& place = world.make<Place>(setting, world, storage);
  Run& run = world.make<Run>();
  run.place = &place;
  SchemeMonitor* monitor = nullptr;
  if (world.judges_in_order() && !workload.crash) {
    monitor =
        &world.make<SchemeMonitor>(world, setting->promise, workload.writers + workload.readers, place.memory.remote(),
                                   place.memory.remote().address + place.layout.latch(0), kFirstTagOfReads);
    world.judges_with(monitor);
  }
  run.monitor = monitor;
  QueuePair* first = nullptr;
  std::vector<LatchPeers*> peers;
  for (std::uint32_t i = 0; i < workload.writers + workload.readers; ++i) {
    const bool writes = i < workload.writers;
    Node& node = world.add_node(writes ? fmt::format("writer {}", i) : fmt::format("reader {}", i - workload.writers));
    auto& qp = world.make<std::unique_ptr<QueuePair>>(world.connect(node, storage, i % workload.nics, {}));
    first = first == nullptr ? qp.get() : first;
    SessionOptions options;
    options.buffers = std::min(4U, setting->scheme->most_buffers());
    options.peers = peers_of(*setting, world, node, i, peers);
    if (workload.crash) {
      options.owner = static_cast<std::uint16_t>(i + 1);
      options.lease = Lease{.length = from_ns(1e6), .margin = from_ns(1e5)};
      options.revoker = &world.make<WorldRevoker>(world, node, storage, *first, workload.revocation);
    }
    Session& session = world.make<Session>(*qp, buffer_bytes(setting->shape), place.options_for(node, options));
    ClientRun& client = world.make<ClientRun>(place, i);
    client.monitor = monitor;
    run.clients.push_back(&client);
    world.spawn(node, writes ? write_object(&client, &session) : read_object(&client, &session));
    if (workload.crash && i == 0) {
      world.may_crash(node);
      world.require_liveness_after_crash();
    }
  }
  world.at_end([&run](const Order& order) {
    run.collect();
    judge_exclusion(run, order);
    judge_age(run, order);
    const bool refused =
        std::ranges::any_of(run.operations, [](const Operation& o) { return o.writes && !o.has_ended; });
    if (!run.place->world->crashed() && !refused) {
      judge_result(run);
    }
  });
}

// The record after so many updates, each by a writer that runs alone, with every request as one step.
std::vector<std::byte> image_of(const std::shared_ptr<Setting>& setting, std::uint64_t updates) {
  const std::scoped_lock lock(setting->mutex);
  if (setting->images.size() <= updates) {
    setting->images.resize(updates + 1);
  }
  std::vector<std::byte>& image = setting->images[updates];
  if (image.empty()) {
    auto alone =
        std::make_shared<Setting>(setting->scheme, setting->promise, setting->workload, setting->kind, setting->shape);
    alone->workload.updates = 1;
    const Place* place = nullptr;
    Execution execution(
        [&](World& world) {
          Node& storage = world.add_node("memory");
          place = &world.make<Place>(alone, world, storage);
          for (std::uint64_t i = 0; i < updates; ++i) {
            Node& node = world.add_node("writer");
            auto& qp = world.make<std::unique_ptr<QueuePair>>(node.connect(storage));
            std::vector<LatchPeers*> none;
            SessionOptions options = place->options_for(node, {.buffers = std::min(4U, alone->scheme->most_buffers())});
            options.peers = peers_of(*alone, world, node, static_cast<std::uint32_t>(i), none);
            Session& session = world.make<Session>(*qp, buffer_bytes(alone->shape), options);
            world.spawn(node, write_object(&world.make<ClientRun>(*place, static_cast<std::uint32_t>(i)), &session));
          }
        },
        model::rules_of(model::Preset::strict));
    execution.begin();
    // A client begins only when no step of the previous one is left.
    std::vector<Action> actions;
    for (execution.enabled(actions); !actions.empty(); execution.enabled(actions)) {
      const auto machine_step = std::ranges::find(actions, Action::Sort::machine, &Action::sort);
      execution.repeat(machine_step != actions.end() ? *machine_step : actions.front());
    }
    const auto bytes = place->memory.bytes().subspan(place->layout.record(0), alone->shape.bytes);
    image.assign(bytes.begin(), bytes.end());
  }
  return image;
}

}  // namespace

void Workload::validate() const {
  const auto refuse = [](const char* field, std::uint64_t value, const char* allowed) {
    throw std::invalid_argument(fmt::format("workload: {} is {}: it must be {}", field, value, allowed));
  };
  const std::uint64_t clients = std::uint64_t{writers} + readers;
  if (clients == 0 || clients > kMostClients) {
    refuse("writers + readers", clients, "1 to 16");
  }
  if (lines == 0 || lines > 64) {
    refuse("lines", lines, "1 to 64");
  }
  if (nics == 0 || nics > 16) {
    refuse("nics", nics, "1 to 16");
  }
  if (updates > 64 || reads > 64) {
    refuse("updates or reads", std::max(updates, reads), "0 to 64");
  }
  if (crash && writers < 2) {
    refuse("writers", writers, "2 at least with crash, since one of them takes over");
  }
}

Program scheme_program(const Scheme& scheme, checker::Promise promise, const Workload& workload, LayoutKind layout) {
  workload.validate();
  if (workload.crash && scheme.queues()) {
    throw std::invalid_argument(fmt::format(
        "{}: its clients stand in a queue, which a dead one stops: it has no leases, and so no run in which "
        "a client crashes",
        scheme.name()));
  }
  if (scheme.place() == LatchPlace::tuples_at_switch) {
    throw std::invalid_argument(fmt::format(
        "{}: the explorer has no switch; docs/switch.md says how the switch's program is searched, packet by "
        "packet",
        scheme.name()));
  }
  const std::uint64_t payload = scheme.largest_payload(workload.lines * kLineBytes, layout) / 8 * 8;
  if (payload == 0) {
    throw std::invalid_argument(fmt::format("{}: {} lines have no room for a word of payload; give it more lines",
                                            scheme.name(), workload.lines));
  }
  auto setting = std::make_shared<Setting>(&scheme, promise, workload, layout, scheme.shape(payload, layout));
  return [setting](World& world) { build(setting, world); };
}

Program scheme_program(const Scheme& scheme, checker::Promise promise, const Workload& workload) {
  return scheme_program(scheme, promise, workload, scheme.default_layout());
}

}  // namespace sidelatch::explore

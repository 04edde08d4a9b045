#include "chaos.h"

#include "history.h"

#include "tests/sync/victim.h"

#include <sidelatch/checker/schemes.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/structures/btree.h>
#include <sidelatch/structures/hash_table.h>
#include <sidelatch/sync/lease.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>

namespace sidelatch::structures {

using namespace fabric;
using namespace sync;

namespace {

constexpr std::uint16_t kFirstVictim = 100;
constexpr std::uint16_t kLastOwner = 900;
constexpr std::uint64_t kMostLosses = 10;  // of connections
constexpr Lease kChaosLease{from_ns(500'000), from_ns(50'000)};

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed * 77 + 5) {}
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::mt19937_64 random_;
};

// What a seed draws.
struct ChaosPlan {
  Trouble trouble = Trouble::none;
  const checker::SchemeEntry* scheme = nullptr;
  const char* preset = "";
  const char* profile = "";
  bool nasty = false;  // a NIC that reorders and stalls
  bool btree = false;
  HashTableOptions hash{};
  BTreeOptions tree{};
  std::size_t memory_nodes = 1;
  std::uint64_t keys = 1;
  std::uint64_t operations = 0;  // of each client
  int clients = 2;
  int mix = 0;
  bool leased = false;
  BTreeWorkerOptions worker{};

  [[nodiscard]] bool perfect() const { return !btree && hash.addressing == Addressing::perfect; }
  [[nodiscard]] std::uint64_t value_bytes() const { return btree ? tree.value_bytes : hash.value_bytes; }
  [[nodiscard]] std::uint64_t key(std::uint64_t i) const { return perfect() ? i : i * 1'000'003 % 100'000; }
  [[nodiscard]] std::string text(std::uint64_t seed) const {
    return fmt::format(
        "seed {}: {} over {}, {}{}, {}, values of {}, nodes of {}, {} keys, {} clients x {} operations, {} memory "
        "nodes, mix {}, {} entries, overflow {}, {} nodes, {}{}{} buffers, send queue {}",
        seed,
        btree       ? "B-tree"
        : perfect() ? "perfect hash table"
                    : "hash table",
        scheme->name, profile, nasty ? " (nasty)" : "", preset, value_bytes(), tree.node_bytes, keys, clients,
        operations, memory_nodes, mix, hash.entries_per_bucket, hash.overflow_buckets.value_or(0), tree.nodes,
        leased ? "leases, " : "", tree.traversal == Traversal::coupled ? "coupled, " : "", worker.session.buffers,
        worker.queue_pair.send_queue_depth);
  }
};

std::optional<ChaosPlan> draw(Trouble trouble, std::uint64_t seed) {
  Dice dice(seed);
  ChaosPlan plan;
  plan.trouble = trouble;
  plan.preset = dice.of({"strict", "observed", "spec", "relaxed", "relaxed"});
  std::vector<const checker::SchemeEntry*> possible;
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    const bool specimen = entry.kind == checker::Kind::specimen;
    const bool safe = entry.safe_under(model::parse_preset(plan.preset));
    // A shared holder carries no owner: what it has latched is not given back if it dies or loses its connection.
    const bool recovers =
        trouble == Trouble::none || trouble == Trouble::specimens || !entry.name.starts_with("latch-rw");
    if (entry.kind != checker::Kind::model_only && !entry.make()->queues() && recovers &&
        (trouble == Trouble::specimens ? specimen && !safe : !specimen && safe)) {
      possible.push_back(&entry);
    }
  }
  if (possible.empty()) {
    return std::nullopt;
  }
  plan.scheme = possible[dice.below(possible.size())];
  plan.profile = dice.of({"connectx5", "connectx7", "bluefield2"});
  plan.nasty = dice.one_in(2);
  plan.btree = dice.one_in(2);
  plan.memory_nodes = dice.of<std::size_t>({1, 1, 2, 3});
  plan.keys = dice.of<std::uint64_t>({1, 2, 4, 8, 30, 60});
  plan.clients = 2 + static_cast<int>(dice.below(6));
  plan.operations = dice.of<std::uint64_t>({30, 60, 100});
  plan.mix = static_cast<int>(dice.below(3));
  plan.leased = trouble == Trouble::kills || trouble == Trouble::connections ||
                (trouble == Trouble::none && !plan.scheme->name.starts_with("latch-rw") && dice.one_in(2));
  const auto value_bytes = dice.of<std::uint64_t>({8, 16, 40, 100, 200});
  plan.hash.value_bytes = value_bytes;
  plan.tree.value_bytes = value_bytes;
  if (dice.one_in(5)) {
    plan.hash.addressing = Addressing::perfect;
    plan.hash.capacity = plan.keys;
  } else {
    plan.hash.capacity = dice.of<std::uint64_t>({1, 2, 3, 10});
    plan.hash.entries_per_bucket = dice.of<std::uint32_t>({1, 1, 2, 4});
    plan.hash.overflow_buckets = dice.of<std::uint64_t>({1, 3, 10, 70});
  }
  plan.tree.node_bytes = 128 * (1 + dice.below(8));
  plan.tree.nodes = dice.of<std::uint64_t>({20, 60, 500});
  // Readers that couple under a latch may be taken for dead, as btree.h says.
  const bool couples = dice.one_in(3) && !(plan.leased && plan.scheme->name.starts_with("latch-"));
  plan.tree.traversal = couples ? Traversal::coupled : Traversal::fences;
  plan.tree.placement = dice.of({Placement::round_robin, Placement::key_range});
  SessionOptions& session = plan.worker.session;
  session.buffers = plan.btree ? dice.of<std::uint32_t>({6, 8, 16}) : dice.of<std::uint32_t>({3, 4, 8});
  session.retry = dice.one_in(4) ? Retry::at_once() : Retry::backoff();
  if (trouble == Trouble::none && dice.one_in(4)) {
    session.retry.deadline = from_ns(dice.of<double>({3e3, 8e3, 20e3, 60e3}));
  }
  session.lost_work = ignore_lost_work;
  if (plan.leased) {
    session.lease = kChaosLease;
  }
  plan.worker.cached_nodes = dice.of<std::size_t>({0, 0, 2, 50});
  plan.worker.queue_pair.send_queue_depth = dice.of<std::uint32_t>({4, 8, 64});
  return plan;
}

sim::SimulationOptions world_of(const ChaosPlan& plan, std::uint64_t seed) {
  sim::Profile profile = sim::load_profile(plan.profile);
  if (plan.nasty) {
    profile.pcie.reorder_probability = 0.3;
    profile.pcie.reorder_ns = 3000;
    profile.pcie.write_stall_probability = 0.2;
    profile.pcie.write_stall_ns = 5000;
    profile.link.jitter_ns = 2000;
    profile.lock_table.load_ns = 100;
  }
  return {.profile = profile, .rules = model::rules_of(model::parse_preset(plan.preset)), .seed = seed};
}

// Every 8 bytes of a value depend on its number.
std::vector<std::byte> value_for(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> value(bytes);
  std::uint64_t word = number;
  for (std::size_t i = 0; i < bytes; i += 8) {
    std::memcpy(value.data() + i, &word, std::min<std::size_t>(8, bytes - i));
    word = word * 0x9e3779b97f4a7c15ULL + i + 1;
  }
  return value;
}

class Campaign {
 public:
  Campaign(const ChaosPlan& plan, std::uint64_t seed)
      : plan_(plan), dice_(seed ^ 0x5eedU), scheme_(plan.scheme->make()), world_(world_of(plan, seed)) {
    result_.configuration = plan.text(seed);
    make_structure();
  }
  ~Campaign() { world_.reactor().destroy_spawned(); }
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  ChaosResult run() {
    for (int i = 0; i < plan_.clients; ++i) {
      Actor& actor = add_actor(static_cast<std::uint16_t>(i + 1));
      ++left_;
      world_.reactor().spawn(live(actor, dice_.below(1U << 30), /*for_ever=*/false));
    }
    if (plan_.trouble == Trouble::kills) {
      kill_some();
    }
    if (plan_.trouble == Trouble::connections) {
      lose_some();
    }
    constexpr int kPatience = 200;  // times 5 ms: the operations need a few milliseconds
    for (int i = 0; left_ > 0 && i < kPatience; ++i) {
      world_.reactor().run_for(from_ns(5e6));
    }
    if (left_ > 0) {
      violate(fmt::format("{} clients have not come to their end after a second", left_));
      return std::move(result_);
    }
    world_.reactor().run();
    look_at_the_end();
    return std::move(result_);
  }

 private:
  struct Actor {
    std::uint16_t owner = 0;
    Client* client = nullptr;
    BTree::Worker* worker = nullptr;  // of a B-tree
    std::unique_ptr<Client> own{};
    std::vector<std::byte> value{};
  };

  void violate(std::string text) {
    if (result_.violations.size() < 5) {
      result_.violations.push_back(std::move(text));
    }
  }

  void make_structure() {
    const auto needed = [&] {
      return plan_.btree ? BTree::bytes_needed(*scheme_, plan_.tree)
                         : HashTable::bytes_needed(*scheme_, plan_.hash, plan_.memory_nodes);
    };
    std::uint64_t bytes = 0;
    while (bytes == 0) {
      try {
        bytes = needed();
      } catch (const std::invalid_argument&) {
        plan_.tree.node_bytes += 128;  // until four values fit
      }
    }
    std::vector<RemoteSpan> spans;
    for (std::size_t i = 0; i < plan_.memory_nodes; ++i) {
      nodes_.push_back(&world_.add_node("storage"));
      regions_.push_back(nodes_.back()->allocate(bytes, Access::remote_all));
      spans.push_back(regions_.back().remote());
      services_.push_back(std::make_unique<RevocationService>(*nodes_.back()));
      revokers_.push_back(services_.back().get());
    }
    if (plan_.btree) {
      tree_ = std::make_unique<BTree>(*scheme_, plan_.tree, spans);
    } else {
      table_ = std::make_unique<HashTable>(*scheme_, plan_.hash, spans);
    }
  }

  Actor& add_actor(std::uint16_t owner) {
    BTreeWorkerOptions options = plan_.worker;
    options.session.seed = owner + dice_.below(1000) * 100;
    if (plan_.leased) {
      options.session.owner = owner;
      options.revokers = revokers_;
    }
    Node& node = world_.add_node("client");
    auto actor = std::make_unique<Actor>();
    actor->owner = owner;
    if (plan_.btree) {
      auto worker = std::make_unique<BTree::Worker>(*tree_, node, nodes_, options);
      actor->worker = worker.get();
      actor->own = std::move(worker);
    } else {
      actor->own = std::make_unique<Client>(node, nodes_, table_->buffer_bytes(), options.session, options.queue_pair,
                                            options.revokers);
    }
    actor->client = actor->own.get();
    if (plan_.leased) {
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        services_[i]->enlist(owner, actor->client->session(i).qp());
      }
    }
    actors_.push_back(std::move(actor));
    return *actors_.back();
  }

  Call draw_call(Dice& dice) const {
    if (plan_.perfect()) {
      return dice.one_in(2) ? Call::get : dice.one_in(2) ? Call::put : Call::update;
    }
    const std::uint64_t roll = dice.below(100);
    switch (plan_.mix) {
      case 0:
        return roll < 40   ? Call::get
               : roll < 55 ? Call::put
               : roll < 70 ? Call::insert
               : roll < 80 ? Call::update
                           : Call::remove;
      case 1:
        return roll < 10 ? Call::get : roll < 50 ? Call::insert : Call::remove;
      default:
        return roll < 50 ? Call::get : roll < 75 ? Call::put : Call::update;
    }
  }

  [[nodiscard]] std::int64_t now() { return world_.reactor().now().count(); }

  Task<Outcome> call(Actor& actor, Call what, std::uint64_t key) {
    switch (what) {
      case Call::get:
        return tree_ ? tree_->get(*actor.worker, key, actor.value) : table_->get(*actor.client, key, actor.value);
      case Call::put:
        return tree_ ? tree_->put(*actor.worker, key, actor.value) : table_->put(*actor.client, key, actor.value);
      case Call::insert:
        return tree_ ? tree_->insert(*actor.worker, key, actor.value) : table_->insert(*actor.client, key, actor.value);
      case Call::update:
        return tree_ ? tree_->update(*actor.worker, key, actor.value) : table_->update(*actor.client, key, actor.value);
      case Call::remove:
        break;
    }
    return tree_ ? tree_->remove(*actor.worker, key) : table_->remove(*actor.client, key);
  }

  // The number of a value that was read; nothing, and a violation, if it is torn.
  std::optional<std::uint64_t> number_of(std::span<const std::byte> value, std::uint64_t key) {
    if (plan_.perfect() && std::ranges::all_of(value, [](std::byte b) { return b == std::byte{0}; })) {
      return 0;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, value.data(), sizeof number);
    if (!std::ranges::equal(value, value_for(number, value.size()))) {
      violate(fmt::format("key {}: a torn value", key));
      return std::nullopt;
    }
    return number;
  }

  Task<void> do_one(Actor& actor, Call what, std::uint64_t key) {
    const std::uint64_t number = ++numbers_;
    actor.value = value_for(number, plan_.value_bytes());
    std::vector<Event>& history = histories_[key];
    const std::size_t place = history.size();
    history.push_back({.call = what, .argument = number, .began = now(), .is_open = true});
    ++result_.operations;
    const Outcome outcome = co_await call(actor, what, key);
    Event& event = histories_[key][place];
    event.outcome = outcome;
    event.ended = now();
    event.is_open = false;
    if (what == Call::get && outcome == Outcome::done) {
      event.result = number_of(actor.value, key).value_or(0);
    }
  }

  // Each key of the scanned range counts as a lookup.
  Task<void> scan(Actor& actor, std::uint64_t from, std::size_t most) {
    std::vector<std::uint64_t> keys(most);
    std::vector<std::byte> values(most * plan_.value_bytes());
    const std::int64_t began = now();
    const BTree::Scanned scanned = co_await tree_->scan(*actor.worker, from, keys, values);
    if (scanned.outcome != Outcome::done) {
      co_return;
    }
    std::map<std::uint64_t, std::uint64_t> found;
    for (std::size_t i = 0; i < scanned.count; ++i) {
      const auto value = std::span(values).subspan(i * plan_.value_bytes(), plan_.value_bytes());
      found[keys[i]] = number_of(value, keys[i]).value_or(0);
      if (i > 0 && keys[i] <= keys[i - 1]) {
        violate("a scan does not ascend");
      }
    }
    const std::uint64_t last = scanned.count == most ? keys[most - 1] : ~std::uint64_t{0};
    for (std::uint64_t i = 0; i < plan_.keys; ++i) {
      const std::uint64_t key = plan_.key(i);
      if (key < from || key > last) {
        continue;
      }
      const auto there = found.find(key);
      histories_[key].push_back({.call = Call::get,
                                 .outcome = there == found.end() ? Outcome::absent : Outcome::done,
                                 .result = there == found.end() ? 0 : there->second,
                                 .began = began,
                                 .ended = now()});
    }
  }

  Task<void> live(Actor& actor, std::uint64_t seed, bool for_ever) {
    Dice dice(seed);
    for (std::uint64_t i = 0; for_ever || i < plan_.operations; ++i) {
      bool reconnects = false;
      try {
        const std::uint64_t key = plan_.key(dice.below(plan_.keys));
        if (tree_ && dice.one_in(12)) {
          co_await scan(actor, dice.one_in(3) ? 0 : key, 1 + dice.below(2 * plan_.keys + 2));
        } else {
          co_await do_one(actor, draw_call(dice), key);
        }
      } catch (const LatchError& error) {
        note_error(actor, error.what(), error.kind() == LatchError::Kind::lease_expired);
      } catch (const StructureError& error) {
        note_error(actor, error.what(), may_be_torn());
      } catch (const FabricError& error) {
        reconnects = plan_.trouble == Trouble::connections;
        note_error(actor, error.what(), reconnects);
      }
      if (reconnects) {
        try {
          co_await actor.client->reconnect();
        } catch (const FabricError& error) {
          // A connection may be lost again at once; only one that the memory node has ended does not come back.
          note_error(actor, error.what(), error.status() != Status::disconnected);
        }
      }
      if (dice.one_in(16)) {
        co_await world_.reactor().sleep(from_ns(static_cast<double>(dice.below(5000))));
      }
    }
    if (plan_.trouble == Trouble::connections) {
      co_await end(actor);
    }
    --left_;
  }

  // A client that has done its work says so: what a connection has lost since its last request it does not know, and
  // others would wait for its latch until they take it for dead.
  static Task<void> end(Actor& actor) {
    for (std::uint64_t i = 0; i <= kMostLosses; ++i) {
      try {
        co_await actor.client->reconnect();
        co_await actor.client->close();
        co_return;
      } catch (const FabricError&) {  // lost again
      }
    }
  }

  // A WRITE that a death has cut leaves a node that only two copies survive.
  [[nodiscard]] bool may_be_torn() const {
    return plan_.trouble == Trouble::kills && plan_.scheme->name.find("copy-on-write") == std::string_view::npos;
  }
  void note_error(const Actor& actor, const char* text, bool expected) {
    ++result_.in_doubt;
    if (!expected && plan_.trouble != Trouble::specimens) {
      violate(fmt::format("client {}: {}", actor.owner, text));
    }
  }

  void kill_some() {
    std::vector<std::uint64_t> moments;
    std::vector<std::unique_ptr<Victim>> victims;
    const std::uint64_t count = 1 + dice_.below(4);
    for (std::uint64_t i = 0; i < count; ++i) {
      Actor& actor = add_actor(static_cast<std::uint16_t>(kFirstVictim + i));
      victims.push_back(std::make_unique<Victim>(live(actor, dice_.below(1U << 30), /*for_ever=*/true)));
      moments.push_back(dice_.below(400'000));
    }
    std::ranges::sort(moments);
    std::uint64_t time = 0;
    for (std::size_t i = 0; i < victims.size(); ++i) {
      world_.reactor().run_for(from_ns(static_cast<double>(moments[i] - time)));
      time = moments[i];
      victims[i]->kill(world_.reactor());
      ++result_.kills;
    }
  }

  void lose(QueuePair& qp) {
    if (qp.state() != QueuePair::State::ready) {
      return;
    }
    if (dice_.one_in(2)) {  // what has been executed fails, too
      result_.lost_connections += world_.lose_connection(qp) ? 1U : 0U;
      return;
    }
    // The memory node refuses a key that it does not know, and ends the connection.
    const WorkRequest bad = write(nothing_of(qp.node()), RemoteSpan{{64}, 8, {0xdead}});
    if (qp.post(std::span(&bad, 1))) {
      ++result_.lost_connections;
    }
  }
  LocalSpan nothing_of(Node& node) {
    nothings_.push_back(node.allocate(8, Access::local_write));
    return nothings_.back().local();
  }

  void lose_some() {
    const std::uint64_t count = 1 + dice_.below(kMostLosses);
    for (std::uint64_t i = 0; i < count && left_ > 0; ++i) {
      world_.reactor().run_for(from_ns(static_cast<double>(dice_.below(60'000))));
      const std::size_t node = dice_.below(nodes_.size());
      if (dice_.one_in(4)) {  // the memory node stops: nobody gets an answer
        for (const auto& actor : actors_) {
          lose(actor->client->session(node).qp());
        }
      } else {
        lose(actors_[dice_.below(actors_.size())]->client->session(node).qp());
      }
    }
  }

  void look_at_the_end() {
    Actor& last = add_actor(kLastOwner);
    ++left_;
    for (std::uint64_t i = 0; i < plan_.keys; ++i) {
      world_.reactor().run(look_up(last, plan_.key(i)));
    }
    // Readers of copies do not look at the latch: only the next writer takes over what a dead client has held.
    if (plan_.trouble == Trouble::kills && table_ && !plan_.perfect() && !may_be_torn()) {
      for (std::uint64_t i = 0; i < plan_.keys; ++i) {
        world_.reactor().run(take_over(last, plan_.key(i)));
      }
    }
    try {
      std::vector<std::string> problems = plan_.btree ? world_.reactor().run(tree_->check(*last.worker)).problems
                                                      : world_.reactor().run(table_->check(*last.client)).problems;
      std::erase_if(problems, [&](const std::string& problem) {
        return may_be_torn() &&
               (problem.find("torn") != std::string::npos || problem.find("entries are lost") != std::string::npos);
      });
      for (std::string& problem : problems) {
        violate("check(): " + std::move(problem));
      }
    } catch (const StructureError& error) {
      note_error(last, error.what(), may_be_torn());
    }
    look_for_the_revoked();
    check_histories();
  }

  void look_for_the_revoked() {
    for (const auto& actor : actors_) {
      result_.takeovers += actor->client->statistics().takeovers;
      for (const auto& service : services_) {
        if (actor->owner < kFirstVictim && service->revoked(actor->owner)) {
          violate(fmt::format("client {} lives, and was taken for dead", actor->owner));
        }
      }
    }
    if (plan_.trouble == Trouble::connections && result_.takeovers > 0) {
      violate(fmt::format("{} takeovers, and nobody has died", result_.takeovers));
    }
  }

  // Latches the key's home bucket, if nothing else.
  Task<void> take_over(Actor& actor, std::uint64_t key) {
    try {
      co_await do_one(actor, Call::update, key);
    } catch (const LatchError& error) {
      note_error(actor, error.what(), error.kind() == LatchError::Kind::lease_expired);
    }
  }

  Task<void> look_up(Actor& actor, std::uint64_t key) {
    bool damaged = false;
    try {
      co_await do_one(actor, Call::get, key);
    } catch (const StructureError& error) {
      damaged = true;
      note_error(actor, error.what(), may_be_torn());
    }
    // A client died while it wrote the value: the next put() makes it whole, and takes over the latch, which readers of
    // copies do not look at.
    if (plan_.perfect() && (damaged || plan_.trouble == Trouble::kills)) {
      co_await do_one(actor, Call::put, key);
    }
  }

  void check_histories() {
    for (auto& [key, history] : histories_) {
      std::erase_if(history, [](const Event& event) {
        return event.outcome == Outcome::timed_out || (event.is_open && event.call == Call::get);
      });
      const std::optional<std::uint64_t> initial = plan_.perfect() ? std::optional<std::uint64_t>(0) : std::nullopt;
      if (!is_linearizable(history, initial)) {
        violate(fmt::format("the history of key {} is not linearizable: {} events", key, history.size()));
      }
    }
  }

  ChaosPlan plan_;
  Dice dice_;
  ChaosResult result_;
  std::unique_ptr<Scheme> scheme_;
  sim::Simulation world_;
  std::vector<Node*> nodes_;
  std::vector<MemoryRegion> regions_;
  std::vector<MemoryRegion> nothings_;
  std::vector<std::unique_ptr<RevocationService>> services_;
  std::vector<Revoker*> revokers_;
  std::unique_ptr<BTree> tree_;
  std::unique_ptr<HashTable> table_;
  std::vector<std::unique_ptr<Actor>> actors_;
  Histories histories_;
  std::uint64_t numbers_ = 0;
  int left_ = 0;  // clients that have not come to their end
};

}  // namespace

ChaosResult run_chaos(Trouble trouble, std::uint64_t seed) {
  const std::optional<ChaosPlan> plan = draw(trouble, seed);
  return plan ? Campaign(*plan, seed).run() : ChaosResult{};
}

}  // namespace sidelatch::structures

#include <sidelatch/checker/scene.h>

#include <sidelatch/fabric/after.h>
#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/verbs/verbs_fabric.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

namespace sidelatch::checker {

using namespace fabric;

namespace {

// What one run finds; the first fault counts.
struct Findings {
  std::string first;
  bool client_failed = false;  // its requests may be under way still
  void add(std::string_view what) {
    if (first.empty()) {
      first = what.empty() ? "a requirement does not hold" : what;
    }
  }
};

// Nodes, memory and clients in a world that has add_node().
struct SceneStage {
  MemoryRegion memory;
  std::vector<std::unique_ptr<SceneClient>> clients;

  template <class World>
  SceneStage(const Scene& scene, World& world, const SceneClient::Report& report) {
    Node& storage = world.add_node("memory");
    memory = storage.allocate(scene.memory_bytes, Access::remote_all);
    for (unsigned i = 0; i < scene.clients; ++i) {
      Node& node = world.add_node(fmt::format("client {}", i));
      MemoryRegion buffers = node.allocate(scene.buffer_bytes, Access::local_write);
      clients.push_back(
          std::make_unique<SceneClient>(i, node, memory.remote(), std::move(buffers), node.connect(storage), report));
    }
  }

  void clear(const Scene& scene) const {
    std::ranges::fill(memory.bytes(), std::byte{0});
    for (const auto& client : clients) {
      std::ranges::fill(client->buffer_bytes(), std::byte{0});
    }
    if (scene.at_start) {
      scene.at_start(memory.bytes());
    }
  }
};

// A client's task in a world that runs by itself. Its requests that nobody waited for arrive before the end. A WRITE
// may complete before it is placed, and would then change what is judged, and the memory of the next run. A READ that
// is posted behind its completion waits for the placement (rule 2); its byte goes to `proof`, if that is a region.
Task<void> play(const Scene* scene, SceneClient* client, const MemoryRegion* proof, Findings* findings) {
  try {
    co_await scene->client(client);
    co_await client->qp().drain();
    if (proof != nullptr) {
      co_await client->qp().read(proof->local(), client->memory(0, 1));
    }
  } catch (const std::exception& error) {
    findings->add(fmt::format("client {}: {}", client->number(), error.what()));
    findings->client_failed = true;
  }
}

std::uint64_t word_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < 8) {
    throw std::out_of_range(fmt::format("the word at {} is not in {} bytes", offset, bytes.size()));
  }
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

// Runs until all tasks have ended. False: `limit` has passed before.
bool run_until_ended(Reactor& reactor, Duration limit, Duration slice) {
  const Time end = after(reactor.now(), limit);
  while (reactor.spawned() != 0 && reactor.now() < end) {
    const Time before = reactor.now();
    reactor.run_for(std::min(slice, end - before));
    if (reactor.spawned() != 0 && reactor.now() == before) {
      return false;  // nothing more can happen
    }
  }
  return reactor.spawned() == 0;
}

void judge_scene(const Scene& scene, const SceneStage& stage, const SceneClient::Report& report) {
  if (scene.at_end) {
    SceneEnd end(stage.memory.bytes(), report);
    scene.at_end(end);
  }
}

void count_run(SceneReport& report, const Findings& findings) {
  ++report.runs;
  if (!findings.first.empty()) {
    ++report.broken;
    report.first = report.broken == 1 ? findings.first : report.first;
  }
}

void require_runs(std::uint64_t runs, Duration limit) {
  if (runs == 0) {
    throw std::invalid_argument("runs is 0: it must be at least 1");
  }
  if (limit <= Duration::zero()) {
    throw std::invalid_argument("limit must be more than 0");
  }
}

constexpr std::string_view kStuck = "a client has not ended within the limit";

}  // namespace

std::uint64_t SceneClient::value(std::uint64_t offset) const { return word_at(buffers_.bytes(), offset); }

void SceneClient::set(std::uint64_t offset, std::uint64_t word) const {
  static_cast<void>(word_at(buffers_.bytes(), offset));  // throws if it is out of range
  std::memcpy(buffers_.bytes().data() + offset, &word, sizeof word);
}

std::uint64_t SceneEnd::word(std::uint64_t offset) const { return word_at(memory_, offset); }

void Scene::validate() const {
  constexpr std::uint32_t kMostClients = 1000;
  if (clients == 0 || clients > kMostClients) {
    throw std::invalid_argument(fmt::format("clients is {}: it must be 1 to {}", clients, kMostClients));
  }
  for (const auto& [name, bytes] : {std::pair{"memory_bytes", memory_bytes}, std::pair{"buffer_bytes", buffer_bytes}}) {
    if (bytes == 0) {
      throw std::invalid_argument(fmt::format("{} is 0: it must be at least 1", name));
    }
  }
  if (!client) {
    throw std::invalid_argument("client is empty: it must make a client's task");
  }
}

explore::Program explored(Scene scene) {
  scene.validate();
  const auto shared = std::make_shared<const Scene>(std::move(scene));
  return [shared](explore::World& world) {
    const SceneClient::Report report = [&world](explore::Kind kind, std::string_view what) {
      world.fail(kind, std::string(what));
    };
    auto& stage = world.make<SceneStage>(*shared, world, report);
    if (shared->at_start) {
      shared->at_start(stage.memory.bytes());
    }
    for (const auto& client : stage.clients) {
      world.spawn(client->node(), shared->client(client.get()));
    }
    if (shared->at_end) {
      world.at_end(
          [shared = shared.get(), &stage, report](const explore::Order&) { judge_scene(*shared, stage, report); });
    }
  };
}

SceneReport simulate(const Scene& scene, const SimulateOptions& options) {
  scene.validate();
  require_runs(options.runs, options.limit);
  SceneReport result;
  for (std::uint64_t run = 0; run < options.runs; ++run) {
    sim::SimulationOptions of_run = options.world;
    of_run.seed += run;
    Findings findings;
    const SceneClient::Report report = [&](explore::Kind, std::string_view what) { findings.add(what); };
    sim::Simulation world(of_run);
    const SceneStage stage(scene, world, report);
    stage.clear(scene);
    const Reactor::Scope scope(world.reactor());
    for (const auto& client : stage.clients) {
      // Virtual time goes on until all is placed.
      world.reactor().spawn(play(&scene, client.get(), nullptr, &findings));
    }
    if (!run_until_ended(world.reactor(), options.limit, options.limit)) {
      findings.add(kStuck);
    } else {
      judge_scene(scene, stage, report);
    }
    count_run(result, findings);
  }
  return result;
}

SceneReport run_on_nic(const Scene& scene, const NicOptions& options) {
  scene.validate();
  require_runs(options.runs, options.limit);
  SceneReport result;
  Findings findings;
  const SceneClient::Report report = [&](explore::Kind, std::string_view what) { findings.add(what); };
  verbs::VerbsFabric world(options.device, options.connections);
  const SceneStage stage(scene, world, report);
  std::vector<MemoryRegion> proofs;
  proofs.reserve(stage.clients.size());
  for (const auto& client : stage.clients) {
    proofs.push_back(client->node().allocate(1, Access::local_write));
  }
  for (std::uint64_t run = 0; run < options.runs; ++run) {
    findings = {};
    stage.clear(scene);
    const Reactor::Scope scope(world.reactor());
    for (const auto& client : stage.clients) {
      world.reactor().spawn(play(&scene, client.get(), &proofs[client->number()], &findings));
    }
    const bool ended = run_until_ended(world.reactor(), options.limit, std::chrono::milliseconds(1));
    if (!ended) {
      findings.add(kStuck);
    }
    const bool works = ended && !findings.client_failed && std::ranges::all_of(stage.clients, [](const auto& client) {
                         return client->qp().state() == QueuePair::State::ready;
                       });
    if (works) {
      judge_scene(scene, stage, report);
    }
    count_run(result, findings);
    if (!works) {
      break;
    }
  }
  return result;
}

}  // namespace sidelatch::checker

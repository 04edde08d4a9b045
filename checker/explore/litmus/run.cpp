// Runs a parsed litmus test: its threads become clients and CPU threads of a World.
#include "litmus.h"

#include "checker/explore/execution.h"

#include <sidelatch/explore/check.h>
#include <sidelatch/explore/litmus.h>
#include <sidelatch/fabric/model/effects.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>

namespace sidelatch::explore {

using namespace fabric;
using namespace litmus;

namespace {

using Values = std::vector<std::optional<std::int64_t>>;

// At most, whatever the model's atom is.
std::uint64_t room_of(const Target& target) {
  return target.across_lines ? target.count * kLineBytes
                             : (target.count * std::uint64_t{8} + kLineBytes - 1) / kLineBytes * kLineBytes;
}

std::uint64_t room_of(const std::vector<Statement>& body) {
  std::uint64_t room = 0;
  for (const Statement& statement : body) {
    if (const auto* post = std::get_if<Post>(&statement.action)) {
      room += room_of(post->target);
    } else if (const auto* branch = std::get_if<If>(&statement.action)) {
      room += room_of(branch->then_body) + room_of(branch->else_body);
    }
  }
  return room;
}

// Where the lines of a node begin, and where the last one ends. Of an object's lines only the first words are used, so
// all that its layout has to keep is that they lie in pieces of their own. If a piece is smaller than a line, the lines
// lie as close as that: else each request for the object would have many pieces more that nobody can tell apart.
std::vector<std::uint64_t> places_of(const MemoryNode& node, std::uint64_t atom) {
  std::vector<std::uint64_t> places;
  std::uint64_t end = 0;
  for (const Line& line : node.lines) {
    places.push_back(line.goes_on ? places.back() + atom : end);
    end = (places.back() / kLineBytes + 1) * kLineBytes;
  }
  places.push_back(end);
  return places;
}

// Of one thread: by register and word. In an object that no other thread can reach, so the order in which two threads
// assign registers is none that the explorer has to look at.
using Registers = std::vector<Values>;

// The memory of one execution. Clients share it, so nothing of it changes.
struct Machine {
  std::uint64_t atom = kLineBytes;
  std::vector<MemoryRegion> nodes;
  std::vector<std::vector<std::uint64_t>> places;  // by node: places_of()

  [[nodiscard]] std::uint64_t offset_of(const MemoryWord& word) const {
    return places[word.node][word.line] + std::uint64_t{word.word} * 8;
  }
  // Bytes from one word of the target to the next.
  [[nodiscard]] std::uint64_t stride_of(const Target& target) const { return target.across_lines ? atom : 8; }
  [[nodiscard]] std::uint64_t span_of(const Target& target) const { return (target.count - 1) * stride_of(target) + 8; }
  [[nodiscard]] LocalSpan local(const MemoryWord& word) const { return nodes[word.node].local(offset_of(word), 8); }
  [[nodiscard]] std::int64_t value(const MemoryWord& word) const {
    return static_cast<std::int64_t>(model::load_word(nodes[word.node].bytes().data() + offset_of(word)));
  }
};

struct ThreadRun {
  Machine* machine = nullptr;
  World* world = nullptr;
  const litmus::Thread* thread = nullptr;
  Registers* registers = nullptr;
  // Of a client.
  Node* node = nullptr;
  std::vector<fabric::QueuePair*> queue_pairs;
  MemoryRegion memory;   // payloads and results, one stretch per request
  MemoryRegion buffers;  // one line per `buf`
  std::uint64_t used = 0;
  struct Pending {
    const Post* post;
    LocalSpan from;
  };
  std::vector<Pending> pending;
  // Of a CPU thread.
  Cpu* cpu = nullptr;

  void assign(std::uint32_t reg, std::uint32_t index, std::uint64_t value) const {
    (*registers)[reg][index] = static_cast<std::int64_t>(value);
  }
};

Task<void> post(ThreadRun* run, const Post* post) {
  const Machine& machine = *run->machine;
  const std::uint64_t span = machine.span_of(post->target);
  const RemoteSpan remote = machine.nodes[post->target.node].remote(machine.offset_of(post->target.at(0)), span);
  const LocalSpan local = run->memory.local(run->used, span);
  run->used += room_of(post->target);
  WorkRequest request;
  switch (post->opcode) {
    case Opcode::write:
      if (post->buffer) {
        request = write(run->buffers.local(*post->buffer * kLineBytes, 8), remote);
      } else {
        for (std::uint32_t i = 0; i < post->target.count; ++i) {
          model::store_word(local.data + i * machine.stride_of(post->target),
                            static_cast<std::uint64_t>(post->operand));
        }
        request = write(local, remote);  // nobody else writes there
        request.inlined = local.length <= QueuePairOptions{}.max_inline;
      }
      break;
    case Opcode::read:
      request = read(local, remote);
      break;
    case Opcode::compare_swap:
      request =
          compare_swap(remote, static_cast<std::uint64_t>(post->expected), static_cast<std::uint64_t>(post->operand));
      break;
    default:
      request = fetch_add(remote, static_cast<std::uint64_t>(post->operand));
      break;
  }
  if (is_atomic(post->opcode)) {
    request.local = local;
  }
  request.fence = post->fence;
  if (post->result) {
    run->pending.push_back({post, local});
  }
  co_await run->queue_pairs[post->queue_pair]->enqueue(request);
}

Task<void> wait(ThreadRun* run, const Wait* wait) {
  const auto is_waited_for = [wait](std::uint32_t queue_pair) {
    return wait->queue_pairs.empty() || std::ranges::find(wait->queue_pairs, queue_pair) != wait->queue_pairs.end();
  };
  for (std::uint32_t i = 0; i < run->queue_pairs.size(); ++i) {
    if (is_waited_for(i)) {
      co_await run->queue_pairs[i]->drain();
    }
  }
  // All in one step: a client that crashes has passed the wait or has not.
  for (const ThreadRun::Pending& pending : run->pending) {
    if (is_waited_for(pending.post->queue_pair)) {
      for (std::uint32_t k = 0; k < pending.post->target.count; ++k) {
        run->assign(*pending.post->result, k,
                    model::load_word(pending.from.data + k * run->machine->stride_of(pending.post->target)));
      }
    }
  }
  std::erase_if(run->pending,
                [&](const ThreadRun::Pending& pending) { return is_waited_for(pending.post->queue_pair); });
}

Task<void> run_body(ThreadRun* run, const std::vector<Statement>* body) {
  for (const Statement& statement : *body) {
    if (const auto* request = std::get_if<Post>(&statement.action)) {
      co_await post(run, request);
    } else if (const auto* waits = std::get_if<Wait>(&statement.action)) {
      co_await wait(run, waits);
    } else if (const auto* sets = std::get_if<SetBuffer>(&statement.action)) {
      co_await run->world->store_local(*run->node, run->buffers.local(sets->buffer * kLineBytes, 8),
                                       static_cast<std::uint64_t>(sets->value));
    } else if (const auto* stores = std::get_if<Store>(&statement.action)) {
      co_await run->cpu->store(run->machine->local(stores->word), static_cast<std::uint64_t>(stores->value));
    } else if (const auto* loads = std::get_if<Load>(&statement.action)) {
      const std::uint64_t value = co_await run->cpu->load(run->machine->local(loads->word));
      if (loads->result) {
        run->assign(*loads->result, 0, value);
      }
    } else if (std::holds_alternative<Mfence>(statement.action)) {
      co_await run->cpu->fence();
    } else {
      const auto& branch = std::get<If>(statement.action);
      const bool taken =
          holds(branch.condition, [run](const Variable& v) {  // it sees registers of its own thread alone
            const auto& word = std::get<RegisterWord>(v);
            return (*run->registers)[word.reg][word.index];
          });
      co_await run_body(run, taken ? &branch.then_body : &branch.else_body);
    }
  }
}

Task<void> run_thread(ThreadRun* run) {
  co_await run_body(run, &run->thread->body);
  // In a final state all requests have completed, even those nobody waited for.
  const Wait all;
  co_await wait(run, &all);
}

// Final states without their names: assigned registers, and memory.
struct Reached {
  std::mutex mutex;
  std::map<Values, bool> states;  // whether `exists` holds
};

std::vector<Variable> variables_of(const LitmusTest& test) {
  std::vector<Variable> variables;
  for (std::uint32_t t = 0; t < test.threads.size(); ++t) {
    for (std::uint32_t r = 0; r < test.threads[t].registers.size(); ++r) {
      for (std::uint32_t i = 0; i < test.threads[t].registers[r].words; ++i) {
        variables.emplace_back(RegisterWord{t, r, i});
      }
    }
  }
  for (std::uint32_t n = 0; n < test.nodes.size(); ++n) {
    for (std::uint32_t l = 0; l < test.nodes[n].lines.size(); ++l) {
      for (std::uint32_t w = 0; w < test.nodes[n].lines[l].words.size(); ++w) {
        variables.emplace_back(MemoryWord{n, l, w});
      }
    }
  }
  return variables;
}

std::uint32_t posts_in(const std::vector<Statement>& body) {
  std::uint32_t count = 0;
  for (const Statement& statement : body) {
    if (const auto* branch = std::get_if<If>(&statement.action)) {
      count += posts_in(branch->then_body) + posts_in(branch->else_body);
    } else {
      count += std::holds_alternative<Post>(statement.action) ? 1U : 0U;
    }
  }
  return count;
}

// Posting never waits for room (docs/litmus.md).
QueuePairOptions options_for(const litmus::Thread& thread) {
  QueuePairOptions options;
  options.send_queue_depth = std::max(options.send_queue_depth, std::bit_ceil(posts_in(thread.body)));
  return options;
}

void build_client(const litmus::Thread& thread, const std::vector<Node*>& nodes, World& world, ThreadRun& run) {
  run.node = &world.add_node(thread.name);
  for (const litmus::QueuePair& queue_pair : thread.queue_pairs) {
    run.queue_pairs.push_back(world
                                  .make<std::unique_ptr<fabric::QueuePair>>(world.connect(
                                      *run.node, *nodes[queue_pair.node], queue_pair.nic, options_for(thread)))
                                  .get());
  }
  run.memory = run.node->allocate(room_of(thread.body) + kLineBytes, Access::local_write);
  run.buffers = run.node->allocate((thread.buffers.size() + 1) * kLineBytes, Access::local_write);
  for (std::size_t i = 0; i < thread.buffers.size(); ++i) {
    model::store_word(run.buffers.bytes().data() + i * kLineBytes,
                      static_cast<std::uint64_t>(thread.buffers[i].initial));
  }
  if (thread.may_crash) {
    world.may_crash(*run.node);
  }
  world.spawn(*run.node, run_thread(&run));
}

void build(const LitmusTest& test, std::uint64_t atom, const std::vector<Variable>& variables, Reached& reached,
           World& world) {
  auto& machine = world.make<Machine>();
  machine.atom = atom;
  std::vector<Node*> nodes;
  for (const MemoryNode& node : test.nodes) {
    nodes.push_back(&world.add_node(node.name, 2));
    dynamic_cast<Execution&>(world).believe_in_cpu_alone(*nodes.back());
    machine.places.push_back(places_of(node, atom));
    machine.nodes.push_back(nodes.back()->allocate(machine.places.back().back() + kLineBytes, Access::remote_all));
    for (std::uint32_t l = 0; l < node.lines.size(); ++l) {
      for (std::uint32_t w = 0; w < node.lines[l].words.size(); ++w) {
        model::store_word(machine.nodes.back().bytes().data() + machine.places.back()[l] + std::uint64_t{w} * 8,
                          static_cast<std::uint64_t>(node.lines[l].words[w].initial));
      }
    }
  }
  auto& registers_of = world.make<std::vector<const Registers*>>();  // by thread
  for (const litmus::Thread& thread : test.threads) {
    auto& registers = world.make<Registers>();
    for (const Register& reg : thread.registers) {
      registers.emplace_back(reg.words);
    }
    registers_of.push_back(&registers);
    auto& run = world.make<ThreadRun>();
    run.machine = &machine;
    run.world = &world;
    run.thread = &thread;
    run.registers = &registers;
    if (thread.is_client) {
      build_client(thread, nodes, world, run);
    } else {
      run.cpu = &world.add_cpu(*nodes.front(), thread.name);
      world.spawn(*run.cpu, run_thread(&run));
    }
  }
  world.at_end([&test, &variables, &reached, &machine, &registers_of](const Order& /*order*/) {
    const auto value = [&](const Variable& variable) -> std::optional<std::int64_t> {
      if (const auto* word = std::get_if<MemoryWord>(&variable)) {
        return machine.value(*word);
      }
      const auto& word = std::get<RegisterWord>(variable);
      return (*registers_of[word.thread])[word.reg][word.index];
    };
    Values state;
    state.reserve(variables.size());
    for (const Variable& variable : variables) {
      state.push_back(value(variable));
    }
    const bool satisfies = test.exists && holds(*test.exists, value);
    const std::scoped_lock lock(reached.mutex);
    reached.states.emplace(std::move(state), satisfies);
  });
}

}  // namespace

std::optional<bool> LitmusResult::ok() const {
  if (!expected || !reachable) {
    return std::nullopt;
  }
  // A state that was reached is reachable, however little was explored.
  if (verdict.outcome == Outcome::bounded && !*reachable) {
    return std::nullopt;
  }
  return *reachable == *expected;
}

std::vector<LitmusResult> run_litmus(std::string_view text, std::string_view file_name,
                                     std::span<const model::Preset> models, const Options& options) {
  const LitmusTest test = parse_litmus(text, file_name);
  const std::vector<Variable> variables = variables_of(test);
  std::vector<LitmusResult> results;
  for (const model::Preset preset : models) {
    Options explored = options;
    explored.walks = 0;  // its threads share nothing
    explored.rules = rules_of(preset);
    test.apply_params(explored.rules);
    explored.max_events = std::numeric_limits<std::uint32_t>::max();  // a test has no loops, so it ends
    explored.look_for_shorter =
        std::numeric_limits<std::uint64_t>::max();  // all states are wanted, also besides a deadlock
    Reached reached;
    LitmusResult result;
    result.test = test.name;
    result.model = preset;
    result.expected = test.expected(preset);
    result.verdict =
        check([&](World& world) { build(test, explored.rules.atom, variables, reached, world); }, explored);
    if (test.exists) {
      result.reachable = false;
    }
    for (const auto& [values, satisfies] : reached.states) {
      LitmusState state;
      for (std::size_t i = 0; i < variables.size(); ++i) {
        if (values[i]) {
          state.emplace_back(state_name(test, variables[i]), *values[i]);
        }
      }
      result.states.push_back(std::move(state));
      result.satisfies.push_back(satisfies);
      if (satisfies) {
        result.reachable = true;
      }
    }
    if (result.verdict.violation && result.verdict.violation->kind != Kind::deadlock) {
      throw std::logic_error(fmt::format("{}: {}", test.name, result.verdict.violation->what));
    }
    if (result.verdict.violation) {
      result.states.push_back({{"deadlock", 1}});
      result.satisfies.push_back(false);
    }
    results.push_back(std::move(result));
  }
  return results;
}

namespace {

// What was not reached may lie in what was not searched.
bool is_open(const LitmusResult& result) {
  return result.reachable && !*result.reachable && result.verdict.outcome == Outcome::bounded;
}

}  // namespace

nlohmann::ordered_json to_json(const LitmusResult& result) {
  const auto word = [](const std::optional<bool>& value) -> nlohmann::ordered_json {
    return value ? nlohmann::ordered_json(*value ? "allowed" : "forbidden") : nlohmann::ordered_json(nullptr);
  };
  const auto flag = [](const std::optional<bool>& value) -> nlohmann::ordered_json {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  nlohmann::ordered_json states = nlohmann::ordered_json::array();
  for (const LitmusState& state : result.states) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [name, value] : state) {
      object[name] = value;
    }
    states.push_back(std::move(object));
  }
  return {{"test", result.test},
          {"model", model::name(result.model)},
          {"reachable", is_open(result) ? flag(std::nullopt) : flag(result.reachable)},
          {"expected", word(result.expected)},
          {"ok", flag(result.ok())},
          {"states", states},
          {"bound", result.verdict.outcome == Outcome::bounded ? nlohmann::ordered_json(result.verdict.bound)
                                                               : nlohmann::ordered_json(nullptr)},
          {"executions", result.verdict.executions},
          {"seconds", result.verdict.seconds}};
}

std::string to_text(const LitmusResult& result) {
  std::string text = fmt::format("{} under {}: ", result.test, model::name(result.model));
  if (result.reachable) {
    text += *result.reachable ? "reachable" : is_open(result) ? "not reached so far" : "not reachable";
    if (result.expected) {
      const std::optional<bool> ok = result.ok();
      text += fmt::format(", expected {}: {}", *result.expected ? "allowed" : "forbidden",
                          ok ? (*ok ? "ok" : "NOT AS EXPECTED") : "undecided");
    }
  } else {
    text += "no condition";
  }
  text += fmt::format(" ({} states, {} executions{})\n", result.states.size(), result.verdict.executions,
                      result.verdict.outcome == Outcome::bounded ? ", bounded by " + result.verdict.bound : "");
  for (std::size_t i = 0; i < result.states.size(); ++i) {
    text += result.satisfies[i] ? "  * " : "    ";
    for (const auto& [name, value] : result.states[i]) {
      text += fmt::format("{}={} ", name, value);
    }
    text.back() = '\n';
  }
  return text;
}

}  // namespace sidelatch::explore

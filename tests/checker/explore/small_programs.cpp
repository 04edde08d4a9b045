#include "small_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>

namespace sidelatch::explore {

using namespace fabric;

namespace {

constexpr std::uint64_t kUnset = 0xeeee;

struct StatesSeen {
  std::mutex mutex;
  std::set<State> states;
};

struct Registers {
  std::vector<std::uint64_t> values;
};

struct ClientParts {
  World* world = nullptr;
  Node* node = nullptr;
  std::vector<QueuePair*> queue_pairs;
  MemoryRegion buffers;  // a stretch of lines for each op
  RemoteSpan memory;
  Registers* registers = nullptr;
};

std::uint64_t load_local(const LocalSpan& from, std::uint64_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, from.data + offset, sizeof word);
  return word;
}

// Each op has one register, or one per line that it reads; the next wait sets them.
Task<void> run_client(ClientParts* parts, std::vector<Op> ops) {
  struct Pending {
    std::size_t reg;
    std::uint32_t lines;
    LocalSpan from;
  };
  std::vector<Pending> pending;
  std::size_t reg = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op op = ops[i];
    const std::uint64_t bytes = (op.lines - 1) * 64 + 8;
    const LocalSpan buffer = parts->buffers.local(i * 256, 256);
    QueuePair& qp = *parts->queue_pairs[op.qp];
    WorkRequest request;
    bool posts = true;
    switch (op.what) {
      case Op::What::write:
      case Op::What::write_buffer:
        for (std::uint32_t line = 0; line < op.lines; ++line) {
          std::memcpy(buffer.data + line * 64UL, &op.value, sizeof op.value);
        }
        request = write(buffer.subspan(0, bytes), parts->memory.subspan(op.line * 64UL, bytes));
        request.inlined = op.what == Op::What::write;
        break;
      case Op::What::read:
        request = read(buffer.subspan(0, bytes), parts->memory.subspan(op.line * 64UL, bytes));
        pending.push_back({reg, op.lines, buffer});
        reg += op.lines;
        break;
      case Op::What::cas:
      case Op::What::faa:
        request = op.what == Op::What::cas
                      ? compare_swap(parts->memory.subspan(op.line * 64UL, 8), op.expected, op.value)
                      : fetch_add(parts->memory.subspan(op.line * 64UL, 8), op.value);
        request.local = buffer.subspan(0, 8);
        pending.push_back({reg, 1, buffer});
        reg += 1;
        break;
      default:
        posts = false;
        break;
    }
    if (posts) {
      request.fence = op.fence;
      request.signaled = true;
      co_await qp.enqueue(request);
      co_await parts->world->yield(*parts->node);
    } else if (op.what == Op::What::change_buffer) {
      co_await parts->world->store_local(*parts->node, parts->buffers.local((i - 1) * 256, 8), op.value);
    } else if (op.what == Op::What::yield) {
      co_await parts->world->yield(*parts->node);
    } else {
      for (QueuePair* one : parts->queue_pairs) {
        co_await one->drain();
      }
      for (const Pending& one : pending) {
        for (std::uint32_t line = 0; line < one.lines; ++line) {
          parts->registers->values[one.reg + line] = load_local(one.from, line * 64UL);
        }
      }
      pending.clear();
    }
  }
}

Task<void> run_cpu(Cpu* cpu, LocalSpan memory, Registers* registers, std::vector<Op> ops) {
  std::size_t reg = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op op = ops[i];
    const LocalSpan word = memory.subspan(op.line * 64UL, 8);
    if (op.what == Op::What::store) {
      co_await cpu->store(word, op.value);
    } else if (op.what == Op::What::load) {
      const std::uint64_t value = co_await cpu->load(word);
      registers->values[reg++] = value;
    } else {
      co_await cpu->fence();
    }
  }
}

std::size_t registers_of(const Thread& thread) {
  std::size_t count = 0;
  for (const Op& op : thread.ops) {
    count += op.what == Op::What::read                                                           ? op.lines
             : op.what == Op::What::cas || op.what == Op::What::faa || op.what == Op::What::load ? 1U
                                                                                                 : 0U;
  }
  return count;
}

void build(const SmallProgram& program, StatesSeen& shared, World& world) {
  Node& storage = world.add_node("memory", program.nics);
  auto& memory = world.make<MemoryRegion>(storage.allocate(program.lines * 64UL, Access::remote_all));
  auto& all_registers = world.make<std::vector<const Registers*>>();
  for (const Thread& thread : program.threads) {
    auto& registers = world.make<Registers>();  // an object that threads share would order their steps
    registers.values.resize(registers_of(thread), kUnset);
    all_registers.push_back(&registers);
    if (thread.is_cpu) {
      Cpu& cpu = world.add_cpu(storage, "cpu");
      world.spawn(cpu, run_cpu(&cpu, memory.local(), &registers, thread.ops));
      continue;
    }
    auto& parts = world.make<ClientParts>();
    parts.world = &world;
    parts.node = &world.add_node("client");
    for (const unsigned nic : thread.nics) {
      parts.queue_pairs.push_back(
          world.make<std::unique_ptr<QueuePair>>(world.connect(*parts.node, storage, nic, {})).get());
    }
    parts.buffers = parts.node->allocate(256 * (thread.ops.size() + 1), Access::local_write);
    parts.memory = memory.remote();
    parts.registers = &registers;
    if (thread.may_crash) {
      world.may_crash(*parts.node);
    }
    world.spawn(*parts.node, run_client(&parts, thread.ops));
  }
  world.at_end([&program, &shared, &memory, &all_registers](const Order& /*order*/) {
    State state;
    for (const Registers* const registers : all_registers) {
      state.insert(state.end(), registers->values.begin(), registers->values.end());
    }
    for (std::uint32_t line = 0; line < program.lines; ++line) {
      std::uint64_t word = 0;
      std::memcpy(&word, memory.bytes().data() + line * 64UL, sizeof word);
      state.push_back(word);
    }
    const std::scoped_lock lock(shared.mutex);
    shared.states.insert(std::move(state));
  });
}

}  // namespace

Program program_of(const SmallProgram& program) {
  return [program, shared = std::make_shared<StatesSeen>()](World& world) { build(program, *shared, world); };
}

Reached reach(const SmallProgram& program, const Options& options) {
  StatesSeen shared;
  Reached reached;
  reached.verdict = check([&](World& world) { build(program, shared, world); }, options);
  reached.states = std::move(shared.states);
  return reached;
}

SmallProgram random_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  SmallProgram program;
  program.lines = 1 + below(2);
  program.nics = below(4) == 0 ? 2 : 1;
  const std::uint32_t threads = 2 + (below(4) == 0 ? 1U : 0U);
  std::uint64_t value = 1;
  for (std::uint32_t t = 0; t < threads; ++t) {
    Thread thread;
    thread.is_cpu = below(5) == 0;
    thread.may_crash = !thread.is_cpu && below(8) == 0;
    thread.nics = {below(program.nics)};
    if (below(4) == 0) {
      thread.nics.push_back(below(program.nics));
    }
    const std::uint32_t ops = 1 + below(threads == 2 ? 3 - program.lines / 2 : 1);
    for (std::uint32_t i = 0; i < ops; ++i) {
      Op op;
      op.line = below(program.lines);
      op.value = value++;
      op.qp = below(thread.nics.size());
      op.fence = below(5) == 0;
      op.lines = below(4) == 0 ? program.lines - op.line : 1;
      if (thread.is_cpu) {
        op.what = std::array{Op::What::store, Op::What::load, Op::What::load, Op::What::mfence}[below(4)];
      } else {
        op.what = std::array{Op::What::write, Op::What::write, Op::What::write_buffer, Op::What::read, Op::What::read,
                             Op::What::cas,   Op::What::faa,   Op::What::faa,          Op::What::wait}[below(9)];
        op.expected = op.what == Op::What::cas && below(2) == 0 ? value / 2 : 0;
      }
      thread.ops.push_back(op);
      if (op.what == Op::What::write_buffer && below(2) == 0) {
        op.what = Op::What::change_buffer;
        op.value = value++;
        thread.ops.push_back(op);
      }
    }
    if (!thread.is_cpu) {
      thread.ops.push_back({.what = Op::What::wait});
    }
    program.threads.push_back(thread);
  }
  return program;
}

std::string SmallProgram::to_string() const {
  static constexpr std::array kNames = {"write", "write.buf", "buf :=", "read", "cas",   "faa",
                                        "wait",  "yield",     "store",  "load", "mfence"};
  std::string text = fmt::format("{} lines, {} NICs\n", lines, nics);
  for (const Thread& thread : threads) {
    text += thread.is_cpu ? "  cpu:" : "  client";
    if (!thread.is_cpu) {
      for (const unsigned nic : thread.nics) {
        text += fmt::format(" nic{}", nic);
      }
      text += thread.may_crash ? " may crash:" : ":";
    }
    for (const Op& op : thread.ops) {
      text += fmt::format(" {}{} @qp{} [{}..{}] {}/{};", kNames.at(static_cast<std::size_t>(op.what)),
                          op.fence ? ".fence" : "", op.qp, op.line, op.line + op.lines, op.value, op.expected);
    }
    text += "\n";
  }
  return text;
}

}  // namespace sidelatch::explore

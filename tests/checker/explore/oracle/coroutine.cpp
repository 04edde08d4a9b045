#include "coroutine.h"

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/task.h>

#include <cstring>
#include <memory>
#include <mutex>

namespace sidelatch::explore::oracle {

using namespace fabric;
using What = Instruction::What;

namespace {

struct Parts {
  const ProgramList* program = nullptr;
  World* world = nullptr;
  Node* storage = nullptr;
  MemoryRegion memory;
  std::vector<QueuePair*> qps;
  std::uint64_t* object = nullptr;
};

struct Doer {
  Parts* parts = nullptr;
  const Flow* flow = nullptr;
  Node* node = nullptr;
  Cpu* cpu = nullptr;
  MemoryRegion slots;
  FlowState end;
};

RemoteSpan word_at(const Doer& doer, std::uint8_t word, std::uint64_t words = 1) {
  const std::uint64_t spacing = doer.parts->program->spacing;
  return doer.parts->memory.remote(word * spacing, (words - 1) * spacing + 8);
}

LocalSpan own_word_at(const Doer& doer, std::uint8_t word) {
  return doer.parts->memory.local(std::uint64_t{word} * doer.parts->program->spacing, 8);
}

LocalSpan slot_at(const Doer& doer, std::uint8_t slot, std::uint64_t words = 1) {
  const std::uint64_t spacing = doer.parts->program->spacing;
  return doer.slots.local(slot * spacing, (words - 1) * spacing + 8);
}

std::uint64_t load_from(const std::byte* from) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

using Registers = std::array<std::uint64_t, kRegisters>;

std::uint64_t value_in(const Registers& registers, const Operand& operand) {
  return operand.is_register ? registers.at(operand.value) : operand.value;
}

WorkRequest request_of(const Doer& doer, const Instruction& at, const Registers& registers) {
  WorkRequest request;
  switch (at.what) {
    case What::write:
      request = fabric::write(slot_at(doer, at.slot, at.words), word_at(doer, at.word, at.words));
      request.inlined = at.inlined;
      break;
    case What::read:
      request = fabric::read(slot_at(doer, at.slot, at.words), word_at(doer, at.word, at.words));
      break;
    default:
      request = at.what == What::swap ? compare_swap(word_at(doer, at.word), value_in(registers, at.expected),
                                                     value_in(registers, at.operand))
                                      : fetch_add(word_at(doer, at.word), value_in(registers, at.operand));
      request.local = slot_at(doer, at.slot);
      break;
  }
  request.fence = at.fenced;
  request.signaled = true;
  return request;
}

// Each loop at a place of its own, or all at one.
Reactor::LoopId begin_at_a_place(Reactor& reactor, std::uint8_t loop, bool one_place) {
  if (one_place || loop == 0) {
    return reactor.begin_retries();
  }
  if (loop == 1) {
    return reactor.begin_retries();
  }
  return reactor.begin_retries();
}

// What nobody sees. Returns where it goes on.
std::size_t do_locally(Doer& doer, const Instruction& at, std::size_t next, Registers& registers) {
  std::uint64_t& reg = registers.at(at.reg);
  const std::uint64_t value = value_in(registers, at.operand);
  switch (at.what) {
    case What::look:
      reg = load_from(slot_at(doer, at.slot).data);
      break;
    case What::put:
      std::memcpy(slot_at(doer, at.slot).data, &value, sizeof value);
      break;
    case What::revoke:
      doer.parts->storage->revoke(*doer.parts->qps[at.qp]);
      break;
    case What::poke:
      std::memcpy(doer.parts->memory.bytes().data() + at.word * doer.parts->program->spacing, &value, sizeof value);
      break;
    case What::peek:
      reg = load_from(doer.parts->memory.bytes().data() + at.word * doer.parts->program->spacing);
      break;
    case What::set:
      reg = value;
      break;
    case What::plus:
      reg += value;
      break;
    case What::keep:
      *doer.parts->object = value;
      break;
    case What::recall:
      reg = *doer.parts->object;
      break;
    case What::go:
      return at.to;
    case What::go_if:
      return reg == value ? at.to : next;
    case What::go_unless:
      return reg != value ? at.to : next;
    case What::fail_if:
      doer.parts->world->require(reg != value, "a register has a value that it must not have");
      break;
    case What::if_expired:
      return doer.node->reactor().now() >= std::chrono::minutes(30) ? at.to : next;
    default:
      break;
  }
  return next;
}

bool needs_a_step(const Doer& doer, const Instruction& at) {
  const bool of_buffers = at.what == What::look || at.what == What::put;
  return at.what == What::yield || at.what == What::poke || at.what == What::peek ||
         (of_buffers && doer.flow->has_unwaited && !doer.parts->program->looks_behind_posts);
}

Task<void> interpret(Doer* doer) {
  Registers registers{};
  std::array<Reactor::LoopId, kLoops> loops{};
  std::size_t next = 0;
  World& world = *doer->parts->world;
  try {
    while (next < doer->flow->code.size()) {
      const Instruction& at = doer->flow->code[next++];
      if (at.posts()) {
        QueuePair& qp = *doer->parts->qps[at.qp];
        if (at.waited) {
          co_await qp.submit(request_of(*doer, at, registers));
        } else {
          co_await qp.enqueue(request_of(*doer, at, registers));
        }
        continue;
      }
      switch (at.what) {
        case What::wait:
          co_await doer->parts->qps[at.qp]->drain();
          break;
        case What::begin_loop:
          loops.at(at.loop) = begin_at_a_place(world.reactor(), at.loop, doer->parts->program->one_place);
          break;
        case What::retry:
          next = at.to;
          if (at.declared) {
            co_await world.reactor().retry(loops.at(at.loop), Duration::zero());
          }
          break;
        case What::store:
          co_await doer->cpu->store(own_word_at(*doer, at.word), value_in(registers, at.operand));
          break;
        case What::load: {
          const std::uint64_t value = co_await doer->cpu->load(own_word_at(*doer, at.word));
          registers.at(at.reg) = value;
          break;
        }
        case What::fence:
          co_await doer->cpu->fence();
          break;
        default:
          if (at.what == What::put && at.intended) {
            co_await world.store_local(*doer->node, slot_at(*doer, at.slot), value_in(registers, at.operand));
            break;
          }
          if (needs_a_step(*doer, at)) {
            co_await world.yield(*doer->node);
          }
          next = do_locally(*doer, at, next, registers);
          break;
      }
    }
    doer->end.status = FlowState::Status::ended;
  } catch (const FabricError&) {
    doer->end.status = FlowState::Status::aborted;
  }
  doer->end.registers = registers;
}

struct Found {
  std::mutex mutex;
  std::set<End> ends;
};

void build_list(const ProgramList& program, Found& found, World& world) {
  auto& parts = world.make<Parts>();
  parts.program = &program;
  parts.world = &world;
  parts.object = &world.make<std::uint64_t>();
  parts.storage = &world.add_node("memory", program.nics);
  parts.memory = parts.storage->allocate(std::uint64_t{kWords} * 64, Access::remote_all);
  std::vector<Node*> nodes;
  for (std::uint8_t i = 0; i < program.clients; ++i) {
    nodes.push_back(&world.add_node("client"));
  }
  if (program.may_crash) {
    world.may_crash(*nodes.front());
  }
  if (program.liveness_after_crash) {
    world.require_liveness_after_crash();
  }
  for (const ProgramList::Pair& pair : program.qps) {
    parts.qps.push_back(
        world.make<std::unique_ptr<QueuePair>>(world.connect(*nodes[pair.client], *parts.storage, pair.nic, {})).get());
  }
  auto& doers = world.make<std::vector<Doer*>>();
  for (const Flow& flow : program.flows) {
    auto& doer = world.make<Doer>();
    doers.push_back(&doer);
    doer.parts = &parts;
    doer.flow = &flow;
    if (flow.sort == Flow::Sort::cpu) {
      doer.cpu = &world.add_cpu(*parts.storage, "cpu");
      world.spawn(*doer.cpu, interpret(&doer));
      continue;
    }
    doer.node = flow.sort == Flow::Sort::client ? nodes[flow.client] : parts.storage;
    if (flow.sort == Flow::Sort::client) {
      doer.slots = doer.node->allocate(kSlots * 64, Access::local_write);
    }
    world.spawn(*doer.node, interpret(&doer));
  }
  world.at_end([&](const Order& /*order*/) {
    State state;
    state.crashed = world.crashed();
    state.object = *parts.object;
    for (std::uint8_t word = 0; word < program.words; ++word) {
      state.memory.at(word) = load_from(parts.memory.bytes().data() + word * program.spacing);
    }
    for (const Doer* doer : doers) {
      FlowState& flow = state.flows.emplace_back(doer->end);
      const bool is_dead = state.crashed && doer->flow->sort == Flow::Sort::client && doer->flow->client == 0;
      if (!is_dead && flow.status == FlowState::Status::runs) {
        return;  // it waits for the dead
      }
      for (std::uint8_t slot = 0; doer->flow->sort == Flow::Sort::client && slot < kSlots; ++slot) {
        flow.slots.at(slot) = load_from(slot_at(*doer, slot).data);
      }
    }
    const std::scoped_lock lock(found.mutex);
    found.ends.insert(end_of(program, state));
  });
}

}  // namespace

Program program_of(const ProgramList& program) {
  return [program, found = std::make_shared<Found>()](World& world) { build_list(program, *found, world); };
}

Explored explore_list(const ProgramList& program, const Options& options) {
  Found found;
  Explored explored;
  explored.verdict = check([&](World& world) { build_list(program, found, world); }, options);
  explored.ends = std::move(found.ends);
  return explored;
}

}  // namespace sidelatch::explore::oracle

// The oracle's state machine: what docs/memory-model.md says, written from that page alone. It shares no code with
// fabric/model and checker/explore. A state is a value; a program's state is all that there is: memory, registers,
// buffers, requests in flight. It has no reduction, no parking and no coroutines.
#pragma once

#include "program.h"

#include <sidelatch/fabric/model/rules.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::explore::oracle {

inline constexpr std::size_t kWords = 4;

struct Request {
  Instruction::What what = Instruction::What::write;
  bool fenced = false;
  bool inlined = false;
  bool loaded = false;
  bool stored = false;
  bool delivered = false;
  bool completed = false;
  bool failed = false;
  std::uint8_t word = 0;
  std::uint8_t words = 1;
  std::uint8_t slot = 0;
  std::uint8_t flow = 0;
  std::uint8_t qp = 0;
  std::uint32_t fetched = 0;  // words of the payload that the NIC has, one bit each
  std::uint32_t touched = 0;  // words placed or sampled
  std::uint32_t waits = 0;    // rule 2: requests of the state that must be placed first, one bit each
  std::uint64_t expected = 0;
  std::uint64_t operand = 0;
  std::array<std::uint64_t, kWords> payload{};  // what was fetched or sampled; an atomic's old value
};

struct FlowState {
  enum class Status : std::uint8_t { runs, ended, aborted };
  Status status = Status::runs;
  bool waits = false;  // for its newest request
  bool has_begun = false;
  // Its client's thread is in the middle of it: another task of the client goes on only where this one waits.
  bool is_running = false;
  // Queue pairs, one bit each, whose failure it may know: completions are looked at only while a task waits.
  std::uint32_t knows_failed = 0;
  std::uint16_t at = 0;
  std::array<std::uint64_t, kRegisters> registers{};
  std::array<std::uint64_t, kSlots> slots{};
  struct Store {
    std::uint8_t word;
    std::uint64_t value;
  };
  std::vector<Store> buffer;  // of a CPU thread
};

struct State {
  std::array<std::uint64_t, kWords> memory{};
  std::uint64_t object = 0;  // that clients share
  std::vector<FlowState> flows;
  std::vector<Request> requests;  // by queue pair, in posting order; those that are over are gone
  std::uint32_t revoked = 0;      // queue pairs, one bit each
  std::uint32_t failed = 0;       // queue pairs of which a request has completed as failed
  std::uint32_t expired = 0;      // clients for whom the lease of the dead has ended
  bool crashed = false;           // client 0
};

/// Who takes a step; for fairness.
using Unit = std::uint16_t;
inline constexpr Unit kCrash = 0xffff;

enum class Fault : std::uint8_t { none, assertion, buffer_race };

struct Next {
  State state;
  Unit unit = 0;
  Fault fault = Fault::none;
};

class Machine {
 public:
  Machine(const ProgramList& program, const fabric::model::Rules& rules) : program_(&program), rules_(rules) {}

  [[nodiscard]] State first() const;
  /// All states after one more step.
  void next(const State& state, std::vector<Next>& out) const;
  /// Whether every task of a client that lives has ended.
  [[nodiscard]] bool has_ended(const State& state) const;
  /// Whether it matters there that a task goes on.
  [[nodiscard]] bool judges_liveness(const State& state) const {
    return !state.crashed || program_->liveness_after_crash;
  }
  /// Whether a task waits there, and goes on when time has passed: nobody stays there for ever.
  [[nodiscard]] bool time_ends_it(const State& state) const;
  /// Two states are the same if their keys are.
  [[nodiscard]] static std::string key(const State& state);

 private:
  [[nodiscard]] bool is_dead(const State& state, std::size_t flow) const {
    return state.crashed && program_->flows[flow].sort == Flow::Sort::client && program_->flows[flow].client == 0;
  }
  [[nodiscard]] std::uint8_t line(std::uint8_t word) const {
    return static_cast<std::uint8_t>(word * program_->spacing / 64);
  }
  [[nodiscard]] std::uint8_t words_of_piece(std::uint8_t first, std::uint8_t count, std::uint8_t index) const;
  [[nodiscard]] bool fence_open(const State& state, std::size_t index) const;
  [[nodiscard]] bool may_touch(const State& state, std::size_t index) const;
  [[nodiscard]] bool is_locked(const State& state, std::size_t index) const;
  [[nodiscard]] bool may_complete(const State& state, std::size_t index) const;
  void steps_of(const State& state, std::size_t index, Unit unit, std::vector<Next>& out) const;
  void execute(const State& state, std::size_t index, Unit unit, std::vector<Next>& out) const;
  void step_of(const State& state, std::size_t flow, std::vector<Next>& out) const;
  [[nodiscard]] bool waits_next(const State& state, std::size_t flow) const;
  [[nodiscard]] bool is_held_up(const State& state, std::size_t flow) const;
  [[nodiscard]] Request make(const State& state, std::size_t flow, const Instruction& at) const;
  void post(State& state, std::size_t flow, const Instruction& at) const;
  [[nodiscard]] Fault put(State& state, std::size_t flow, const Instruction& at) const;
  [[nodiscard]] Fault advance(State& state, std::size_t flow, bool behind_a_post) const;
  [[nodiscard]] bool may_share_a_step(const Instruction& at) const;
  [[nodiscard]] bool lease_may_end(const State& state, std::uint8_t client) const;
  void forget(State& state) const;

  const ProgramList* program_;
  fabric::model::Rules rules_;
};

}  // namespace sidelatch::explore::oracle

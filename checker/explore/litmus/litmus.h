// A litmus test as plain data: parsed, with all names resolved and all uses checked, ready for an interpreter.
//
//   LitmusTest test = parse_litmus(text, "tests/litmus/mp.litmus");   // or LitmusError: FILE:LINE:COLUMN: error: ...
//   Rules rules = rules_of(Preset::observed);
//   test.apply_params(rules);
//   ... run test.threads on test.nodes, and in each final state ask
//   if (test.exists && holds(*test.exists, [&](const litmus::Variable& v) { return value_in_state(v); })) ...
//
// Indices point into the vectors of the same test. The text format is described at the top of parse.cpp.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <sidelatch/explore/litmus.h>
#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/work_request.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sidelatch::explore {

namespace litmus {

/// One 8-byte word of one node's memory.
struct MemoryWord {
  std::uint32_t node = 0;
  std::uint32_t line = 0;
  std::uint32_t word = 0;  // of the line, 0 to 7
  friend constexpr bool operator==(const MemoryWord&, const MemoryWord&) = default;
};

/// The memory that one access touches: `count` neighbouring words of a line, or word 0 of `count` consecutive lines.
struct Target {
  std::uint32_t node = 0;
  std::uint32_t line = 0;  // the first
  std::uint32_t word = 0;  // the first
  std::uint32_t count = 1;
  bool across_lines = false;  // an object: one word of each line
  [[nodiscard]] constexpr MemoryWord at(std::uint32_t i) const {
    return across_lines ? MemoryWord{node, line + i, word} : MemoryWord{node, line, word + i};
  }
  friend constexpr bool operator==(const Target&, const Target&) = default;
};

struct Word {
  std::string name;  // as shown in states: "x", "D[0]"
  std::int64_t initial = 0;
};

/// A cache line of its own. Its words are the first of the line; the rest is unused.
struct Line {
  std::vector<Word> words;
  bool goes_on = false;  // with the object of the line before
};

struct MemoryNode {
  std::string name;  // "M0"
  std::vector<Line> lines;
};

/// One word of a register; `index` is 0 for a scalar.
struct RegisterWord {
  std::uint32_t thread = 0;
  std::uint32_t reg = 0;
  std::uint32_t index = 0;
  friend constexpr bool operator==(const RegisterWord&, const RegisterWord&) = default;
};

using Variable = std::variant<RegisterWord, MemoryWord>;
using Operand = std::variant<std::int64_t, RegisterWord, MemoryWord>;

struct Condition {
  enum class Kind : std::uint8_t { equal, unequal, all_of, any_of, negation };
  Kind kind = Kind::equal;
  Operand left, right;           // equal, unequal
  std::vector<Condition> parts;  // all_of, any_of: two or more; negation: one
};

/// A variable's value in a state; nothing for a register that was never assigned.
using Lookup = std::function<std::optional<std::int64_t>(const Variable&)>;

/// A register without a value equals nothing, not even itself: `==` is false and `!=` is true.
[[nodiscard]] bool holds(const Condition& condition, const Lookup& lookup);

/// A work request that a client posts.
struct Post {
  fabric::Opcode opcode = fabric::Opcode::write;  // write, read, compare_swap or fetch_add
  bool fence = false;
  std::uint32_t queue_pair = 0;         // of the thread
  Target target;                        // one word for atomics, and for a WRITE with a buffer
  std::int64_t operand = 0;             // WRITE: the value of each word; CAS: the desired value; FETCH-ADD: the addend
  std::int64_t expected = 0;            // CAS
  std::optional<std::uint32_t> buffer;  // WRITE: fetched from this buffer of the thread; otherwise bound at the post
  std::optional<std::uint32_t> result;  // READ and atomics: the register, which has target.count words
};

/// Passes when all requests posted so far to these queue pairs have completed.
struct Wait {
  std::vector<std::uint32_t> queue_pairs;  // empty: all of the client
};

/// The client stores to a local buffer.
struct SetBuffer {
  std::uint32_t buffer = 0;
  std::int64_t value = 0;
};

/// A CPU thread's store, into its store buffer.
struct Store {
  MemoryWord word;
  std::int64_t value = 0;
};

/// A CPU thread's load.
struct Load {
  MemoryWord word;
  std::optional<std::uint32_t> result;  // the register
};

/// Passes when the CPU thread's store buffer is empty.
struct Mfence {};

struct Statement;

struct If {
  Condition condition;  // over registers of this thread; each has its value by then or was never assigned
  std::vector<Statement> then_body;
  std::vector<Statement> else_body;
};

struct Statement {
  std::uint32_t line = 0;  // line of the file, for traces
  std::variant<Post, Wait, SetBuffer, Store, Load, Mfence, If> action;
};

struct Register {
  std::string name;
  std::uint32_t words = 1;  // 1: a scalar
};

/// 8 bytes of a client, for WRITEs that fetch them later.
struct Buffer {
  std::string name;
  std::int64_t initial = 0;
};

struct QueuePair {
  std::string name;  // "qp0", unique per node only
  std::uint32_t node = 0;
  std::uint32_t nic = 0;  // of that node: 0 or 1
};

struct Thread {
  std::string name;        // "P0", "C0"
  bool is_client = true;   // otherwise a CPU thread of node 0
  bool may_crash = false;  // clients only
  std::vector<Register> registers;
  std::vector<Buffer> buffers;
  std::vector<QueuePair> queue_pairs;
  std::vector<Statement> body;
};

struct Param {
  std::string name;
  std::string value;
};

struct Expectation {
  fabric::model::Preset model = fabric::model::Preset::observed;
  bool allowed = false;
};

}  // namespace litmus

struct LitmusTest {
  std::string name;
  std::vector<litmus::MemoryNode> nodes;  // node 0 is M0, even if it has no lines
  std::vector<litmus::Thread> threads;    // in the order of the text
  std::vector<litmus::Param> params;
  std::optional<litmus::Condition> exists;
  std::vector<litmus::Expectation> expectations;  // at most one per model

  /// Applies the test's `param` lines.
  void apply_params(fabric::model::Rules& rules) const;
  /// The test's expectation for `model`: true for allowed, false for forbidden, or nothing.
  [[nodiscard]] std::optional<bool> expected(fabric::model::Preset model) const;
};

/// Throws LitmusError if the text is not a litmus test; `file_name` is only quoted.
[[nodiscard]] LitmusTest parse_litmus(std::string_view text, std::string_view file_name);

/// A variable's name in states: "P0:r0" for a scalar, "P1:r[0]" for a word of a larger register, "x", "D[0]".
[[nodiscard]] std::string state_name(const LitmusTest& test, const litmus::Variable& variable);

}  // namespace sidelatch::explore

// Programs of the oracle, as lists of instructions: what a client, a CPU thread or a task of the memory node does, with
// registers and jumps. The same list is interpreted by the oracle (machine.h) and by a coroutine (coroutine.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sidelatch::explore::oracle {

inline constexpr std::size_t kRegisters = 4;
inline constexpr std::size_t kSlots = 8;
inline constexpr std::size_t kLoops = 3;

/// A number, or a register's.
struct Operand {
  std::uint64_t value = 0;
  bool is_register = false;
};

struct Instruction {
  enum class What : std::uint8_t {
    // Posts on `qp`; the task goes on at once unless `waited`.
    write,  ///< `words` words from `slot` on to `word`
    read,   ///< `words` words from `word` on to `slot`
    swap,   ///< CAS of `word` from `expected` to `operand`; the old value to `slot`
    add,    ///< FETCH-ADD of `operand` to `word`; the old value to `slot`
    // Steps of a client.
    wait,    ///< until all that the task has posted on `qp` has completed
    look,    ///< reg := slot
    put,     ///< slot := operand; `intended`: also while a NIC may read it
    yield,   ///< one step that does nothing
    revoke,  ///< the memory node revokes queue pair `qp`
    retry,   ///< the attempt of loop `loop` has failed; goes to `to`
    // Steps of a CPU thread of the memory node.
    store,  ///< word := operand, by the store buffer
    load,   ///< reg := word
    fence,  ///< waits for an empty store buffer
    // Steps of a task of the memory node, by pointers.
    poke,  ///< word := operand
    peek,  ///< reg := word
    // Nobody else sees these.
    set,         ///< reg := operand
    plus,        ///< reg := reg + operand
    keep,        ///< object := operand
    recall,      ///< reg := object
    go,          ///< to `to`
    go_if,       ///< if reg == operand
    go_unless,   ///< if reg != operand
    begin_loop,  ///< loop `loop` begins
    fail_if,     ///< reg == operand: the assertion fails
    if_expired,  ///< goes to `to` if the lease of the crashed client has ended for this client
  };
  What what = What::go;
  std::uint8_t word = 0;
  std::uint8_t words = 1;
  std::uint8_t slot = 0;
  std::uint8_t reg = 0;
  std::uint8_t qp = 0;  ///< of the program
  std::uint8_t loop = 0;
  std::uint16_t to = 0;
  Operand operand{};
  Operand expected{};
  bool fenced = false;
  bool inlined = false;
  bool waited = false;
  bool declared = true;  ///< retry: the loop has been declared
  bool intended = false;

  [[nodiscard]] bool posts() const noexcept { return what <= What::add; }
  /// Whether it is a step that others can tell from the next one.
  [[nodiscard]] bool is_step() const noexcept { return what < What::set; }
};
using Code = std::vector<Instruction>;

struct Flow {
  enum class Sort : std::uint8_t { client, cpu, memory_node };
  Sort sort = Sort::client;
  std::uint8_t client = 0;  ///< of the program; two tasks of one client have the same
  Code code;
  /// Requests that nobody waits for move bytes of its buffers: so what it does to them takes steps of its own.
  bool has_unwaited = false;
};

struct ProgramList {
  std::uint8_t words = 2;
  std::uint8_t spacing = 64;  ///< bytes between two words
  std::uint8_t nics = 1;
  struct Pair {
    std::uint8_t client;
    std::uint8_t nic;
  };
  std::vector<Pair> qps;
  std::vector<Flow> flows;
  std::uint8_t clients = 0;
  bool may_crash = false;  ///< client 0
  bool liveness_after_crash = false;
  bool one_place = false;  ///< all loops are declared at one place of the source
  /// Clients look at their buffers, and at one object that all share, as part of the step in which they run. What comes
  /// behind a request that nobody waits for is another step: others may answer the request in between.
  bool looks_behind_posts = false;

  [[nodiscard]] std::string to_string() const;
};

/// A random program. The same seed gives the same program.
[[nodiscard]] ProgramList random_list(std::uint64_t seed);
/// One whose clients look behind posts and share an object.
[[nodiscard]] ProgramList random_list_of_lookers(std::uint64_t seed);

}  // namespace sidelatch::explore::oracle

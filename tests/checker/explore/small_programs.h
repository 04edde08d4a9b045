// Small programs for the explorer, as data: clients that post requests and wait, and CPU threads of the memory node.
#pragma once

#include <sidelatch/explore/check.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace sidelatch::explore {

struct Op {
  enum class What : std::uint8_t {
    write,
    write_buffer,
    change_buffer,
    read,
    cas,
    faa,
    wait,
    yield,
    store,
    load,
    mfence
  };
  What what = What::write;
  std::uint32_t line = 0;   ///< of the memory node, the first
  std::uint32_t lines = 1;  ///< WRITE and READ: one word of each line
  std::uint64_t value = 0;
  std::uint64_t expected = 0;  ///< CAS
  std::uint32_t qp = 0;
  bool fence = false;
};

struct Thread {
  bool is_cpu = false;
  bool may_crash = false;
  std::vector<unsigned> nics = {0};  ///< one queue pair to each
  std::vector<Op> ops;
};

struct SmallProgram {
  std::uint32_t lines = 3;
  unsigned nics = 1;
  std::vector<Thread> threads;

  [[nodiscard]] std::string to_string() const;
};

/// All registers and all words at the end.
using State = std::vector<std::uint64_t>;

struct Reached {
  std::set<State> states;
  Verdict verdict;
};

/// The program as the explorer takes it.
[[nodiscard]] Program program_of(const SmallProgram& program);

[[nodiscard]] Reached reach(const SmallProgram& program, const Options& options);

/// A random program of two or three threads.
[[nodiscard]] SmallProgram random_program(std::uint64_t seed);

}  // namespace sidelatch::explore

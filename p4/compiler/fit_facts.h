// What --fit knows of values, tables and registers at one point of a program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace sidelatch::p4 {

struct Touch {
  int reads = 0;
  int writes = 0;
  int stage = 0;
};

// What a value that comes from a register is computed of besides.
struct Besides {
  std::set<int> inputs;  // slots whose values the ALU needs
  int ready = 1;         // the first stage in which they, and what chooses among the ALU's actions, are known
};

// What is known at one point of the program.
struct Facts {
  std::map<int, int> ready;                        // by slot: the first stage that can use its value
  std::map<int, std::set<int>> sources;            // by slot: registers that its value comes from
  std::map<std::pair<int, int>, Besides> besides;  // by slot, and register that it comes from
  std::map<int, Touch> touched;                    // by register, on the path with most of them
  std::set<int> applied;                           // tables
  std::set<int> stays;        // slots of conditions that decide whether the packet has left the program by now
  std::set<int> returns;      // the same, of the routine
  bool has_left = false;      // by `exit`
  bool has_returned = false;  // from the routine that is walked

  [[nodiscard]] bool is_gone() const { return has_left || has_returned; }
  [[nodiscard]] std::size_t size() const { return ready.size() + sources.size() + besides.size(); }

  // Of two branches. What one that is gone did is nothing for what follows.
  void join(const Facts& other) {
    std::set<int> leaving = other.stays;
    leaving.insert(stays.begin(), stays.end());
    std::set<int> returning = other.returns;
    returning.insert(returns.begin(), returns.end());
    if (is_gone() && !other.is_gone()) {
      *this = other;
    } else if (is_gone() == other.is_gone()) {
      merge(other);
    }
    stays = std::move(leaving);
    returns = std::move(returning);
  }

  void merge(const Facts& other) {
    // A stateful ALU has one of several actions: the larger one counts.
    for (const auto& [of, theirs] : other.besides) {
      Besides& mine = besides[of];
      mine.ready = std::max(mine.ready, theirs.ready);
      if (theirs.inputs.size() > mine.inputs.size()) {
        mine.inputs = theirs.inputs;
      }
    }
    for (const auto& [slot, stage] : other.ready) {
      int& mine = ready[slot];
      mine = std::max(mine, stage);
    }
    for (const auto& [slot, registers] : other.sources) {
      sources[slot].insert(registers.begin(), registers.end());
    }
    for (const auto& [which, touch] : other.touched) {
      Touch& mine = touched[which];
      mine.reads = std::max(mine.reads, touch.reads);
      mine.writes = std::max(mine.writes, touch.writes);
      mine.stage = std::max(mine.stage, touch.stage);
    }
    applied.insert(other.applied.begin(), other.applied.end());
    has_left = has_left && other.has_left;
    has_returned = has_returned || other.has_returned;
  }
};

}  // namespace sidelatch::p4

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

  friend bool operator==(const Besides&, const Besides&) = default;
};

// Whether the packet has left by now, or the routine has: when that is known. It is kept as it was when it was decided,
// for the values that decided it may be other ones by now.
struct Decision {
  int ready = 1;
  std::map<int, Besides> besides;  // by register that it comes from

  friend bool operator==(const Decision&, const Decision&) = default;

  [[nodiscard]] std::size_t size() const {
    std::size_t sum = 1;
    for (const auto& [which, needed] : besides) {
      sum += 1 + needed.inputs.size();
    }
    return sum;
  }

  // What the ALU of this register needs of it.
  [[nodiscard]] Besides of(int which) const {
    const auto found = besides.find(which);
    return found != besides.end() ? found->second : Besides{{}, ready};
  }

  // Both decide.
  void add(const Decision& other) {
    std::map<int, Besides> both;
    const auto join = [&](int which) {
      Besides mine = of(which);
      const Besides theirs = other.of(which);
      mine.inputs.insert(theirs.inputs.begin(), theirs.inputs.end());
      mine.ready = std::max(mine.ready, theirs.ready);
      both[which] = std::move(mine);
    };
    for (const auto& [which, needed] : besides) {
      join(which);
    }
    for (const auto& [which, needed] : other.besides) {
      join(which);
    }
    besides = std::move(both);
    ready = std::max(ready, other.ready);
  }
};

// What is known at one point of the program.
struct Facts {
  std::map<int, int> ready;                        // by slot: the first stage that can use its value
  std::map<int, std::set<int>> sources;            // by slot: registers that its value comes from
  std::map<std::pair<int, int>, Besides> besides;  // by slot, and register that it comes from
  std::map<int, Touch> touched;                    // by register, on the path with most of them
  std::set<int> applied;                           // tables
  Decision stays;                                  // whether the packet has left the program by now
  Decision returns;                                // whether it has left the routine
  bool has_left = false;                           // by `exit`
  bool has_returned = false;                       // from the routine that is walked

  [[nodiscard]] bool is_gone() const { return has_left || has_returned; }
  [[nodiscard]] std::size_t size() const {
    return ready.size() + sources.size() + besides.size() + stays.size() + returns.size();
  }

  // Of two branches. What one that is gone did is nothing for what follows.
  void join(const Facts& other) {
    Decision leaving = stays;
    leaving.add(other.stays);
    Decision returning = returns;
    returning.add(other.returns);
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

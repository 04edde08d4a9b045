// What --fit knows of values, tables and registers at one point of a program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace sidelatch::p4 {

// A set of numbers. Copies share it until one of them grows: what is known is copied at each branch.
class Numbers {
 public:
  Numbers() = default;
  Numbers(std::set<int> numbers)  // NOLINT(google-explicit-constructor): it is one
      : numbers_(numbers.empty() ? nullptr : std::make_shared<const std::set<int>>(std::move(numbers))) {}

  [[nodiscard]] const std::set<int>& get() const {
    static const std::set<int> kNone;
    return numbers_ != nullptr ? *numbers_ : kNone;
  }
  [[nodiscard]] auto begin() const { return get().begin(); }
  [[nodiscard]] auto end() const { return get().end(); }
  [[nodiscard]] std::size_t size() const { return get().size(); }
  [[nodiscard]] bool contains(int number) const { return get().contains(number); }

  void insert(const Numbers& others) {
    if (numbers_ == others.numbers_ || std::ranges::includes(get(), others.get())) {
      return;
    }
    if (numbers_ == nullptr) {
      numbers_ = others.numbers_;
      return;
    }
    std::set<int> all = get();
    all.insert(others.begin(), others.end());
    numbers_ = std::make_shared<const std::set<int>>(std::move(all));
  }

  friend bool operator==(const Numbers& one, const Numbers& other) {
    return one.numbers_ == other.numbers_ || one.get() == other.get();
  }

 private:
  std::shared_ptr<const std::set<int>> numbers_;
};

struct Touch {
  int reads = 0;
  int writes = 0;
  int stage = 0;
};

// What a value that comes from a register is computed of besides.
struct Besides {
  Numbers inputs;  // slots whose values the ALU needs
  int ready = 1;   // the first stage in which they, and what chooses among the ALU's actions, are known

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
      mine.inputs.insert(theirs.inputs);
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
  std::map<int, Numbers> sources;                  // by slot: registers that its value comes from
  std::map<std::pair<int, int>, Besides> besides;  // by slot, and register that it comes from
  std::set<int> constants;                         // slots whose values the ALU has of its own
  std::map<int, Touch> touched;                    // by register, on the path with most of them
  std::set<int> applied;                           // tables
  Decision stays;                                  // whether the packet has left the program by now
  Decision returns;                                // whether it has left the routine
  bool has_left = false;                           // by `exit`
  bool has_returned = false;                       // from the routine that is walked

  const std::vector<unsigned>* widths = nullptr;  // of the slots

  // Words of 32 bits.
  [[nodiscard]] std::size_t words(const Numbers& inputs) const {
    constexpr unsigned kOperandBits = 32;
    std::size_t sum = 0;
    for (const int slot : inputs) {
      sum += ((*widths)[static_cast<std::size_t>(slot)] + kOperandBits - 1) / kOperandBits;
    }
    return sum;
  }

  [[nodiscard]] bool is_gone() const { return has_left || has_returned; }
  [[nodiscard]] std::size_t size() const {
    return ready.size() + sources.size() + besides.size() + constants.size() + stays.size() + returns.size();
  }

  // What the ALU of this register needs, to have the slot's value. One that does not come from the register is an
  // operand.
  [[nodiscard]] Besides needed(int slot, int which) const {
    if (const auto found = besides.find({slot, which}); found != besides.end()) {
      return found->second;
    }
    if (comes_from(slot, which)) {
      return {};
    }
    const auto known = ready.find(slot);
    return {constants.contains(slot) ? std::set<int>{} : std::set{slot}, known != ready.end() ? known->second : 1};
  }

  [[nodiscard]] bool comes_from(int slot, int which) const {
    const auto found = sources.find(slot);
    return found != sources.end() && found->second.contains(which);
  }

  // The first stage in which all these are known. Those from register `except` are there within its own stage.
  [[nodiscard]] int first_stage_of(const std::set<int>& slots, int except = -1) const {
    int stage = 1;
    for (const int slot : slots) {
      const auto found = ready.find(slot);
      if (found != ready.end() && !(except >= 0 && comes_from(slot, except))) {
        stage = std::max(stage, found->second);
      }
    }
    return stage;
  }

  // What these slots, as they are now, decide.
  [[nodiscard]] Decision decision(const std::set<int>& slots) const {
    Decision made;
    made.ready = first_stage_of(slots);
    for (const int slot : slots) {
      const auto found = sources.find(slot);
      for (const int which : found != sources.end() ? found->second : Numbers{}) {
        made.besides[which] = {inputs_of(slots, which), ready_besides(slots, which)};
      }
    }
    return made;
  }

  // What of these the register's ALU gets from outside.
  [[nodiscard]] std::set<int> inputs_of(const std::set<int>& slots, int which) const {
    std::set<int> inputs;
    for (const int slot : slots) {
      if (!comes_from(slot, which)) {
        inputs.insert(slot);
      } else if (const auto found = besides.find({slot, which}); found != besides.end()) {
        inputs.insert(found->second.inputs.begin(), found->second.inputs.end());
      }
    }
    return inputs;
  }

  // The first stage in which the register's ALU can compute these.
  [[nodiscard]] int ready_besides(const std::set<int>& slots, int which) const {
    int stage = first_stage_of(slots, which);
    for (const int slot : slots) {
      const auto found = besides.find({slot, which});
      stage = found != besides.end() ? std::max(stage, found->second.ready) : stage;
    }
    return stage;
  }

  // `slot` was computed of `operands`. Of a register that it comes from, what `guards` hold may decide within the ALU.
  void note_inputs(int slot, const std::set<int>& operands, const std::set<int>& guards) {
    for (const int which : sources[slot]) {
      std::set<int> needed = operands;
      if (std::ranges::any_of(guards, [&](int guard) { return comes_from(guard, which); })) {
        needed.insert(guards.begin(), guards.end());
      }
      std::set<int> known = guards;
      known.insert(operands.begin(), operands.end());
      besides[{slot, which}] = {inputs_of(needed, which), ready_besides(known, which)};
    }
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
    for (const auto* const side : {static_cast<const Facts*>(this), &other}) {
      for (const auto& [slot, registers] : side->sources) {
        for (const int which : registers) {
          join_needed(slot, which, other);
        }
      }
    }
    std::erase_if(constants, [&](int slot) { return !other.constants.contains(slot); });
    for (const auto& [slot, stage] : other.ready) {
      int& mine = ready[slot];
      mine = std::max(mine, stage);
    }
    for (const auto& [slot, registers] : other.sources) {
      sources[slot].insert(registers);
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

 private:
  void join_needed(int slot, int which, const Facts& other) {
    Besides mine = needed(slot, which);
    const Besides theirs = other.needed(slot, which);
    mine.ready = std::max(mine.ready, theirs.ready);
    if (!(mine.inputs == theirs.inputs) && words(theirs.inputs) > words(mine.inputs)) {
      mine.inputs = theirs.inputs;
    }
    if (const auto known = besides.find({slot, which}); known != besides.end()) {
      known->second = std::move(mine);
    } else if (!(mine == Besides{})) {
      besides.emplace(std::pair{slot, which}, std::move(mine));
    }
  }
};

}  // namespace sidelatch::p4

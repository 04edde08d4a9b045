// Places tables and registers in stages by what depends on what.
//
// A stage reads the packet's fields at its beginning and writes them at its end. So a value that one stage computes is
// there for the next one. Each operator takes one stage; slices, casts, concatenations and copies to temporaries are
// wires. A condition is evaluated in the stage of what it guards, or of what follows an `exit` or a `return`. A
// register is read and written in one stage, by a stateful ALU that sees its element and at most two 32-bit operands of
// the packet. That a header is valid is one more value, which setValid() and setInvalid() write; what they make of the
// fields P4 leaves open.
#include <sidelatch/p4/fit.h>

#include "fit_facts.h"
#include "fit_stages.h"
#include "p4/front_end.h"
#include "p4/ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace sidelatch::p4 {

namespace {

using ir::Do;
using ir::Op;

constexpr std::size_t kOperands = 2;
// Statements, and values that their branches copy.
constexpr std::size_t kMostWork = 5'000'000;

class Fitter {
 public:
  Fitter(const ir::Program& program, FitReport& report) : program_(program), report_(report) {}

  std::size_t pipeline(int routine, const char* name) {
    pipeline_ = name;
    // A register is written behind the place where it is read, and what is written decides its stage: what was read is
    // known only then. So once more, with the stages that were found. If they depend on each other in a circle, this
    // has no end, and the first round counts.
    constexpr int kRounds = 20;
    const auto others = register_stage_;
    const auto other_tables = table_stage_;
    for (int round = 0; round <= kRounds; ++round) {
      register_stage_ = round < kRounds ? register_stage_ : others;
      const auto before = register_stage_;
      table_stage_ = other_tables;
      facts_ = {};
      facts_.widths = &program_.slot_widths;
      feeds_ = {};
      last_ = 0;
      work_ = 0;
      call(routine);
      if (work_ > kMostWork) {
        finding({},
                fmt::format("{} is too large for an estimate: calls within calls, or branches with very many values",
                            name));
        return 0;
      }
      if (register_stage_ == before) {
        break;
      }
    }
    const auto stages = static_cast<std::size_t>(last_);
    if (stages > report_.chip_stages) {
      finding(deepest_, fmt::format("{} needs about {} stages; there are {}. This is what the last one is for", name,
                                    stages, report_.chip_stages));
    }
    return stages;
  }

  [[nodiscard]] const std::map<int, FirstStage>& registers() const { return register_stage_; }
  [[nodiscard]] const std::map<std::size_t, FirstStage>& tables() const { return table_stage_; }

 private:
  void finding(const ir::Origin& at, const std::string& message) {
    const std::string place = at.file < program_.files.size() && at.line != 0
                                  ? fmt::format("{}:{}:{}", program_.files[at.file], at.line, at.column)
                                  : program_.info.name;
    const std::string text = place + ": " + message;
    if (std::find(report_.findings.begin(), report_.findings.end(), text) == report_.findings.end()) {
      report_.findings.push_back(text);
    }
  }

  [[nodiscard]] const ir::Expr& expr(int which) const { return program_.exprs[static_cast<std::size_t>(which)]; }

  // The slots that this place may be: of a stack's element whose index the packet gives, those of all elements.
  [[nodiscard]] static std::vector<int> slots_of(const ir::Place& place) {
    std::vector<int> slots{place.slot};
    for (int i = 1; place.index >= 0 && i < place.count; ++i) {
      slots.push_back(place.slot + i * place.stride);
    }
    return slots;
  }

  [[nodiscard]] static ir::Place moved(ir::Place place, int by) {
    place.slot += by;
    return place;
  }

  void leaves(const ir::Place& place, std::set<int>& slots) {
    const std::vector<int> all = slots_of(place);
    work_ += all.size();
    slots.insert(all.begin(), all.end());
    if (place.index >= 0) {
      leaves(place.index, slots);
    }
  }

  void leaves(int which, std::set<int>& slots) {
    if (++work_ > kMostWork) {
      return;
    }
    const ir::Expr& e = expr(which);
    if (e.op == Op::load) {
      leaves(e.place, slots);
    }
    for (const int operand : {e.a, e.b, e.c}) {
      if (operand >= 0) {
        leaves(operand, slots);
      }
    }
  }

  void leaves_of_index(const ir::Place& to, std::set<int>& slots) {
    if (to.index >= 0) {
      leaves(to.index, slots);
    }
  }

  // Operators one after the other.
  [[nodiscard]] int depth(int which) const {
    const ir::Expr& e = expr(which);
    int deepest = 0;
    for (const int operand : {e.a, e.b, e.c}) {
      deepest = operand >= 0 ? std::max(deepest, depth(operand)) : deepest;
    }
    const bool wire = e.op == Op::constant || e.op == Op::load || e.op == Op::slice || e.op == Op::concatenate ||
                      e.op == Op::extend || e.op == Op::logical_not || e.op == Op::logical_and ||
                      e.op == Op::logical_or;
    return deepest + (wire ? 0 : 1);
  }

  void used(int stage, const ir::Origin& at) {
    if (stage > last_) {
      last_ = stage;
      deepest_ = at;
    }
  }

  void walk(const ir::Block& statements) {
    for (const ir::Statement& statement : statements) {
      const bool repeats = statement.kind == Do::copy || statement.kind == Do::zero;
      const std::size_t slots = repeats ? static_cast<std::size_t>(statement.count) : 1;
      work_ += slots * (1 + guards_.size());  // each copies the guards
      if (work_ > kMostWork) {
        return;
      }
      step(statement);
    }
  }

  // The first stage in which it is known that the packet is still there.
  [[nodiscard]] int stays() const { return std::max(facts_.stays.ready, facts_.returns.ready); }

  void call(int routine) {
    std::optional<Facts> outer = std::exchange(returned_, std::nullopt);
    const int outer_return = first_return_;
    const Decision outer_returns = facts_.returns;
    walk(program_.routines[static_cast<std::size_t>(routine)].body);
    if (returned_) {
      const Decision deciding = facts_.returns;
      if (facts_.has_left) {
        facts_.stays.add(deciding);
      }
      facts_.join(*returned_);
      return_decides(deciding);
    }
    facts_.returns = outer_returns;
    first_return_ = outer_return;
    returned_ = std::move(outer);
  }

  // Of what was written after a `return`: which value it has now.
  void return_decides(const Decision& deciding) {
    for (auto& [slot, known] : facts_.ready) {
      const auto found = written_.find(slot);
      if (found == written_.end() || found->second <= first_return_) {
        continue;
      }
      std::set<int> registers = facts_.sources[slot].get();
      for (const auto& [which, needed] : deciding.besides) {
        registers.insert(which);
      }
      for (const int which : registers) {
        Besides needed = facts_.needed(slot, which);
        const Besides more = deciding.of(which);
        needed.inputs.insert(more.inputs);
        needed.ready = std::max(needed.ready, more.ready);
        facts_.besides[{slot, which}] = std::move(needed);
      }
      facts_.sources[slot] = std::move(registers);
      known = std::max(known, deciding.ready);
    }
  }

  void set(int slot, int stage, const std::set<int>& from) {
    written_[slot] = ++writes_;
    facts_.ready[slot] = std::max(stage, action_stage_ + 1);
    std::set<int> registers;
    for (const int one : from) {
      const auto found = facts_.sources.find(one);
      if (found != facts_.sources.end()) {
        registers.insert(found->second.begin(), found->second.end());
      }
    }
    facts_.sources[slot] = std::move(registers);
    facts_.constants.erase(slot);
    facts_.besides.erase(facts_.besides.lower_bound({slot, -1}), facts_.besides.lower_bound({slot + 1, -1}));
  }

  // The same for a place. An element that the index does not name stays as it was.
  void set_place(const ir::Place& to, int stage, const std::set<int>& from) {
    if (to.index < 0) {
      set(to.slot, stage, from);
      return;
    }
    for (const int slot : slots_of(to)) {
      std::set<int> sources = from;
      sources.insert(slot);
      work_ += sources.size();
      set(slot, std::max(stage, facts_.first_stage_of({slot})), sources);
    }
  }

  void step(const ir::Statement& s) {
    switch (s.kind) {
      case Do::assign: {
        std::set<int> slots = guards_;
        leaves(s.expr, slots);
        leaves_of_index(s.to, slots);
        const int operators = depth(s.expr);
        const bool wire = operators == 0 && s.to.slot >= program_.persistent_slots;
        const bool lasts = s.to.slot < program_.persistent_slots;
        const int stage = std::max(facts_.first_stage_of(slots), lasts ? stays() : 1);
        const int after = wire ? stage : stage + std::max(1, operators);
        if (!wire) {
          used(after - 1, s.at);
        }
        set_place(s.to, after, slots);
        std::set<int> operands;
        leaves(s.expr, operands);
        if (s.to.index >= 0) {
          break;
        }
        facts_.note_inputs(s.to.slot, operands, guards_);
        if (operands.empty()) {
          facts_.constants.insert(s.to.slot);
        }
        break;
      }
      case Do::zero:
        for (int i = 0; i < s.count; ++i) {
          if (s.to.slot < program_.persistent_slots || s.to.index >= 0) {
            write(moved(s.to, i), {}, s.at);
          } else {
            set(s.to.slot + i, 1, {});
          }
          if (s.to.index < 0) {
            facts_.constants.insert(s.to.slot + i);
          }
        }
        break;
      case Do::copy:
        for (int i = 0; i < s.count; ++i) {
          std::set<int> from;
          leaves(moved(s.from, i), from);
          write(moved(s.to, i), from, s.at);
          if (s.to.index < 0) {
            facts_.note_inputs(s.to.slot + i, from, guards_);
          }
        }
        break;
      case Do::set_validity:
        write(s.to, {}, s.at);
        break;
      case Do::push:
      case Do::pop:
        move_stack(s);
        break;
      case Do::branch:
        branch(s);
        break;
      case Do::leave:
        facts_.has_left = true;
        break;
      case Do::give_back:
        if (!facts_.is_gone()) {
          work_ += facts_.size();
          if (returned_) {
            returned_->join(facts_);
          } else {
            returned_ = facts_;
            first_return_ = writes_;
          }
          facts_.has_returned = true;
        }
        break;
      case Do::loop:
        finding(s.at, "a loop; a packet goes through the stages once");
        walk(s.yes);
        walk(s.no);
        break;
      case Do::call:
        call(s.which);
        walk(s.yes);
        break;
      case Do::apply:
        apply(s);
        break;
      case Do::register_read:
      case Do::register_write:
        touch(s);
        break;
      case Do::hash:
      case Do::random: {
        std::set<int> slots = operands_of(s);
        leaves_of_index(s.to, slots);
        const int stage = facts_.first_stage_of(slots);
        used(stage, s.at);
        set_place(s.to, stage + 1, slots);
        break;
      }
      case Do::count:
      case Do::clone:
      case Do::resubmit:
      case Do::recirculate:
      case Do::truncate:
      case Do::digest: {
        const int operators = s.expr >= 0 ? depth(s.expr) : 0;
        used(std::max(facts_.first_stage_of(operands_of(s)), stays()) + std::max(1, operators) - 1, s.at);
        break;
      }
      default:
        break;
    }
  }

  // Slots of the statement's expressions, and of the conditions around it.
  [[nodiscard]] std::set<int> operands_of(const ir::Statement& s) {
    std::set<int> slots = guards_;
    if (s.expr >= 0) {
      leaves(s.expr, slots);
    }
    for (const std::vector<int>* some : {&s.exprs, &s.valid}) {
      for (const int one : *some) {
        if (one >= 0) {
          leaves(one, slots);
        }
      }
    }
    return slots;
  }

  // What a copy does: to a field it takes a stage, to a variable it is a wire.
  void write(const ir::Place& to, std::set<int> from, const ir::Origin& at) {
    from.insert(guards_.begin(), guards_.end());
    leaves_of_index(to, from);
    const bool wire = to.slot >= program_.persistent_slots;
    const int stage = std::max(facts_.first_stage_of(from), wire ? 1 : stays());
    if (!wire) {
      used(stage, at);
    }
    set_place(to, stage + (wire ? 0 : 1), from);
  }

  // Each element becomes what another one was, all in one stage.
  void move_stack(const ir::Statement& s) {
    const ir::StackType& type = program_.stacks[static_cast<std::size_t>(s.which)];
    const int end = s.to.slot + 1 + type.count * type.element_slots;
    std::set<int> all = guards_;
    for (int slot = s.to.slot; slot < end; ++slot) {
      all.insert(slot);
    }
    const int stage = std::max(facts_.first_stage_of(all), stays());
    used(stage, s.at);
    for (int slot = s.to.slot; slot < end; ++slot) {
      set(slot, stage + 1, all);
    }
  }

  void branch(const ir::Statement& s) {
    const std::set<int> outer = guards_;
    leaves(s.expr, guards_);
    const Decision deciding = facts_.decision(guards_);
    work_ += facts_.size();
    Facts before = facts_;
    walk(s.yes);
    Facts after = std::exchange(facts_, std::move(before));
    walk(s.no);
    const bool decides = facts_.has_left != after.has_left;
    const bool decides_return = facts_.has_returned != after.has_returned;
    facts_.join(after);
    if (decides) {
      facts_.stays.add(deciding);
      facts_.stays.add(facts_.returns);
    }
    if (decides_return) {
      facts_.returns.add(deciding);
    }
    guards_ = outer;
  }

  void apply(const ir::Statement& s) {
    const ir::Table& table = program_.tables[static_cast<std::size_t>(s.which)];
    walk(table.before);
    std::set<int> slots = guards_;
    for (const int key : table.keys) {
      leaves(key, slots);
    }
    const int stage = std::max(facts_.first_stage_of(slots), stays());
    used(stage, s.at);
    if (!facts_.applied.insert(s.which).second) {
      finding(s.at, fmt::format("the table {} is applied again in the same pass; a packet meets each table once",
                                program_.info.tables[static_cast<std::size_t>(s.which)].name));
    }
    const auto place = table_stage_.emplace(static_cast<std::size_t>(s.which), std::pair{pipeline_, stage});
    place.first->second.second = std::max(place.first->second.second, stage);
    set(table.hit_slot, stage + 1, slots);
    set(table.action_slot, stage + 1, slots);
    // Which action ran is known behind the table, and with it whether the packet has left.
    std::set<int> choosing = slots;
    choosing.insert({table.hit_slot, table.action_slot});
    const Decision chosen = facts_.decision(choosing);
    bool decides = false;
    // The action runs in this stage, with what the table's entry gives.
    const std::set<int> outer = std::exchange(guards_, slots);
    const Facts before = facts_;
    Facts merged = facts_;
    for (const ir::TableAction& action : table.actions) {
      if (action.routine < 0) {
        continue;
      }
      work_ += before.size();
      facts_ = before;
      walk(action.before);
      for (const int parameter : action.parameters) {
        set(parameter, stage, {});
      }
      const int outer_stage = std::exchange(action_stage_, stage);
      call(action.routine);
      walk(action.after);
      action_stage_ = outer_stage;
      decides = decides || facts_.has_left != before.has_left || facts_.stays != before.stays;
      merged.join(facts_);
    }
    facts_ = std::move(merged);
    if (decides) {
      facts_.stays.add(chosen);
    }
    guards_ = outer;
  }

  void touch(const ir::Statement& s) {
    const RegisterInfo& info = program_.info.registers[static_cast<std::size_t>(s.which)];
    const bool reads = s.kind == Do::register_read;
    std::set<int> slots = guards_;
    std::set<int> operands;
    leaves(reads ? s.expr : s.exprs[0], slots);
    if (!reads) {
      leaves(s.exprs[1], operands);
      slots.insert(operands.begin(), operands.end());
    }
    if (info.width > 64) {
      finding(s.at, fmt::format("the register {} has elements of {} bits; a stateful ALU has a pair of 32 bits",
                                info.name, info.width));
    }
    for (const int guard : guards_) {  // what decides about the write within the ALU
      if (!reads && facts_.comes_from(guard, s.which)) {
        for (const int other : guards_) {
          operands.insert(other);
        }
      }
    }
    std::set<int> inputs = facts_.inputs_of(operands, s.which);
    for (const Decision* const decision : {&facts_.stays, &facts_.returns}) {
      const Besides needed = reads ? Besides{} : decision->of(s.which);
      inputs.insert(needed.inputs.begin(), needed.inputs.end());
    }
    const std::size_t words = facts_.words(inputs);
    if (words > kOperands) {
      finding(s.at, fmt::format("the register {} needs {} operands of 32 bits from the packet; a stateful ALU takes {}",
                                info.name, words, kOperands));
    }
    Touch& touch = facts_.touched[s.which];
    (reads ? touch.reads : touch.writes) += 1;
    if (touch.reads > 1 || touch.writes > 1 || (reads && touch.writes > 0)) {
      finding(s.at, fmt::format("the register {} is touched again in the same pass; a packet meets each register once",
                                info.name));
    }
    touch.stage = std::max({touch.stage, facts_.ready_besides(slots, s.which), facts_.stays.of(s.which).ready,
                            facts_.returns.of(s.which).ready});
    if (const auto found = register_stage_.find(s.which); found != register_stage_.end()) {
      touch.stage = std::max(touch.stage, found->second.second);
    }
    used(touch.stage, s.at);
    const auto place = register_stage_.emplace(s.which, std::pair{pipeline_, touch.stage});
    if (place.first->second.first != pipeline_) {
      finding(s.at, fmt::format("the register {} is used in ingress and in egress", info.name));
    }
    place.first->second.second = std::max(place.first->second.second, touch.stage);
    for (const int slot : slots) {
      for (const int source : facts_.sources[slot]) {
        if (source != s.which) {
          feeds_.emplace(source, s.which);
          if (feeds_.contains({s.which, source})) {
            finding(s.at, fmt::format("the registers {} and {} are used in both orders; they have fixed stages",
                                      info.name, program_.info.registers[static_cast<std::size_t>(source)].name));
          }
        }
      }
    }
    if (reads) {
      leaves_of_index(s.to, slots);
      set_place(s.to, std::max(touch.stage + 1, facts_.first_stage_of(slots, s.which)), slots);
      for (const int slot : slots_of(s.to)) {
        facts_.sources[slot].insert(std::set{s.which});
      }
    }
  }

  const ir::Program& program_;
  FitReport& report_;
  std::string pipeline_;
  Facts facts_;
  std::optional<Facts> returned_;  // of the routine that is walked: what is known where it has returned
  int first_return_ = 0;           // the number of writes by then
  int writes_ = 0;
  std::map<int, int> written_;  // by slot: the number of its last write
  std::size_t work_ = 0;
  std::set<int> guards_;  // slots of the conditions around
  int last_ = 0;
  int action_stage_ = 0;  // of the table whose action runs: what it gives is there in the next one
  ir::Origin deepest_;
  std::map<std::size_t, FirstStage> table_stage_;
  std::map<int, FirstStage> register_stage_;
  std::set<std::pair<int, int>> feeds_;
};

}  // namespace

Chip parse_chip(const std::string& name) {
  if (name == "tofino") {
    return Chip::tofino;
  }
  if (name == "tofino2") {
    return Chip::tofino2;
  }
  throw std::invalid_argument(fmt::format("--fit {}: it must be tofino or tofino2", name));
}

FitReport fit(const std::filesystem::path& file, Chip chip, const CompileOptions& options) {
  const ir::Program program = front_end(read_source(file, options), file.string(), options);
  FitReport report;
  describe_stages(chip, report);
  Fitter fitter(program, report);
  report.ingress_stages = fitter.pipeline(program.ingress, "ingress");
  report.egress_stages = fitter.pipeline(program.egress, "egress");
  fill_stages(program, fitter.registers(), fitter.tables(), report);
  if (report.sram_blocks > report.chip_sram_blocks || report.tcam_blocks > report.chip_tcam_blocks) {
    report.findings.push_back(
        fmt::format("{}: the tables and registers need {} SRAM and {} TCAM blocks; there are {} and {}", file.string(),
                    report.sram_blocks, report.tcam_blocks, report.chip_sram_blocks, report.chip_tcam_blocks));
  }
  return report;
}

std::string to_text(const FitReport& report, Chip chip) {
  std::string text =
      fmt::format("estimate for {}; the vendor's compiler decides\n", chip == Chip::tofino ? "tofino" : "tofino2");
  for (const std::string& placement : report.placements) {
    text += "  " + placement + "\n";
  }
  text += fmt::format("stages: ingress {}, egress {} of {}\nmemory: {} of {} SRAM blocks, {} of {} TCAM blocks\n",
                      report.ingress_stages, report.egress_stages, report.chip_stages, report.sram_blocks,
                      report.chip_sram_blocks, report.tcam_blocks, report.chip_tcam_blocks);
  for (const std::string& finding : report.findings) {
    text += finding + "\n";
  }
  return text + (report.fits() ? "nothing found that does not fit\n" : "does not fit\n");
}

}  // namespace sidelatch::p4

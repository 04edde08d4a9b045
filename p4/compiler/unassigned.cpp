#include "unassigned.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace sidelatch::p4 {

namespace {

using ir::Do;

// Slots that nothing has been assigned to on any path; none: no path comes here.
using Unassigned = std::optional<std::set<int>>;

class Search {
 public:
  Search(const ir::Program& program, const std::vector<VariableSlots>& variables,
         const std::function<void(const ir::Origin&, const std::string&)>& report)
      : program_(program), variables_(variables), report_(report) {}

  void run() {
    Unassigned at = std::set<int>{};
    const ir::Parser& parser = program_.parsers[static_cast<std::size_t>(program_.parser)];
    const ir::ParserState& locals = parser.states[static_cast<std::size_t>(parser.start)];
    block(locals.body, at);
    if (locals.next >= 0) {
      block(parser.states[static_cast<std::size_t>(locals.next)].body, at);
    }
    for (const int routine :
         {program_.verify, program_.ingress, program_.egress, program_.compute, program_.deparser}) {
      at = std::set<int>{};
      call(routine, at);
    }
  }

 private:
  // Calls have no cycles, but there may be very many ways through them, and branches and returns copy sets.
  static constexpr std::size_t kMostSteps = 5'000'000;

  void count(const Unassigned& copied) { steps_ += copied ? copied->size() : 0; }

  Unassigned joined(const Unassigned& a, const Unassigned& b) {
    count(a);
    count(b);
    if (!a || !b) {
      return a ? a : b;
    }
    std::set<int> both;
    std::set_intersection(a->begin(), a->end(), b->begin(), b->end(), std::inserter(both, both.end()));
    return both;
  }

  void block(const ir::Block& statements, Unassigned& at) {
    for (const ir::Statement& statement : statements) {
      if (!at || ++steps_ > kMostSteps) {
        return;
      }
      visit(statement, at);
    }
  }

  void call(int routine, Unassigned& at) {
    Unassigned outer = std::exchange(returned_, std::nullopt);
    block(program_.routines[static_cast<std::size_t>(routine)].body, at);
    if (returned_) {
      at = joined(at, returned_);
    }
    returned_ = std::move(outer);
  }

  void read(int which, const ir::Statement& by, const std::set<int>& at) {
    if (which < 0) {
      return;
    }
    const ir::Expr& expr = program_.exprs[static_cast<std::size_t>(which)];
    if (expr.op == ir::Op::load) {
      read(expr.place.index, by, at);
      if (expr.place.index < 0 && at.contains(expr.place.slot)) {
        found(expr.place.slot, by.at);
      }
      return;
    }
    for (const int part : {expr.a, expr.b, expr.c}) {
      read(part, by, at);
    }
  }

  void found(int slot, const ir::Origin& by) {
    const auto variable = std::find_if(variables_.begin(), variables_.end(), [slot](const VariableSlots& one) {
      return slot >= one.first && slot < one.first + one.count;
    });
    if (variable != variables_.end() && reported_.insert(variable->first).second) {
      report_(by, variable->name);
    }
  }

  static void write(const ir::Place& to, int count, std::set<int>& at) {
    const int last = to.slot + (to.index < 0 ? 0 : to.stride * to.count) + count;
    at.erase(at.lower_bound(to.slot), at.lower_bound(last));
  }

  void visit(const ir::Statement& s, Unassigned& at) {
    if (s.kind != Do::set_validity && !(s.kind == Do::assign && s.which == 1)) {
      read(s.expr, s, *at);
      for (const int expr : s.exprs) {
        read(expr, s, *at);
      }
    }
    switch (s.kind) {
      case Do::zero:
        write(s.to, s.count, *at);
        if (s.which == 1) {
          steps_ += static_cast<std::size_t>(s.count);
          for (int slot = s.to.slot; slot < s.to.slot + s.count; ++slot) {
            at->insert(slot);
          }
        }
        return;
      case Do::copy:
        steps_ += static_cast<std::size_t>(s.count);
        copy(s, *at);
        return;
      case Do::branch: {
        steps_ += at->size();
        Unassigned no = at;
        block(s.yes, at);
        block(s.no, no);
        at = joined(at, no);
        return;
      }
      case Do::loop:
        loop(s, at);
        return;
      case Do::stop:
        stopped_ = joined(stopped_, at);
        at = std::nullopt;
        return;
      case Do::again:
        again_ = joined(again_, at);
        at = std::nullopt;
        return;
      case Do::call:
        call(s.which, at);
        if (at) {
          block(s.yes, at);
        }
        return;
      case Do::apply:
        apply(program_.tables[static_cast<std::size_t>(s.which)], s, at);
        return;
      case Do::give_back:
        returned_ = joined(returned_, at);
        at = std::nullopt;
        return;
      case Do::leave:
      case Do::reject:
        at = std::nullopt;
        return;
      case Do::run_parser:  // may have assigned anything
        at->clear();
        block(s.yes, at);
        return;
      case Do::set_validity:
      case Do::extract:
      case Do::lookahead_header:
        write(s.to, program_.headers[static_cast<std::size_t>(s.which)].slots, *at);
        return;
      case Do::assign:
      case Do::lookahead:
      case Do::register_read:
      case Do::hash:
      case Do::update_checksum:
      case Do::random:
        write(s.to, 1, *at);
        return;
      default:
        return;
    }
  }

  // What the first time round assigns, the second one does: more change nothing.
  void loop(const ir::Statement& s, Unassigned& at) {
    Unassigned outer_stopped = std::exchange(stopped_, std::nullopt);
    Unassigned outer_again = std::exchange(again_, std::nullopt);
    for (int round = 0; round < 2; ++round) {
      block(s.yes, at);
      at = joined(at, again_);
      block(s.no, at);
    }
    at = stopped_;
    stopped_ = std::move(outer_stopped);
    again_ = std::move(outer_again);
  }

  // A structure of which nothing was assigned is one whose copy is not assigned either; the copy is what is read.
  static void copy(const ir::Statement& s, std::set<int>& at) {
    std::set<int> still;
    for (int i = 0; s.from.index < 0 && s.to.index < 0 && i < s.count; ++i) {
      if (at.contains(s.from.slot + i)) {
        still.insert(s.to.slot + i);
      }
    }
    write(s.to, s.count, at);
    at.merge(still);
  }

  void apply(const ir::Table& table, const ir::Statement& s, Unassigned& at) {
    block(table.before, at);
    if (!at) {
      return;
    }
    for (const int key : table.keys) {
      ir::Statement by;
      by.at = s.at;
      read(key, by, *at);
    }
    Unassigned after;
    for (const ir::TableAction& action : table.actions) {
      steps_ += at->size();
      Unassigned one = at;
      if (action.routine >= 0) {
        block(action.before, one);
        if (one) {
          call(action.routine, one);
        }
        if (one) {
          block(action.after, one);
        }
      }
      after = joined(after, one);
    }
    at = after;
  }

  const ir::Program& program_;
  const std::vector<VariableSlots>& variables_;
  const std::function<void(const ir::Origin&, const std::string&)>& report_;
  std::set<int> reported_;
  Unassigned returned_;
  Unassigned stopped_;  // of the innermost loop
  Unassigned again_;
  std::size_t steps_ = 0;
};

}  // namespace

void find_unassigned(const ir::Program& program, const std::vector<VariableSlots>& variables,
                     const std::function<void(const ir::Origin&, const std::string& name)>& report) {
  Search(program, variables, report).run();
}

}  // namespace sidelatch::p4

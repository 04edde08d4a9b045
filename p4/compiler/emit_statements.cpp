// The Emitter: statements, tables, and stacks of headers.
#include "emitter.h"

#include <utility>

namespace sidelatch::p4 {

using ir::Do;

void Emitter::block(const ir::Block& statements) {
  for (const ir::Statement& statement : statements) {
    emit(statement);
  }
}

void Emitter::guarded(const ir::Place& place, const std::string& text) {
  line(place.index < 0 ? text : fmt::format("if ({}) {{ {} }}", in_range(place), text));
}

void Emitter::zero(const ir::Place& to, int count) {
  ranges(to.slot, count, [&](int offset, int number, bool is_wide) {
    const ir::Place first = moved(to, offset);
    guarded(to, number == 1 ? fmt::format("{} = 0;", at(first))
                            : fmt::format("std::memset(&{}, 0, {});", at(first), number * (is_wide ? 16 : 8)));
  });
}

void Emitter::copy(const ir::Statement& s) {
  ranges(s.to.slot, s.count, [&](int offset, int number, bool is_wide) {
    const ir::Place to = moved(s.to, offset);
    const ir::Place from = moved(s.from, offset);
    const int bytes = number * (is_wide ? 16 : 8);
    const std::string move = number == 1 ? fmt::format("{} = {};", at(to), at(from))
                                         : fmt::format("std::memmove(&{}, &{}, {});", at(to), at(from), bytes);
    guarded(s.to, s.from.index < 0 ? move
                                   : fmt::format("if ({}) {{ {} }} else {{ std::memset(&{}, 0, {}); }}",
                                                 in_range(s.from), move, at(to), bytes));
  });
}

void Emitter::call(char kind, int which, const ir::Block& after) {
  line(fmt::format("{{ const int flow = {}{}(f, e);", kind, which));
  block(after);
  line("if (flow != on) { return flow; } }");
}

// A chain, of a switch with many labels, say, is flat: C++ compilers bound how deep braces nest.
void Emitter::branch(const ir::Statement& first) {
  const ir::Statement* s = &first;
  line(fmt::format("if ({} != 0) {{", value(s->expr)));
  block(s->yes);
  while (s->no.size() == 1 && s->no.front().kind == Do::branch) {
    s = &s->no.front();
    line(fmt::format("}} else if ({} != 0) {{", value(s->expr)));
    block(s->yes);
  }
  if (!s->no.empty()) {
    line("} else {");
    block(s->no);
  }
  line("}");
}

void Emitter::emit(const ir::Statement& s) {
  switch (s.kind) {
    case Do::assign:
      guarded(s.to, fmt::format("{} = {};", at(s.to), value(s.expr)));
      break;
    case Do::zero:
      zero(s.to, s.count);
      break;
    case Do::copy:
      copy(s);
      break;
    case Do::branch:
      branch(s);
      break;
    case Do::loop:
      loop(s);
      break;
    case Do::stop:
      line("break;");
      break;
    case Do::again:
      line(fmt::format("goto again{};", loop_));
      break;
    case Do::call:
      count_iteration();
      call('r', s.which, s.yes);
      break;
    case Do::apply:
      apply(static_cast<std::size_t>(s.which));
      break;
    case Do::give_back:
      line("return on;");
      break;
    case Do::leave:
      line("return leave;");
      break;
    case Do::reject:
      line(fmt::format("e.error = {}; return reject;", value(s.expr)));
      break;
    case Do::run_parser:
      call('p', s.which, s.yes);
      break;
    case Do::set_validity:
      set_validity(s);
      break;
    case Do::extract:
    case Do::lookahead_header:
      extract(s);
      break;
    case Do::lookahead:
      line(fmt::format("if (8 * e.cursor + {} > 8 * e.packet.packet.size()) {{ e.error = too_short; return reject; }}",
                       s.which + s.count));
      line(fmt::format("{} = read_field<{}, {}>(e.packet.packet.data() + e.cursor);", at(s.to), s.which, s.count));
      break;
    case Do::advance:
      line(fmt::format("{{ const std::uint64_t bits = {};", value(s.expr)));
      line("if (bits % 8 != 0) { e.error = bad_argument; return reject; }");
      line(
          "if (bits / 8 > e.packet.packet.size() - e.cursor) { e.error = too_short; return reject; }\ne.cursor += "
          "bits / 8; }");
      break;
    case Do::emit:
      deparse(s);
      break;
    case Do::push:
    case Do::pop:
      move_stack(s);
      break;
    default:
      emit_extern(s);
      break;
  }
}

// A round of a loop, or a call: as in the interpreter.
void Emitter::count_iteration() {
  line("if (++e.iterations > kMostIterations) { e.packet.assertion_failed = true; return leave; }");
}

void Emitter::loop(const ir::Statement& s) {
  const int outer = std::exchange(loop_, loops_++);
  line("for (;;) {");
  count_iteration();
  line("{");
  block(s.yes);
  line(fmt::format("}}\nagain{}:;", loop_));
  block(s.no);
  line("}");
  loop_ = outer;
}

void Emitter::move_stack(const ir::Statement& s) {
  const ir::StackType& type = program_.stacks[static_cast<std::size_t>(s.which)];
  ir::Place elements = s.to;
  elements.slot += 1;
  const int kept = (type.count - s.count) * type.element_slots;
  const int gap = s.count * type.element_slots;
  const bool push = s.kind == Do::push;
  if (kept > 0) {
    ir::Statement move;
    move.to = push ? moved(elements, gap) : elements;
    move.from = push ? elements : moved(elements, gap);
    move.count = kept;
    copy(move);
  }
  zero(push ? elements : moved(elements, kept), gap);
  const std::string next = at(s.to);
  line(push ? fmt::format("{0} = {0} + {1} > {2} ? {2} : {0} + {1};", next, s.count, type.count)
            : fmt::format("{0} = {0} >= {1} ? {0} - {1} : 0;", next, s.count));
}

void Emitter::apply(std::size_t which) {
  const ir::Table& table = program_.tables[which];
  // The arguments of an action may apply another table, within the scope of these names.
  const auto name = [suffix = nesting_ == 0 ? std::string() : std::to_string(nesting_)](std::string_view word) {
    return std::string(word) + suffix;
  };
  const std::string keys = name("keys");
  const std::string state = name("table");
  const std::string row = name("row");
  const std::string action = name("action");
  const std::string arguments = name("arguments");
  line("{");
  block(table.before);
  std::string values;
  for (const int key : table.keys) {
    values += (values.empty() ? "" : ", ") + value(key);
  }
  line(fmt::format("const U128 {}[] = {{{}}};", keys, values.empty() ? "0" : values));
  line(fmt::format("TableState& {0} = e.state.tables[{1}];\nTableState::Row* {2} = {0}.find({3});", state, which, row,
                   keys));
  const bool selects = table.selector_slot >= 0;
  line(fmt::format("{}std::uint32_t {} = {} != nullptr ? {}->action : {}.default_action();", selects ? "" : "const ",
                   action, row, row, state));
  line(
      fmt::format("[[maybe_unused]] const U128* {0} = {1} != nullptr ? {1}->arguments.data() : "
                  "{2}.default_arguments().data();",
                  arguments, row, state));
  if (selects) {
    line(fmt::format("if ({0} != nullptr && !{0}->group.empty()) {{ const ActionCall& member = {0}->chosen({1});", row,
                     slot(table.selector_slot)));
    line(fmt::format("{} = std::uint32_t(member.action); {} = member.arguments.data(); }}", action, arguments));
  }
  line(fmt::format("{} = {} != nullptr;\n{} = {};", slot(table.hit_slot), row, slot(table.action_slot), action));
  if (table.direct_counter >= 0) {
    line(fmt::format("if ({0} != nullptr) {{ ++{0}->count.packets; {0}->count.bytes += e.packet.packet.size(); }}",
                     row));
  }
  line(fmt::format("switch ({}) {{", action));
  for (std::size_t i = 0; i < table.actions.size(); ++i) {
    const ir::TableAction& one = table.actions[i];
    if (one.routine < 0) {
      continue;
    }
    line(fmt::format("case {}: {{", i));
    ++nesting_;
    block(one.before);
    --nesting_;
    for (std::size_t p = 0; p < one.parameters.size(); ++p) {
      line(fmt::format("{} = {}[{}];", slot(one.parameters[p]), arguments, p));
    }
    call('r', one.routine, one.after);
    line("break; }");
  }
  line("default: break; } }");
}

}  // namespace sidelatch::p4

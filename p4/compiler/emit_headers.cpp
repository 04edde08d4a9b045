// The Emitter: headers that are extracted and written, and parsers.
#include "emitter.h"

#include <sidelatch/p4/bits.h>

namespace sidelatch::p4 {

using ir::Do;

void Emitter::set_validity(const ir::Statement& s) {
  const ir::HeaderType& type = program_.headers[static_cast<std::size_t>(s.which)];
  const std::string guard = s.to.index < 0 ? "" : in_range(s.to) + " && ";
  line(fmt::format("if ({}{} {} 0) {{", guard, at(s.to), s.count != 0 ? "==" : "!="));
  const std::string varies = type.used >= 0 && s.count == 0 ? fmt::format(" + {} / 8", at(moved(s.to, type.used))) : "";
  line(fmt::format("e.packet.length {}= {}{};", s.count != 0 ? "+" : "-", type.bytes, varies));
  if (s.count != 0) {
    zero(s.to, type.slots);
  }
  line(fmt::format("{} = {}; }}", at(s.to), s.count));
}

void Emitter::extract_varying(const ir::Statement& s, const ir::HeaderType& type) {
  line(fmt::format("{{ const std::uint64_t varies = {};", value(s.expr)));
  line("if (varies % 8 != 0) { e.error = bad_argument; return reject; }");
  line(fmt::format("const std::size_t bytes = {} + varies / 8;", type.bytes));
  line("if (e.cursor + bytes > e.packet.packet.size()) { e.error = too_short; return reject; }");
  line(fmt::format("if (varies > {}) {{ e.error = header_too_short; return reject; }}", type.most_used));
  line(s.to.index < 0 ? "{" : fmt::format("if ({}) {{", in_range(s.to)));
  line(fmt::format("{} = 1;\n{} = varies;\nstd::size_t bit = 8 * e.cursor;", at(s.to), at(moved(s.to, type.used))));
  varying_fields(type, [&](const ir::HeaderField& field) {
    line(fmt::format("{} = read_bits(e.packet.packet, bit, width);", at(moved(s.to, field.slot))));
  });
  line("}\ne.cursor += bytes; }");
}

void Emitter::extract(const ir::Statement& s) {
  const ir::HeaderType& type = program_.headers[static_cast<std::size_t>(s.which)];
  if (type.used >= 0) {
    extract_varying(s, type);
    return;
  }
  line(
      fmt::format("if (e.cursor + {} > e.packet.packet.size()) {{ e.error = too_short; return reject; }}", type.bytes));
  line(fmt::format("{{ const std::byte* from = e.packet.packet.data() + e.cursor;"));
  line(s.to.index < 0 ? "{" : fmt::format("if ({}) {{", in_range(s.to)));
  line(fmt::format("{} = 1;", at(s.to)));
  unsigned bit = 0;
  const auto width = [&](std::size_t i) { return type.fields[i].width; };
  for (const Group& group : groups_of(0, type.fields.size(), width)) {
    if (group.last - group.first == 1) {
      line(fmt::format("{} = read_field<{}, {}>(from);", at(moved(s.to, type.fields[group.first].slot)), bit,
                       group.bits));
    } else {
      line(fmt::format("{{ const std::uint64_t group = read_field<{}, {}>(from);", bit, group.bits));
      unsigned below = group.bits;
      for (std::size_t i = group.first; i < group.last; ++i) {
        below -= width(i);
        line(fmt::format("{} = group >> {} & {};", at(moved(s.to, type.fields[i].slot)), below,
                         literal(ones(width(i)), false)));
      }
      line("}");
    }
    bit += group.bits;
  }
  line("} }");
  if (s.kind == Do::extract) {
    line(fmt::format("e.cursor += {};", type.bytes));
  }
}

void Emitter::deparse(const ir::Statement& s) {
  const ir::HeaderType& type = program_.headers[static_cast<std::size_t>(s.which)];
  const std::string guard = s.to.index < 0 ? "" : in_range(s.to) + " && ";
  line(fmt::format("if ({}{} != 0) {{", guard, at(s.to)));
  if (type.used >= 0) {
    line(fmt::format("const std::uint64_t varies = {};", at(moved(s.to, type.used))));
    line(fmt::format("const std::size_t bytes = {} + varies / 8;", type.bytes));
    line("if (e.written + bytes > e.out.size()) { throw std::length_error(\"the headers of a packet do not fit\"); }");
    line("std::size_t bit = 8 * e.written;");
    varying_fields(type, [&](const ir::HeaderField& field) {
      line(fmt::format("write_bits(e.out, bit, width, {});", at(moved(s.to, field.slot))));
    });
    line("e.written += bytes; }");
    return;
  }
  line(fmt::format(
      "if (e.written + {} > e.out.size()) {{ throw std::length_error(\"the headers of a packet do not fit\"); }}",
      type.bytes));
  line("std::byte* to = e.out.data() + e.written;");
  unsigned bit = 0;
  const auto width = [&](std::size_t i) { return type.fields[i].width; };
  for (const Group& group : groups_of(0, type.fields.size(), width)) {
    const auto field = [&](std::size_t i) { return at(moved(s.to, type.fields[i].slot)); };
    line(fmt::format("write_field<{}, {}>(to, {});", bit, group.bits, together(group, width, field)));
    bit += group.bits;
  }
  line(fmt::format("e.written += {}; }}", type.bytes));
}

void Emitter::jump(int next) {
  line(next == ir::kAccept ? "return on;" : next == ir::kReject ? "return reject;" : fmt::format("goto s{};", next));
}

std::string Emitter::contains(const ir::Set& set, const std::string& key) const {
  const bool is_wide = set.width > 64;
  if (set.kind == ir::Set::Kind::mask) {
    return set.b == ones(set.width)
               ? fmt::format("{} == {}", key, literal(set.a, is_wide))
               : fmt::format("({} & {}) == {}", key, literal(set.b, is_wide), literal(set.a, is_wide));
  }
  return fmt::format("!is_less({0}, {1}, {3}, {4}) && !is_less({2}, {0}, {3}, {4})", key, literal(set.a, is_wide),
                     literal(set.b, is_wide), set.width, set.is_signed);
}

void Emitter::parser(const ir::Parser& parser, std::size_t number) {
  line(fmt::format("\n// {}\nint p{}(Frame& f, Env& e) {{\ngoto s{};", in_comment(parser.name), number, parser.start));
  for (std::size_t i = 0; i < parser.states.size(); ++i) {
    const ir::ParserState& state = parser.states[i];
    line(fmt::format("s{}:  // {}\n{{\nif (++e.transitions > kMostTransitions) {{ e.error = timeout; return reject; }}",
                     i, in_comment(state.name)));
    block(state.body);
    if (state.keys.empty()) {
      jump(state.next);
      line("}");
      continue;
    }
    for (std::size_t k = 0; k < state.keys.size(); ++k) {
      line(fmt::format("[[maybe_unused]] const auto key{} = {};", k, value(state.keys[k])));
    }
    for (const ir::SelectCase& one : state.cases) {
      std::string condition;
      for (std::size_t k = 0; k < one.sets.size(); ++k) {
        if (one.sets[k].kind != ir::Set::Kind::any) {
          condition += (condition.empty() ? "" : " && ") + contains(one.sets[k], fmt::format("key{}", k));
        }
      }
      line(fmt::format("if ({}) {{", condition.empty() ? "true" : condition));
      jump(one.next);
      line("}");
    }
    line("e.error = no_match; return reject;\n}");
  }
  line("}");
}

}  // namespace sidelatch::p4

// Writes the IR of a program as C++. Each routine becomes a function, each parser a function whose states are labels.
#include <sidelatch/p4/emit.h>

#include "p4/front_end.h"
#include "p4/ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::p4 {

namespace {

using ir::Do;
using ir::Op;

std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      made += '\\';
    }
    made += c;
  }
  return made + '"';
}

std::string literal(U128 value, bool is_wide) {
  const auto low = static_cast<std::uint64_t>(value);
  const auto high = static_cast<std::uint64_t>(value >> 64);
  return is_wide ? fmt::format("wide({:#x}, {:#x})", high, low) : fmt::format("std::uint64_t{{{:#x}}}", low);
}

class Emitter {
 public:
  Emitter(const ir::Program& program, std::string function) : program_(program), function_(std::move(function)) {
    lay_out();
  }

  std::string run() {
    head();
    for (std::size_t i = 0; i < program_.routines.size(); ++i) {
      line(fmt::format("int r{}(Frame& f, Env& e);", i));
    }
    for (std::size_t i = 0; i < program_.parsers.size(); ++i) {
      line(fmt::format("int p{}(Frame& f, Env& e);", i));
    }
    for (std::size_t i = 0; i < program_.routines.size(); ++i) {
      line(fmt::format("\n// {}\nint r{}(Frame& f, Env& e) {{", program_.routines[i].name, i));
      block(program_.routines[i].body);
      line("return on;\n}");
    }
    for (std::size_t i = 0; i < program_.parsers.size(); ++i) {
      parser(program_.parsers[i], i);
    }
    info();
    tail();
    return std::move(out_);
  }

 private:
  struct SlotAt {
    char array;  // k, w: kept narrow and wide; t, x: the others
    int index;
  };

  void line(const std::string& text) {
    out_ += text;
    out_ += '\n';
  }

  void lay_out() {
    int counts[4] = {0, 0, 0, 0};
    for (std::size_t slot = 0; slot < program_.slot_widths.size(); ++slot) {
      const bool kept = static_cast<int>(slot) < program_.persistent_slots;
      const bool is_wide = program_.slot_widths[slot] > 64;
      const int which = (kept ? 0 : 2) + (is_wide ? 1 : 0);
      slots_.push_back({"kwtx"[which], counts[which]++});
    }
    for (int i = 0; i < 4; ++i) {
      sizes_[i] = std::max(1, counts[i]);
    }
  }

  void head() {
    line("// Made by sidelatch-p4c; do not edit.");
    line("#include <sidelatch/p4/compiled.h>");
    line("#include <cstddef>\n#include <memory>");
    for (const char* warning :
         {"-Wconversion", "-Wsign-conversion", "-Wunused-parameter", "-Wunused-variable", "-Wunused-label",
          "-Wparentheses", "-Wtype-limits", "-Wtautological-compare", "-Wunused-but-set-variable"}) {
      line(fmt::format("#pragma GCC diagnostic ignored \"{}\"", warning));
    }
    line("namespace sidelatch::p4::programs {\nstd::shared_ptr<const Program> " + function_ + "();\n}");
    // Not in `programs`, where a program called `count` would hide what is called so in `compiled`.
    line("namespace sidelatch::p4::compiled {\nnamespace {\nnamespace " + function_ + "_program {");
    line("struct Frame {");
    line(fmt::format("U128 w[{}];\nstd::uint64_t k[{}];\nU128 x[{}];\nstd::uint64_t t[{}];\n}};", sizes_[1], sizes_[0],
                     sizes_[3], sizes_[2]));
  }

  [[nodiscard]] const ir::Expr& expr(int which) const { return program_.exprs[static_cast<std::size_t>(which)]; }
  [[nodiscard]] bool is_wide_slot(int slot) const { return program_.slot_widths[static_cast<std::size_t>(slot)] > 64; }

  // How far the element after this slot's is, in the slot's array.
  [[nodiscard]] int stride(const ir::Place& place) const {
    if (place.count <= 1) {
      return 0;
    }
    return slots_[static_cast<std::size_t>(place.slot + place.stride)].index -
           slots_[static_cast<std::size_t>(place.slot)].index;
  }

  [[nodiscard]] std::string at(const ir::Place& place) const {
    const SlotAt& slot = slots_[static_cast<std::size_t>(place.slot)];
    if (place.index < 0) {
      return fmt::format("f.{}[{}]", slot.array, slot.index);
    }
    return fmt::format("f.{}[{} + {} * {}]", slot.array, slot.index, value(place.index), stride(place));
  }

  [[nodiscard]] std::string in_range(const ir::Place& place) const {
    return fmt::format("{} < {}", value(place.index), place.count);
  }

  // The value of an expression: a std::uint64_t up to 64 bits, else a U128.
  [[nodiscard]] std::string value(int which) const {
    const ir::Expr& e = expr(which);
    const bool is_wide = e.width > 64;
    const char* type = is_wide ? "U128" : "std::uint64_t";
    const auto masked = [&](const std::string& text) {
      return e.width == 64 || e.width == 128
                 ? fmt::format("{}({})", type, text)
                 : fmt::format("({}({}) & {})", type, text, literal(ones(e.width), is_wide));
    };
    const auto a = [&] { return value(e.a); };
    const auto b = [&] { return value(e.b); };
    switch (e.op) {
      case Op::constant:
        return literal(e.value, is_wide);
      case Op::load:
        return e.place.index < 0 ? at(e.place) : fmt::format("({} ? {} : 0)", in_range(e.place), at(e.place));
      case Op::add:
        return masked(fmt::format("{} + {}", a(), b()));
      case Op::subtract:
        return masked(fmt::format("{} - {}", a(), b()));
      case Op::multiply:
        return masked(fmt::format("{} * {}", a(), b()));
      case Op::divide:
        return expr(e.b).op == Op::constant ? fmt::format("({} / {})", a(), b())
                                            : fmt::format("divided({}, {})", a(), b());
      case Op::modulo:
        return expr(e.b).op == Op::constant ? fmt::format("({} % {})", a(), b())
                                            : fmt::format("modulo({}, {})", a(), b());
      case Op::add_saturating:
      case Op::subtract_saturating:
        return fmt::format("{}(saturate({}, {}, {}, {}, {}))", type, a(), b(), e.width, e.is_signed,
                           e.op == Op::subtract_saturating);
      case Op::bit_and:
        return fmt::format("({} & {})", a(), b());
      case Op::bit_or:
        return fmt::format("({} | {})", a(), b());
      case Op::bit_xor:
        return fmt::format("({} ^ {})", a(), b());
      case Op::bit_not:
        return masked("~" + a());
      case Op::negate:
        return masked(fmt::format("{}(0) - {}", type, a()));
      case Op::shift_left:
      case Op::shift_right:
        return shifted(e, type);
      case Op::equal:
        return fmt::format("std::uint64_t({} == {})", a(), b());
      case Op::less:
      case Op::less_equal: {
        if (e.is_signed) {
          return e.op == Op::less ? fmt::format("std::uint64_t(is_less({}, {}, {}, true))", a(), b(), e.low)
                                  : fmt::format("std::uint64_t(!is_less({}, {}, {}, true))", b(), a(), e.low);
        }
        return fmt::format("std::uint64_t({} {} {})", a(), e.op == Op::less ? "<" : "<=", b());
      }
      case Op::logical_and:
        return fmt::format("std::uint64_t({} != 0 && {} != 0)", a(), b());
      case Op::logical_or:
        return fmt::format("std::uint64_t({} != 0 || {} != 0)", a(), b());
      case Op::logical_not:
        return fmt::format("std::uint64_t({} == 0)", a());
      case Op::conditional:
        return fmt::format("({} != 0 ? {} : {})", a(), b(), value(e.c));
      case Op::slice:
        return masked(fmt::format("{} >> {}", a(), e.low));
      case Op::concatenate:
        return e.low >= kWidest ? b() : masked(fmt::format("({}({}) << {}) | {}", type, a(), e.low, b()));
      case Op::extend:
        return e.is_signed ? masked(fmt::format("extend_sign({}, {})", a(), e.low)) : masked(a());
    }
    return "0";
  }

  [[nodiscard]] std::string shifted(const ir::Expr& e, const char* type) const {
    const bool left = e.op == Op::shift_left;
    const ir::Expr& by = expr(e.b);
    if (by.op == Op::constant && by.value < e.width && (left || !e.is_signed)) {
      const std::string text = fmt::format("{} {} {}", value(e.a), left ? "<<" : ">>", static_cast<unsigned>(by.value));
      return e.width == 64 || e.width == 128 || !left
                 ? fmt::format("({})", text)
                 : fmt::format("(({}) & {})", text, literal(ones(e.width), e.width > 64));
    }
    return fmt::format("{}(shift({}, {}, {}, {}, {}))", type, value(e.a), value(e.b), e.width, e.is_signed, left);
  }

  void block(const ir::Block& statements) {
    for (const ir::Statement& statement : statements) {
      emit(statement);
    }
  }

  // Runs `text` if the place exists.
  void guarded(const ir::Place& place, const std::string& text) {
    line(place.index < 0 ? text : fmt::format("if ({}) {{ {} }}", in_range(place), text));
  }

  // The narrow and the wide slots of [slot, slot + count) are ranges of their arrays.
  template <class Each>
  void ranges(int slot, int count, Each each) const {
    for (const bool is_wide : {false, true}) {
      int first = -1;
      int number = 0;
      for (int s = slot; s < slot + count; ++s) {
        if (is_wide_slot(s) == is_wide) {
          first = first < 0 ? s : first;
          ++number;
        }
      }
      if (number > 0) {
        each(first - slot, number, is_wide);
      }
    }
  }

  [[nodiscard]] static ir::Place moved(ir::Place place, int by) {
    place.slot += by;
    return place;
  }

  void zero(const ir::Place& to, int count) {
    ranges(to.slot, count, [&](int offset, int number, bool is_wide) {
      const ir::Place first = moved(to, offset);
      guarded(to, number == 1 ? fmt::format("{} = 0;", at(first))
                              : fmt::format("std::memset(&{}, 0, {});", at(first), number * (is_wide ? 16 : 8)));
    });
  }

  void copy(const ir::Statement& s) {
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

  // A routine ('r') or a parser ('p'). What it leaves behind is copied out however it ends.
  void call(char kind, int which, const ir::Block& after) {
    line(fmt::format("{{ const int flow = {}{}(f, e);", kind, which));
    block(after);
    line("if (flow != on) { return flow; } }");
  }

  void emit(const ir::Statement& s) {
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
        line(fmt::format("if ({} != 0) {{", value(s.expr)));
        block(s.yes);
        if (!s.no.empty()) {
          line("} else {");
          block(s.no);
        }
        line("}");
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
        line(fmt::format(
            "if (8 * e.cursor + {} > 8 * e.packet.packet.size()) {{ e.error = too_short; return reject; }}", s.count));
        line(fmt::format("{} = read_field<0, {}>(e.packet.packet.data() + e.cursor);", at(s.to), s.count));
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

  void loop(const ir::Statement& s) {
    const int outer = std::exchange(loop_, loops_++);
    line("for (;;) {");
    line("if (++e.iterations > kMostIterations) { e.packet.assertion_failed = true; return leave; }");
    line("{");
    block(s.yes);
    line(fmt::format("}}\nagain{}:;", loop_));
    block(s.no);
    line("}");
    loop_ = outer;
  }

  void emit_extern(const ir::Statement& s) {
    switch (s.kind) {
      case Do::register_read:
        line(fmt::format("if (const std::uint64_t index = index_of({}); index < e.state.registers[{}].size()) {{",
                         value(s.expr), s.which));
        line(fmt::format("{} = e.state.registers[{}].read(index); }}", at(s.to), s.which));
        break;
      case Do::register_write:
        line(fmt::format("e.state.registers[{}].write(index_of({}), {});", s.which, value(s.exprs[0]),
                         value(s.exprs[1])));
        break;
      case Do::count:
        line(fmt::format("count(e.state.counters[{}], index_of({}), e.packet);", s.which, value(s.expr)));
        break;
      case Do::hash:
        line(fmt::format("{{ const U128 base = {}; const U128 most = {};", value(s.exprs[0]), value(s.exprs[1])));
        data(s, 2);
        line(fmt::format("const U128 hashed = hash(HashAlgorithm({}), std::span(e.hashed).first(bytes));", s.which));
        line(fmt::format("{} = (most == 0 ? base : base + hashed % most) & ones({}); }}", at(s.to), s.count));
        break;
      case Do::verify_checksum: {
        line(fmt::format("if ({} != 0) {{ const U128 expected = {};", value(s.exprs[0]), value(s.exprs[1])));
        data(s, 2);
        line(fmt::format("e.checksum_error |= checksum(e, HashAlgorithm({}), bytes, {}) != expected; }}", s.which,
                         s.count != 0));
        break;
      }
      case Do::update_checksum: {
        line(fmt::format("if ({} != 0) {{", value(s.exprs[0])));
        data(s, 1);
        line(fmt::format("{} = checksum(e, HashAlgorithm({}), bytes, {}); }}", at(s.to), s.which, s.count != 0));
        break;
      }
      case Do::random:
        line(fmt::format("{} = draw(e.packet, {}, {});", at(s.to), value(s.exprs[0]), value(s.exprs[1])));
        break;
      case Do::clone:
        line(fmt::format("e.packet.clone = true; e.packet.clone_session = {}; e.packet.clone_list = {};", value(s.expr),
                         s.count));
        break;
      case Do::resubmit:
        line(fmt::format("e.packet.resubmit = true; e.packet.resubmit_list = {};", s.count));
        break;
      case Do::recirculate:
        line(fmt::format("e.packet.recirculate = true; e.packet.recirculate_list = {};", s.count));
        break;
      case Do::truncate:
        line(fmt::format("e.packet.truncate_to({});", value(s.expr)));
        break;
      case Do::digest:
        line("++e.packet.digests;");
        break;
      default:  // Do::assertion
        line(fmt::format("if ({} == 0) {{ e.packet.assertion_failed = true; }}", value(s.expr)));
        break;
    }
  }

  // Writes what is to be hashed to e.hashed, and its number to `bytes`. Where every field is depends on which headers
  // are valid; that all are is the common case, in which all offsets are known.
  void data(const ir::Statement& s, std::size_t first) {
    std::string all_valid;
    std::vector<int> seen;
    for (const int valid : s.valid) {
      if (valid >= 0 && std::find(seen.begin(), seen.end(), valid) == seen.end()) {
        seen.push_back(valid);
        all_valid += fmt::format("{}{} != 0", all_valid.empty() ? "" : " && ", value(valid));
      }
    }
    if (std::any_of(s.sizes.begin(), s.sizes.end(), [](int size) { return size >= 0; })) {
      line("std::size_t bytes = 0;\n{\nstd::size_t bits = 0;");
      append(s, first);
      line("}");
      return;
    }
    unsigned most = 0;
    bool has_parts = false;
    for (std::size_t i = first; i < s.exprs.size(); ++i) {
      has_parts = has_parts || most % 8 != 0 || expr(s.exprs[i]).width % 8 != 0;
      most += expr(s.exprs[i]).width;
    }
    line("std::size_t bytes = 0;");
    if (has_parts) {  // a part of a byte is written into what is there
      line(fmt::format("std::memset(e.hashed.data(), 0, {});", (most + 7) / 8));
    }
    line(all_valid.empty() ? "{" : fmt::format("if ({}) {{", all_valid));
    unsigned bits = 0;
    const auto width = [&](std::size_t i) { return expr(s.exprs[i]).width; };
    for (const Group& group : groups_of(first, s.exprs.size(), width)) {
      const auto field = [&](std::size_t i) { return value(s.exprs[i]); };
      line(fmt::format("write_field<{}, {}>(e.hashed.data(), {});", bits, group.bits, together(group, width, field)));
      bits += group.bits;
    }
    if (bits % 8 != 0) {
      line(fmt::format("write_field<{}, {}>(e.hashed.data(), 0U);", bits, 8 - bits % 8));
    }
    line(fmt::format("bytes = {};", (bits + 7) / 8));
    if (!all_valid.empty()) {
      line("} else {\nstd::size_t bits = 0;");
      append(s, first);
    }
    line("}");
  }

  // One after the other, at `bits`; sets `bytes`.
  void append(const ir::Statement& s, std::size_t first) {
    for (std::size_t i = first; i < s.exprs.size(); ++i) {
      const int valid = s.valid[i - first];
      const int size = s.sizes.empty() ? -1 : s.sizes[i - first];
      const std::string width =
          size < 0 ? fmt::format("{}", expr(s.exprs[i]).width) : fmt::format("unsigned({})", value(size));
      const std::string add = fmt::format("append(e, bits, {}, {});", width, value(s.exprs[i]));
      line(valid < 0 ? add : fmt::format("if ({} != 0) {{ {} }}", value(valid), add));
    }
    line("bytes = fill_byte(e, bits);");
  }

  // Fields [first, last) that fill whole bytes together, and one word: they are read and written at once.
  struct Group {
    std::size_t first = 0;
    std::size_t last = 0;
    unsigned bits = 0;
  };

  // `width(i)`: of field i of `count`, the first of which begins a byte.
  template <class Width>
  [[nodiscard]] static std::vector<Group> groups_of(std::size_t first, std::size_t count, Width width) {
    std::vector<Group> groups;
    for (std::size_t i = first; i < count;) {
      Group group{i, i, 0};
      do {
        group.bits += width(group.last++);
      } while (group.bits % 8 != 0 && group.last < count && group.bits <= 64);
      if (group.last - group.first > 1 && group.bits > 64) {  // too wide for a word: one by one
        for (; group.first < group.last; ++group.first) {
          groups.push_back({group.first, group.first + 1, width(group.first)});
        }
      } else {
        groups.push_back(group);
      }
      i = group.last;
    }
    return groups;
  }

  // The fields of a group as one number; `value(i)` is that of field i.
  template <class Width, class FieldValue>
  [[nodiscard]] static std::string together(const Group& group, Width width, FieldValue value) {
    if (group.last - group.first == 1) {
      return value(group.first);
    }
    std::string made;
    unsigned below = group.bits;
    for (std::size_t i = group.first; i < group.last; ++i) {
      below -= width(i);
      const std::string one = fmt::format("std::uint64_t({})", value(i));
      made += (made.empty() ? "" : " | ") + (below == 0 ? one : fmt::format("{} << {}", one, below));
    }
    return made;
  }

  void set_validity(const ir::Statement& s) {
    const ir::HeaderType& type = program_.headers[static_cast<std::size_t>(s.which)];
    const std::string guard = s.to.index < 0 ? "" : in_range(s.to) + " && ";
    line(fmt::format("if ({}{} {} 0) {{", guard, at(s.to), s.count != 0 ? "==" : "!="));
    const std::string varies =
        type.used >= 0 && s.count == 0 ? fmt::format(" + {} / 8", at(moved(s.to, type.used))) : "";
    line(fmt::format("e.packet.length {}= {}{};", s.count != 0 ? "+" : "-", type.bytes, varies));
    if (s.count != 0) {
      zero(s.to, type.slots);
    }
    line(fmt::format("{} = {}; }}", at(s.to), s.count));
  }

  // `each`: of a field and its width.
  template <class Each>
  void varying_fields(const ir::HeaderType& type, Each each) {
    for (const ir::HeaderField& field : type.fields) {
      line(field.before < 0
               ? fmt::format("{{ const unsigned width = {};", field.width)
               : fmt::format("{{ const unsigned width = bits_in_part(varies, {}, {});", field.before, field.width));
      each(field);
      line("bit += width; }");
    }
  }

  void extract_varying(const ir::Statement& s, const ir::HeaderType& type) {
    line(fmt::format("{{ const std::uint64_t varies = {};", value(s.expr)));
    line("if (varies % 8 != 0) { e.error = bad_argument; return reject; }");
    line(fmt::format("if (varies > {}) {{ e.error = header_too_short; return reject; }}", type.most_used));
    line(fmt::format("const std::size_t bytes = {} + varies / 8;", type.bytes));
    line("if (e.cursor + bytes > e.packet.packet.size()) { e.error = too_short; return reject; }");
    line(s.to.index < 0 ? "{" : fmt::format("if ({}) {{", in_range(s.to)));
    line(fmt::format("{} = 1;\n{} = varies;\nstd::size_t bit = 8 * e.cursor;", at(s.to), at(moved(s.to, type.used))));
    varying_fields(type, [&](const ir::HeaderField& field) {
      line(fmt::format("{} = read_bits(e.packet.packet, bit, width);", at(moved(s.to, field.slot))));
    });
    line("}\ne.cursor += bytes; }");
  }

  void extract(const ir::Statement& s) {
    const ir::HeaderType& type = program_.headers[static_cast<std::size_t>(s.which)];
    if (type.used >= 0) {
      extract_varying(s, type);
      return;
    }
    line(fmt::format("if (e.cursor + {} > e.packet.packet.size()) {{ e.error = too_short; return reject; }}",
                     type.bytes));
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

  void deparse(const ir::Statement& s) {
    const ir::HeaderType& type = program_.headers[static_cast<std::size_t>(s.which)];
    const std::string guard = s.to.index < 0 ? "" : in_range(s.to) + " && ";
    line(fmt::format("if ({}{} != 0) {{", guard, at(s.to)));
    if (type.used >= 0) {
      line(fmt::format("const std::uint64_t varies = {};", at(moved(s.to, type.used))));
      line(fmt::format("const std::size_t bytes = {} + varies / 8;", type.bytes));
      line(
          "if (e.written + bytes > e.out.size()) { throw std::length_error(\"the headers of a packet do not fit\"); }");
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

  void move_stack(const ir::Statement& s) {
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

  [[nodiscard]] std::string slot(int which) const {
    ir::Place place;
    place.slot = which;
    return at(place);
  }

  void apply(std::size_t which) {
    const ir::Table& table = program_.tables[which];
    line("{");
    block(table.before);
    std::string keys;
    for (const int key : table.keys) {
      keys += (keys.empty() ? "" : ", ") + value(key);
    }
    line(fmt::format("const U128 keys[] = {{{}}};", keys.empty() ? "0" : keys));
    line(fmt::format("TableState& table = e.state.tables[{}];\nTableState::Row* row = table.find(keys);", which));
    const bool selects = table.selector_slot >= 0;
    line(fmt::format("{}std::uint32_t action = row != nullptr ? row->action : table.default_action();",
                     selects ? "" : "const "));
    line(
        "[[maybe_unused]] const U128* arguments = row != nullptr ? row->arguments.data() : "
        "table.default_arguments().data();");
    if (selects) {
      line(fmt::format("if (row != nullptr && !row->group.empty()) {{ const ActionCall& member = row->chosen({});",
                       slot(table.selector_slot)));
      line("action = std::uint32_t(member.action); arguments = member.arguments.data(); }");
    }
    line(fmt::format("{} = row != nullptr;\n{} = action;", slot(table.hit_slot), slot(table.action_slot)));
    if (table.direct_counter >= 0) {
      line("if (row != nullptr) { ++row->count.packets; row->count.bytes += e.packet.packet.size(); }");
    }
    line("switch (action) {");
    for (std::size_t i = 0; i < table.actions.size(); ++i) {
      const ir::TableAction& action = table.actions[i];
      if (action.routine < 0) {
        continue;
      }
      line(fmt::format("case {}: {{", i));
      block(action.before);
      for (std::size_t p = 0; p < action.parameters.size(); ++p) {
        line(fmt::format("{} = arguments[{}];", slot(action.parameters[p]), p));
      }
      call('r', action.routine, action.after);
      line("break; }");
    }
    line("default: break; } }");
  }

  void jump(int next) {
    line(next == ir::kAccept ? "return on;" : next == ir::kReject ? "return reject;" : fmt::format("goto s{};", next));
  }

  [[nodiscard]] std::string contains(const ir::Set& set, const std::string& key) const {
    const bool is_wide = set.width > 64;
    if (set.kind == ir::Set::Kind::mask) {
      return set.b == ones(set.width)
                 ? fmt::format("{} == {}", key, literal(set.a, is_wide))
                 : fmt::format("({} & {}) == {}", key, literal(set.b, is_wide), literal(set.a, is_wide));
    }
    return fmt::format("!is_less({0}, {1}, {3}, {4}) && !is_less({2}, {0}, {3}, {4})", key, literal(set.a, is_wide),
                       literal(set.b, is_wide), set.width, set.is_signed);
  }

  void parser(const ir::Parser& parser, std::size_t number) {
    line(fmt::format("\n// {}\nint p{}(Frame& f, Env& e) {{\ngoto s{};", parser.name, number, parser.start));
    for (std::size_t i = 0; i < parser.states.size(); ++i) {
      const ir::ParserState& state = parser.states[i];
      line(fmt::format(
          "s{}:  // {}\n{{\nif (++e.transitions > kMostTransitions) {{ e.error = timeout; return reject; }}", i,
          state.name));
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

  [[nodiscard]] static std::string arguments(const std::vector<U128>& values) {
    std::string text;
    for (const U128 one : values) {
      text += (text.empty() ? "" : ", ") + literal(one, true);
    }
    return "{" + text + "}";
  }

  void info() {
    const ProgramInfo& info = program_.info;
    line("\nProgramInfo make_info() {\nProgramInfo info;");
    line(fmt::format("info.name = {};", quoted(info.name)));
    for (const TableInfo& table : info.tables) {
      line(fmt::format("{{ TableInfo t; t.name = {};", quoted(table.name)));
      for (const KeyInfo& key : table.keys) {
        line(fmt::format("t.keys.push_back({{{}, MatchKind({}), {}}});", quoted(key.name), static_cast<int>(key.kind),
                         key.width));
      }
      for (const ActionInfo& action : table.actions) {
        std::string parameters;
        for (const ParameterInfo& one : action.parameters) {
          parameters += fmt::format("{}{{{}, {}}}", parameters.empty() ? "" : ", ", quoted(one.name), one.width);
        }
        line(fmt::format("t.actions.push_back({{{}, {{{}}}, {}, {}}});", quoted(action.name), parameters,
                         action.only_default, action.only_entries));
      }
      for (const Entry& entry : table.entries) {
        std::string keys;
        for (const Match& match : entry.keys) {
          keys += fmt::format("{}{{{}, {}}}", keys.empty() ? "" : ", ", literal(match.value, true),
                              literal(match.mask, true));
        }
        line(fmt::format("t.entries.push_back({{{{{}}}, {}, {}, {}, {{}}}});", keys, entry.action,
                         arguments(entry.arguments), entry.priority));
      }
      line(
          fmt::format("t.default_action = {}; t.default_arguments = {}; t.constant_entries = {}; t.constant_default = "
                      "{}; t.size = {}; t.has_selector = {};",
                      table.default_action, arguments(table.default_arguments), table.constant_entries,
                      table.constant_default, table.size, table.has_selector));
      line("info.tables.push_back(std::move(t)); }");
    }
    for (const RegisterInfo& one : info.registers) {
      line(fmt::format("info.registers.push_back({{{}, {}, {}}});", quoted(one.name), one.width, one.size));
    }
    for (const CounterInfo& one : info.counters) {
      line(fmt::format("info.counters.push_back({{{}, CounterKind({}), {}, {}}});", quoted(one.name),
                       static_cast<int>(one.kind), one.size, one.table));
    }
    for (const std::string& error : info.errors) {
      line(fmt::format("info.errors.push_back({});", quoted(error)));
    }
    line("return info;\n}");
  }

  [[nodiscard]] std::string place(int which) const {
    const SlotAt& at_slot = slots_[static_cast<std::size_t>(which)];
    const bool is_wide = at_slot.array == 'w';
    return fmt::format("{{offsetof(Frame, {}) + {}, {}, {}}}", at_slot.array, at_slot.index * (is_wide ? 16 : 8),
                       is_wide, program_.slot_widths[static_cast<std::size_t>(which)]);
  }

  void layout_ranges(const char* name, int begin, int end) {
    ranges(begin, end - begin, [&](int offset, int number, bool is_wide) {
      const SlotAt& first = slots_[static_cast<std::size_t>(begin + offset)];
      const int bytes = is_wide ? 16 : 8;
      line(fmt::format("layout.{}.emplace_back(offsetof(Frame, {}) + {}, {});", name, first.array, first.index * bytes,
                       number * bytes));
    });
  }

  void tail() {
    line(
        "\nLayout make_layout() {\nLayout layout;\nlayout.frame_bytes = sizeof(Frame);\nlayout.kept_bytes = "
        "offsetof(Frame, x);");
    layout_ranges("headers", 0, program_.metadata_slot);
    layout_ranges("metadata", program_.metadata_slot, program_.persistent_slots);
    for (std::size_t i = 0; i < kMetadataFields; ++i) {
      line(fmt::format("layout.fields[{}] = {};", i, place(program_.metadata[i])));
    }
    for (const ir::FieldListEntry& entry : program_.field_lists) {
      std::string lists;
      for (const unsigned one : entry.lists) {
        lists += fmt::format("{}{}", lists.empty() ? "" : ", ", one);
      }
      line(fmt::format("layout.lists.push_back({{{}, {{{}}}}});", place(entry.slot), lists));
    }
    line("return layout;\n}");
    const std::string error_slot = slot(program_.metadata[static_cast<std::size_t>(MetadataField::parser_error)]);
    const std::string checksum_slot = slot(program_.metadata[static_cast<std::size_t>(MetadataField::checksum_error)]);
    line(
        "\nclass Compiled : public CompiledProgram {\npublic:\nCompiled() : CompiledProgram(make_info(), "
        "make_layout()) {}");
    line("void parse(State& state, std::byte* frame, PacketContext& packet) const override {");
    line("Frame& f = *reinterpret_cast<Frame*>(frame); Env e(state, packet);");
    line(fmt::format("if (p{}(f, e) == on) {{ e.error = no_error; }}\n{} = e.error; packet.parsed_bytes = e.cursor; }}",
                     program_.parser, error_slot));
    line("void ingress(State& state, std::byte* frame, PacketContext& packet) const override {");
    line("Frame& f = *reinterpret_cast<Frame*>(frame); Env e(state, packet);");
    line(fmt::format("r{}(f, e); {} = e.checksum_error; r{}(f, e); }}", program_.verify, checksum_slot,
                     program_.ingress));
    line("void egress(State& state, std::byte* frame, PacketContext& packet) const override {");
    line(fmt::format("Frame& f = *reinterpret_cast<Frame*>(frame); Env e(state, packet); r{}(f, e); }}",
                     program_.egress));
    line(
        "std::size_t deparse(State& state, std::byte* frame, PacketContext& packet, std::span<std::byte> out) const "
        "override {");
    line(
        fmt::format("Frame& f = *reinterpret_cast<Frame*>(frame); Env e(state, packet); e.out = out; r{}(f, e); r{}(f, "
                    "e); return e.written; }}",
                    program_.compute, program_.deparser));
    line("};\n}  // namespace " + function_ + "_program\n}  // namespace\n}  // namespace sidelatch::p4::compiled");
    line("namespace sidelatch::p4::programs {");
    line(fmt::format(
        "std::shared_ptr<const Program> {0}() {{ return std::make_shared<compiled::{0}_program::Compiled>(); }}",
        function_));
    line("}  // namespace sidelatch::p4::programs");
  }

  const ir::Program& program_;
  std::string function_;
  std::vector<SlotAt> slots_;
  int sizes_[4] = {1, 1, 1, 1};
  int loops_ = 0;
  int loop_ = 0;  // the innermost one
  std::string out_;
};

}  // namespace

std::string emit_cpp(const std::filesystem::path& file, const std::string& function, const CompileOptions& options) {
  const ir::Program program = front_end(read_source(file), file.string(), options);
  return Emitter(program, function).run();
}

std::string emit_header(const std::string& function) {
  return fmt::format(
      "// Made by sidelatch-p4c; do not edit.\n#pragma once\n\n#include <sidelatch/p4/program.h>\n\n#include "
      "<memory>\n\n"
      "namespace sidelatch::p4::programs {{\n\n[[nodiscard]] std::shared_ptr<const Program> {}();\n\n}}  // namespace "
      "sidelatch::p4::programs\n",
      function);
}

}  // namespace sidelatch::p4

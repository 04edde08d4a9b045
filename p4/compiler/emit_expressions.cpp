// The Emitter: expressions, and the places of values.
#include "emitter.h"

#include <sidelatch/p4/bits.h>

namespace sidelatch::p4 {

using ir::Op;

std::string literal(U128 value, bool is_wide) {
  const auto low = static_cast<std::uint64_t>(value);
  const auto high = static_cast<std::uint64_t>(value >> 64);
  return is_wide ? fmt::format("wide({:#x}, {:#x})", high, low) : fmt::format("std::uint64_t{{{:#x}}}", low);
}

int Emitter::stride(const ir::Place& place) const {
  if (place.count <= 1) {
    return 0;
  }
  return slots_[static_cast<std::size_t>(place.slot + place.stride)].index -
         slots_[static_cast<std::size_t>(place.slot)].index;
}

std::string Emitter::at(const ir::Place& place) const {
  const SlotAt& slot = slots_[static_cast<std::size_t>(place.slot)];
  if (place.index < 0) {
    return fmt::format("f.{}[{}]", slot.array, slot.index);
  }
  return fmt::format("f.{}[{} + {} * {}]", slot.array, slot.index, value(place.index), stride(place));
}

std::string Emitter::in_range(const ir::Place& place) const {
  return fmt::format("{} < {}", value(place.index), place.count);
}

std::string Emitter::value(int which) const {
  const ir::Expr& e = expr(which);
  const bool is_wide = e.width > 64;
  const char* type = is_wide ? "U128" : "std::uint64_t";
  const auto masked = [&](const std::string& text) {
    return e.width == 64 || e.width == 128 ? fmt::format("{}({})", type, text)
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

std::string Emitter::shifted(const ir::Expr& e, const char* type) const {
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

std::string Emitter::slot(int which) const {
  ir::Place place;
  place.slot = which;
  return at(place);
}

}  // namespace sidelatch::p4

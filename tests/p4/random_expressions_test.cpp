// Random expressions against arithmetic bit by bit, which shares no code with the compiler.
#include "tests/sampled.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/switch.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::p4 {
namespace {

// A number in two's complement, the lowest bit first. Long enough that no operation on 128 bits overflows.
constexpr std::size_t kBits = 300;
using Bits = std::vector<bool>;

Bits add(const Bits& a, const Bits& b) {
  Bits sum(kBits);
  bool carry = false;
  for (std::size_t i = 0; i < kBits; ++i) {
    const int ones = static_cast<int>(a[i]) + static_cast<int>(b[i]) + static_cast<int>(carry);
    sum[i] = ones % 2 == 1;
    carry = ones >= 2;
  }
  return sum;
}

Bits negated(Bits a) {
  a.flip();
  Bits one(kBits);
  one[0] = true;
  return add(a, one);
}

Bits multiply(const Bits& a, const Bits& b) {
  Bits product(kBits);
  for (std::size_t shift = 0; shift < kBits; ++shift) {
    if (b[shift]) {
      Bits moved(kBits);
      std::copy(a.begin(), a.end() - static_cast<std::ptrdiff_t>(shift),
                moved.begin() + static_cast<std::ptrdiff_t>(shift));
      product = add(product, moved);
    }
  }
  return product;
}

// The value of the lowest `width` bits.
Bits read_as(const Bits& a, unsigned width, bool is_signed) {
  Bits value(kBits, is_signed && a[width - 1]);
  std::copy(a.begin(), a.begin() + width, value.begin());
  return value;
}

bool less(const Bits& a, const Bits& b) { return add(a, negated(b))[kBits - 1]; }

struct Type {
  unsigned width;
  bool is_signed;
  [[nodiscard]] std::string text() const { return fmt::format("{}<{}>", is_signed ? "int" : "bit", width); }
  [[nodiscard]] bool operator==(const Type&) const = default;
};

struct Node {
  Type type;
  std::string text;
  Bits value;
};

Bits clamp(const Bits& value, Type type) {
  Bits highest(kBits);
  Bits lowest(kBits);
  std::fill_n(highest.begin(), type.width - (type.is_signed ? 1 : 0), true);
  if (type.is_signed) {
    lowest = negated(add(highest, [] {
      Bits one(kBits);
      one[0] = true;
      return one;
    }()));
  }
  return less(value, lowest) ? lowest : less(highest, value) ? highest : value;
}

class Generator {
 public:
  Generator(unsigned seed, std::vector<Node> inputs) : random_(seed), inputs_(std::move(inputs)) {}

  Node make(Type type, int depth) {
    if (depth == 0) {
      return leaf(type);
    }
    switch (draw(14)) {
      case 0:
      case 1:
        return sum(type, depth, "+");
      case 2:
        return sum(type, depth, "-");
      case 3:
        return sum(type, depth, "*");
      case 4:
        return sum(type, depth, "|+|");
      case 5:
        return sum(type, depth, "|-|");
      case 6:
        return bitwise(type, depth);
      case 7:
        return shift(type, depth);
      case 8:
        return unary(type, depth);
      case 9:
        return mux(type, depth);
      case 10:
        return type.width > 1 ? concatenation(type, depth) : leaf(type);
      case 11:
        return slice(type, depth);
      default:
        return cast(type, depth);
    }
  }

  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

 private:
  Node leaf(Type type) {
    for (const Node& input : inputs_) {
      if (input.type == type && draw(4) != 0) {
        return input;
      }
    }
    Bits value(kBits);
    U128 number = 0;
    for (unsigned i = type.width; i-- > 0;) {
      value[i] = draw(2) != 0;
      number = number * 2 + static_cast<unsigned>(value[i]);
    }
    // A literal that does not fit an int<N> is cut, so it goes through bit<N>.
    const std::string hex =
        fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(number >> 64), static_cast<std::uint64_t>(number));
    const std::string text = fmt::format("{}w0x{}", type.width, hex);
    return {type, type.is_signed ? fmt::format("(({}){})", type.text(), text) : text,
            read_as(value, type.width, type.is_signed)};
  }

  Node sum(Type type, int depth, const std::string& op) {
    const Node a = make(type, depth - 1);
    const Node b = make(type, depth - 1);
    Bits value =
        op == "*" ? multiply(a.value, b.value) : add(a.value, op == "+" || op == "|+|" ? b.value : negated(b.value));
    if (op[0] == '|') {
      value = clamp(value, type);
    }
    return {type, fmt::format("({} {} {})", a.text, op, b.text), read_as(value, type.width, type.is_signed)};
  }

  Node bitwise(Type type, int depth) {
    const Node a = make(type, depth - 1);
    const Node b = make(type, depth - 1);
    const unsigned op = draw(3);
    Bits value(kBits);
    for (std::size_t i = 0; i < kBits; ++i) {
      value[i] = op == 0 ? a.value[i] && b.value[i] : op == 1 ? a.value[i] || b.value[i] : a.value[i] != b.value[i];
    }
    return {type,
            fmt::format("({} {} {})", a.text,
                        op == 0   ? "&"
                        : op == 1 ? "|"
                                  : "^",
                        b.text),
            read_as(value, type.width, type.is_signed)};
  }

  Node shift(Type type, int depth) {
    const Node a = make(type, depth - 1);
    const unsigned by = draw(type.width + 3);
    const bool left = draw(2) == 0;
    Bits value(kBits, !left && a.value[kBits - 1]);
    for (std::size_t i = 0; i < kBits; ++i) {
      const std::size_t from = left ? i - by : i + by;
      if (left ? i >= by : from < kBits) {
        value[i] = a.value[from];
      } else if (left) {
        value[i] = false;
      }
    }
    return {type, fmt::format("({} {} 8w{})", a.text, left ? "<<" : ">>", by),
            read_as(value, type.width, type.is_signed)};
  }

  Node unary(Type type, int depth) {
    const Node a = make(type, depth - 1);
    const bool minus = draw(2) == 0;
    Bits value = a.value;
    value.flip();
    return {type, fmt::format("({}{})", minus ? "-" : "~", a.text),
            read_as(minus ? negated(a.value) : value, type.width, type.is_signed)};
  }

  Node mux(Type type, int depth) {
    const Type compared{1 + draw(128), draw(2) == 0};
    const Node a = make(compared, depth - 1);
    const Node b = make(compared, depth - 1);
    const Node yes = make(type, depth - 1);
    const Node no = make(type, depth - 1);
    static const char* const kOperators[] = {"<", "<=", ">", ">=", "==", "!="};
    const unsigned op = draw(6);
    const bool results[] = {less(a.value, b.value),  !less(b.value, a.value), less(b.value, a.value),
                            !less(a.value, b.value), a.value == b.value,      a.value != b.value};
    return {type, fmt::format("({} {} {} ? {} : {})", a.text, kOperators[op], b.text, yes.text, no.text),
            results[op] ? yes.value : no.value};
  }

  Node concatenation(Type type, int depth) {
    const unsigned low = 1 + draw(type.width - 1);
    const Node a = make({type.width - low, type.is_signed}, depth - 1);
    const Node b = make({low, draw(2) == 0}, depth - 1);
    Bits value(kBits);
    for (unsigned i = 0; i < type.width; ++i) {
      value[i] = i < low ? b.value[i] : a.value[i - low];
    }
    return {type, fmt::format("({} ++ {})", a.text, b.text), read_as(value, type.width, type.is_signed)};
  }

  Node slice(Type type, int depth) {
    const unsigned from_width = type.width + draw(129 - type.width);
    const Node a = make({from_width, draw(2) == 0}, depth - 1);
    const unsigned low = draw(from_width - type.width + 1);
    Bits value(kBits);
    for (unsigned i = 0; i < type.width; ++i) {
      value[i] = a.value[i + low];
    }
    const std::string text = fmt::format("{}[{}:{}]", a.text, low + type.width - 1, low);
    return {type, type.is_signed ? fmt::format("(({}){})", type.text(), text) : "(" + text + ")",
            read_as(value, type.width, type.is_signed)};
  }

  Node cast(Type type, int depth) {
    Type from{1 + draw(128), type.is_signed};
    if (draw(2) == 0) {
      from = {type.width, !type.is_signed};
    }
    const Node a = make(from, depth - 1);
    return {type, fmt::format("(({}){})", type.text(), a.text), read_as(a.value, type.width, type.is_signed)};
  }

  std::mt19937 random_;
  std::vector<Node> inputs_;
};

std::vector<std::byte> big_endian(const Bits& bits, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < 8 * bytes; ++i) {
    if (bits[i]) {
      out[bytes - 1 - i / 8] |= static_cast<std::byte>(1U << (i % 8));
    }
  }
  return out;
}

TEST(RandomExpressions, AreAsArithmeticBitByBit) {
  const unsigned programs = takes_long() ? 3000 : 150;
  for (unsigned seed = 1; seed <= programs; ++seed) {
    std::mt19937 random(seed);
    std::vector<Node> inputs;
    std::vector<std::byte> packet;
    static const Type kTypes[] = {{128, false}, {64, false}, {32, true}, {8, false}};
    for (std::size_t i = 0; i < std::size(kTypes); ++i) {
      Bits value(kBits);
      for (unsigned bit = 0; bit < kTypes[i].width; ++bit) {
        value[bit] = random() % 2 != 0;
      }
      const std::vector<std::byte> bytes = big_endian(value, kTypes[i].width / 8);
      packet.insert(packet.end(), bytes.begin(), bytes.end());
      inputs.push_back({kTypes[i], fmt::format("h.i.f{}", i), read_as(value, kTypes[i].width, kTypes[i].is_signed)});
    }
    const std::size_t input_bytes = packet.size();
    packet.resize(packet.size() + 16);
    Generator generator(seed, inputs);
    const Type type{1 + generator.draw(128), generator.draw(2) == 0};
    const Node expression = generator.make(type, 4);
    const std::string text = fmt::format(
        "#include <core.p4>\n#include <v1model.p4>\n"
        "header i_t {{ bit<128> f0; bit<64> f1; int<32> f2; bit<8> f3; bit<128> result; }}\n"
        "struct H {{ i_t i; }}\nstruct M {{}}\n"
        "parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {{ state start {{ b.extract(h.i); "
        "transition accept; }} }}\n"
        "control V(inout H h, inout M m) {{ apply {{}} }}\n"
        "control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}\n"
        "control I(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ {} r = {};\n"
        "h.i.result = (bit<128>)(bit<{}>)r; }} }}\n"
        "control D(packet_out b, in H h) {{ apply {{ b.emit(h.i); }} }}\n"
        "V1Switch(P(), V(), I(), E(), V(), D()) main;\n",
        type.text(), expression.text, type.width);
    std::shared_ptr<const Program> program;
    ASSERT_NO_THROW(program = compile(text, fmt::format("seed{}", seed))) << text;
    Switch device(program);
    device.receive(0, packet);
    ASSERT_TRUE(device.run());
    const auto departure = device.departed();
    ASSERT_TRUE(departure) << text;
    const std::vector<std::byte> seen(departure->bytes.begin() + static_cast<std::ptrdiff_t>(input_bytes),
                                      departure->bytes.end());
    EXPECT_EQ(seen, big_endian(read_as(expression.value, type.width, false), 16)) << "seed " << seed << '\n' << text;
  }
}

}  // namespace
}  // namespace sidelatch::p4

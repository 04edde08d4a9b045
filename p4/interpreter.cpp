#include "p4/interpreter.h"

#include <sidelatch/p4/compiled.h>
#include <sidelatch/p4/hashing.h>
#include <sidelatch/p4/packet_bits.h>
#include "p4/evaluate.h"

#include <sidelatch/p4/state.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sidelatch::p4 {

namespace {

using ir::Do;

using compiled::kMostIterations;
using compiled::kMostTransitions;
using enum compiled::CoreError;

constexpr std::size_t kMostHashedBytes = 4096;

enum class Flow : std::uint8_t { on, back, leave, reject, stop, again };

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Machine {
 public:
  Machine(const ir::Program& program, State& state, std::byte* frame, PacketContext& packet)
      : program_(program), state_(state), slots_(reinterpret_cast<U128*>(frame)), packet_(packet) {}

  void routine(int which) { static_cast<void>(block(program_.routines[static_cast<std::size_t>(which)].body)); }

  void parse() {
    error_ = no_error;
    if (parser(program_.parser) == Flow::on) {
      error_ = no_error;
    }
    packet_.parsed_bytes = cursor_ / 8;
  }

  [[nodiscard]] U128 error() const { return error_; }
  [[nodiscard]] bool checksum_error() const { return checksum_error_; }
  void write_to(std::span<std::byte> out) { out_ = out; }
  [[nodiscard]] std::size_t written() const { return written_; }

 private:
  [[nodiscard]] U128* at(const ir::Place& place) {
    if (place.index < 0) {
      return slots_ + place.slot;
    }
    const U128 index = eval(place.index);
    const auto element = static_cast<std::ptrdiff_t>(index);
    return index < static_cast<unsigned>(place.count) ? slots_ + place.slot + element * place.stride : nullptr;
  }

  [[nodiscard]] U128 eval(int which) {
    const ir::Expr& expr = program_.exprs[static_cast<std::size_t>(which)];
    switch (expr.op) {
      case ir::Op::constant:
        return expr.value;
      case ir::Op::load: {
        const U128* slot = at(expr.place);
        return slot != nullptr ? *slot : 0;
      }
      case ir::Op::conditional:
        return eval(eval(expr.a) != 0 ? expr.b : expr.c);
      case ir::Op::logical_and:
        return eval(expr.a) != 0 ? eval(expr.b) : 0;
      case ir::Op::logical_or:
        return eval(expr.a) != 0 ? 1 : eval(expr.b);
      default:
        return ir::apply(expr, eval(expr.a), expr.b >= 0 ? eval(expr.b) : 0, 0);
    }
  }

  Flow block(const ir::Block& statements) {
    for (const ir::Statement& statement : statements) {
      const Flow flow = execute(statement);
      if (flow != Flow::on) {
        return flow;
      }
    }
    return Flow::on;
  }

  Flow execute(const ir::Statement& s) {
    switch (s.kind) {
      case Do::assign: {
        const U128 value = eval(s.expr);
        if (U128* to = at(s.to)) {
          *to = value;
        }
        return Flow::on;
      }
      case Do::zero:
        if (U128* to = at(s.to)) {
          std::fill_n(to, s.count, U128{0});
        }
        return Flow::on;
      case Do::copy:
        copy(s);
        return Flow::on;
      case Do::branch:
        return block(eval(s.expr) != 0 ? s.yes : s.no);
      case Do::loop:
        return loop(s);
      case Do::stop:
        return Flow::stop;
      case Do::again:
        return Flow::again;
      case Do::call:
        return is_too_long() ? Flow::leave : call(s.which, s.yes);
      case Do::apply:
        return apply(program_.tables[static_cast<std::size_t>(s.which)], static_cast<std::size_t>(s.which));
      case Do::give_back:
        return Flow::back;
      case Do::leave:
        return Flow::leave;
      case Do::reject:
        error_ = eval(s.expr);
        return Flow::reject;
      case Do::run_parser: {  // copy-out happens also if the parser has rejected the packet
        const Flow flow = parser(s.which);
        static_cast<void>(block(s.yes));
        return flow;
      }
      case Do::set_validity:
        if (U128* to = at(s.to)) {
          set_validity(to, program_.headers[static_cast<std::size_t>(s.which)], s.count != 0);
        }
        return Flow::on;
      case Do::extract:
        return extract(s, true);
      case Do::lookahead_header:
        return extract(s, false);
      case Do::lookahead:
        return lookahead(s);
      case Do::advance:
        return advance(eval(s.expr));
      case Do::emit:
        emit(at(s.to), program_.headers[static_cast<std::size_t>(s.which)]);
        return Flow::on;
      case Do::push:
      case Do::pop:
        move_stack(at(s.to), program_.stacks[static_cast<std::size_t>(s.which)], s.count, s.kind == Do::push);
        return Flow::on;
      default:
        return extern_statement(s);
    }
  }

  Flow extern_statement(const ir::Statement& s) {
    switch (s.kind) {
      case Do::register_read: {
        const RegisterState& array = state_.registers[static_cast<std::size_t>(s.which)];
        if (const std::uint64_t which = index(eval(s.expr)); which < array.size()) {
          *at(s.to) = array.read(which);
        }
        return Flow::on;
      }
      case Do::register_write:
        state_.registers[static_cast<std::size_t>(s.which)].write(index(eval(s.exprs[0])), eval(s.exprs[1]));
        return Flow::on;
      case Do::count: {
        std::vector<Count>& counter = state_.counters[static_cast<std::size_t>(s.which)];
        const std::uint64_t which = index(eval(s.expr));
        if (which < counter.size()) {
          ++counter[which].packets;
          counter[which].bytes += packet_.packet.size();
        }
        return Flow::on;
      }
      case Do::hash: {
        const U128 base = eval(s.exprs[0]);
        const U128 most = eval(s.exprs[1]);
        const U128 value = hash(static_cast<HashAlgorithm>(s.which), data(s, 2));
        *at(s.to) = (most == 0 ? base : base + value % most) & ones(static_cast<unsigned>(s.count));
        return Flow::on;
      }
      case Do::verify_checksum:
        if (eval(s.exprs[0]) != 0) {
          const U128 expected = eval(s.exprs[1]);
          checksum_error_ = checksum_error_ || checksum(s, 2) != expected;
        }
        return Flow::on;
      case Do::update_checksum:
        if (eval(s.exprs[0]) != 0) {
          *at(s.to) = checksum(s, 1);
        }
        return Flow::on;
      case Do::random: {
        const U128 low = eval(s.exprs[0]);
        const U128 high = eval(s.exprs[1]);
        const std::uint64_t drawn = packet_.random_state != nullptr ? next_random(*packet_.random_state) : 0;
        *at(s.to) = low >= high ? low : low + U128{drawn} % (high - low + 1);
        return Flow::on;
      }
      case Do::clone:
        packet_.clone = true;
        packet_.clone_session = static_cast<std::uint32_t>(eval(s.expr));
        packet_.clone_list = s.count;
        return Flow::on;
      case Do::resubmit:
        packet_.resubmit = true;
        packet_.resubmit_list = s.count;
        return Flow::on;
      case Do::recirculate:
        packet_.recirculate = true;
        packet_.recirculate_list = s.count;
        return Flow::on;
      case Do::truncate:
        packet_.truncate_to(static_cast<std::uint32_t>(eval(s.expr)));
        return Flow::on;
      case Do::digest:
        ++packet_.digests;
        return Flow::on;
      case Do::assertion:
        packet_.assertion_failed = packet_.assertion_failed || eval(s.expr) == 0;
        return Flow::on;
      default:
        return Flow::on;
    }
  }

  // Calls count as rounds do: of thirty functions that each call the one before twice, the last one runs for hours.
  bool is_too_long() {
    const bool result = ++iterations_ > kMostIterations;
    packet_.assertion_failed = packet_.assertion_failed || result;
    return result;
  }

  Flow loop(const ir::Statement& s) {
    while (true) {
      if (is_too_long()) {
        return Flow::leave;
      }
      for (const ir::Block* part : {&s.yes, &s.no}) {
        const Flow flow = block(*part);
        if (flow == Flow::stop) {
          return Flow::on;
        }
        if (flow != Flow::on && flow != Flow::again) {
          return flow;
        }
      }
    }
  }

  static std::uint64_t index(U128 value) {
    return value > ~std::uint64_t{0} ? ~std::uint64_t{0} : static_cast<std::uint64_t>(value);
  }

  void copy(const ir::Statement& s) {
    U128* to = at(s.to);
    const U128* from = at(s.from);
    if (to == nullptr) {
      return;
    }
    if (from == nullptr) {
      std::fill_n(to, s.count, U128{0});
    } else {
      std::memmove(to, from, static_cast<std::size_t>(s.count) * sizeof(U128));
    }
  }

  // Copy-out happens also if the routine has executed exit.
  Flow call(int which, const ir::Block& after) {
    const Flow flow = block(program_.routines[static_cast<std::size_t>(which)].body);
    const Flow then = block(after);
    return flow == Flow::leave || flow == Flow::reject ? flow : then;
  }

  Flow apply(const ir::Table& table, std::size_t which) {
    std::array<U128, 64> keys;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
    if (const Flow flow = block(table.before); flow != Flow::on) {
      return flow;  // a key has applied a table whose action has executed exit
    }
    for (std::size_t i = 0; i < table.keys.size(); ++i) {
      keys[i] = eval(table.keys[i]);
    }
    TableState& entries = state_.tables[which];
    TableState::Row* row = entries.find(keys.data());
    slots_[table.hit_slot] = row != nullptr ? 1 : 0;
    const ActionCall* member = row != nullptr && !row->group.empty()
                                   ? &row->chosen(static_cast<std::uint64_t>(slots_[table.selector_slot]))
                                   : nullptr;
    const std::size_t chosen = member != nullptr ? member->action
                               : row != nullptr  ? row->action
                                                 : entries.default_action();
    const std::vector<U128>& arguments = member != nullptr ? member->arguments
                                         : row != nullptr  ? row->arguments
                                                           : entries.default_arguments();
    slots_[table.action_slot] = chosen;
    if (row != nullptr && table.direct_counter >= 0) {
      ++row->count.packets;
      row->count.bytes += packet_.packet.size();
    }
    const ir::TableAction& action = table.actions[chosen];
    if (action.routine < 0) {
      return Flow::on;
    }
    if (const Flow flow = block(action.before); flow != Flow::on) {
      return flow;
    }
    for (std::size_t i = 0; i < action.parameters.size(); ++i) {
      slots_[action.parameters[i]] = arguments[i];
    }
    return call(action.routine, action.after);
  }

  Flow parser(int which) {
    const ir::Parser& parser = program_.parsers[static_cast<std::size_t>(which)];
    int next = parser.start;
    while (next >= 0) {
      if (++transitions_ > kMostTransitions) {
        error_ = timeout;
        return Flow::reject;
      }
      const ir::ParserState& state = parser.states[static_cast<std::size_t>(next)];
      if (const Flow flow = block(state.body); flow != Flow::on) {
        return flow;  // rejected, or too many calls
      }
      next = state.keys.empty() ? state.next : select(state);
      if (next == kNoCase) {
        error_ = no_match;
        return Flow::reject;
      }
    }
    return next == ir::kAccept ? Flow::on : Flow::reject;
  }

  static constexpr int kNoCase = -3;

  int select(const ir::ParserState& state) {
    for (const ir::SelectCase& one : state.cases) {
      bool fits = true;
      for (std::size_t i = 0; i < state.keys.size() && fits; ++i) {
        fits = contains(one.sets[i], eval(state.keys[i]));
      }
      if (fits) {
        return one.next;
      }
    }
    return kNoCase;
  }

  static bool contains(const ir::Set& set, U128 value) {
    switch (set.kind) {
      case ir::Set::Kind::any:
        return true;
      case ir::Set::Kind::mask:
        return (value & set.b) == set.a;
      case ir::Set::Kind::range:
        return !is_less(value, set.a, set.width, set.is_signed) && !is_less(set.b, value, set.width, set.is_signed);
    }
    return false;
  }

  void set_validity(U128* header, const ir::HeaderType& type, bool valid) {
    if ((header[0] != 0) == valid) {
      return;
    }
    const std::uint32_t bytes = type.bytes + (valid ? 0 : static_cast<std::uint32_t>(used(header, type) / 8));
    packet_.length = valid ? packet_.length + bytes : packet_.length - bytes;
    if (valid) {
      std::fill_n(header, type.slots, U128{0});
    }
    header[0] = static_cast<unsigned>(valid);
  }

  // Bits of its varbit.
  static std::uint64_t used(const U128* header, const ir::HeaderType& type) {
    return type.used >= 0 ? static_cast<std::uint64_t>(header[type.used]) : 0;
  }
  static unsigned width(const ir::HeaderField& field, std::uint64_t used) {
    return field.before < 0 ? field.width : bits_in_part(used, static_cast<std::uint64_t>(field.before), field.width);
  }

  Flow extract(const ir::Statement& s, bool moves) {
    const ir::HeaderType& type = program_.headers[static_cast<std::size_t>(s.which)];
    const std::uint64_t varies = s.expr >= 0 ? static_cast<std::uint64_t>(eval(s.expr)) : 0;
    const std::size_t bits = std::size_t{8} * type.bytes + varies;
    if (varies % 8 != 0) {
      error_ = bad_argument;
      return Flow::reject;
    }
    if (cursor_ + bits > 8 * packet_.packet.size()) {  // before the size of the header, as the specification says
      error_ = too_short;
      return Flow::reject;
    }
    if (varies > type.most_used) {
      error_ = header_too_short;
      return Flow::reject;
    }
    if (U128* header = at(s.to)) {
      std::size_t bit = cursor_;
      header[0] = 1;
      for (const ir::HeaderField& field : type.fields) {
        const unsigned wide = width(field, varies);
        header[field.slot] = read_bits(packet_.packet, bit, wide);
        bit += wide;
      }
      if (type.used >= 0) {
        header[type.used] = varies;
      }
    }
    cursor_ += moves ? bits : 0;
    return Flow::on;
  }

  Flow lookahead(const ir::Statement& s) {
    const auto ahead = static_cast<std::size_t>(s.which);
    const auto bits = static_cast<std::size_t>(s.count);
    if (cursor_ + ahead + bits > 8 * packet_.packet.size()) {
      error_ = too_short;
      return Flow::reject;
    }
    *at(s.to) = read_bits(packet_.packet, cursor_ + ahead, static_cast<unsigned>(bits));
    return Flow::on;
  }

  Flow advance(U128 bits) {
    if (bits % 8 != 0) {
      error_ = bad_argument;
      return Flow::reject;
    }
    if (bits > 8 * packet_.packet.size() - cursor_) {
      error_ = too_short;
      return Flow::reject;
    }
    cursor_ += static_cast<std::size_t>(bits);
    return Flow::on;
  }

  void emit(const U128* header, const ir::HeaderType& type) {
    if (header == nullptr || header[0] == 0) {
      return;
    }
    const std::uint64_t varies = used(header, type);
    if (written_ + type.bytes + varies / 8 > out_.size()) {
      throw std::length_error("the headers of a packet do not fit");
    }
    std::size_t bit = 8 * written_;
    for (const ir::HeaderField& field : type.fields) {
      const unsigned wide = width(field, varies);
      write_bits(out_, bit, wide, header[field.slot]);
      bit += wide;
    }
    written_ += type.bytes + varies / 8;
  }

  // The elements move by `by`; those that come in are invalid.
  static void move_stack(U128* stack, const ir::StackType& type, int by, bool push) {
    U128* first = stack + 1;
    const int kept = (type.count - by) * type.element_slots;
    const int gap = by * type.element_slots;
    const auto bytes = static_cast<std::size_t>(kept) * sizeof(U128);
    const auto count = static_cast<unsigned>(by);
    if (push) {
      std::memmove(first + gap, first, bytes);
      std::fill_n(first, gap, U128{0});
      stack[0] = std::min<U128>(stack[0] + count, static_cast<unsigned>(type.count));
    } else {
      std::memmove(first, first + gap, bytes);
      std::fill_n(first + kept, gap, U128{0});
      stack[0] = stack[0] >= count ? stack[0] - count : 0;
    }
  }

  // The values of exprs from `first` on, one after the other, in hashed_; zero bits fill the last byte.
  std::span<const std::byte> data(const ir::Statement& s, std::size_t first) {
    std::size_t bits = 0;
    for (std::size_t i = first; i < s.exprs.size(); ++i) {
      if (const int valid = s.valid[i - first]; valid >= 0 && eval(valid) == 0) {
        continue;
      }
      const int size = s.sizes.empty() ? -1 : s.sizes[i - first];
      const unsigned wide =
          size >= 0 ? static_cast<unsigned>(eval(size)) : program_.exprs[static_cast<std::size_t>(s.exprs[i])].width;
      write_bits(hashed_, bits, wide, eval(s.exprs[i]));
      bits += wide;
    }
    if (bits % 8 != 0) {
      write_bits(hashed_, bits, static_cast<unsigned>(8 - bits % 8), 0);
    }
    return std::span(hashed_).first((bits + 7) / 8);
  }

  U128 checksum(const ir::Statement& s, std::size_t first) {
    const std::span<const std::byte> payload =
        s.count != 0 ? packet_.packet.subspan(packet_.parsed_bytes) : std::span<const std::byte>{};
    return hash(static_cast<HashAlgorithm>(s.which), data(s, first), payload);
  }

  const ir::Program& program_;
  State& state_;
  U128* slots_;
  PacketContext& packet_;
  std::size_t cursor_ = 0;  // bits
  unsigned transitions_ = 0;
  unsigned iterations_ = 0;
  U128 error_ = 0;
  bool checksum_error_ = false;
  std::span<std::byte> out_;
  std::size_t written_ = 0;
  std::array<std::byte, kMostHashedBytes> hashed_;  // NOLINT(cppcoreguidelines-pro-type-member-init): data() fills it
};

}  // namespace

Interpreter::Interpreter(ir::Program program) : program_(std::move(program)) {}

void Interpreter::clear(std::byte* frame) const { std::memset(frame, 0, kept_bytes()); }

void Interpreter::clear_headers(std::byte* frame) const {
  std::memset(frame, 0, static_cast<std::size_t>(program_.metadata_slot) * sizeof(U128));
}

std::uint64_t Interpreter::get(const std::byte* frame, MetadataField field) const {
  const auto slot = static_cast<std::size_t>(program_.metadata[static_cast<std::size_t>(field)]);
  U128 value = 0;
  std::memcpy(&value, frame + slot * sizeof(U128), sizeof value);
  return static_cast<std::uint64_t>(value);
}

void Interpreter::set(std::byte* frame, MetadataField field, std::uint64_t value) const {
  const auto slot = static_cast<std::size_t>(program_.metadata[static_cast<std::size_t>(field)]);
  const U128 cut = U128{value} & ones(program_.slot_widths[slot]);
  std::memcpy(frame + slot * sizeof(U128), &cut, sizeof cut);
}

void Interpreter::keep_metadata(std::byte* frame, const std::byte* from, int list) const {
  auto* slots = reinterpret_cast<U128*>(frame);
  const auto* old = reinterpret_cast<const U128*>(from);
  std::size_t next = 0;  // field_lists are in the order of their slots
  for (int slot = program_.metadata_slot; slot < program_.persistent_slots; ++slot) {
    U128 value = 0;
    while (next < program_.field_lists.size() && program_.field_lists[next].slot < slot) {
      ++next;
    }
    if (list >= 0 && next < program_.field_lists.size() && program_.field_lists[next].slot == slot) {
      const std::vector<unsigned>& lists = program_.field_lists[next].lists;
      if (std::find(lists.begin(), lists.end(), static_cast<unsigned>(list)) != lists.end()) {
        value = old[slot];
      }
    }
    slots[slot] = value;
  }
}

void Interpreter::parse(State& state, std::byte* frame, PacketContext& packet) const {
  Machine machine(program_, state, frame, packet);
  machine.parse();
  set(frame, MetadataField::parser_error, static_cast<std::uint64_t>(machine.error()));
}

void Interpreter::ingress(State& state, std::byte* frame, PacketContext& packet) const {
  Machine machine(program_, state, frame, packet);
  machine.routine(program_.verify);
  set(frame, MetadataField::checksum_error, machine.checksum_error() ? 1 : 0);
  machine.routine(program_.ingress);
}

void Interpreter::egress(State& state, std::byte* frame, PacketContext& packet) const {
  Machine(program_, state, frame, packet).routine(program_.egress);
}

std::size_t Interpreter::deparse(State& state, std::byte* frame, PacketContext& packet,
                                 std::span<std::byte> out) const {
  Machine machine(program_, state, frame, packet);
  machine.write_to(out);
  machine.routine(program_.compute);
  machine.routine(program_.deparser);
  return machine.written();
}

}  // namespace sidelatch::p4

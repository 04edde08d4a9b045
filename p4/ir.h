// A program after the front end: every instance laid out, every name a slot. The interpreter and the emitter of C++
// both read it, so that they cannot differ in what they mean.
//
// P4 has no recursion, so every variable, parameter and temporary has a slot of its own in one frame of scalars. A
// header takes one slot for its validity and one for each scalar in it; a stack takes one for nextIndex and those of
// its elements. Expressions have no side effects and are evaluated when a statement needs them: the front end has put
// what must happen before into statements.
#pragma once

#include <sidelatch/p4/bits.h>
#include <sidelatch/p4/program.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::p4::ir {

/// Where in the source something is, for reports.
struct Origin {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

enum class Op : std::uint8_t {
  constant,
  load,
  add,
  subtract,
  multiply,
  divide,  // by 0 it is 0, and so is modulo
  modulo,
  add_saturating,
  subtract_saturating,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  negate,
  shift_left,
  shift_right,  // arithmetic if is_signed
  equal,
  less,  // of a, b as is_signed says
  less_equal,
  logical_and,
  logical_or,
  logical_not,
  conditional,  // a ? b : c
  slice,        // width bits of a, from bit `low` on
  concatenate,  // a above b, which has `low` bits
  extend,       // a, of `low` bits, to `width`: cut, or extended as is_signed says
};

/// A slot, or the slot of one element of a stack. An index out of range reads 0 and writes nothing.
struct Place {
  int slot = 0;
  int index = -1;  ///< an expression; -1: the slot itself
  int stride = 0;
  int count = 0;
};

struct Expr {
  Op op = Op::constant;
  unsigned width = 0;  ///< of the value; a Boolean has 1
  bool is_signed = false;
  unsigned low = 0;
  U128 value = 0;
  Place place;
  int a = -1;
  int b = -1;
  int c = -1;
};

struct Statement;
using Block = std::vector<Statement>;

enum class Do : std::uint8_t {
  assign,            // to = expr; which 1: the program does not read what expr reads (the rest of a slice)
  zero,              // `count` slots from `to` on; which 1: a variable without a value
  copy,              // `count` slots from `from` to `to`
  branch,            // expr ? yes : no
  loop,              // `yes`, then `no`, again and again; kMostIterations at most
  stop,              // ends the loop
  again,             // goes to the loop's `no`
  call,              // routine `which`; then `yes`, also if the routine has executed exit
  apply,             // table `which`
  give_back,         // return
  leave,             // exit
  reject,            // parser: with error expr
  run_parser,        // parser `which`; then `yes`, also if it has rejected the packet
  set_validity,      // header at `to`, of type `which`, to `count`; valid headers begin with zeros
  extract,           // header at `to`, of type `which`; expr: bits of its varbit
  lookahead,         // `count` bits to `to`, which lie `which` bits ahead
  lookahead_header,  // header at `to`, of type `which`, without moving on
  advance,           // expr bits
  emit,              // header at `to`, of type `which`
  push,              // stack at `to`: `count` elements; which: its type
  pop,
  register_read,    // to = register `which` [expr]; beyond the end `to` stays as it is
  register_write,   // register `which` [exprs[0]] = exprs[1]
  count,            // counter `which` [expr]
  hash,             // to = exprs: base, max, then the data; algorithm `which`, result of `count` bits
  verify_checksum,  // exprs: condition, checksum, data; algorithm `which`; count: with payload
  update_checksum,  // to; exprs: condition, data
  random,           // to = exprs[0] .. exprs[1], `count` bits
  clone,            // expr: session; count: field list or -1
  resubmit,
  recirculate,
  truncate,   // to expr bytes
  digest,     // exprs: the data
  assertion,  // expr must hold
};

struct Statement {
  Do kind = Do::assign;
  Origin at;
  Place to;
  Place from;
  int count = 0;
  int which = -1;
  int expr = -1;
  std::vector<int> exprs;
  /// Of each of the data in `exprs`: -1, or whether its header is valid; if not, it adds no bits. As the reference
  /// switch does; the language leaves it open.
  std::vector<int> valid;
  /// Of each of the data: -1, or the number of bits that count, which are the lowest ones. Empty: all count everywhere.
  std::vector<int> sizes;
  Block yes;
  Block no;
};

struct Routine {
  std::string name;
  Block body;
};

struct HeaderField {
  int slot;  ///< from the header's first slot on
  unsigned width;
  int before = -1;  ///< of a part of the header's varbit: the bits before it
};

struct HeaderType {
  std::string name;
  std::vector<HeaderField> fields;
  unsigned bytes = 0;  ///< without the varbit
  int slots = 0;
  int used = -1;           ///< the slot of the bits in use of its varbit; -1: it has none
  unsigned most_used = 0;  ///< the most that there may be
};

struct StackType {
  int element_slots = 0;
  int count = 0;
};

struct Set {
  enum class Kind : std::uint8_t { any, mask, range } kind = Kind::any;
  U128 a = 0;  ///< value, or lowest
  U128 b = 0;  ///< mask, or highest
  bool is_signed = false;
  unsigned width = 0;
};

inline constexpr int kAccept = -1;
inline constexpr int kReject = -2;

struct SelectCase {
  std::vector<Set> sets;
  int next = kReject;
};

struct ParserState {
  std::string name;
  Block body;
  std::vector<int> keys;
  std::vector<SelectCase> cases;
  int next = kReject;  ///< without keys
};

struct Parser {
  std::string name;
  std::vector<ParserState> states;
  int start = 0;
};

struct TableAction {
  int routine = -1;
  Block before;  ///< arguments that the table gives
  Block after;
  std::vector<int> parameters;  ///< slots of those that the control plane gives
};

struct Table {
  Block before;  ///< what the keys need
  std::vector<int> keys;
  std::vector<TableAction> actions;
  int hit_slot = 0;
  int action_slot = 0;  ///< which of `actions` ran
  int direct_counter = -1;
  int selector_slot = -1;  ///< the hash of the selector's keys, which `before` computes
};

struct FieldListEntry {
  int slot;
  std::vector<unsigned> lists;
};

struct Program {
  std::vector<std::string> files;
  ProgramInfo info;  ///< what the control plane sees; tables, registers and counters are in the order of those here
  std::vector<Expr> exprs;
  std::vector<unsigned> slot_widths;
  std::vector<HeaderType> headers;
  std::vector<StackType> stacks;
  std::vector<Routine> routines;
  std::vector<Parser> parsers;
  std::vector<Table> tables;
  std::vector<FieldListEntry> field_lists;
  int persistent_slots = 0;  ///< headers, user metadata, standard metadata
  int metadata_slot = 0;     ///< where the metadata begin
  int parser = -1;
  int verify = -1;  ///< routines
  int ingress = -1;
  int egress = -1;
  int compute = -1;
  int deparser = -1;
  /// Slots of the standard metadata, in the order of MetadataField.
  std::array<int, kMetadataFields> metadata = [] {
    std::array<int, kMetadataFields> none{};
    none.fill(-1);
    return none;
  }();
};

}  // namespace sidelatch::p4::ir

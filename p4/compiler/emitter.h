// Writes the IR of a program as C++. Each routine becomes a function, each parser a function whose states are labels.
//
// One class, whose functions are in emit_*.cpp by subject.
#pragma once

#include "p4/ir.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

namespace sidelatch::p4 {

/// A name that P4 may give in any form, for a comment of one line.
[[nodiscard]] std::string in_comment(const std::string& name);
/// A number as C++ has it.
[[nodiscard]] std::string literal(U128 value, bool is_wide);

class Emitter {
 public:
  Emitter(const ir::Program& program, std::string function);
  std::string run();

 private:
  struct SlotAt {
    char array;  // k, w: kept narrow and wide; t, x: the others
    int index;
  };

  void line(const std::string& text) {
    out_ += text;
    out_ += '\n';
  }
  void lay_out();
  void head();

  // Expressions and places.
  [[nodiscard]] const ir::Expr& expr(int which) const { return program_.exprs[static_cast<std::size_t>(which)]; }
  [[nodiscard]] bool is_wide_slot(int slot) const { return program_.slot_widths[static_cast<std::size_t>(slot)] > 64; }
  // How far the element after this slot's is, in the slot's array.
  [[nodiscard]] int stride(const ir::Place& place) const;
  [[nodiscard]] std::string at(const ir::Place& place) const;
  [[nodiscard]] std::string slot(int which) const;
  [[nodiscard]] std::string in_range(const ir::Place& place) const;
  // The value of an expression: a std::uint64_t up to 64 bits, else a U128.
  [[nodiscard]] std::string value(int which) const;
  [[nodiscard]] std::string shifted(const ir::Expr& e, const char* type) const;
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

  // Statements.
  void block(const ir::Block& statements);
  void emit(const ir::Statement& s);
  // Runs `text` if the place exists.
  void guarded(const ir::Place& place, const std::string& text);
  void branch(const ir::Statement& first);
  void zero(const ir::Place& to, int count);
  void copy(const ir::Statement& s);
  // A routine ('r') or a parser ('p'). What it leaves behind is copied out however it ends.
  void call(char kind, int which, const ir::Block& after);
  void count_iteration();
  void loop(const ir::Statement& s);
  void apply(std::size_t which);
  void move_stack(const ir::Statement& s);

  // What the target offers: registers, hashes, clones.
  void emit_extern(const ir::Statement& s);
  // Writes what is to be hashed to e.hashed, and its number to `bytes`. Where every field is depends on which headers
  // are valid; that all are is the common case, in which all offsets are known.
  void data(const ir::Statement& s, std::size_t first);
  // One after the other, at `bits`; sets `bytes`.
  void append(const ir::Statement& s, std::size_t first);

  // Headers and parsers.
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
  void set_validity(const ir::Statement& s);
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
  void extract_varying(const ir::Statement& s, const ir::HeaderType& type);
  void extract(const ir::Statement& s);
  void deparse(const ir::Statement& s);
  void jump(int next);
  [[nodiscard]] std::string contains(const ir::Set& set, const std::string& key) const;
  void parser(const ir::Parser& parser, std::size_t number);

  // What the control plane may know, and where things lie in the frame.
  [[nodiscard]] static std::string arguments(const std::vector<U128>& values);
  void info();
  [[nodiscard]] std::string place(int which) const;
  void layout_ranges(const char* name, int begin, int end);
  void tail();

  const ir::Program& program_;
  std::string function_;
  std::vector<SlotAt> slots_;
  int sizes_[4] = {1, 1, 1, 1};
  int loops_ = 0;
  int loop_ = 0;     // the innermost one
  int nesting_ = 0;  // of tables whose actions get arguments from other tables
  std::string out_;
};

}  // namespace sidelatch::p4

// The meaning of a litmus file's words: names of memory, and the naming rules that all parts of a file share.
//
//   Memory memory;
//   if (memory.declares(cursor)) memory.declaration(cursor, test);   // var, line, object, node
//   Target target = memory.target(cursor);                           // x, L, D or D[2]
//
// Thread-safety: one thread per Memory.
#pragma once

#include "lexer.h"
#include "litmus.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sidelatch::explore::litmus {

template <class List>
[[nodiscard]] bool contains(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Words that begin something, so they are not allowed as names.
[[nodiscard]] bool is_keyword(std::string_view word);
/// Keywords that begin a line outside of threads.
[[nodiscard]] bool begins_section(std::string_view word);
/// Whether `word` is `prefix` and a number without leading zeros: P0, qp12.
[[nodiscard]] bool is_numbered(std::string_view prefix, std::string_view word);

/// Takes a word that may serve as a name.
const Token& take_name(Cursor& cursor, std::string_view what);
/// Takes qp0, qp1, ...
const Token& take_queue_pair_name(Cursor& cursor);

class Memory {
 public:
  [[nodiscard]] static bool declares(const Cursor& cursor);
  /// Takes a declaration, to the end of its line, and adds it to the nodes of `test`.
  void declaration(Cursor& cursor, LitmusTest& test);
  /// Takes a name of memory, with its index if there is one.
  [[nodiscard]] Target target(Cursor& cursor) const;
  /// The same, for operations on one word; `what` names them in the error, for example "a CAS takes".
  [[nodiscard]] Target one_word(Cursor& cursor, std::string_view what) const;
  [[nodiscard]] bool knows(std::string_view name) const { return names_.contains(name); }

 private:
  void declare(Cursor& cursor, LitmusTest& test, std::uint32_t node);
  void var(Cursor& cursor, LitmusTest& test, std::uint32_t node);
  void line(Cursor& cursor, LitmusTest& test, std::uint32_t node);
  void object(Cursor& cursor, LitmusTest& test, std::uint32_t node);
  void node(Cursor& cursor, LitmusTest& test);
  const Token& new_name(Cursor& cursor, std::string_view what);
  void count_words(const Cursor& cursor, const Token& name, std::uint32_t count);

  struct Entry {
    Target target;
    bool is_object = false;
    std::uint32_t declared_in = 0;  // line of the file
  };
  std::map<std::string, Entry, std::less<>> names_;
  std::uint32_t words_ = 0;
};

}  // namespace sidelatch::explore::litmus

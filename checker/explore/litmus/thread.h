// Parses one thread: its statements and, from them, its registers, buffers and queue pairs.
//
//   ThreadParser(cursor, memory, threads.size(), thread).body();   // thread.name and thread.is_client are set
//
// It tracks what each register holds on all paths, so an `if` never reads one whose request may be in flight.
//
// Thread-safety: as Cursor.
#pragma once

#include "condition.h"
#include "lexer.h"
#include "litmus.h"
#include "names.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sidelatch::explore::litmus {

/// The label of a thread: a name and ':'.
[[nodiscard]] bool at_label(const Cursor& cursor);

/// The queue pair of that name to that node; adds it if it is missing.
[[nodiscard]] std::uint32_t find_or_add_queue_pair(Cursor& cursor, const Token& at, Thread& thread,
                                                   std::string_view name, std::uint32_t node);

class ThreadParser {
 public:
  /// `number` is the thread's index in the test, for the operands of its conditions.
  ThreadParser(Cursor& cursor, const Memory& memory, std::uint32_t number, Thread& thread)
      : cursor_(cursor), memory_(memory), number_(number), thread_(thread) {}

  /// Takes all statements, up to the next thread, section or the end of the file.
  void body();

 private:
  // What a register may hold at this point, over all paths.
  struct Holds {
    bool nothing = true;        // never assigned
    bool value = false;         // assigned, and its request completed
    std::uint64_t pending = 0;  // assigned by an in-flight request on one of these queue pairs, one bit each
  };

  void statements(std::vector<Statement>& out, const Token* opened_by);
  void statement(std::vector<Statement>& out);
  void keyword(std::vector<Statement>& out, const Token* result);
  void post(std::vector<Statement>& out, const Token& op, const Token* result);
  void flags(Post& post);
  void operands(Post& post);
  void wait(std::vector<Statement>& out, const Token& op);
  void buffer_declaration();
  void buffer_assignment(std::vector<Statement>& out);
  void branch(std::vector<Statement>& out, const Token& op);
  std::vector<Statement> block();
  void store(std::vector<Statement>& out, const Token& op);
  void load(std::vector<Statement>& out, const Token& op, const Token* result);
  [[nodiscard]] MemoryWord cpu_word(std::string_view what);

  [[nodiscard]] std::uint32_t assign(const Token& name, std::uint32_t words, std::uint64_t pending);
  [[nodiscard]] Operand if_operand();
  [[nodiscard]] std::uint32_t buffer(std::string_view what);
  [[nodiscard]] std::optional<std::uint32_t> find_register(std::string_view name) const;
  [[nodiscard]] std::optional<std::uint32_t> find_buffer(std::string_view name) const;
  static std::vector<Holds> merged(std::vector<Holds> one, const std::vector<Holds>& other);

  Cursor& cursor_;
  const Memory& memory_;
  std::uint32_t number_;
  Thread& thread_;
  std::vector<Holds> holds_;  // by register
  std::uint32_t depth_ = 0;
};

}  // namespace sidelatch::explore::litmus

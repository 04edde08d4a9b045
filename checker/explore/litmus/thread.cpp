#include "thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

namespace sidelatch::explore::litmus {
namespace {

constexpr std::size_t kMaxRegisters = 256;
constexpr std::size_t kMaxBuffers = 64;
constexpr std::size_t kMaxQueuePairs = 64;  // one bit each in Holds::pending

constexpr std::array<std::string_view, 6> kClientWords = {"write", "read", "cas", "faa", "wait", "buf"};
constexpr std::array<std::string_view, 3> kCpuWords = {"store", "load", "mfence"};

template <class List>
std::optional<std::uint32_t> find_named(const List& list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.name == name; });
  if (found == list.end()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(found - list.begin());
}

std::optional<fabric::Opcode> opcode_of(std::string_view word) {
  if (word == "write") {
    return fabric::Opcode::write;
  }
  if (word == "read") {
    return fabric::Opcode::read;
  }
  if (word == "cas") {
    return fabric::Opcode::compare_swap;
  }
  if (word == "faa") {
    return fabric::Opcode::fetch_add;
  }
  return std::nullopt;
}

}  // namespace

bool at_label(const Cursor& cursor) {
  return cursor.at(TokenKind::word) && cursor.peek(1).text == ":" && cursor.peek(1).line == cursor.peek().line;
}

std::uint32_t find_or_add_queue_pair(Cursor& cursor, const Token& at, Thread& thread, std::string_view name,
                                     std::uint32_t node) {
  auto& pairs = thread.queue_pairs;
  const auto found = std::find_if(pairs.begin(), pairs.end(),
                                  [&](const QueuePair& pair) { return pair.name == name && pair.node == node; });
  if (found == pairs.end() && pairs.size() == kMaxQueuePairs) {
    cursor.fail(at, fmt::format("more than {} queue pairs of {}", kMaxQueuePairs, thread.name));
  }
  const auto index = static_cast<std::uint32_t>(found - pairs.begin());
  if (found == pairs.end()) {
    pairs.push_back({std::string(name), node});
  }
  return index;
}

void ThreadParser::body() { statements(thread_.body, nullptr); }

void ThreadParser::statements(std::vector<Statement>& out, const Token* opened_by) {
  while (true) {
    while (cursor_.at(TokenKind::end_of_line) || cursor_.at(";")) {
      cursor_.take();
    }
    if (opened_by != nullptr && cursor_.at("}")) {
      return;
    }
    if (cursor_.at(TokenKind::end_of_file) || at_label(cursor_) ||
        (cursor_.at(TokenKind::word) && begins_section(cursor_.peek().text))) {
      if (opened_by != nullptr) {
        cursor_.fail_expected(fmt::format("'}}' for the '{{' of {}:{}", opened_by->line, opened_by->column));
      }
      return;
    }
    statement(out);
    if (!cursor_.at(TokenKind::end_of_line) && !cursor_.at(";") && !(opened_by != nullptr && cursor_.at("}"))) {
      cursor_.fail_expected(opened_by != nullptr ? "';', '}' or the end of the line" : "';' or the end of the line");
    }
  }
}

void ThreadParser::statement(std::vector<Statement>& out) {
  if (cursor_.peek(1).text == ":=") {
    buffer_assignment(out);
    return;
  }
  const Token* result = nullptr;
  if (cursor_.peek(1).text == "=") {
    result = &take_name(cursor_, "the name of a register");
    cursor_.take();
  }
  keyword(out, result);
}

void ThreadParser::keyword(std::vector<Statement>& out, const Token* result) {
  const Token& op = cursor_.word("a statement");
  const bool for_client = contains(kClientWords, op.text);
  const bool for_cpu = contains(kCpuWords, op.text);
  if (thread_.is_client ? for_cpu : for_client) {
    cursor_.fail(op, thread_.is_client
                         ? fmt::format("{} is a client: '{}' is for CPU threads, C0, C1, ...", thread_.name, op.text)
                         : fmt::format("{} is a CPU thread: '{}' is for clients, P0, P1, ...", thread_.name, op.text));
  }
  const bool gives_result = op.text == "read" || op.text == "cas" || op.text == "faa" || op.text == "load";
  if (result != nullptr && !gives_result) {
    cursor_.fail(op, fmt::format("expected {} to give register '{}' its value, found {}",
                                 thread_.is_client ? "read, cas or faa" : "load", result->text, describe(op)));
  }
  if (opcode_of(op.text)) {
    post(out, op, result);
  } else if (op.text == "wait") {
    wait(out, op);
  } else if (op.text == "buf") {
    buffer_declaration();
  } else if (op.text == "if") {
    branch(out, op);
  } else if (op.text == "store") {
    store(out, op);
  } else if (op.text == "load") {
    load(out, op, result);
  } else if (op.text == "mfence") {
    out.push_back({op.line, Mfence{}});
  } else {
    cursor_.fail(op, fmt::format("expected a statement ({}), found {}",
                                 thread_.is_client ? "write, read, cas, faa, wait, buf, if, REGISTER = or BUFFER :="
                                                   : "store, load, mfence, if or REGISTER =",
                                 describe(op)));
  }
}

// ---- Clients.

void ThreadParser::post(std::vector<Statement>& out, const Token& op, const Token* result) {
  Post post;
  post.opcode = *opcode_of(op.text);
  flags(post);
  std::string_view pair = "qp0";
  if (cursor_.accept("@")) {
    pair = take_queue_pair_name(cursor_).text;
  }
  if (fabric::is_atomic(post.opcode)) {
    post.target = memory_.one_word(cursor_, fmt::format("'{}' works on", op.text));
  } else if (post.buffer) {
    post.target = memory_.one_word(cursor_, "a buffer is");
  } else {
    post.target = memory_.target(cursor_);
  }
  operands(post);
  post.queue_pair = find_or_add_queue_pair(cursor_, op, thread_, pair, post.target.node);
  if (result != nullptr) {
    post.result = assign(*result, post.target.count, std::uint64_t{1} << post.queue_pair);
  }
  out.push_back({op.line, post});
}

// The operands later set the buffer's number; until then any number marks that there is one.
void ThreadParser::flags(Post& post) {
  const bool may_have_buffer = post.opcode == fabric::Opcode::write;
  while (cursor_.accept(".")) {
    const std::string_view known = may_have_buffer ? "the flag fence or buf" : "the flag fence";
    const Token& flag = cursor_.word(known);
    const bool is_fence = flag.text == "fence";
    if (!is_fence && !(may_have_buffer && flag.text == "buf")) {
      cursor_.fail(flag, fmt::format("expected {}, found {}", known, describe(flag)));
    }
    if (is_fence ? post.fence : post.buffer.has_value()) {
      cursor_.fail(flag, fmt::format("the flag {} is given twice", describe(flag)));
    }
    if (is_fence) {
      post.fence = true;
    } else {
      post.buffer = 0;
    }
  }
}

void ThreadParser::operands(Post& post) {
  switch (post.opcode) {
    case fabric::Opcode::write:
      if (post.buffer) {
        post.buffer = buffer("the name of a buffer");
      } else {
        post.operand = cursor_.number("a number to write (a buffer's value is written by write.buf)");
      }
      return;
    case fabric::Opcode::compare_swap:
      post.expected = cursor_.number("the number that is compared");
      post.operand = cursor_.number("the number that is swapped in");
      return;
    case fabric::Opcode::fetch_add:
      post.operand = cursor_.number("the number that is added");
      return;
    default:
      return;
  }
}

void ThreadParser::wait(std::vector<Statement>& out, const Token& op) {
  Wait wait;
  std::uint64_t covered = ~std::uint64_t{0};
  if (cursor_.at(TokenKind::word)) {
    const Token& name = take_queue_pair_name(cursor_);
    covered = 0;
    for (std::uint32_t i = 0; i < thread_.queue_pairs.size(); ++i) {
      if (thread_.queue_pairs[i].name == name.text) {  // queue pairs to several nodes may share the name
        wait.queue_pairs.push_back(i);
        covered |= std::uint64_t{1} << i;
      }
    }
    if (covered == 0) {
      cursor_.fail(name, fmt::format("{} has posted nothing on {} before this", thread_.name, name.text));
    }
  }
  for (Holds& holds : holds_) {
    holds.value = holds.value || (holds.pending & covered) != 0;
    holds.pending &= ~covered;
  }
  out.push_back({op.line, std::move(wait)});
}

void ThreadParser::buffer_declaration() {
  const Token& name = take_name(cursor_, "the name of a buffer");
  if (find_buffer(name.text)) {
    cursor_.fail(name, fmt::format("duplicate name: {} has a buffer '{}' already", thread_.name, name.text));
  }
  if (find_register(name.text)) {
    cursor_.fail(name, fmt::format("duplicate name: '{}' is a register of {}", name.text, thread_.name));
  }
  if (thread_.buffers.size() == kMaxBuffers) {
    cursor_.fail(name, fmt::format("more than {} buffers of {}", kMaxBuffers, thread_.name));
  }
  cursor_.expect("=");
  thread_.buffers.push_back({std::string(name.text), cursor_.number("an initial value")});
}

void ThreadParser::buffer_assignment(std::vector<Statement>& out) {
  const std::uint32_t line = cursor_.peek().line;
  SetBuffer set;
  set.buffer = buffer("the name of a buffer");
  cursor_.expect(":=");
  set.value = cursor_.number("a number to store in the buffer");
  out.push_back({line, set});
}

std::uint32_t ThreadParser::buffer(std::string_view what) {
  const Token& name = take_name(cursor_, what);
  const auto found = find_buffer(name.text);
  if (!found) {
    cursor_.fail(name, fmt::format("unknown name {0}: expected a buffer, declared before by 'buf {1} = NUMBER'",
                                   describe(name), name.text.substr(0, 40)));
  }
  return *found;
}

// ---- Branches.

void ThreadParser::branch(std::vector<Statement>& out, const Token& op) {
  if (++depth_ > kMaxDepth) {
    cursor_.fail(op, fmt::format("blocks nested more than {} deep", kMaxDepth));
  }
  If branch;
  branch.condition = take_condition(cursor_, [this] { return if_operand(); });
  const std::vector<Holds> before = holds_;
  branch.then_body = block();
  std::vector<Holds> after_then = std::exchange(holds_, before);
  holds_.resize(after_then.size());  // registers that the block introduced hold nothing on the other path

  const std::size_t end = cursor_.position();
  cursor_.skip_ends();
  if (cursor_.accept("else")) {
    branch.else_body = block();
  } else {
    cursor_.go_to(end);
  }
  holds_ = merged(std::move(after_then), holds_);
  --depth_;
  out.push_back({op.line, std::move(branch)});
}

std::vector<Statement> ThreadParser::block() {
  const Token& brace = cursor_.expect("{");
  std::vector<Statement> body;
  statements(body, &brace);
  cursor_.take();
  return body;
}

std::vector<ThreadParser::Holds> ThreadParser::merged(std::vector<Holds> one, const std::vector<Holds>& other) {
  one.resize(other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    one[i].nothing = one[i].nothing || other[i].nothing;
    one[i].value = one[i].value || other[i].value;
    one[i].pending |= other[i].pending;
  }
  return one;
}

Operand ThreadParser::if_operand() {
  const Token& name = take_name(cursor_, "a register or a number");
  const auto found = find_register(name.text);
  if (!found) {
    cursor_.fail(
        name, cursor_.at(":") ? fmt::format("an 'if' sees the registers of its own thread alone, by "
                                            "their bare names: found {}",
                                            describe(name))
              : memory_.knows(name.text)
                  ? fmt::format("an 'if' sees registers only, and {} is memory: read it first", describe(name))
                  : fmt::format("unknown name {}: no register of {} has it up to here", describe(name), thread_.name));
  }
  const Holds& holds = holds_[*found];
  if (holds.pending != 0) {
    cursor_.fail(
        name, fmt::format("register '{}' is used before a wait that covers it: its request on {} may be out", name.text,
                          thread_.queue_pairs[static_cast<std::size_t>(std::countr_zero(holds.pending))].name));
  }
  if (!holds.value) {
    cursor_.fail(name, fmt::format("register '{}' has no value on any path to here", name.text));
  }
  return RegisterWord{number_, *found, take_register_index(cursor_, name, thread_.registers[*found].words)};
}

// ---- CPU threads.

void ThreadParser::store(std::vector<Statement>& out, const Token& op) {
  Store store;
  store.word = cpu_word("a CPU stores");
  store.value = cursor_.number("a number to store");
  out.push_back({op.line, store});
}

void ThreadParser::load(std::vector<Statement>& out, const Token& op, const Token* result) {
  Load load;
  load.word = cpu_word("a CPU loads");
  if (result != nullptr) {
    load.result = assign(*result, 1, 0);
  }
  out.push_back({op.line, load});
}

MemoryWord ThreadParser::cpu_word(std::string_view what) {
  const Token& name = cursor_.peek();
  const Target target = memory_.one_word(cursor_, what);
  if (target.node != 0) {
    cursor_.fail(
        name, fmt::format("'{}' is memory of M{}, and {} is a CPU thread of M0", name.text, target.node, thread_.name));
  }
  return target.at(0);
}

// ---- Registers and buffers.

std::uint32_t ThreadParser::assign(const Token& name, std::uint32_t words, std::uint64_t pending) {
  if (find_buffer(name.text)) {
    cursor_.fail(name, fmt::format("duplicate name: '{}' is a buffer of {}", name.text, thread_.name));
  }
  std::optional<std::uint32_t> number = find_register(name.text);
  if (!number) {
    if (thread_.registers.size() == kMaxRegisters) {
      cursor_.fail(name, fmt::format("more than {} registers of {}", kMaxRegisters, thread_.name));
    }
    number = static_cast<std::uint32_t>(thread_.registers.size());
    thread_.registers.push_back({std::string(name.text), words});
    holds_.emplace_back();
  }
  const std::uint32_t has = thread_.registers[*number].words;
  if (has != words) {
    cursor_.fail(name, fmt::format("register '{}' has {} word{} since it was assigned first, found {}", name.text, has,
                                   has == 1 ? "" : "s", words));
  }
  Holds& holds = holds_[*number];
  if (holds.pending != 0) {
    cursor_.fail(name, fmt::format("register '{}' is assigned again before a wait that covers it: which of the two "
                                   "comes last is not defined",
                                   name.text));
  }
  holds = {.nothing = false, .value = pending == 0, .pending = pending};
  return *number;
}

std::optional<std::uint32_t> ThreadParser::find_register(std::string_view name) const {
  return find_named(thread_.registers, name);
}

std::optional<std::uint32_t> ThreadParser::find_buffer(std::string_view name) const {
  return find_named(thread_.buffers, name);
}

}  // namespace sidelatch::explore::litmus

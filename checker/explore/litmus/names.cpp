#include "names.h"

#include <sidelatch/fabric/types.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sidelatch::explore::litmus {
namespace {

constexpr std::array<std::string_view, 10> kSections = {"litmus", "var",   "line",  "object", "node",
                                                        "qp",     "crash", "param", "exists", "expect"};
constexpr std::array<std::string_view, 11> kStatements = {"write", "read", "cas",   "faa",  "wait",  "buf",
                                                          "if",    "else", "store", "load", "mfence"};

constexpr std::uint32_t kWordsOfALine = fabric::kLineBytes / 8;
// Far above what can be explored. Without a limit a short file could ask for all memory of the machine.
constexpr std::uint32_t kMaxWords = 4096;

}  // namespace

bool begins_section(std::string_view word) { return contains(kSections, word); }
bool is_keyword(std::string_view word) { return begins_section(word) || contains(kStatements, word); }

bool is_numbered(std::string_view prefix, std::string_view word) {
  if (!word.starts_with(prefix) || word.size() == prefix.size()) {
    return false;
  }
  word.remove_prefix(prefix.size());
  return std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         (word.size() == 1 || word.front() != '0');
}

const Token& take_name(Cursor& cursor, std::string_view what) {
  const Token& name = cursor.word(what);
  if (is_keyword(name.text)) {
    cursor.fail(name, fmt::format("expected {}, found the keyword {}", what, describe(name)));
  }
  return name;
}

const Token& take_queue_pair_name(Cursor& cursor) {
  const Token& name = cursor.word("a queue pair such as qp0");
  if (!is_numbered("qp", name.text)) {
    cursor.fail(name, fmt::format("expected a queue pair such as qp0, found {}", describe(name)));
  }
  return name;
}

bool Memory::declares(const Cursor& cursor) {
  return cursor.at("var") || cursor.at("line") || cursor.at("object") || cursor.at("node");
}

void Memory::declaration(Cursor& cursor, LitmusTest& test) {
  if (cursor.accept("node")) {
    node(cursor, test);
  } else {
    declare(cursor, test, 0);
  }
  cursor.end_of_line();
}

Target Memory::target(Cursor& cursor) const {
  const Token& name = cursor.word("the name of a var, line, word or object");
  const auto found = names_.find(name.text);
  if (found == names_.end()) {
    cursor.fail(name,
                fmt::format("unknown name {}: expected a var, a line, a word of a line or an object", describe(name)));
  }
  const Entry& entry = found->second;
  if (!cursor.at("[")) {
    return entry.target;
  }
  if (!entry.is_object) {
    cursor.fail_expected(fmt::format("no index, for '{}' is no object", name.text));
  }
  cursor.take();
  const std::uint32_t i = cursor.number("a line of " + std::string(name.text), 0, entry.target.count - 1);
  cursor.expect("]");
  const MemoryWord word = entry.target.at(i);
  return {.node = word.node, .line = word.line, .word = word.word};
}

Target Memory::one_word(Cursor& cursor, std::string_view what) const {
  const Token& name = cursor.peek();
  const Target found = target(cursor);
  if (found.count != 1) {
    cursor.fail(name, fmt::format("{} one word, and '{}' has {}: give {}", what, name.text, found.count,
                                  found.across_lines ? fmt::format("an index, as in {}[0]", name.text)
                                                     : std::string("one of them by its own name")));
  }
  return found;
}

void Memory::declare(Cursor& cursor, LitmusTest& test, std::uint32_t node) {
  if (cursor.accept("var")) {
    var(cursor, test, node);
  } else if (cursor.accept("line")) {
    line(cursor, test, node);
  } else if (cursor.accept("object")) {
    object(cursor, test, node);
  } else {
    cursor.fail_expected("var, line or object");
  }
}

void Memory::var(Cursor& cursor, LitmusTest& test, std::uint32_t node) {
  auto& lines = test.nodes.at(node).lines;
  const Token& name = new_name(cursor, "the name of a word");
  cursor.expect("=");
  const std::int64_t initial = cursor.number("an initial value");
  count_words(cursor, name, 1);
  names_[std::string(name.text)].target = {.node = node, .line = static_cast<std::uint32_t>(lines.size())};
  lines.push_back({.words = {{std::string(name.text), initial}}});
}

void Memory::line(Cursor& cursor, LitmusTest& test, std::uint32_t node) {
  auto& lines = test.nodes.at(node).lines;
  const auto number = static_cast<std::uint32_t>(lines.size());
  const Token& name = new_name(cursor, "the name of a line");
  Line words;
  cursor.expect("{");
  do {
    cursor.skip_ends();
    const Token& word = new_name(cursor, "the name of a word");
    const auto position = static_cast<std::uint32_t>(words.words.size());
    if (position == kWordsOfALine) {
      cursor.fail(word, fmt::format("'{}' has more than {} words: expected '}}'", name.text, kWordsOfALine));
    }
    cursor.expect("=");
    words.words.push_back({std::string(word.text), cursor.number("an initial value")});
    names_[std::string(word.text)].target = {.node = node, .line = number, .word = position};
    cursor.skip_ends();
  } while (cursor.accept(","));
  cursor.expect("}");
  const auto count = static_cast<std::uint32_t>(words.words.size());
  count_words(cursor, name, count);
  names_[std::string(name.text)].target = {.node = node, .line = number, .count = count};
  lines.push_back(std::move(words));
}

void Memory::object(Cursor& cursor, LitmusTest& test, std::uint32_t node) {
  auto& lines = test.nodes.at(node).lines;
  const Token& name = new_name(cursor, "the name of an object");
  cursor.expect("[");
  const std::uint32_t count = cursor.number("a number of lines", 1, kMaxWords);
  cursor.expect("]");
  cursor.expect("=");
  const std::int64_t initial = cursor.number("an initial value");
  count_words(cursor, name, count);
  Entry& entry = names_[std::string(name.text)];
  entry.target = {.node = node, .line = static_cast<std::uint32_t>(lines.size()), .count = count, .across_lines = true};
  entry.is_object = true;
  for (std::uint32_t i = 0; i < count; ++i) {
    lines.push_back({.words = {{fmt::format("{}[{}]", name.text, i), initial}}, .goes_on = i != 0});
  }
}

void Memory::node(Cursor& cursor, LitmusTest& test) {
  constexpr std::size_t kMaxNodes = 64;
  const auto number = static_cast<std::uint32_t>(test.nodes.size());
  const std::string expected = fmt::format("M{}", number);
  const Token& name = cursor.word("the name of a node");
  if (name.text != expected) {
    cursor.fail(name, fmt::format("expected '{}', for nodes are numbered and M0 is there already, found {}", expected,
                                  describe(name)));
  }
  if (number == kMaxNodes) {
    cursor.fail(name, fmt::format("more than {} nodes", kMaxNodes));
  }
  test.nodes.push_back({expected, {}});
  const Token& brace = cursor.expect("{");
  cursor.skip_ends();
  do {
    declare(cursor, test, number);
    const bool separated = cursor.accept(";") || cursor.at(TokenKind::end_of_line);
    cursor.skip_ends();
    if (cursor.at(TokenKind::end_of_file)) {
      cursor.fail_expected(fmt::format("'}}' for the '{{' of {}:{}", brace.line, brace.column));
    }
    if (!separated && !cursor.at("}")) {
      cursor.fail_expected("';', '}' or the end of the line");
    }
  } while (!cursor.at("}"));
  cursor.take();
}

const Token& Memory::new_name(Cursor& cursor, std::string_view what) {
  const Token& name = take_name(cursor, what);
  const auto found = names_.find(name.text);
  if (found != names_.end()) {
    cursor.fail(name, fmt::format("duplicate name {}: it is declared in line {} already", describe(name),
                                  found->second.declared_in));
  }
  names_[std::string(name.text)].declared_in = name.line;
  return name;
}

void Memory::count_words(const Cursor& cursor, const Token& name, std::uint32_t count) {
  words_ += count;
  if (words_ > kMaxWords) {
    cursor.fail(name, fmt::format("more than {} words of memory", kMaxWords));
  }
}

}  // namespace sidelatch::explore::litmus

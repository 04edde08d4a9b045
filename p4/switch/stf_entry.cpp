#include "p4/switch/stf_entry.h"

#include "p4/switch/stf_value.h"

#include <sidelatch/p4/state.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace sidelatch::p4::stf {

namespace {

// What has a meaning in a line. Between quotes the character number N of these is the byte N + 1.
constexpr std::string_view kSpecial = " :(),/|&";
constexpr char kHash = 0x0e;  // '#'; the bytes from 9 to 13 are spaces

}  // namespace

std::string without_quotes(const std::string& line) {
  std::string made;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      continue;
    }
    if (c == '#' && !quoted) {  // a comment, which may have one quote
      break;
    }
    const std::size_t special = quoted ? kSpecial.find(c) : std::string_view::npos;
    made += special != std::string_view::npos ? static_cast<char>(special + 1) : quoted && c == '#' ? kHash : c;
  }
  if (quoted) {
    throw ControlError("'\"' is missing");
  }
  return made;
}

std::string restored(std::string name) {
  for (char& c : name) {
    const auto code = static_cast<unsigned char>(c);
    c = code >= 1 && code <= kSpecial.size() ? kSpecial[code - 1U] : c == kHash ? '#' : c;
  }
  return name;
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> list;
  std::string word;
  while (words >> word) {
    list.push_back(restored(word));
  }
  return list;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n\f\v";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

std::string one_word(const std::string& text) {
  const std::vector<std::string> words = split(text);
  if (words.size() > 1) {
    throw ControlError(fmt::format("'{}' has spaces: put a name that has them in quotes", restored(trimmed(text))));
  }
  return words.empty() ? "" : words.front();
}

Call call(const std::string& text) {
  const std::size_t open = text.find('(');
  if (open == std::string::npos) {
    return {one_word(text), "", ""};
  }
  const std::size_t close = text.find(')', open);
  if (close == std::string::npos) {
    throw ControlError("')' is missing");
  }
  return {one_word(text.substr(0, open)), text.substr(open + 1, close - open - 1), text.substr(close + 1)};
}

namespace {

std::vector<U128> arguments(const ActionInfo& action, const std::string& text) {
  std::vector<std::optional<U128>> given(action.parameters.size());
  std::istringstream parts(text);
  std::string part;
  std::size_t position = 0;
  while (std::getline(parts, part, ',')) {
    if (trimmed(part).empty()) {
      continue;
    }
    const bool is_mac = mac_at(trimmed(part), 0) == trimmed(part).size();
    const std::size_t colon = is_mac ? std::string::npos : part.find(':');
    std::size_t which = position++;
    if (colon != std::string::npos) {
      const std::string name = one_word(part.substr(0, colon));
      which = 0;
      while (which < given.size() && action.parameters[which].name != name) {
        ++which;
      }
    }
    if (which >= given.size()) {
      throw ControlError("the action " + action.name + " has no parameter for '" + restored(trimmed(part)) + "'");
    }
    if (given[which]) {
      throw ControlError("the argument for " + action.parameters[which].name + " of " + action.name +
                         " is given twice");
    }
    const std::string text_of_value = trimmed(part.substr(colon == std::string::npos ? 0 : colon + 1));
    given[which] = data_value(text_of_value, action.parameters[which].width);
  }
  std::vector<U128> values;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) {
      throw ControlError("the argument for " + action.parameters[i].name + " of " + action.name + " is missing");
    }
    values.push_back(*given[i]);
  }
  return values;
}

std::size_t ending(const std::vector<std::string>& names, const std::string& name, const std::string& kind) {
  const auto exact = std::find(names.begin(), names.end(), name);
  if (exact != names.end()) {
    return static_cast<std::size_t>(exact - names.begin());
  }
  std::optional<std::size_t> found;
  // The end from a dot on; else, as the reference runner has it, any end.
  for (const bool any_end : {false, true}) {
    for (std::size_t i = 0; i < names.size() && (!any_end || !name.empty()); ++i) {
      const std::string after_dot = "." + name;
      const bool is_it =
          any_end ? names[i].ends_with(name) : names[i].ends_with(after_dot) || name.ends_with("." + names[i]);
      if (is_it && found) {
        throw ControlError(fmt::format("'{}' may be {} or {}", name, names[*found], names[i]));
      }
      found = is_it ? i : found;
    }
    if (found) {
      return *found;
    }
  }
  std::string known;
  for (const std::string& one : names) {
    known += (known.empty() ? "" : ", ") + one;
  }
  throw ControlError(fmt::format("there is no {} '{}'; there are: {}", kind, name, known.empty() ? "none" : known));
}

// The table that has this name. The reference runner also takes the end of a name.
std::size_t table_number(const ProgramInfo& info, const std::string& name) {
  std::vector<std::string> names;
  names.reserve(info.tables.size());
  for (const TableInfo& table : info.tables) {
    names.push_back(table.name);
  }
  return ending(names, name, "table");
}

std::size_t action_number(const TableInfo& info, const std::string& name) {
  std::vector<std::string> names;
  names.reserve(info.actions.size());
  for (const ActionInfo& action : info.actions) {
    names.push_back(action.name);
  }
  return ending(names, name, "action");
}

std::string plain_key(std::string text) {
  // $0 means [0], as brackets were no part of names once.
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    std::size_t end = at + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) {
      ++end;
    }
    if (end > at + 1) {
      text = text.substr(0, at) + "[" + text.substr(at + 1, end - at - 1) + "]" + text.substr(end);
    }
  }
  for (const std::string_view valid : {".$valid$", ".isValid()", ".$valid", ".valid"}) {
    if (text.ends_with(valid)) {
      return text.substr(0, text.size() - valid.size()) + ".$valid$";
    }
  }
  return text;
}

std::string without_root(const std::string& name) {
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

std::size_t key_number(const TableInfo& info, const std::string& given) {
  const std::string name = plain_key(given);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < info.keys.size(); ++i) {
    const std::string own = plain_key(info.keys[i].name);
    // As in the reference runner, a header's name alone means that it is valid.
    if (own == name || own == name + ".$valid$") {
      return i;
    }
    const bool is_validity = name == "valid" || name == "isValid()" || name == "$valid$";
    if ((is_validity && own.ends_with(".$valid$")) || own.ends_with("." + name) || name.ends_with("." + own) ||
        without_root(own) == without_root(name)) {
      found.push_back(i);
    }
  }
  if (found.size() != 1) {
    std::string known;
    for (const KeyInfo& key : info.keys) {
      known += (known.empty() ? "" : ", ") + key.name;
    }
    throw ControlError(fmt::format("{} '{}'; the table has: {}",
                                   found.empty() ? "there is no key" : "there are several keys", given, known));
  }
  return found.front();
}

// A value, VALUE/PREFIX, VALUE&&&MASK, LOW..HIGH, or digits with '*'.
Match match(const KeyInfo& key, const std::string& text) {
  const U128 all = ones(key.width);
  const auto given = [&](const std::string& one) { return data_value(one, key.width); };
  const auto parts = [&](std::string_view between) -> std::optional<std::pair<std::string, std::string>> {
    const std::size_t at = text.find(between);
    if (at == std::string::npos) {
      return std::nullopt;
    }
    return std::pair{text.substr(0, at), text.substr(at + between.size())};
  };
  for (const std::string_view range : {"..", "->"}) {
    if (const auto found = parts(range); found && key.kind == MatchKind::range) {
      return {given(found->first), given(found->second)};
    }
  }
  // A range has its upper end where others have a mask, and an exact key compares all bits: the entry would match other
  // packets than it says.
  const auto masked_by = [&](std::string_view between, U128 value, U128 mask) -> Match {
    if (key.kind == MatchKind::range || (key.kind == MatchKind::exact && (mask & all) != all)) {
      throw ControlError(
          fmt::format("the key {} is {}, so its value has no '{}'", key.name, p4::name(key.kind), between));
    }
    return {value, mask};
  };
  if (const auto found = parts("&&&")) {
    return masked_by("&&&", given(found->first), given(found->second));
  }
  if (const auto found = parts("/")) {
    const std::uint32_t prefix = number(found->second);
    if (prefix > key.width) {
      throw ControlError(fmt::format("a prefix of {} for a key of {} bits", prefix, key.width));
    }
    return masked_by("/", given(found->first), all & ~ones(key.width - prefix));
  }
  if (text.find('*') != std::string::npos) {
    const std::string digits = lowered(text);
    const unsigned bits = digits.starts_with("0x")   ? 4
                          : digits.starts_with("0b") ? 1
                          : digits.starts_with("0o") ? 3
                                                     : 0;
    if (bits == 0) {
      throw ControlError("'*' is for numbers that begin with 0x, 0o or 0b");
    }
    if (key.kind == MatchKind::exact) {
      throw ControlError("the key " + key.name + " is exact, so its value has no '*'");
    }
    Match made;
    unsigned written = 0;
    if (bits * (digits.size() - 2) > kWidest) {
      throw ControlError("'" + text + "' has more than 128 bits");
    }
    for (std::size_t i = 2; i < digits.size(); ++i) {
      const bool any = digits[i] == '*';
      if (!any && (hex_digit(digits[i]) < 0 || hex_digit(digits[i]) >= 1 << bits)) {
        throw ControlError("'" + text + "' is not a number");
      }
      written += any ? 0 : bits;
      made.value = made.value << bits | (any ? 0 : static_cast<unsigned>(hex_digit(digits[i])));
      made.mask = made.mask << bits | (any ? 0 : ones(bits));
    }
    if (key.kind == MatchKind::lpm) {  // as the reference runner: the prefix is as long as the digits without '*'
      made.mask = all & ~ones(key.width - std::min(key.width, written));
    }
    return made;
  }
  const U128 plain = given(text);
  if (key.kind == MatchKind::range) {
    return {plain, plain};
  }
  if (is_named_value(text)) {
    return {plain, all};
  }
  // As in the reference runner, the digits that are written count, and no others: from the top of an lpm key, from
  // the bottom of a ternary or optional one.
  const std::string digits = lowered(text);
  const unsigned bits = digits.starts_with("0x") ? 4 : digits.starts_with("0b") ? 1 : digits.starts_with("0o") ? 3 : 0;
  const auto written = static_cast<unsigned>(bits * (digits.size() - 2));
  const bool masked = key.kind == MatchKind::ternary || key.kind == MatchKind::optional;
  if (masked && bits == 0) {
    throw ControlError(
        fmt::format("the key {} is {}: write its value with 0x, 0o or 0b", key.name, p4::name(key.kind)));
  }
  if (masked && written < key.width) {
    return {plain, ones(written)};
  }
  if (bits != 0 && written < key.width && key.kind == MatchKind::lpm) {
    return {plain, all & ~ones(key.width - written)};
  }
  return {plain, all};
}

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// isValid() of keys without its parentheses: $valid$.
std::string without_calls(const std::string& line) {
  constexpr std::string_view kIsValid = "isValid";
  std::string made;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool begins_word = i == 0 || !is_word(line[i - 1]);
    if (begins_word && line.compare(i, kIsValid.size(), kIsValid) == 0) {
      std::size_t at = i + kIsValid.size();
      const auto skip_to = [&](char wanted) {
        while (at < line.size() && is_space(line[at])) {
          ++at;
        }
        return at < line.size() && line[at++] == wanted;
      };
      if (skip_to('(') && skip_to(')')) {
        made += "$valid$";
        i = at - 1;
        continue;
      }
    }
    made += line[i];
  }
  return made;
}

// Without the spaces that may be around what joins a key and its value, and without parentheses in keys.
std::string plain(const std::string& line) {
  static constexpr std::array<std::string_view, 5> kJoins{":", "&&&", "..", "->", "/"};
  const std::string text = without_calls(line);
  std::string made;
  for (std::size_t i = 0; i < text.size();) {
    const auto join = std::find_if(kJoins.begin(), kJoins.end(),
                                   [&](std::string_view one) { return text.compare(i, one.size(), one) == 0; });
    if (join == kJoins.end()) {
      made += text[i++];
      continue;
    }
    while (!made.empty() && is_space(made.back())) {
      made.pop_back();
    }
    made += *join;
    i += join->size();
    while (i < text.size() && is_space(text[i])) {
      ++i;
    }
  }
  return made;
}

// The reference runner gives a value as many whole bytes as its key has, and refuses one that needs more; the reference
// switch then drops the bits beyond the key's width.
Match fitting(const KeyInfo& key, Match match) {
  // The ends of a range are compared as they are.
  const U128 most = key.kind == MatchKind::range ? ones(key.width) : ones((key.width + 7) / 8 * 8);
  if (match.value > most || match.mask > most) {
    throw ControlError(fmt::format("a value for the key {} does not fit its {} bits", key.name, key.width));
  }
  match.value &= ones(key.width);
  match.mask &= ones(key.width);
  return match;
}

}  // namespace

NamedEntry entry_of(const ProgramInfo& program, const std::string& rest) {
  // TABLE [PRIORITY] KEY:VALUE... ACTION(ARGUMENTS) [= NAME]
  std::string text = plain(rest);
  std::string action_text;
  if (const std::size_t open = text.find('('); open != std::string::npos) {
    std::size_t begin = open;
    while (begin > 0 && std::isspace(static_cast<unsigned char>(text[begin - 1])) != 0) {
      --begin;
    }
    while (begin > 0 && std::isspace(static_cast<unsigned char>(text[begin - 1])) == 0) {
      --begin;
    }
    action_text = text.substr(begin);
    text.resize(begin);
  }
  std::vector<std::string> words = split(text);
  if (words.empty()) {
    throw ControlError("the name of a table is missing");
  }
  if (action_text.empty()) {
    action_text = words.back();
    words.pop_back();
  }
  const std::size_t which = table_number(program, words[0]);
  const TableInfo& info = program.tables[which];
  Entry entry;
  std::size_t next = 1;
  std::optional<int> priority;
  if (next < words.size() && words[next].find(':') == std::string::npos) {
    const std::uint32_t given = number(words[next]);
    if (given > static_cast<std::uint32_t>(std::numeric_limits<int>::max())) {
      throw ControlError("the priority '" + words[next] + "' is too large");
    }
    priority = static_cast<int>(given);
    ++next;
  }
  bool needs_priority = false;
  for (const KeyInfo& key : info.keys) {
    const bool any = key.kind == MatchKind::ternary || key.kind == MatchKind::lpm || key.kind == MatchKind::optional;
    entry.keys.push_back(key.kind == MatchKind::range ? Match{0, ones(key.width)}
                                                      : Match{0, any ? 0 : ones(key.width)});
    needs_priority = needs_priority || (key.kind != MatchKind::exact && key.kind != MatchKind::lpm);
  }
  std::vector<bool> given(info.keys.size(), false);
  for (; next < words.size(); ++next) {
    const std::size_t colon = colon_before_value(words[next]);
    if (colon == std::string::npos) {
      throw ControlError("expected KEY:VALUE, found '" + words[next] + "'");
    }
    const std::size_t key = key_number(info, words[next].substr(0, colon));
    if (given[key]) {
      throw ControlError("the key " + info.keys[key].name + " is given twice");
    }
    given[key] = true;
    entry.keys[key] = fitting(info.keys[key], match(info.keys[key], words[next].substr(colon + 1)));
    if (info.keys[key].kind != MatchKind::range) {
      entry.keys[key].value &= entry.keys[key].mask;
    }
  }
  if (needs_priority && !priority) {
    throw ControlError("an entry of a table with ternary, range or optional keys needs a priority");
  }
  std::vector<ActionCall> calls;
  std::string name;
  std::istringstream parts(action_text);
  for (std::string part; std::getline(parts, part, '|');) {
    const Call made = call(part);
    const std::string after = trimmed(made.after);
    if (!after.empty()) {
      const std::vector<std::string> names = split(after.substr(1));
      if (after.front() != '=' || names.size() != 1) {
        throw ControlError("nothing but '= NAME' may follow the action, not '" + restored(after) + "'");
      }
      name = names.front();
    }
    const std::size_t number = action_number(info, made.name);
    calls.push_back({number, arguments(info.actions[number], made.arguments)});
  }
  if (calls.size() == 1) {
    entry.action = calls.front().action;
    entry.arguments = std::move(calls.front().arguments);
  } else {
    entry.group = std::move(calls);
  }
  entry.priority = priority.value_or(0);
  return {which, std::move(entry), std::move(name)};
}

DefaultAction default_of(const ProgramInfo& program, const std::string& rest) {
  std::istringstream words(rest);
  std::string name;
  words >> name;
  const std::size_t which = table_number(program, restored(name));
  std::string action;
  std::getline(words, action);
  const Call made = call(action);
  if (!trimmed(made.after).empty()) {
    throw ControlError("nothing may follow the action, not '" + restored(trimmed(made.after)) + "'");
  }
  const TableInfo& info = program.tables[which];
  const std::size_t number = action_number(info, made.name);
  return {which, info.actions[number].name, arguments(info.actions[number], made.arguments)};
}

}  // namespace sidelatch::p4::stf

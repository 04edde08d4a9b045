#include <sidelatch/p4/stf.h>

#include <sidelatch/p4/switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace sidelatch::p4 {

namespace {

// A packet that goes round for ever must not hang the test.
constexpr std::size_t kMostSteps = 100'000;

// Packets are this long apart, in nanoseconds: a program may compare times, and 0 means never to many.
constexpr std::uint64_t kFirstPacket = 1'000'000'000;
constexpr std::uint64_t kBetweenPackets = 1'000'000;

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

struct Expectation {
  std::string nibbles;  // hexadecimal digits, and '*'
  bool exact_length = false;
  std::size_t line = 0;
};

// Of a multicast group; the ports are in ascending order, as the reference switch has them.
struct Node {
  std::uint16_t rid = 0;
  std::set<std::uint16_t> ports;
};

class Runner {
 public:
  Runner(const std::shared_ptr<const Program>& program, const std::string& name) : name_(name), switch_(program) {}

  StfResult run(const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    while (std::getline(lines, line)) {
      ++line_;
      if (const std::size_t comment = line.find('#'); comment != std::string::npos) {
        line.resize(comment);
      }
      std::istringstream words(line);
      std::string command;
      if (words >> command) {
        std::string rest;
        std::getline(words, rest);
        try {
          execute(lowered(command), rest);
        } catch (const ControlError& error) {
          bad(error.what());
        }
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  [[noreturn]] void bad(const std::string& message) const {
    throw StfError(fmt::format("{}:{}: error: {}", name_, line_, message));
  }

  void failed(std::size_t line, const std::string& message) {
    result_.failures.push_back(fmt::format("{}:{}: {}", name_, line, message));
  }

  static std::vector<std::string> split(const std::string& text) {
    std::istringstream words(text);
    std::vector<std::string> list;
    std::string word;
    while (words >> word) {
      list.push_back(word);
    }
    return list;
  }

  void execute(const std::string& command, const std::string& rest) {
    const std::vector<std::string> words = split(rest);
    if (command == "packet") {
      packet(words);
    } else if (command == "expect") {
      expect(words);
    } else if (command == "no_packet") {
      nothing_expected_ = line_;
    } else if (command == "add") {
      add(rest);
    } else if (command == "setdefault") {
      set_default(rest);
    } else if (command == "remove") {
      for (TableState& table : switch_.state().tables) {
        table.clear();
      }
    } else if (command == "check_counter") {
      check_counter(rest);
    } else if (command == "mc_mgrp_create") {
      groups_[port(word(words, 0))];
    } else if (command == "mc_node_create") {
      create_node(words);
    } else if (command == "mc_node_update") {
      update_node(words);
    } else if (command == "mc_node_associate") {
      associate_node(words);
    } else if (command == "mirroring_add") {
      // Each replaces what the session was, as in the reference switch.
      switch_.set_clone_session(number(word(words, 0)), {.port = port(word(words, 1)), .group = std::nullopt});
    } else if (command == "mirroring_add_mc") {
      switch_.set_clone_session(number(word(words, 0)), {.port = std::nullopt, .group = port(word(words, 1))});
    } else if (command == "mirroring_delete") {
      switch_.set_clone_session(number(word(words, 0)), {});
    } else if (command == "register_write") {
      RegisterState& reg = switch_.state().reg(word(words, 0));
      const std::uint32_t index = number(word(words, 1));
      if (index >= reg.size()) {
        bad(fmt::format("{} has {} elements; there is no index {}", words[0], reg.size(), index));
      }
      reg.write(index, value(word(words, 2)));
    } else if (command == "counter_write") {
      Count& count = counted(word(words, 0), number(word(words, 1)));
      count.packets = static_cast<std::uint64_t>(value(word(words, 2)));
      count.bytes = words.size() > 3 ? static_cast<std::uint64_t>(value(words[3])) : count.bytes;
    } else if (command == "register_read") {
      check_register(words);
    } else if (command == "register_reset") {
      RegisterState& reg = switch_.state().reg(word(words, 0));
      for (std::size_t i = 0; i < reg.size(); ++i) {
        reg.write(i, 0);
      }
    } else if (command == "counter_reset") {
      std::vector<Count>& counter = switch_.state().counter(word(words, 0));
      std::fill(counter.begin(), counter.end(), Count{});
    } else if (command != "wait" && command != "mirroring_get" && command != "counter_read") {
      bad("there is no command '" + command + "'");
    }
  }

  const std::string& word(const std::vector<std::string>& words, std::size_t which) const {
    if (which >= words.size()) {
      bad("an argument is missing");
    }
    return words[which];
  }

  [[nodiscard]] U128 value(const std::string& text) const {
    const std::string digits = lowered(text);
    unsigned base = 10;
    std::size_t from = 0;
    if (digits.size() > 2 && digits[0] == '0') {
      base = digits[1] == 'x' ? 16 : digits[1] == 'b' ? 2 : digits[1] == 'o' ? 8 : 10;
      from = base == 10 ? 0 : 2;
    }
    U128 made = 0;
    for (std::size_t i = from; i < digits.size(); ++i) {
      const int digit = hex_digit(digits[i]);
      if (digit < 0 || static_cast<unsigned>(digit) >= base) {
        bad("'" + text + "' is not a number");
      }
      made = made * base + static_cast<unsigned>(digit);
    }
    if (digits.size() == from) {
      bad("a number is missing");
    }
    return made;
  }

  [[nodiscard]] std::uint32_t number(const std::string& text) const { return static_cast<std::uint32_t>(value(text)); }

  [[nodiscard]] std::uint16_t port(const std::string& text) const {
    const U128 made = value(text);
    if (made > 0xffff) {
      bad("'" + text + "' is too large");
    }
    return static_cast<std::uint16_t>(made);
  }

  void packet(const std::vector<std::string>& words) {
    const std::uint16_t from = port(word(words, 0));
    ports_.insert(from);
    std::string digits;
    for (std::size_t i = 1; i < words.size(); ++i) {
      digits += words[i];
    }
    if (digits.size() % 2 != 0) {
      bad("a packet has an even number of digits");
    }
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      const int high = hex_digit(digits[i]);
      const int low = hex_digit(digits[i + 1]);
      if (high < 0 || low < 0) {
        bad("a packet is written in hexadecimal digits");
      }
      bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
    switch_.set_time(kFirstPacket + kBetweenPackets * result_.sent);
    ++result_.sent;
    switch_.receive(from, bytes);
    if (!switch_.run(kMostSteps)) {
      bad(fmt::format("a packet is still in the switch after {} steps", kMostSteps));
    }
    while (const std::optional<Departure> departure = switch_.departed()) {
      std::string text;
      for (const std::byte byte : departure->bytes) {
        text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
      }
      seen_[departure->port].push_back(std::move(text));
    }
  }

  void expect(const std::vector<std::string>& words) {
    const std::uint16_t to = port(word(words, 0));
    ports_.insert(to);
    std::string digits;
    for (std::size_t i = 1; i < words.size(); ++i) {
      digits += lowered(words[i]);
    }
    if (digits.empty()) {
      anything_.insert(to);
      return;
    }
    Expectation made;
    made.line = line_;
    made.exact_length = digits.back() == '$';
    if (made.exact_length) {
      digits.pop_back();
    }
    for (const char c : digits) {
      if (hex_digit(c) < 0 && c != '*') {
        bad("a packet is written in hexadecimal digits, and '*' for those that do not count");
      }
    }
    made.nibbles = digits;
    expected_[to].push_back(std::move(made));
    ++result_.expected;
  }

  // "NAME(ARGUMENT:VALUE, ...)": the name and what is between the parentheses.
  std::pair<std::string, std::string> call(const std::string& text) const {
    const std::size_t open = text.find('(');
    const std::size_t close = text.rfind(')');
    std::string name = text.substr(0, open);
    name.erase(std::remove_if(name.begin(), name.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
               name.end());
    if (open == std::string::npos) {
      return {name, ""};
    }
    if (close == std::string::npos || close < open) {
      bad("')' is missing");
    }
    return {name, text.substr(open + 1, close - open - 1)};
  }

  std::vector<U128> arguments(const ActionInfo& action, const std::string& text) const {
    std::vector<std::optional<U128>> given(action.parameters.size());
    std::istringstream parts(text);
    std::string part;
    std::size_t position = 0;
    while (std::getline(parts, part, ',')) {
      part.erase(std::remove_if(part.begin(), part.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
                 part.end());
      if (part.empty()) {
        continue;
      }
      const std::size_t colon = part.find(':');
      std::size_t which = position++;
      if (colon != std::string::npos) {
        which = 0;
        while (which < given.size() && action.parameters[which].name != part.substr(0, colon)) {
          ++which;
        }
      }
      if (which >= given.size()) {
        bad("the action " + action.name + " has no parameter for '" + part + "'");
      }
      given[which] = value(colon == std::string::npos ? part : part.substr(colon + 1));
    }
    std::vector<U128> values;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!given[i]) {
        bad("the argument for " + action.parameters[i].name + " of " + action.name + " is missing");
      }
      values.push_back(*given[i]);
    }
    return values;
  }

  // The table that has this name. The reference runner also takes the end of a name.
  std::size_t table_number(const std::string& name) const {
    std::vector<std::string> names;
    for (const TableInfo& table : switch_.program().info().tables) {
      names.push_back(table.name);
    }
    return ending(names, name, "table");
  }

  std::size_t ending(const std::vector<std::string>& names, const std::string& name, const std::string& kind) const {
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
          bad(fmt::format("'{}' may be {} or {}", name, names[*found], names[i]));
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
    bad(fmt::format("there is no {} '{}'; there are: {}", kind, name, known.empty() ? "none" : known));
  }

  void set_default(const std::string& rest) {
    std::istringstream words(rest);
    std::string name;
    words >> name;
    const std::size_t which = table_number(name);
    std::string action;
    std::getline(words, action);
    const auto [action_name, text] = call(action);
    const TableInfo& info = switch_.program().info().tables[which];
    const std::size_t number = action_number(info, action_name);
    switch_.state().tables[which].set_default(info.actions[number].name, arguments(info.actions[number], text));
  }

  std::size_t action_number(const TableInfo& info, const std::string& name) const {
    std::vector<std::string> names;
    for (const ActionInfo& action : info.actions) {
      names.push_back(action.name);
    }
    return ending(names, name, "action");
  }

  static std::string plain_key(std::string text) {
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

  static std::string without_root(const std::string& name) {
    const std::size_t dot = name.find('.');
    return dot == std::string::npos ? name : name.substr(dot + 1);
  }

  std::size_t key_number(const TableInfo& info, const std::string& given) const {
    const std::string name = plain_key(given);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < info.keys.size(); ++i) {
      const std::string own = plain_key(info.keys[i].name);
      if (own == name) {
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
      bad(fmt::format("{} '{}'; the table has: {}", found.empty() ? "there is no key" : "there are several keys", given,
                      known));
    }
    return found.front();
  }

  // A value, VALUE/PREFIX, VALUE&&&MASK, LOW..HIGH, or digits with '*'.
  Match match(const KeyInfo& key, const std::string& text) const {
    const U128 all = ones(key.width);
    const auto parts = [&](std::string_view between) -> std::optional<std::pair<std::string, std::string>> {
      const std::size_t at = text.find(between);
      if (at == std::string::npos) {
        return std::nullopt;
      }
      return std::pair{text.substr(0, at), text.substr(at + between.size())};
    };
    for (const std::string_view range : {"..", "->"}) {
      if (const auto found = parts(range); found && key.kind == MatchKind::range) {
        return {value(found->first), value(found->second)};
      }
    }
    if (const auto found = parts("&&&")) {
      return {value(found->first), value(found->second)};
    }
    if (const auto found = parts("/")) {
      const std::uint32_t prefix = number(found->second);
      if (prefix > key.width) {
        bad(fmt::format("a prefix of {} for a key of {} bits", prefix, key.width));
      }
      return {value(found->first), all & ~ones(key.width - prefix)};
    }
    if (text.find('*') != std::string::npos) {
      const std::string digits = lowered(text);
      const unsigned bits = digits.starts_with("0x")   ? 4
                            : digits.starts_with("0b") ? 1
                            : digits.starts_with("0o") ? 3
                                                       : 0;
      if (bits == 0) {
        bad("'*' is for numbers that begin with 0x, 0o or 0b");
      }
      if (key.kind == MatchKind::exact) {
        bad("the key " + key.name + " is exact, so its value has no '*'");
      }
      Match made;
      unsigned written = 0;
      for (std::size_t i = 2; i < digits.size(); ++i) {
        const bool any = digits[i] == '*';
        written += any ? 0 : bits;
        made.value = made.value << bits | (any ? 0 : static_cast<unsigned>(std::max(0, hex_digit(digits[i]))));
        made.mask = made.mask << bits | (any ? 0 : ones(bits));
      }
      if (key.kind == MatchKind::lpm) {  // as the reference runner: the prefix is as long as the digits without '*'
        made.mask = all & ~ones(key.width - std::min(key.width, written));
      }
      return made;
    }
    const U128 plain = value(text);
    if (key.kind == MatchKind::range) {
      return {plain, plain};
    }
    // As in the reference runner, the digits that are written count, and no others: from the top of an lpm key, from
    // the bottom of a ternary or optional one.
    const std::string digits = lowered(text);
    const unsigned bits = digits.starts_with("0x")   ? 4
                          : digits.starts_with("0b") ? 1
                          : digits.starts_with("0o") ? 3
                                                     : 0;
    const auto written = static_cast<unsigned>(bits * (digits.size() - 2));
    const bool masked = key.kind == MatchKind::ternary || key.kind == MatchKind::optional;
    if (masked && bits == 0) {
      bad(fmt::format("the key {} is {}: write its value with 0x, 0o or 0b", key.name, p4::name(key.kind)));
    }
    if (masked && written < key.width) {
      return {plain, ones(written)};
    }
    if (bits != 0 && written < key.width && key.kind == MatchKind::lpm) {
      return {plain, all & ~ones(key.width - written)};
    }
    return {plain, all};
  }

  // Without the spaces that may be around what joins a key and its value, and without parentheses in keys.
  static std::string plain(const std::string& line) {
    static const std::regex kJoins("\\s*(:|&&&|\\.\\.|->|/)\\s*");
    static const std::regex kValid("\\bisValid\\s*\\(\\s*\\)");
    return std::regex_replace(std::regex_replace(line, kValid, "$$valid$$"), kJoins, "$1");
  }

  void add(const std::string& rest) {
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
      bad("the name of a table is missing");
    }
    if (action_text.empty()) {
      action_text = words.back();
      words.pop_back();
    }
    const std::size_t which = table_number(word(words, 0));
    const TableInfo& info = switch_.program().info().tables[which];
    Entry entry;
    std::size_t next = 1;
    std::optional<int> priority;
    if (next < words.size() && words[next].find(':') == std::string::npos) {
      priority = static_cast<int>(number(words[next++]));
    }
    bool needs_priority = false;
    for (const KeyInfo& key : info.keys) {
      const bool any = key.kind == MatchKind::ternary || key.kind == MatchKind::lpm || key.kind == MatchKind::optional;
      entry.keys.push_back(key.kind == MatchKind::range ? Match{0, ones(key.width)}
                                                        : Match{0, any ? 0 : ones(key.width)});
      needs_priority = needs_priority || (key.kind != MatchKind::exact && key.kind != MatchKind::lpm);
    }
    for (; next < words.size(); ++next) {
      const std::size_t colon = words[next].rfind(':');
      if (colon == std::string::npos) {
        bad("expected KEY:VALUE, found '" + words[next] + "'");
      }
      const std::size_t key = key_number(info, words[next].substr(0, colon));
      entry.keys[key] = match(info.keys[key], words[next].substr(colon + 1));
      if (info.keys[key].kind != MatchKind::range) {
        entry.keys[key].value &= entry.keys[key].mask;
      }
    }
    if (needs_priority && !priority) {
      bad("an entry of a table with ternary, range or optional keys needs a priority");
    }
    const auto [action, arguments_text] = call(action_text);
    entry.action = action_number(info, action);
    entry.arguments = arguments(info.actions[entry.action], arguments_text);
    entry.priority = priority.value_or(0);
    switch_.state().tables[which].add(entry);
  }

  void create_node(const std::vector<std::string>& words) { nodes_.push_back(make_node(port(word(words, 0)), words)); }

  Node make_node(std::uint16_t rid, const std::vector<std::string>& words) const {
    Node node{rid, {}};
    for (std::size_t i = 1; i < words.size(); ++i) {
      node.ports.insert(port(words[i]));
    }
    return node;
  }

  // mc_node_update NODE PORT...
  void update_node(const std::vector<std::string>& words) {
    const std::uint32_t node = number(word(words, 0));
    if (node >= nodes_.size()) {
      bad(fmt::format("there is no node {}", node));
    }
    const std::uint16_t rid = nodes_[node].rid;
    nodes_[node] = make_node(rid, words);
    for (const auto& [group, nodes] : groups_) {
      set_group(group);
    }
  }

  void set_group(std::uint16_t group) {
    std::vector<MulticastMember> members;
    for (const std::uint32_t node : groups_[group]) {
      for (const std::uint16_t to : nodes_[node].ports) {
        members.push_back({nodes_[node].rid, to});
      }
    }
    switch_.set_multicast_group(group, std::move(members));
  }

  void associate_node(const std::vector<std::string>& words) {
    const std::uint16_t group = port(word(words, 0));
    const std::uint32_t node = number(word(words, 1));
    if (node >= nodes_.size()) {
      bad(fmt::format("there is no node {}", node));
    }
    groups_[group].push_back(node);
    set_group(group);
  }

  // register_read NAME INDEX [VALUE]
  void check_register(const std::vector<std::string>& words) {
    const U128 is = switch_.state().reg(word(words, 0)).read(number(word(words, 1)));
    if (words.size() > 2 && value(words[2]) != is) {
      failed(line_,
             fmt::format("{}[{}] is {:#x}, not {}", words[0], words[1], static_cast<std::uint64_t>(is), words[2]));
    }
  }

  // An element of a counter; of a direct one that of an entry of its table, which count from 0 as they were added.
  Count& counted(const std::string& name, std::uint32_t index) {
    State& state = switch_.state();
    std::vector<Count>& counter = state.counter(name);
    const auto which = static_cast<std::size_t>(&counter - state.counters.data());
    if (const int table = switch_.program().info().counters[which].table; table >= 0) {
      if (Count* count = state.tables[static_cast<std::size_t>(table)].count(index)) {
        return *count;
      }
      bad(fmt::format("the table of {} has no entry {}", name, index));
    }
    if (index >= counter.size()) {
      bad(fmt::format("{} has {} counters", name, counter.size()));
    }
    return counter[index];
  }

  // check_counter NAME(INDEX) [packets|bytes CONDITION NUMBER]
  void check_counter(const std::string& rest) {
    const auto [name, index_text] = call(rest);
    const std::vector<std::string> words =
        split(rest.substr(rest.find(')') == std::string::npos ? rest.size() : rest.find(')') + 1));
    const std::uint32_t index = number(index_text);
    const Count& count = counted(name, index);
    if (words.empty()) {
      return;
    }
    const std::uint64_t is = word(words, 0) == "bytes" ? count.bytes : count.packets;
    const std::string& condition = word(words, 1);
    const auto wanted = static_cast<std::uint64_t>(value(word(words, 2)));
    const bool holds = condition == "=="   ? is == wanted
                       : condition == "!=" ? is != wanted
                       : condition == "<=" ? is <= wanted
                       : condition == "<"  ? is < wanted
                       : condition == ">=" ? is >= wanted
                       : condition == ">"  ? is > wanted
                                           : false;
    if (!holds) {
      failed(line_,
             fmt::format("{}({}) has counted {} {}, expected {} {}", name, index, is, words[0], condition, wanted));
    }
  }

  static std::optional<std::string> difference(const Expectation& expected, const std::string& seen) {
    if (seen.size() < expected.nibbles.size()) {
      return fmt::format("the packet is too short: expected {}, got {}", expected.nibbles, seen);
    }
    if (expected.exact_length && seen.size() != expected.nibbles.size()) {
      return fmt::format("the packet has {} bytes, expected {}: {}", seen.size() / 2, expected.nibbles.size() / 2,
                         seen);
    }
    for (std::size_t i = 0; i < expected.nibbles.size(); ++i) {
      if (expected.nibbles[i] != '*' && expected.nibbles[i] != seen[i]) {
        return fmt::format("the packet differs in byte {}: expected {}, got {}", i / 2, expected.nibbles, seen);
      }
    }
    return std::nullopt;
  }

  void finish() {
    for (const std::uint16_t one : ports_) {
      if (anything_.contains(one)) {
        continue;
      }
      const std::vector<Expectation>& expected = expected_[one];
      const std::vector<std::string>& seen = seen_[one];
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (i >= seen.size()) {
          failed(expected[i].line, fmt::format("no such packet left port {}", one));
        } else if (const auto message = difference(expected[i], seen[i])) {
          failed(expected[i].line, fmt::format("port {}: {}", one, *message));
        }
      }
      for (std::size_t i = expected.size(); i < seen.size(); ++i) {
        failed(line_, fmt::format("port {}: nobody expects the packet {}", one, seen[i]));
      }
    }
    if (nothing_expected_ != 0) {
      for (const auto& [one, packets] : seen_) {
        if (!packets.empty() && !ports_.contains(one)) {
          failed(nothing_expected_, fmt::format("a packet left port {}", one));
        }
      }
    }
  }

  std::string name_;
  Switch switch_;
  std::size_t line_ = 0;
  StfResult result_;
  std::map<std::uint16_t, std::vector<Expectation>> expected_;
  std::map<std::uint16_t, std::vector<std::string>> seen_;
  std::set<std::uint16_t> ports_;
  std::set<std::uint16_t> anything_;
  std::map<std::uint16_t, std::vector<std::uint32_t>> groups_;  // numbers of nodes
  std::vector<Node> nodes_;
  std::size_t nothing_expected_ = 0;
};

}  // namespace

StfResult run_stf(const std::shared_ptr<const Program>& program, const std::string& text, const std::string& name) {
  return Runner(program, name).run(text);
}

}  // namespace sidelatch::p4

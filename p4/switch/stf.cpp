#include <sidelatch/p4/stf.h>

#include "p4/switch/stf_entry.h"
#include "p4/switch/stf_value.h"

#include <sidelatch/p4/switch.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
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

bool is_condition(std::string_view text) {
  constexpr std::array<std::string_view, 6> kConditions{"==", "!=", "<", "<=", ">", ">="};
  return std::find(kConditions.begin(), kConditions.end(), text) != kConditions.end();
}

// The most words that follow a command. Commands that are not here take any number, or read their line themselves.
constexpr std::array<std::pair<std::string_view, std::size_t>, 14> kMostWords{{{"no_packet", 0},
                                                                               {"wait", 0},
                                                                               {"remove", 1},
                                                                               {"mc_mgrp_create", 1},
                                                                               {"mc_node_associate", 2},
                                                                               {"mirroring_add", 2},
                                                                               {"mirroring_add_mc", 2},
                                                                               {"mirroring_delete", 1},
                                                                               {"mirroring_get", 1},
                                                                               {"register_write", 3},
                                                                               {"register_read", 3},
                                                                               {"register_reset", 1},
                                                                               {"counter_write", 4},
                                                                               {"counter_reset", 1}}};

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
      try {
        std::istringstream words(stf::without_quotes(line));  // and without the comment
        std::string command;
        if (words >> command) {
          std::string rest;
          std::getline(words, rest);
          execute(stf::lowered(command), rest);
        }
      } catch (const ControlError& error) {
        bad(error.what());
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

  void execute(const std::string& command, const std::string& rest) {
    const std::vector<std::string> words = stf::split(rest);
    const auto* const limit =
        std::find_if(kMostWords.begin(), kMostWords.end(), [&](const auto& one) { return one.first == command; });
    if (limit != kMostWords.end() && words.size() > limit->second) {
      bad(fmt::format("'{}' is too much: {} takes {} at most", words[limit->second], command,
                      limit->second == 0   ? "no word"
                      : limit->second == 1 ? "1 word"
                                           : fmt::format("{} words", limit->second)));
    }
    if (command == "packet") {
      packet(words);
    } else if (command == "expect") {
      expect(words);
    } else if (command == "no_packet") {
      nothing_expected_ = line_;
    } else if (command == "add") {
      add(stf::entry_of(switch_.program().info(), rest));
    } else if (command == "setdefault") {
      const stf::DefaultAction made = stf::default_of(switch_.program().info(), rest);
      switch_.state().tables[made.table].set_default(made.action, made.arguments);
    } else if (command == "remove") {
      if (word(words, 0) != "all") {
        bad("there is only 'remove all', no 'remove " + words[0] + "'");
      }
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
      switch_.set_clone_session(stf::number(word(words, 0)), {.port = port(word(words, 1)), .group = std::nullopt});
    } else if (command == "mirroring_add_mc") {
      switch_.set_clone_session(stf::number(word(words, 0)), {.port = std::nullopt, .group = port(word(words, 1))});
    } else if (command == "mirroring_delete") {
      switch_.set_clone_session(stf::number(word(words, 0)), {});
    } else if (command == "register_write") {
      const std::uint32_t index = element(words);
      switch_.state().reg(words[0]).write(index, element_value(words[0], word(words, 2)));
    } else if (command == "counter_write") {
      Count& count = counted(word(words, 0), stf::number(word(words, 1)));
      count.packets = static_cast<std::uint64_t>(stf::value(word(words, 2)));
      count.bytes = words.size() > 3 ? static_cast<std::uint64_t>(stf::value(words[3])) : count.bytes;
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
      bad("there is no command '" + command +
          "'; there are: add, setdefault, remove, packet, expect, no_packet, mirroring_add, mirroring_add_mc, "
          "mirroring_delete, mc_mgrp_create, mc_node_create, mc_node_associate, mc_node_update, register_write, "
          "register_read, register_reset, check_counter, counter_write, counter_reset, wait");
    }
  }

  const std::string& word(const std::vector<std::string>& words, std::size_t which) const {
    if (which >= words.size()) {
      bad("an argument is missing");
    }
    return words[which];
  }

  [[nodiscard]] std::uint16_t port(const std::string& text) const {
    const U128 made = stf::value(text);
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
    if (digits.size() % 2 != 0) {  // as the reference reader: the last digit is a byte
      digits.insert(digits.end() - 1, '0');
    }
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      const int high = stf::hex_digit(digits[i]);
      const int low = stf::hex_digit(digits[i + 1]);
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
      digits += stf::lowered(words[i]);
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
      if (stf::hex_digit(c) < 0 && c != '*') {
        bad("a packet is written in hexadecimal digits, and '*' for those that do not count");
      }
    }
    made.nibbles = digits;
    expected_[to].push_back(std::move(made));
    ++result_.expected;
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
    const std::uint32_t node = stf::number(word(words, 0));
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
    const std::uint32_t node = stf::number(word(words, 1));
    if (node >= nodes_.size()) {
      bad(fmt::format("there is no node {}", node));
    }
    groups_[group].push_back(node);
    set_group(group);
  }

  // The index of NAME INDEX ....
  std::uint32_t element(const std::vector<std::string>& words) {
    const RegisterState& reg = switch_.state().reg(word(words, 0));
    const std::uint32_t index = stf::number(word(words, 1));
    if (index >= reg.size()) {
      bad(fmt::format("{} has {} elements; there is no index {}", words[0], reg.size(), index));
    }
    return index;
  }

  U128 element_value(const std::string& name, const std::string& text) {
    const auto which = static_cast<std::size_t>(&switch_.state().reg(name) - switch_.state().registers.data());
    const unsigned width = switch_.program().info().registers[which].width;
    const U128 made = stf::data_value(text, width);
    if (made > ones(width)) {
      bad(fmt::format("an element of {} has {} bits; the value {} does not fit", name, width, text));
    }
    return made;
  }

  // register_read NAME INDEX [VALUE]
  void check_register(const std::vector<std::string>& words) {
    const U128 is = switch_.state().reg(word(words, 0)).read(element(words));
    if (words.size() > 2 && element_value(words[0], words[2]) != is) {
      failed(line_,
             fmt::format("{}[{}] is {:#x}, not {}", words[0], words[1], static_cast<std::uint64_t>(is), words[2]));
    }
  }

  void add(const stf::NamedEntry& made) {
    const EntryHandle handle = switch_.state().tables[made.table].add(made.entry);
    if (!made.name.empty()) {
      entries_[without_dollar(made.name)] = {made.table, handle};
    }
  }

  // "add ... = NAME" and "$NAME" are the same entry.
  static std::string without_dollar(const std::string& name) { return name.starts_with('$') ? name.substr(1) : name; }

  // The number of an element, or of the entry with this name.
  std::uint32_t counted_number(const std::string& counter, const std::string& text) {
    const std::vector<std::string> words = stf::split(text);
    if (words.size() != 1 || std::isdigit(static_cast<unsigned char>(words[0].front())) != 0) {
      return stf::number(text);
    }
    const auto entry = entries_.find(without_dollar(words[0]));
    if (entry == entries_.end()) {
      bad("there is no entry '" + words[0] + "'");
    }
    State& state = switch_.state();
    const auto which = static_cast<std::size_t>(&state.counter(counter) - state.counters.data());
    if (switch_.program().info().counters[which].table != static_cast<int>(entry->second.table)) {
      bad(fmt::format("'{}' is no entry of the table that {} counts", words[0], counter));
    }
    return entry->second.entry;
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

  // check_counter NAME(INDEX) [packets|bytes CONDITION NUMBER], or of a direct counter NAME($ENTRY)
  void check_counter(const std::string& rest) {
    const stf::Call counter = stf::call(rest);
    const std::vector<std::string> words = stf::split(counter.after);
    const std::string& name = counter.name;
    const std::uint32_t index = counted_number(name, counter.arguments);
    const Count& count = counted(name, index);
    if (words.empty()) {
      return;
    }
    if (words[0] != "packets" && words[0] != "bytes") {
      bad("a counter has 'packets' and 'bytes', no '" + words[0] + "'");
    }
    if (words.size() > 3) {
      bad("'" + words[3] + "' is too much after the number");
    }
    const std::uint64_t is = words[0] == "bytes" ? count.bytes : count.packets;
    const std::string& condition = word(words, 1);
    const U128 wanted = stf::value(word(words, 2));
    if (!is_condition(condition)) {
      bad("'" + condition + "' is none of ==, !=, <, <=, > and >=");
    }
    const bool holds = condition == "=="   ? is == wanted
                       : condition == "!=" ? is != wanted
                       : condition == "<=" ? is <= wanted
                       : condition == "<"  ? is < wanted
                       : condition == ">=" ? is >= wanted
                                           : is > wanted;
    if (!holds) {
      failed(line_,
             fmt::format("{}({}) has counted {} {}, expected {} {}", name, index, is, words[0], condition, words[2]));
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
  struct Handle {
    std::size_t table;
    EntryHandle entry;
  };
  std::map<std::string, Handle> entries_;  // that the test has given names
  std::size_t nothing_expected_ = 0;
};

}  // namespace

StfResult run_stf(const std::shared_ptr<const Program>& program, const std::string& text, const std::string& name) {
  return Runner(program, name).run(text);
}

}  // namespace sidelatch::p4

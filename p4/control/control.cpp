#include <sidelatch/p4/control.h>

#include "common/json_reason.h"
#include "p4/control/value.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>

namespace sidelatch::p4 {

namespace {

using Json = nlohmann::json;

constexpr std::uint16_t kMostGeneratorPort = 510;  // 511 as egress_spec is a drop
constexpr std::size_t kMostGeneratedBytes = 10'240;

class ControlReader {
 public:
  ControlReader(const std::string& file, const ProgramInfo& info, const std::vector<std::uint16_t>& ports)
      : file_(file), info_(info), ports_(ports) {}

  [[nodiscard]] Control read(const std::string& text) {
    const Json whole = parse(text);
    known(whole, "", {"tables", "registers", "counters", "multicast", "clones", "generators"});
    for (const TableInfo& table : info_.tables) {
      control_.tables.emplace_back(table);
    }
    each(whole, "tables", [this](const auto& name, const Json& value, const auto& at) { table(name, value, at); });
    each(whole, "registers", [this](const auto& name, const Json& value, const auto& at) { reg(name, value, at); });
    each(whole, "multicast", [this](const auto& name, const Json& value, const auto& at) { group(name, value, at); });
    each(whole, "clones", [this](const auto& name, const Json& value, const auto& at) { session(name, value, at); });
    each(whole, "generators",
         [this](const auto& name, const Json& value, const auto& at) { generator(name, value, at); });
    if (whole.contains("counters")) {
      counters(whole["counters"]);
    }
    return std::move(control_);
  }

 private:
  [[noreturn]] void fail(const std::string& at, std::string_view why) const {
    throw std::invalid_argument(fmt::format("{}: {}: {}", file_, at.empty() ? "/" : at, why));
  }

  // What `work` refuses gets its place.
  template <class Work>
  auto placed(const std::string& at, Work work) const {
    try {
      return work();
    } catch (const ControlError& error) {
      fail(at, error.what());
    }
  }

  // Of two members with the same name nlohmann-json would keep one and say nothing.
  [[nodiscard]] Json parse(const std::string& text) const {
    std::vector<std::set<std::string>> open;
    const auto watch = [&](int /*depth*/, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::object_start) {
        open.emplace_back();
      } else if (event == Json::parse_event_t::object_end) {
        open.pop_back();
      } else if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second) {
        throw std::invalid_argument(
            fmt::format("{}: \"{}\" is given twice in one object: keep one of them", file_, parsed.get<std::string>()));
      }
      return true;
    };
    try {
      return Json::parse(text, watch);
    } catch (const Json::parse_error& error) {
      throw std::invalid_argument(fmt::format("{}: {}", file_, json_reason(error.what())));
    }
  }

  void known(const Json& value, const std::string& at, std::initializer_list<std::string_view> names) const {
    if (!value.is_object()) {
      fail(at, fmt::format("this must be an object with any of {}", fmt::join(names, ", ")));
    }
    for (const auto& [name, unused] : value.items()) {
      if (std::ranges::find(names, name) == names.end()) {
        fail(fmt::format("{}/{}", at, name),
             fmt::format("there is no such setting; there are {}", fmt::join(names, ", ")));
      }
    }
  }

  template <class Take>
  void each(const Json& whole, const std::string& name, Take take) const {
    if (!whole.contains(name)) {
      return;
    }
    const std::string at = "/" + name;
    if (!whole[name].is_object()) {
      fail(at, "this must be an object: names, and what is set");
    }
    for (const auto& [key, value] : whole[name].items()) {
      take(key, value, fmt::format("{}/{}", at, key));
    }
  }

  template <class Info>
  [[nodiscard]] std::size_t find(const std::vector<Info>& infos, const std::string& name, std::string_view kind,
                                 const std::string& at) const {
    std::vector<std::string> names;
    names.reserve(infos.size());
    for (const Info& info : infos) {
      names.push_back(info.name);
    }
    return placed(at, [&] { return State::find_name(names, name, kind); });
  }

  [[nodiscard]] std::string text_in(const Json& value, const std::string& at) const {
    if (value.is_string()) {
      return value.get<std::string>();
    }
    if (value.is_number_unsigned()) {
      return std::to_string(value.get<std::uint64_t>());
    }
    if (value.is_boolean()) {
      return value.get<bool>() ? "1" : "0";
    }
    fail(at, "this must be a whole number from 0 on, true, false, or a text such as \"0x12\"");
  }

  [[nodiscard]] U128 value_in(const Json& value, const std::string& at) const {
    const std::string text = text_in(value, at);
    return placed(at, [&] { return control_value(text); });
  }

  template <class Number>
  [[nodiscard]] Number small(const Json& value, const std::string& at, Number least = 0) const {
    const U128 number = value_in(value, at);
    if (number < least || number > std::numeric_limits<Number>::max()) {
      fail(at, fmt::format("this must be {} to {}", least, std::numeric_limits<Number>::max()));
    }
    return static_cast<Number>(number);
  }

  [[nodiscard]] std::uint16_t port_in(const Json& value, const std::string& at) const {
    const auto port = small<std::uint16_t>(value, at);
    if (std::ranges::find(ports_, port) == ports_.end()) {
      fail(at, fmt::format("the switch has no port {}; it has {}", port, fmt::join(ports_, ", ")));
    }
    return port;
  }

  // As the program writes it, or as the control plane does. A name that @name has given stays as it is.
  [[nodiscard]] static std::string plain(const std::string& name, const std::vector<std::string>& known) {
    constexpr std::string_view kIsValid = "isValid()";
    if (!name.ends_with(kIsValid) ||
        std::ranges::any_of(known, [&](const std::string& one) { return one == name || one.ends_with("." + name); })) {
      return name;
    }
    return name.substr(0, name.size() - kIsValid.size()) + "$valid$";
  }

  // The members of `value` in the order of `names`: an array, or an object with these names.
  template <class Named>
  [[nodiscard]] std::vector<std::pair<Json, std::string>> ordered(const Json& value, const std::vector<Named>& names,
                                                                  const std::string& at, std::string_view what) const {
    std::vector<std::pair<Json, std::string>> result;
    std::vector<std::string> known_names;
    known_names.reserve(names.size());
    for (const Named& one : names) {
      known_names.push_back(one.name);
    }
    const std::string wanted = names.empty() ? "none" : fmt::format("{}", fmt::join(known_names, ", "));
    if (!(value.is_array() || value.is_object()) || value.size() != names.size()) {
      fail(at, fmt::format("this must be an array or an object of {} {}: {}", names.size(), what, wanted));
    }
    result.resize(names.size());
    std::vector<bool> given(names.size());
    std::size_t next = 0;
    for (const auto& [name, one] : value.items()) {
      const std::string place = fmt::format("{}/{}", at, name);
      const std::size_t i = value.is_array() ? next++ : placed(place, [&] {
        return State::find_name(known_names, plain(name, known_names), what);
      });
      if (given[i]) {
        fail(place, fmt::format("{} is given twice, by two names: keep one of them", known_names[i]));
      }
      given[i] = true;
      result[i] = {one, place};
    }
    return result;
  }

  [[nodiscard]] ActionCall call_in(const TableInfo& table, const Json& value, const std::string& at) const {
    if (!value.contains("action") || !value["action"].is_string()) {
      std::vector<std::string_view> names;
      names.reserve(table.actions.size());
      for (const ActionInfo& action : table.actions) {
        names.push_back(action.name);
      }
      fail(at, fmt::format("it needs an \"action\", one of {}", fmt::join(names, ", ")));
    }
    ActionCall call{.action = find(table.actions, value["action"].get<std::string>(), "action of table " + table.name,
                                   at + "/action"),
                    .arguments = {}};
    const ActionInfo& action = table.actions[call.action];
    const Json arguments = value.contains("arguments") ? value["arguments"] : Json::array();
    for (const auto& [one, place] : ordered(arguments, action.parameters, at + "/arguments", "arguments")) {
      call.arguments.push_back(value_in(one, place));
    }
    return call;
  }

  [[nodiscard]] std::vector<ActionCall> group_in(const TableInfo& table, const Json& value,
                                                 const std::string& at) const {
    const std::string place = at + "/group";
    const Json& group = value["group"];
    if (value.contains("action") || value.contains("arguments")) {
      fail(at, R"(it has a "group", so its actions are there)");
    }
    if (!group.is_array() || group.empty()) {
      fail(place, R"(this must be an array of {"action": ..., "arguments": ...})");
    }
    std::vector<ActionCall> calls;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::string member = fmt::format("{}/{}", place, i);
      known(group[i], member, {"action", "arguments"});
      calls.push_back(call_in(table, group[i], member));
    }
    return calls;
  }

  void require_once(std::set<std::size_t>& seen, std::size_t number, const char* what, const std::string& name,
                    const std::string& at) const {
    if (!seen.insert(number).second) {
      fail(at, fmt::format("the {} {} is given twice, by two names: keep one of them", what, name));
    }
  }

  void table(const std::string& name, const Json& value, const std::string& at) {
    known(value, at, {"default", "entries"});
    const std::size_t number = find(info_.tables, name, "table", at);
    require_once(seen_tables_, number, "table", info_.tables[number].name, at);
    const TableInfo& table = info_.tables[number];
    TableState& state = control_.tables[number];
    if (value.contains("default")) {
      known(value["default"], at + "/default", {"action", "arguments"});
      const ActionCall call = call_in(table, value["default"], at + "/default");
      placed(at + "/default", [&] { state.set_default(table.actions[call.action].name, call.arguments); });
    }
    if (!value.contains("entries")) {
      return;
    }
    if (!value["entries"].is_array()) {
      fail(at + "/entries", "this must be an array of entries");
    }
    for (std::size_t i = 0; i < value["entries"].size(); ++i) {
      entry(table, state, value["entries"][i], fmt::format("{}/entries/{}", at, i));
    }
  }

  void entry(const TableInfo& table, TableState& state, const Json& value, const std::string& at) const {
    known(value, at, {"keys", "action", "arguments", "group", "priority"});
    if (!value.contains("keys")) {
      fail(at, "it needs \"keys\"");
    }
    if (table.keys.empty()) {
      fail(at, fmt::format("the table {} has no keys, so that no entry matches: it has only a default", table.name));
    }
    Entry made;
    const auto keys = ordered(value["keys"], table.keys, at + "/keys", "keys");
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::string text = text_in(keys[i].first, keys[i].second);
      made.keys.push_back(placed(keys[i].second, [&] { return control_match(table.keys[i], text); }));
    }
    if (value.contains("group")) {
      made.group = group_in(table, value, at);
    } else {
      ActionCall call = call_in(table, value, at);
      made.action = call.action;
      made.arguments = std::move(call.arguments);
    }
    if (value.contains("priority")) {
      const auto has_priorities = [](const KeyInfo& key) {
        return key.kind == MatchKind::ternary || key.kind == MatchKind::range || key.kind == MatchKind::optional;
      };
      if (std::ranges::none_of(table.keys, has_priorities)) {
        fail(at + "/priority",
             fmt::format("table {} has no ternary, range or optional key, so of its entries only one matches",
                         table.name));
      }
      made.priority = static_cast<int>(small<std::uint16_t>(value["priority"], at + "/priority"));
    }
    placed(at, [&] { state.add(made); });
  }

  void reg(const std::string& name, const Json& value, const std::string& at) {
    const std::size_t number = find(info_.registers, name, "register", at);
    const RegisterInfo& info = info_.registers[number];
    require_once(seen_registers_, number, "register", info.name, at);
    const auto write = [&](std::uint64_t index, const Json& one, const std::string& place) {
      const U128 wanted = value_in(one, place);
      if (index >= info.size) {
        fail(place, fmt::format("the register {} has the indexes 0 to {}", info.name, info.size - 1));
      }
      if (info.width < 128 && (wanted >> info.width) != 0) {
        fail(place, fmt::format("the register {} has {} bits; the value does not fit", info.name, info.width));
      }
      control_.registers.push_back({number, index, wanted});
    };
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        write(i, value[i], fmt::format("{}/{}", at, i));
      }
    } else if (value.is_object()) {
      for (const auto& [index, one] : value.items()) {
        const std::string place = fmt::format("{}/{}", at, index);
        write(small<std::uint64_t>(Json(index), place), one, place);
      }
    } else {
      fail(at, "this must be an array of values from index 0 on, or an object of indexes and values");
    }
  }

  void counters(const Json& value) {
    if (!value.is_array()) {
      fail("/counters", "this must be an array of names of counters");
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string at = fmt::format("/counters/{}", i);
      control_.counters.push_back(find(info_.counters, text_in(value[i], at), "counter", at));
    }
  }

  void group(const std::string& name, const Json& value, const std::string& at) {
    const auto number = small<std::uint16_t>(Json(name), at, 1);
    if (control_.groups.contains(number)) {
      fail(at, fmt::format("the multicast group {} is given twice, by two numbers: keep one of them", number));
    }
    if (!value.is_array() || value.empty()) {
      fail(at, R"(this must be an array of ports, or of {"port": P, "rid": R})");
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string place = fmt::format("{}/{}", at, i);
      MulticastMember member;
      if (value[i].is_object()) {
        known(value[i], place, {"port", "rid"});
        if (!value[i].contains("port")) {
          fail(place, "it needs a \"port\"");
        }
        member.port = port_in(value[i]["port"], place + "/port");
        member.rid =
            value[i].contains("rid") ? small<std::uint16_t>(value[i]["rid"], place + "/rid") : std::uint16_t{0};
      } else {
        member.port = port_in(value[i], place);
      }
      control_.groups[number].push_back(member);
    }
  }

  void session(const std::string& name, const Json& value, const std::string& at) {
    known(value, at, {"port", "group"});
    CloneSession clone;
    if (value.contains("port")) {
      clone.port = port_in(value["port"], at + "/port");
    }
    if (value.contains("group")) {
      clone.group = small<std::uint16_t>(value["group"], at + "/group", 1);
      if (!control_.groups.contains(*clone.group)) {
        fail(at + "/group", fmt::format("there is no multicast group {}; add it to /multicast", *clone.group));
      }
    }
    if (!clone.port && !clone.group) {
      fail(at, R"(it needs a "port" or a "group")");
    }
    const auto number = small<std::uint32_t>(Json(name), at);
    if (!control_.sessions.emplace(number, clone).second) {
      fail(at, fmt::format("the clone session {} is given twice, by two numbers: keep one of them", number));
    }
  }

  void generator(const std::string& name, const Json& value, const std::string& at) {
    known(value, at, {"port", "interval_ns", "packet"});
    for (const char* const needed : {"port", "interval_ns", "packet"}) {
      if (!value.contains(needed)) {
        fail(at, fmt::format("it needs a \"{}\"", needed));
      }
    }
    Generator made;
    made.port = small<std::uint16_t>(value["port"], at + "/port");
    if (made.port > kMostGeneratorPort || std::ranges::find(ports_, made.port) != ports_.end()) {
      fail(at + "/port",
           fmt::format("a generator has a port of its own, 0 to {}, that leads nowhere; {} lead somewhere",
                       kMostGeneratorPort, fmt::join(ports_, ", ")));
    }
    made.interval = small<std::uint64_t>(value["interval_ns"], at + "/interval_ns", 1);
    made.packet = packet_in(value["packet"], at + "/packet");
    const auto number = small<std::uint32_t>(Json(name), at);
    if (!control_.generators.emplace(number, std::move(made)).second) {
      fail(at, fmt::format("the generator {} is given twice, by two numbers: keep one of them", number));
    }
  }

  [[nodiscard]] std::vector<std::byte> packet_in(const Json& value, const std::string& at) const {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    if (text.empty() || text.size() % 2 != 0 || text.size() / 2 > kMostGeneratedBytes ||
        text.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      fail(at, fmt::format("this must be the bytes of a packet, 1 to {}, as a text of two hexadecimal digits each",
                           kMostGeneratedBytes));
    }
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < text.size(); i += 2) {
      bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
    }
    return bytes;
  }

  const std::string& file_;
  const ProgramInfo& info_;
  const std::vector<std::uint16_t>& ports_;
  Control control_;
  std::set<std::size_t> seen_tables_;
  std::set<std::size_t> seen_registers_;
};

void keep_counts(TableState& table, const TableState& before) {
  for (const TableState::Row& old : before.rows()) {
    if (old.count == Count{}) {
      continue;
    }
    if (const TableState::Row* const row = table.same_entry(old); row != nullptr) {
      *table.count(row->handle) = old.count;
    }
  }
}

}  // namespace

Control read_control(const std::string& text, const std::string& file, const ProgramInfo& info,
                     const std::vector<std::uint16_t>& ports) {
  return ControlReader(file, info, ports).read(text);
}

void apply(const Control& control, Switch& device, const Control* before) {
  std::vector<TableState> tables = control.tables;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    keep_counts(tables[i], device.state().tables[i]);
  }
  device.state().tables = std::move(tables);
  for (const RegisterWrite& write : control.registers) {
    device.state().registers[write.reg].write(write.index, write.value);
  }
  if (before != nullptr) {
    for (const auto& [number, unused] : before->groups) {
      device.set_multicast_group(number, {});
    }
    for (const auto& [number, unused] : before->sessions) {
      device.set_clone_session(number, {});
    }
    for (const auto& [number, unused] : before->generators) {
      device.remove_generator(number);
    }
  }
  for (const auto& [number, members] : control.groups) {
    device.set_multicast_group(number, members);
  }
  for (const auto& [number, clone] : control.sessions) {
    device.set_clone_session(number, clone);
  }
  for (const auto& [number, generator] : control.generators) {
    device.set_generator(number, generator);
  }
}

}  // namespace sidelatch::p4

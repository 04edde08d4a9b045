#include "switch_report.h"

#include "json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace sidelatch::tools {

SwitchReport report_of(p4::WiredSwitch& device, const p4::ProgramInfo& info, const std::vector<std::size_t>& counters) {
  SwitchReport report{
      .program = info.name, .ports = {}, .drops = {}, .counters = {}, .printed = {}, .sleeps = device.sleeps()};
  for (std::size_t i = 0; i < device.ports().size(); ++i) {
    report.ports.push_back({device.ports()[i], device.counters(i)});
  }
  for (std::size_t i = 0; i < p4::kDrops; ++i) {
    const auto reason = static_cast<p4::Drop>(i);
    report.drops.emplace_back(p4::name(reason), device.drops(reason));
  }
  const p4::State& state = device.device().state();
  for (const std::size_t number : counters) {
    const p4::CounterInfo& counter = info.counters[number];
    report.printed.push_back(counter.name);
    const auto add = [&](std::size_t index, const p4::Count& count) {
      if (!(count == p4::Count{})) {
        report.counters.push_back({counter.name, index, count});
      }
    };
    if (counter.table >= 0) {
      const auto& rows = state.tables[static_cast<std::size_t>(counter.table)].rows();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        add(i, rows[i].count);
      }
    } else {
      for (std::size_t i = 0; i < state.counters[number].size(); ++i) {
        add(i, state.counters[number][i]);
      }
    }
  }
  return report;
}

std::string to_text(const SwitchReport& report) {
  std::size_t width = 4;
  for (const SwitchReport::Line& line : report.ports) {
    width = std::max(width, line.port.wire.size());
  }
  std::string text = fmt::format("{:>4}  {:<{}}  {:>12} {:>15}  {:>12} {:>15}  {:>9}\n", "port", "wire", width,
                                 "packets in", "bytes in", "packets out", "bytes out", "dropped");
  bool faults = false;
  for (const auto& [port, counters] : report.ports) {
    text +=
        fmt::format("{:>4}  {:<{}}  {:>12} {:>15}  {:>12} {:>15}  {:>9}\n", port.number, port.wire, width,
                    counters.packets_in, counters.bytes_in, counters.packets_out, counters.bytes_out, counters.dropped);
    faults = faults || counters.lost + counters.duplicated + counters.reordered != 0;
  }
  if (faults) {
    for (const auto& [port, counters] : report.ports) {
      text += fmt::format("injected faults at port {}: {} lost, {} duplicated, {} reordered\n", port.number,
                          counters.lost, counters.duplicated, counters.reordered);
    }
  }
  std::string drops;
  for (const auto& [reason, count] : report.drops) {
    if (count != 0) {
      drops += fmt::format("{}{} {}", drops.empty() ? "" : ", ", reason, count);
    }
  }
  text += fmt::format("drops in the switch: {}\n", drops.empty() ? "none" : drops);
  for (const SwitchReport::CounterLine& line : report.counters) {
    text += fmt::format("{}[{}]: {} packets, {} bytes\n", line.name, line.index, line.count.packets, line.count.bytes);
  }
  return text;
}

std::string to_json(const SwitchReport& report) {
  nlohmann::ordered_json json{{"program", report.program}, {"ports", nlohmann::ordered_json::array()}};
  for (const auto& [port, counters] : report.ports) {
    json["ports"].push_back(
        {{"port", port.number},
         {"wire", port.wire},
         {"packets_in", counters.packets_in},
         {"bytes_in", counters.bytes_in},
         {"packets_out", counters.packets_out},
         {"bytes_out", counters.bytes_out},
         {"dropped", counters.dropped},
         {"injected",
          {{"lost", counters.lost}, {"duplicated", counters.duplicated}, {"reordered", counters.reordered}}}});
  }
  for (const auto& [reason, count] : report.drops) {
    json["drops"][reason] = count;
  }
  json["counters"] = nlohmann::ordered_json::object();
  for (const std::string& name : report.printed) {
    json["counters"][name] = nlohmann::ordered_json::array();
  }
  for (const SwitchReport::CounterLine& line : report.counters) {
    json["counters"][line.name].push_back(
        {{"index", line.index}, {"packets", line.count.packets}, {"bytes", line.count.bytes}});
  }
  json["sleeps"] = report.sleeps;
  return text_of(json) + "\n";
}

}  // namespace sidelatch::tools

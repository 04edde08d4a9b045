#include "flow_report.h"

#include "json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sidelatch::tools {

namespace {

double rate(std::uint64_t items, double seconds) { return seconds > 0 ? static_cast<double>(items) / seconds : 0; }

std::string with_unit(double value) {
  if (value >= 1e6) {
    return fmt::format("{:.2f} M", value / 1e6);
  }
  return value >= 1e3 ? fmt::format("{:.1f} k", value / 1e3) : fmt::format("{:.0f}", value);
}

// A flow's rate is that of its items, however many copies there are.
std::uint64_t moved(const FlowReport& report) {
  if (report.task.kind != flows::FlowKind::replicate) {
    return report.items();
  }
  std::uint64_t most = 0;
  for (const FlowReport::Consumer& consumer : report.consumers) {
    most = std::max(most, consumer.items);
  }
  return most;
}

std::string rates(const FlowReport& report, std::uint64_t items, double seconds) {
  const double per_second = rate(items, seconds);
  return fmt::format("{} items/s, {:.1f} MB/s", with_unit(per_second), per_second * report.task.shape.item_bytes / 1e6);
}

// "1:1", "shuffle 2:3".
std::string title(const FlowTask& task) {
  const std::string name = name_of(task);
  return name == "1:1" ? name : fmt::format("{} {}:{}", name, task.producers, task.consumers);
}

const char* promise(const FlowTask& task) {
  switch (task.kind) {
    case flows::FlowKind::shuffle:
      return "each item came once and whole, to its consumer, in its producer's order";
    case flows::FlowKind::balance:
      return "each item came once and whole, to one of the consumers, in its producer's order";
    case flows::FlowKind::replicate:
      return "each item came once and whole to each consumer, to all in the same order";
  }
  return "";
}

}  // namespace

std::uint64_t FlowReport::items() const noexcept {
  std::uint64_t all = 0;
  for (const Consumer& consumer : consumers) {
    all += consumer.items;
  }
  return all;
}

std::string name_of(const FlowTask& task) {
  switch (task.kind) {
    case flows::FlowKind::shuffle:
      return task.producers == 1 && task.consumers == 1 ? "1:1" : "shuffle";
    case flows::FlowKind::balance:
      return "balance";
    case flows::FlowKind::replicate:
      return "replicate";
  }
  return "";
}

std::string to_text(const FlowReport& report) {
  const FlowTask& task = report.task;
  std::string text = fmt::format("{}: {} items of {} bytes in {:.2f} s: {}\n", title(task), moved(report),
                                 task.shape.item_bytes, report.seconds, rates(report, moved(report), report.seconds));
  if (task.consumers > 1) {
    for (std::size_t i = 0; i < report.consumers.size(); ++i) {
      text += fmt::format("consumer {:>2}: {:>12} items\n", i, report.consumers[i].items);
    }
  }
  if (report.joined + report.left + report.killed != 0) {
    text +=
        fmt::format("units while it ran: {} joined, {} left, {} killed\n", report.joined, report.left, report.killed);
  }
  if (report.lost + report.duplicated + report.reordered != 0) {
    text += fmt::format("injected faults: {} packets lost, {} duplicated, {} reordered\n", report.lost,
                        report.duplicated, report.reordered);
  }
  for (const std::string& violation : report.violations) {
    text += violation + "\n";
  }
  if (report.violations.empty()) {
    text += report.has_ended ? promise(task) : "interrupted; what came until then was right";
    text += report.has_ended && report.killed != 0 ? ", but for what died with units that were killed" : "";
    text += "\n";
  }
  return text;
}

std::string to_json(const FlowReport& report) {
  const FlowTask& task = report.task;
  const double per_second = rate(moved(report), report.seconds);
  nlohmann::ordered_json json{
      {"kind", name_of(task)},
      {"producers", report.producers},
      {"consumers", nlohmann::ordered_json::array()},
      {"item_bytes", task.shape.item_bytes},
      {"slots", task.shape.slots},
      {"items", moved(report)},
      {"seconds", report.seconds},
      {"items_per_second", per_second},
      {"bytes_per_second", per_second * task.shape.item_bytes},
      {"units", {{"joined", report.joined}, {"left", report.left}, {"killed", report.killed}}},
      {"injected", {{"lost", report.lost}, {"duplicated", report.duplicated}, {"reordered", report.reordered}}},
      {"ended", report.has_ended},
      {"violations", report.violations}};
  for (const FlowReport::Consumer& consumer : report.consumers) {
    json["consumers"].push_back({{"items", consumer.items}, {"batch_items", consumer.batch_items}});
  }
  return text_of(json) + "\n";
}

std::string live_text(const FlowReport& now, const FlowReport& before) {
  const double seconds = now.seconds - before.seconds;
  std::string text =
      fmt::format("{}: {}, {:.0f} s\n", title(now.task), rates(now, moved(now) - moved(before), seconds), now.seconds);
  text += fmt::format("{:<12} {:>12} {:>12} {:>12}\n", "", "items", "items/s", "batch");
  const auto line = [&](const char* who, std::size_t i, std::uint64_t items, std::uint64_t earlier, std::string batch) {
    text += fmt::format("{:<12} {:>12} {:>12} {:>12}\n", fmt::format("{} {}", who, i), items,
                        with_unit(rate(items - earlier, seconds)), batch);
  };
  for (std::size_t i = 0; i < now.producers.size(); ++i) {
    line("producer", i, now.producers[i], i < before.producers.size() ? before.producers[i] : 0, "");
  }
  for (std::size_t i = 0; i < now.consumers.size(); ++i) {
    line("consumer", i, now.consumers[i].items, i < before.consumers.size() ? before.consumers[i].items : 0,
         std::to_string(now.consumers[i].batch_items));
  }
  return text;
}

}  // namespace sidelatch::tools

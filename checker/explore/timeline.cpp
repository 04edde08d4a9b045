#include "timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace sidelatch::explore {

namespace {

constexpr std::uint64_t kLine = 64;

std::uint64_t line_at(const std::string& address) { return std::stoull(address, nullptr, 16) / kLine * kLine; }

bool is_nic(const TraceStep& step) { return step.actor.starts_with("NIC of "); }

}  // namespace

Timeline timeline_of(const Violation& violation) {
  Timeline timeline;
  const auto column = [&](const std::string& title, Timeline::Lane lane) {
    const auto found = std::ranges::find(timeline.columns, title, &Timeline::Column::title);
    if (found != timeline.columns.end()) {
      return static_cast<std::size_t>(found - timeline.columns.begin());
    }
    timeline.columns.push_back({title, lane});
    return timeline.columns.size() - 1;
  };
  for (const bool nics : {false, true}) {
    for (const TraceStep& step : violation.trace) {
      if (is_nic(step) == nics) {
        static_cast<void>(column(step.actor, nics ? Timeline::Lane::nic : Timeline::Lane::client));
      }
    }
  }
  std::set<std::uint64_t> lines;
  for (const TraceStep& step : violation.trace) {
    if (!step.target.empty()) {
      lines.insert(line_at(step.target));
    }
  }
  const auto title_of = [](std::uint64_t line) { return fmt::format("line {:#x}", line); };
  for (const std::uint64_t line : lines) {
    static_cast<void>(column(title_of(line), Timeline::Lane::line));
  }
  for (const TraceStep& step : violation.trace) {
    Timeline::Row& row = timeline.rows.emplace_back();
    row.actor = column(step.actor, Timeline::Lane::client);
    row.text = step.action;
    if (!step.wr.empty()) {
      row.text += " " + step.wr;
    }
    if (!step.value.empty() && step.target.empty()) {
      row.text += ": " + step.value;
    }
    if (!step.target.empty()) {
      row.line = column(title_of(line_at(step.target)), Timeline::Lane::line);
      row.words = step.value;
      row.is_change = step.action != "sample" && step.action != "load" && !step.action.starts_with("loads") &&
                      !step.action.starts_with("sees") && !step.action.starts_with("waits");
    }
    row.rule = step.rule;
    row.note = step.note;
  }
  return timeline;
}

}  // namespace sidelatch::explore

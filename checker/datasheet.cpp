#include <sidelatch/checker/datasheet.h>
#include <sidelatch/checker/schemes.h>

#include "named_json.h"

#include "common/json_reason.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>

namespace sidelatch::checker {

namespace {

using nlohmann::ordered_json;

// A rate or a latency, as its unit says.
struct Rate {
  double value = 0;
  std::string unit;
};

constexpr std::string_view kLockTable = "lock table";

// The part of a check that measures it, of kParts.
std::string_view part_of_rate(std::string_view rate) { return rate.starts_with(kLockTable) ? "lock-table" : "rates"; }
std::string_view part_of_scheme(std::string_view scheme) {
  const std::span<const SchemeEntry> known = schemes();
  const auto entry = std::ranges::find(known, scheme, &SchemeEntry::name);
  if (entry != known.end() && (entry->kind == Kind::latch || entry->kind == Kind::queue)) {
    return "latches";
  }
  return scheme == "broken/bookend" ? "torn-reads" : "schemes";
}

std::map<std::string, std::string> verdicts_of(const ordered_json& datasheet) {
  std::map<std::string, std::string> verdicts;
  for (const ordered_json& scheme : datasheet.at("schemes")) {
    verdicts[scheme.at("scheme").get<std::string>()] = scheme.at("verdict").get<std::string>();
  }
  return verdicts;
}

std::map<std::string, Rate> rates_of(const ordered_json& datasheet) {
  std::map<std::string, Rate> rates;
  const ordered_json& table = datasheet.at("lock_table");
  if (!table.is_null()) {
    rates[fmt::format("{}, one slot", kLockTable)] = {table.at("contended_mops").get<double>(), "Mops/s"};
    rates[fmt::format("{}, many slots", kLockTable)] = {table.at("uncontended_mops").get<double>(), "Mops/s"};
  }
  for (const ordered_json& series : datasheet.at("series")) {
    for (const ordered_json& point : series.at("points")) {
      if (!point.at("y").is_null()) {
        const std::string what = fmt::format("{}, {} {:g}", series.at("name").get<std::string>(),
                                             series.at("x").get<std::string>(), point.at("x").get<double>());
        rates[what] = {point.at("y").get<double>(), series.at("unit").get<std::string>()};
      }
    }
  }
  return rates;
}

template <class Read>
auto named(std::string_view which, const ordered_json& datasheet, Read read) {
  try {
    return read(datasheet);
  } catch (const ordered_json::exception& error) {
    throw std::invalid_argument(
        fmt::format("the {} datasheet cannot be compared: {}", which, json_reason(error.what())));
  }
}

// A rate should be high, a latency low.
bool is_worse(const Rate& old, const Rate& now, double tolerance) {
  return old.unit == "us" ? now.value > old.value * (1 + tolerance) : now.value < old.value * (1 - tolerance);
}

}  // namespace

ordered_json parse_datasheet(std::string_view file, std::string_view text) {
  ordered_json json = parse_named_json(file, text, "save the datasheet again (sidelatch check --out)");
  const ordered_json schema = json.is_object() ? json.value("schema", ordered_json::object()) : ordered_json::object();
  const bool is_datasheet = schema.is_object() && schema.value("name", ordered_json()) == kDatasheetSchema &&
                            schema.value("version", ordered_json()).is_number_integer();
  if (!is_datasheet) {
    throw std::invalid_argument(fmt::format(
        "{}: this is no datasheet (its schema is not {}): make one by sidelatch check --out", file, kDatasheetSchema));
  }
  const auto version = schema["version"].get<std::int64_t>();
  if (version != kDatasheetVersion) {
    throw std::invalid_argument(fmt::format(
        "{}: a datasheet of version {}, and this sidelatch knows version {}: {}", file, version, kDatasheetVersion,
        version > kDatasheetVersion ? "use the newer one that made it" : "measure again"));
  }
  return json;
}

std::vector<Change> changes_for_the_worse(const ordered_json& old, const ordered_json& now, double tolerance) {
  if (!(tolerance >= 0) || tolerance > 1) {
    throw std::invalid_argument(fmt::format("a tolerance of {}: it must be 0 to 1", tolerance));
  }
  std::vector<Change> changes;
  // The old one first: it comes from a file, and is compared with itself before anything is measured.
  const auto old_verdicts = named("old", old, verdicts_of);
  const auto old_rates = named("old", old, rates_of);
  const auto verdicts = named("new", now, verdicts_of);
  for (const auto& [scheme, before] : old_verdicts) {
    const auto after = verdicts.find(scheme);
    if (after != verdicts.end() && after->second != before) {
      changes.push_back({"scheme " + scheme, fmt::format("{}: {}, was {}", scheme, after->second, before)});
    }
  }
  const auto rates = named("new", now, rates_of);
  for (const auto& [what, before] : old_rates) {
    const auto after = rates.find(what);
    if (after != rates.end() && is_worse(before, after->second, tolerance)) {
      changes.push_back(
          {what, fmt::format("{}: {:.4g} {}, was {:.4g}", what, after->second.value, before.unit, before.value)});
    }
  }
  return changes;
}

ValuesInCommon values_in_common(const ordered_json& old, const ordered_json& now) {
  const auto shared = [](const auto& some, const auto& others) {
    return static_cast<std::size_t>(
        std::ranges::count_if(some, [&](const auto& one) { return others.contains(one.first); }));
  };
  return {.verdicts = shared(named("old", old, verdicts_of), named("new", now, verdicts_of)),
          .rates = shared(named("old", old, rates_of), named("new", now, rates_of))};
}

bool has_values_of(const ordered_json& datasheet, std::span<const std::string> parts) {
  const auto is_wanted = [&](std::string_view part) { return std::ranges::find(parts, part) != parts.end(); };
  const auto verdicts = named("old", datasheet, verdicts_of);
  const auto rates = named("old", datasheet, rates_of);
  return std::ranges::any_of(verdicts, [&](const auto& one) { return is_wanted(part_of_scheme(one.first)); }) ||
         std::ranges::any_of(rates, [&](const auto& one) { return is_wanted(part_of_rate(one.first)); });
}

}  // namespace sidelatch::checker

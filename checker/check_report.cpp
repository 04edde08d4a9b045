// The check's report for people and for programs.
#include <sidelatch/checker/check.h>
#include <sidelatch/checker/datasheet.h>

#include <sidelatch/version.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sidelatch::checker {

namespace {

class Paint {
 public:
  explicit Paint(Colour colour) : on_(colour == Colour::on) {}
  [[nodiscard]] std::string red(std::string_view text) const { return wrap("31", text); }
  [[nodiscard]] std::string green(std::string_view text) const { return wrap("32", text); }
  [[nodiscard]] std::string bold(std::string_view text) const { return wrap("1", text); }

 private:
  [[nodiscard]] std::string wrap(std::string_view code, std::string_view text) const {
    return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  bool on_;
};

std::string verdict_cell(const SchemeReport& scheme, const Paint& paint) {
  std::string padded = fmt::format("{:<13}", name(scheme.verdict));
  switch (scheme.verdict) {
    case Verdict::unsafe:
      return paint.red(padded);
    case Verdict::safe:
      return paint.green(padded);
    case Verdict::not_exercised:
      break;
  }
  return padded;
}

nlohmann::ordered_json evidence_json(const std::optional<TornBlock>& evidence) {
  if (!evidence) {
    return nullptr;
  }
  return {{"slot", evidence->slot}, {"words", evidence->words}};
}

std::string seams_of(const CheckReport& report) {
  const std::uint64_t granularity = report.granularity();
  std::uint64_t later_in_front = 0;
  std::uint64_t later_behind = 0;
  for (const TornReads& probe : report.torn_reads) {
    later_in_front += probe.later_in_front;
    later_behind += probe.later_behind;
  }
  return granularity == 0
             ? ""
             : fmt::format(
                   "  Blocks were mixed at multiples of {} bytes: the later write in front {} times, behind "
                   "{} times.\n",
                   granularity, later_in_front, later_behind);
}

std::string row_of(const Observation& observation, std::size_t width) {
  const std::string head = fmt::format("  {:<{}}  ", observation.name, width);
  if (!observation.skipped.empty()) {
    return fmt::format("{}skipped: {}\n", head, observation.skipped);
  }
  const std::optional<double> bound = bound95(observation);
  const std::string means = bound                                           ? "  at most " + percent_at_most(*bound)
                            : observation.seen > 0 || observation.sensitive ? ""
                                                                            : "  nothing: it would not have been seen";
  return fmt::format("{}{:>9}  {:>9}{}\n", head, observation.chances, observation.seen, means);
}

nlohmann::ordered_json json_of(const Observation& observation) {
  nlohmann::ordered_json json = {{"name", observation.name}};
  if (!observation.skipped.empty()) {
    json["skipped"] = observation.skipped;
    return json;
  }
  const std::optional<double> bound = bound95(observation);
  json["chances"] = observation.chances;
  json["seen"] = observation.seen;
  json["bound95"] = bound ? nlohmann::ordered_json(*bound) : nullptr;
  json["detail"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : observation.detail) {
    json["detail"][name] = value;
  }
  return json;
}

nlohmann::ordered_json json_of(const Environment& environment) {
  const auto known = [](const std::string& value) {
    return value.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
  };
  return {{"firmware", known(environment.firmware)}, {"driver", known(environment.driver)},
          {"kernel", known(environment.kernel)},     {"pcie_link", known(environment.pcie_link)},
          {"cpu", known(environment.cpu)},           {"numa_node", known(environment.numa_node)},
          {"mtu", known(environment.mtu)},           {"relaxed_ordering", known(environment.relaxed_ordering)}};
}

nlohmann::ordered_json json_of(const Series& series) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const Point& point : series.points) {
    points.push_back({{"x", point.x}, {"y", point.y}});
  }
  return {{"name", series.name},       {"title", series.title}, {"x", series.x},   {"x_unit", series.x_unit},
          {"x_scale", series.x_scale}, {"unit", series.unit},   {"points", points}};
}

nlohmann::ordered_json json_of(const GuaranteeReport& guarantee) {
  return {{"guarantee", guarantee.text},
          {"probe", guarantee.probe},
          {"standing", name(guarantee.standing)},
          {"chances", guarantee.chances},
          {"bound95", guarantee.bound95 ? nlohmann::ordered_json(*guarantee.bound95) : nullptr},
          {"why", guarantee.why}};
}

std::optional<std::uint64_t> knee_of(const CheckReport& report) {
  const Series* series = report.find(Curve::read_by_queue_pairs);
  return series == nullptr ? std::nullopt : queue_pair_knee(*series);
}

// One line per curve, with its first, best and last point.
std::string rates_table(const CheckReport& report) {
  std::string text;
  std::size_t width = 0;
  for (const Series& series : report.series) {
    width = std::max(width, series.name.size());
  }
  const auto at = [](const Series& series, const Point& point) {
    std::string unit = series.x_unit.empty() ? series.x : series.x_unit;
    if (point.x == 1 && unit.ends_with('s')) {
      unit.pop_back();
    }
    return fmt::format("{:.4g} {} at {:g} {}", point.y, series.unit, point.x, unit);
  };
  for (const Series& series : report.series) {
    if (series.points.empty()) {
      text += fmt::format("  {:<{}}  nothing measured\n", series.name, width);
      continue;
    }
    const Point& best = *std::ranges::max_element(series.points, {}, &Point::y);
    text += fmt::format("  {:<{}}  {}", series.name, width, at(series, series.points.front()));
    if (best.x != series.points.front().x && best.x != series.points.back().x) {
      text += ", " + at(series, best);
    }
    if (series.points.size() > 1) {
      text += ", " + at(series, series.points.back());
    }
    text += "\n";
  }
  if (const std::optional<std::uint64_t> knee = knee_of(report)) {
    text += fmt::format("  with more than about {} queue pairs of one client its rate falls\n", *knee);
  }
  return text;
}

std::string guarantees_table(const CheckReport& report, const Paint& paint) {
  std::string text;
  for (const GuaranteeReport& guarantee : report.guarantees) {
    const std::string standing = fmt::format("{:<7}", name(guarantee.standing));
    text += fmt::format("  {}  {}: {}\n",
                        guarantee.standing == Standing::kept      ? paint.green(standing)
                        : guarantee.standing == Standing::refuted ? paint.red(standing)
                                                                  : standing,
                        guarantee.text,
                        guarantee.standing == Standing::kept
                            ? fmt::format("0 of {}, at most {}", guarantee.chances, percent_at_most(*guarantee.bound95))
                            : guarantee.why);
  }
  return text;
}

std::string torn_reads_table(const CheckReport& report, const Paint& paint) {
  std::string text =
      fmt::format("{:>8}  {:>9}  {:>11}  {:>9}  {:>11}\n", "block", "reads", "consistent", "detected", "undetected");
  for (const TornReads& probe : report.torn_reads) {
    const std::string undetected = fmt::format("{:>11}", probe.undetected);
    text += fmt::format("{:>6} B  {:>9}  {:>11}  {:>9}  {}\n", probe.block_bytes, probe.reads, probe.consistent,
                        probe.detected, probe.undetected > 0 ? paint.red(undetected) : undetected);
  }
  text += "  detected: header and footer differ. undetected: they agree, and a line between does not.\n";
  text += seams_of(report);
  return text;
}

std::string schemes_table(const CheckReport& report, const Paint& paint) {
  std::string text;
  std::size_t width = 0;
  for (const SchemeReport& scheme : report.schemes) {
    width = std::max(width, scheme.scheme.size());
  }
  for (const SchemeReport& scheme : report.schemes) {
    text += fmt::format("  {:<{}}  {}  {}\n", scheme.scheme, width, verdict_cell(scheme, paint), scheme.evidence);
  }
  text +=
      "  unsafe: a torn value was accepted or an update lost, and the bytes are kept as evidence (--json). safe: the\n"
      "  explorer proves small programs right, assuming the guarantees above (--json lists each scheme's). not\n"
      "  exercised: nothing was seen, which proves nothing.\n";
  return text;
}

}  // namespace

std::string to_table(const CheckReport& report, Colour colour) {
  const Paint paint(colour);
  std::string text;
  const bool simulated = report.fabric == "sim";
  if (simulated) {
    text += fmt::format(
        "Device {} (simulated): this table shows what schemes do under its profile, not what your NIC does.\n",
        report.device);
  } else {
    text += fmt::format("Device {} ({}), memory on {}.\n", report.device, report.fabric, report.memory);
  }
  text += fmt::format("One writer, one reader, a 50 MB ring; {}{:.1f} s.{}\n",
                      simulated ? fmt::format("seed {}, ", report.seed) : "", report.seconds,
                      report.complete ? "" : " Cut short: counts below are what was measured.");
  if (!report.failure.empty()) {
    text += paint.red(fmt::format("Ended by: {}", report.failure)) + "\n";
  }
  if (!report.torn_reads.empty()) {
    text += "\n" + paint.bold("Torn reads: one WRITE per block, one READ per look") + "\n" +
            torn_reads_table(report, paint);
  }
  if (!report.observations.empty()) {
    text += "\n" + paint.bold("Effects that schemes may not allow for") + "\n";
    std::size_t width = 0;
    for (const Observation& observation : report.observations) {
      width = std::max(width, observation.name.size());
    }
    text += fmt::format("  {:<{}}  {:>9}  {:>9}  which means, at 95 %\n", "", width, "chances", "seen");
    for (const Observation& observation : report.observations) {
      text += row_of(observation, width);
    }
  }
  if (report.lock_table) {
    const LockTable& table = *report.lock_table;
    text += "\n" + paint.bold("Lock table of the atomics") + "\n";
    const std::string slots = table.address_bits == 0 ? "no address bit chooses a slot"
                                                      : fmt::format("slot chosen by the low {} address bits, {} slots",
                                                                    table.address_bits, table.slots);
    text += fmt::format("  {}; {:.3g} Mops/s on one word, {:.3g} on many\n", slots, table.contended_mops,
                        table.uncontended_mops);
    if (table.address_bits > 0) {
      text += fmt::format(
          "  words {} bytes apart, or a multiple of it, share a slot: {} bytes more between them cure that\n",
          std::uint64_t{1} << table.address_bits, table.slot_bytes);
    }
  }
  if (!report.series.empty()) {
    text += "\n" + paint.bold("Rates and latencies") + "\n" + rates_table(report);
  }
  if (!report.guarantees.empty()) {
    text += "\n" + paint.bold("Guarantees that proofs build on") + "\n" + guarantees_table(report, paint);
  }
  if (!report.schemes.empty()) {
    text += "\n" + paint.bold("Schemes") + "\n" + schemes_table(report, paint);
  }
  return text;
}

nlohmann::ordered_json to_json(const CheckReport& report) {
  nlohmann::ordered_json json;
  json["schema"] = {{"name", kDatasheetSchema}, {"version", kDatasheetVersion}};
  json["sidelatch"] = kVersion;
  json["device"] = report.device;
  json["fabric"] = report.fabric;
  if (report.fabric == "sim") {
    json["seed"] = report.seed;
  } else {
    json["memory"] = report.memory;
  }
  json["environment"] = json_of(report.environment);
  if (report.fabric == "sim") {
    json["environment"] = {{"relaxed_ordering", report.environment.relaxed_ordering}};
  }
  json["seconds"] = report.seconds;
  json["complete"] = report.complete;
  if (!report.failure.empty()) {
    json["failure"] = report.failure;
  }
  json["probes"] = nlohmann::ordered_json::array();
  for (const TornReads& probe : report.torn_reads) {
    json["probes"].push_back({{"name", "torn-read"},
                              {"size", probe.block_bytes},
                              {"reads", probe.reads},
                              {"consistent", probe.consistent},
                              {"detected", probe.detected},
                              {"undetected", probe.undetected},
                              {"writes", probe.writes},
                              {"granularity", probe.granularity == 0 ? nlohmann::ordered_json(nullptr)
                                                                     : nlohmann::ordered_json(probe.granularity)},
                              {"later_in_front", probe.later_in_front},
                              {"later_behind", probe.later_behind},
                              {"evidence", evidence_json(probe.evidence)}});
  }
  for (const Observation& observation : report.observations) {
    json["probes"].push_back(json_of(observation));
  }
  if (report.lock_table) {
    json["lock_table"] = {{"address_bits", report.lock_table->address_bits},
                          {"slots", report.lock_table->slots},
                          {"slot_bytes", report.lock_table->slot_bytes},
                          {"contended_mops", report.lock_table->contended_mops},
                          {"uncontended_mops", report.lock_table->uncontended_mops}};
  } else {
    json["lock_table"] = nullptr;
  }
  const std::optional<std::uint64_t> knee = knee_of(report);
  json["queue_pair_cache"] = knee ? nlohmann::ordered_json{{"queue_pairs", *knee}} : nlohmann::ordered_json(nullptr);
  json["series"] = nlohmann::ordered_json::array();
  for (const Series& series : report.series) {
    json["series"].push_back(json_of(series));
  }
  json["guarantees"] = nlohmann::ordered_json::array();
  for (const GuaranteeReport& guarantee : report.guarantees) {
    json["guarantees"].push_back(json_of(guarantee));
  }
  json["schemes"] = nlohmann::ordered_json::array();
  for (const SchemeReport& scheme : report.schemes) {
    nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
    for (const SchemeReads& size : scheme.sizes) {
      sizes.push_back({{"size", size.object_bytes},
                       {"reads", size.reads},
                       {"accepted", size.accepted},
                       {"rejected", size.rejected},
                       {"torn", size.torn},
                       {"stuck", size.stuck},
                       {"evidence", evidence_json(size.evidence)}});
    }
    json["schemes"].push_back({{"scheme", scheme.scheme},
                               {"verdict", name(scheme.verdict)},
                               {"known_broken", scheme.known_broken},
                               {"evidence", scheme.evidence},
                               {"assuming", scheme.assuming},
                               {"sizes", sizes}});
  }
  return json;
}

}  // namespace sidelatch::checker

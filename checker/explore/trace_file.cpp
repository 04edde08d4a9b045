#include <sidelatch/explore/trace_file.h>

#include "common/json_reason.h"

#include <sidelatch/explore/scheme_check.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

namespace sidelatch::explore {

using fabric::model::AtomicScope;
using fabric::model::PlacementOrder;
using fabric::model::Rules;

namespace {

constexpr std::array kKinds = {Kind::torn_read,       Kind::lost_update, Kind::mutual_exclusion,
                               Kind::linearizability, Kind::deadlock,    Kind::livelock,
                               Kind::buffer_race,     Kind::assertion,   Kind::exception};

// The values that set_parameter() takes.
nlohmann::ordered_json json_of(const Rules& rules) {
  const auto text = [](bool value) { return value ? "true" : "false"; };
  return {{"one_step_requests", text(rules.one_step_requests)},
          {"placement", rules.placement == PlacementOrder::any ? "any" : "ascending"},
          {"write_write_ordered", text(rules.write_write_ordered)},
          {"atomic_scope", rules.atomic_scope == AtomicScope::global ? "global" : "nic"},
          {"atomics_see_writes", text(rules.atomics_see_writes)},
          {"fence_orders_reads", text(rules.fence_orders_reads)},
          {"atom", fmt::format("{}", rules.atom)}};
}

Kind kind_named(const std::string& text) {
  for (const Kind kind : kKinds) {
    if (name(kind) == text) {
      return kind;
    }
  }
  throw std::invalid_argument(fmt::format("\"{}\" is no kind of violation", text));
}

std::uint32_t retries_in(const nlohmann::ordered_json& value) {
  if (!value.is_number_unsigned() || value > std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument(
        fmt::format("the field \"retries\" is {}: it must be a whole number of 32 bits", value.dump()));
  }
  return value.get<std::uint32_t>();
}

}  // namespace

void save_trace(const std::filesystem::path& file, const Violation& violation, const Options& options,
                std::string_view program) {
  const nlohmann::ordered_json json = {{"program", program},
                                       {"rules", json_of(options.rules)},
                                       {"retries", options.writing_retries},
                                       {"violation", to_json(violation)},
                                       {"choices", violation.choices}};
  std::ofstream out(file);
  // An exception of the program may say what is not UTF-8; the choices are ASCII.
  out << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  out.close();
  if (!out) {
    throw std::runtime_error(fmt::format("the trace cannot be written to {}", file.string()));
  }
}

SavedTrace load_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file)) {
    throw std::invalid_argument(
        fmt::format("{}: the trace cannot be read: {}", file.string(), in ? "it is a folder" : std::strerror(errno)));
  }
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  SavedTrace trace;
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    trace.program = json.at("program").get<std::string>();
    for (const auto& [parameter, value] : json.at("rules").items()) {
      set_parameter(trace.options.rules, parameter, value.get<std::string>());
    }
    trace.options.writing_retries = retries_in(json.at("retries"));
    trace.kind = kind_named(json.at("violation").at("kind").get<std::string>());
    trace.what = json.at("violation").at("what").get<std::string>();
    trace.choices = json.at("choices").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(
        fmt::format("{}: it is no trace of save_trace(): {}", file.string(), json_reason(error.what())));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", file.string(), error.what()));
  }
  return trace;
}

Verdict replay_trace(const Program& program, const std::filesystem::path& file) {
  const SavedTrace trace = load_trace(file);
  return replay(program, trace.options, trace.choices);
}

}  // namespace sidelatch::explore

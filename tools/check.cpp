#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "serve.h"

#include <sidelatch/checker/check.h>
#include <sidelatch/checker/datasheet.h>
#include <sidelatch/checker/profile_of.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments {
  checker::CheckOptions options;
  ServeArguments serve;
  bool json = false;
  std::string out;
  std::string against;
  double tolerance = 0.1;
  std::string profile;  // of the simulator
  std::string profile_file;
  // For the software NIC. Without an order it would access memory at once, and nothing would be torn.
  std::string wire{};   // shm:default
  std::string order{};  // observed
  std::optional<double> torn_bias{};
};

// An earlier datasheet, and the points in which the new one is worse.
class Comparison {
 public:
  // `parts`: of the new one.
  Comparison(const std::string& file, double tolerance, const std::vector<std::string>& parts)
      : file_(file), tolerance_(tolerance) {
    if (!(tolerance >= 0) || tolerance > 1) {
      throw std::invalid_argument(fmt::format("--tolerance {}: it must be 0 to 1", tolerance));
    }
    if (!file.empty()) {
      old_ = checker::parse_datasheet(file, read_file(file));
      // Detects an unusable datasheet before the work.
      if (!old_.value("device", nlohmann::ordered_json()).is_string()) {
        throw std::invalid_argument(fmt::format("{}: its \"device\" is missing, or no text", file));
      }
      device_ = old_["device"].get<std::string>();
      try {
        (void)checker::changes_for_the_worse(old_, old_, tolerance);
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(fmt::format("{}: {}", file, error.what()));
      }
      if (!checker::has_values_of(old_, parts)) {
        throw std::invalid_argument(
            fmt::format("--against {}: it has no verdict and no rate of --parts {}, so nothing would be compared: give "
                        "other parts, or another datasheet",
                        file, fmt::join(parts, ",")));
      }
    }
  }
  void compare(const nlohmann::ordered_json& now) {
    if (!file_.empty()) {
      changes_ = checker::changes_for_the_worse(old_, now, tolerance_);
      compared_ = checker::values_in_common(old_, now);
    }
  }
  [[nodiscard]] bool wanted() const { return !file_.empty(); }
  [[nodiscard]] bool worse() const { return !changes_.empty(); }
  [[nodiscard]] bool is_of_nothing() const { return wanted() && compared_.verdicts + compared_.rates == 0; }
  [[nodiscard]] nlohmann::ordered_json json() const {
    nlohmann::ordered_json changes = nlohmann::ordered_json::array();
    for (const checker::Change& change : changes_) {
      changes.push_back({{"what", change.what}, {"text", change.text}});
    }
    return {{"file", file_},
            {"device", device_},
            {"tolerance", tolerance_},
            {"compared", {{"verdicts", compared_.verdicts}, {"rates", compared_.rates}}},
            {"worse", changes}};
  }
  [[nodiscard]] std::string text() const {
    std::string text = fmt::format("\nAgainst {} ({}): ", file_, device_);
    if (is_of_nothing()) {
      return text + "nothing in common was measured\n";
    }
    if (changes_.empty()) {
      return text + fmt::format("of {} verdicts none has changed, and of {} rates none is worse by more than {:g} %\n",
                                compared_.verdicts, compared_.rates, 100 * tolerance_);
    }
    text +=
        fmt::format("{} worse, of {} verdicts and {} rates\n", changes_.size(), compared_.verdicts, compared_.rates);
    for (const checker::Change& change : changes_) {
      text += "  " + change.text + "\n";
    }
    return text;
  }

 private:
  std::string file_;
  double tolerance_;
  std::string device_;
  nlohmann::ordered_json old_;
  std::vector<checker::Change> changes_;
  checker::ValuesInCommon compared_;
};

// Those of the software NIC that are given.
std::vector<std::string> softnic_options_of(const Arguments& arguments) {
  std::vector<std::string> given;
  for (const auto& [option, is_given] : {std::pair{"--wire", !arguments.wire.empty()},
                                         {"--order", !arguments.order.empty()},
                                         {"--torn-bias", arguments.torn_bias.has_value()}}) {
    if (is_given) {
      given.emplace_back(option);
    }
  }
  return given;
}

int check(const Arguments& arguments) {
  const std::vector<std::string> of_softnic = softnic_options_of(arguments);
  if (arguments.options.fabric == "softnic") {
    become_softnic({.wire = arguments.wire.empty() ? "shm:default" : arguments.wire,
                    .order = arguments.order.empty() ? "observed" : arguments.order,
                    .seed = arguments.options.seed,
                    .torn_bias = arguments.torn_bias.value_or(0)},
                   of_softnic);
  } else if (!of_softnic.empty()) {
    throw std::invalid_argument(
        "--wire, --order and --torn-bias are of the software NIC: give --fabric softnic, or leave them out");
  }
  checker::CheckOptions options = arguments.options;
  if (!arguments.profile.empty()) {
    if (options.fabric != "auto" && options.fabric != "sim") {
      throw std::invalid_argument(
          fmt::format("--profile is of the simulator: leave it out, or --fabric {}", options.fabric));
    }
    options.fabric = "sim";
    options.profile = arguments.profile;
  }
  options.validate();
  if (arguments.serve.wanted) {
    if (options.fabric == "sim") {
      throw std::invalid_argument("--fabric sim: --server lends the memory of a NIC; use --fabric verbs or softnic");
    }
    return serve(arguments.serve,
                 {.device = arguments.options.device, .relaxed_ordering = arguments.options.relaxed_ordering},
                 arguments.options.token, arguments.json);
  }
  if (!arguments.options.token.empty() && arguments.options.server.empty()) {
    throw std::invalid_argument("--token: it is for --server and --connect; give one of them, or leave it out");
  }
  // Else a second run would find its own datasheet as expected.
  if (!arguments.out.empty()) {
    require_apart("--out", arguments.out + "/" + kSavedDatasheet, arguments.against, "the datasheet of --against");
    require_apart("--emit-profile", arguments.profile_file, arguments.out + "/" + kSavedDatasheet,
                  "the datasheet of --out");
    require_apart("--emit-profile", arguments.profile_file, arguments.out + "/check.txt", "the table of --out");
  }
  require_apart("--emit-profile", arguments.profile_file, arguments.against, "the datasheet of --against");
  if (std::error_code ignored; std::filesystem::exists(arguments.profile, ignored)) {  // else it is a name
    require_apart("--emit-profile", arguments.profile_file, arguments.profile, "the profile of --profile");
  }
  if (!arguments.out.empty()) {
    // Checked before the work, so that no measurement is wasted.
    std::error_code error;
    std::filesystem::create_directories(arguments.out, error);
    if (error) {
      throw std::invalid_argument(fmt::format("--out {}: cannot make this folder: {}", arguments.out, error.message()));
    }
  }
  Comparison comparison(arguments.against, arguments.tolerance, options.parts);
  if (!arguments.profile_file.empty()) {
    for (const char* part : {"lock-table", "rates"}) {
      if (std::ranges::find(arguments.options.parts, part) == arguments.options.parts.end()) {
        throw std::invalid_argument(fmt::format("--emit-profile needs the part {}: add it to --parts", part));
      }
    }
    require_writable(arguments.profile_file);
  }
  checker::CheckReport report;
  {
    Progress progress;
    options.interrupted = &interrupted();
    options.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
    report = checker::run_check(options);
  }
  nlohmann::ordered_json datasheet = checker::to_json(report);
  comparison.compare(datasheet);
  std::string compared;
  if (comparison.wanted()) {
    datasheet["against"] = comparison.json();
    compared = comparison.text();
  }
  const std::string json = text_of(datasheet) + "\n";
  const bool colour = !arguments.json && on_terminal(STDOUT_FILENO);
  const std::string table = checker::to_table(report, checker::Colour::off) + compared;
  const bool cut_short = interrupted();
  const auto save = [&] {
    if (!arguments.out.empty()) {
      write_file(arguments.out + "/" + kSavedDatasheet, json);
      write_file(arguments.out + "/check.txt", table);
    }
    if (!arguments.profile_file.empty() && !cut_short && report.failure.empty()) {
      write_file(arguments.profile_file, fabric::sim::to_toml(checker::profile_of(report)));
    }
  };
  save_and_print(save, arguments.json ? json
                       : colour       ? checker::to_table(report, checker::Colour::on) + compared
                                      : table);
  if (cut_short) {
    return kInterrupted;
  }
  if (!report.failure.empty()) {
    say("sidelatch: {}\n", report.failure);
    return kNoEnvironment;
  }
  if (comparison.is_of_nothing()) {
    say("sidelatch: --against {}: this check measured nothing that the datasheet has, so nothing was compared{}\n",
        arguments.against, report.complete ? "" : "; give it more --seconds");
    return kBadInput;
  }
  return report.as_expected() && !comparison.worse() ? kAsExpected : kNotAsExpected;
}

}  // namespace

void add_check(Program& program) {
  auto arguments = std::make_shared<Arguments>();
  Command command =
      program.command("check", "A datasheet of a NIC: torn reads, order, atomics, rates, and a verdict on each scheme");
  command.option("--fabric", arguments->options.fabric, "auto, verbs, softnic or sim (default auto)");
  Option device =
      command.option("--device", arguments->options.device,
                     "verbs: NIC, as `sidelatch devices` lists it (default: the first with an active port)");
  Option server = add_serve_options(command, arguments->serve);
  Option profile = command
                       .option("--profile", arguments->profile,
                               "use the simulator, with this NIC profile: a name or a TOML file (default connectx5)")
                       .excludes(server)
                       .excludes(device);
  command
      .option("--connect", arguments->options.server,
              "HOST[:PORT] of `sidelatch check --server`: the memory is there (default: on this machine)")
      .excludes(server)
      .excludes(profile);
  command
      .flag("--at-switch", arguments->options.at_switch,
            "--connect is the exchange of `sidelatch switch --latches` with switch_optimistic.p4: torn reads through "
            "it, and optimistic/switch")
      .excludes(server);
  command.option("--token", arguments->options.token, "--server, --connect: a word that both must give");
  command.option("--seconds", arguments->options.seconds, "time limit, seconds (default 60)").excludes(server);
  command
      .list("--parts", arguments->options.parts,
            "what to do, comma-separated: torn-reads, schemes, latches, effects, lock-table, rates, proofs "
            "(default all)")
      .excludes(server);
  command.flag("--relaxed-ordering", arguments->options.relaxed_ordering, "memory is registered for relaxed ordering");
  command.list("--sizes", arguments->options.sizes, "block sizes, bytes, comma-separated (default 64 to 16384)")
      .excludes(server);
  command
      .option("--reads", arguments->options.reads,
              "reads per size and scheme, and chances per other probe (default 20000)")
      .excludes(server);
  command.option("--seed", arguments->options.seed, "simulator, software NIC: seed (default 1)");
  command.option("--order", arguments->order,
                 "software NIC: preset of the memory model whose orders it takes (default observed)");
  command.option("--torn-bias", arguments->torn_bias,
                 "software NIC: chance that the lines of a request are touched far apart (default 0)");
  command.option("--wire", arguments->wire, "software NIC: see `softnic run` (default shm:default)");
  Option against = command
                       .option("--against", arguments->against,
                               "an earlier datasheet: exit with 1 if a verdict has changed or a rate has become worse")
                       .excludes(server);
  command.option("--tolerance", arguments->tolerance, "--against: the share by which a rate may be worse (default 0.1)")
      .needs(against);
  command.option("--emit-profile", arguments->profile_file, "write a simulator profile of this NIC to that TOML file")
      .excludes(server);
  command.flag("--json", arguments->json, "print one JSON value instead of the table");
  command.option("--out", arguments->out, "folder to save check.json and check.txt in").excludes(server);
  command.runs([arguments] { return check(*arguments); });
}

}  // namespace sidelatch::tools

#include "commands.h"
#include "json_text.h"
#include "options.h"

#include <sidelatch/explore/litmus.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::tools {

namespace {

using fabric::model::Preset;

struct Arguments {
  std::vector<std::string> files;
  std::vector<std::string> models;
  double budget = 0;
  explore::Options options;
  bool json = false;
};

int litmus(Arguments arguments) {
  require_budget(arguments.budget);
  std::vector<Preset> models;
  models.reserve(arguments.models.size());
  for (const std::string& name : arguments.models) {
    models.push_back(fabric::model::parse_preset(name));
  }
  if (models.empty()) {
    models = {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed};
  }
  arguments.options.budget = std::chrono::duration<double>(arguments.budget);
  arguments.options.interrupted = &interrupted();
  // All files are read and parsed before the first is explored, so a mistake in the last one does not show after an
  // hour.
  std::vector<std::string> texts;
  texts.reserve(arguments.files.size());
  for (const std::string& file : arguments.files) {
    texts.push_back(read_file(file));
    static_cast<void>(explore::run_litmus(texts.back(), file, {}, arguments.options));
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool as_expected = true;
  Progress progress;
  for (std::size_t i = 0; i < texts.size() && !interrupted(); ++i) {
    for (const explore::LitmusResult& result :
         explore::run_litmus(texts[i], arguments.files[i], models, arguments.options)) {
      // Without an expectation all states are the answer.
      as_expected = as_expected && (result.expected ? result.ok().value_or(false)
                                                    : result.verdict.outcome != explore::Outcome::bounded);
      json.push_back(explore::to_json(result));
      if (!arguments.json) {
        fmt::print("{}", explore::to_text(result));
      }
    }
    progress.show(i + 1, texts.size());
  }
  if (arguments.json) {
    fmt::print("{}\n", text_of(json));
  }
  if (interrupted()) {
    return kInterrupted;
  }
  return as_expected ? kAsExpected : kNotAsExpected;
}

}  // namespace

void add_litmus(Program& program) {
  auto arguments = std::make_shared<Arguments>();
  Command command = program.command("litmus", "All final states of small tests of the memory model");
  command.option("files", arguments->files, "litmus files (docs/litmus.md)").required();
  command.option("--model", arguments->models, "strict, observed, spec or relaxed; may be repeated (default all)")
      .one_at_a_time();
  command.option("--budget", arguments->budget, "seconds for each test under each model (default: no limit)");
  command.option("--threads", arguments->options.threads, "default: all cores");
  command.flag("--json", arguments->json, "print one JSON value instead of text");
  command.runs([arguments] { return litmus(*arguments); });
}

}  // namespace sidelatch::tools

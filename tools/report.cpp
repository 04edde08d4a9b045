#include "commands.h"

#include <sidelatch/checker/report.h>

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments {
  std::vector<std::string> sources;
  std::string out;
};

std::string datasheet_in(const std::string& source) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(source, ignored)) {
    return source;
  }
  const std::filesystem::path saved = std::filesystem::path(source) / kSavedDatasheet;
  if (!std::filesystem::exists(saved, ignored)) {
    throw std::invalid_argument(fmt::format("{}: this folder has no {}: save one by sidelatch check --out {}", source,
                                            kSavedDatasheet, source));
  }
  return saved.string();
}

int report(const Arguments& arguments) {
  std::vector<checker::NamedDatasheet> datasheets;
  for (const std::string& source : arguments.sources) {
    const std::string file = datasheet_in(source);
    datasheets.push_back({file, read_file(file)});
  }
  write_file(arguments.out, checker::report_page(datasheets));
  return kAsExpected;
}

}  // namespace

void add_report(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = program.add_subcommand(
      "report", "One HTML page with charts from datasheets that `check` saved; needs no network");
  command
      ->add_option("datasheets", arguments->sources,
                   "datasheets as JSON (check --json), or folders that check --out has filled")
      ->required();
  command->add_option("-o,--out", arguments->out, "HTML file to write")->required();
  command->callback([arguments, &action] { action = [arguments] { return report(*arguments); }; });
}

}  // namespace sidelatch::tools

#include "commands.h"
#include "options.h"

#include <sidelatch/checker/report.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sidelatch::tools {

namespace {

struct Arguments {
  std::vector<std::string> sources;
  std::string out;
};

// The JSON files of a folder except the datasheet, sorted by name.
std::vector<std::filesystem::path> other_json_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::filesystem::path& file = at->path();
    if (file.extension() == ".json" && file.filename() != kSavedDatasheet && at->is_regular_file(ignored)) {
      files.push_back(file);
    }
  }
  if (error) {
    throw std::invalid_argument(fmt::format("{}: this folder cannot be read: {}", folder, error.message()));
  }
  std::ranges::sort(files);
  return files;
}

// A datasheet first, then experiments' results. The folder may hold other JSON, for example of `bench targets --json`.
std::vector<checker::NamedDocument> documents_in(const std::string& folder) {
  std::vector<checker::NamedDocument> documents;
  const std::filesystem::path datasheet = std::filesystem::path(folder) / kSavedDatasheet;
  std::error_code ignored;
  if (std::filesystem::exists(datasheet, ignored)) {
    documents.push_back({datasheet.string(), read_file(datasheet.string())});
  }
  for (const std::filesystem::path& file : other_json_in(folder)) {
    checker::NamedDocument document{file.string(), read_file(file.string())};
    if (checker::holds_experiment(document)) {
      documents.push_back(std::move(document));
    }
  }
  if (documents.empty()) {
    throw std::invalid_argument(fmt::format(
        "{0}: this folder has no {1} and no result of an experiment: save one by sidelatch check --out {0}, "
        "or by sidelatch bench NAME --out {0}",
        folder, kSavedDatasheet));
  }
  return documents;
}

int report(const Arguments& arguments) {
  std::vector<checker::NamedDocument> documents;
  for (const std::string& source : arguments.sources) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(source, ignored)) {
      documents.push_back({source, read_file(source)});
      continue;
    }
    std::ranges::move(documents_in(source), std::back_inserter(documents));
  }
  for (const checker::NamedDocument& document : documents) {
    require_apart("--out", arguments.out, document.file, "a file that the page is made of");
  }
  write_file(arguments.out, checker::report_page(documents));
  return kAsExpected;
}

}  // namespace

void add_report(Program& program) {
  auto arguments = std::make_shared<Arguments>();
  Command command =
      program.command("report", "One HTML page with charts from what `check` and `bench` saved; needs no network");
  command
      .option("files", arguments->sources,
              "datasheets (check --json), results of experiments (bench NAME --json), or folders of them, as "
              "--out fills them")
      .required();
  command.option("-o,--out", arguments->out, "HTML file to write").required();
  command.runs([arguments] { return report(*arguments); });
}

}  // namespace sidelatch::tools

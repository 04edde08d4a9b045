#include <sidelatch/checker/datasheet.h>
#include <sidelatch/checker/report.h>

#include "named_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>
#include <utility>

namespace sidelatch::checker {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kHole = R"(<script type="application/json" id="documents">[]</script>)";

// Prevents text in a document from ending the element that holds it.
std::string for_html(const ordered_json& json) {
  // Bytes in an operating system's name that are not UTF-8 become a question mark in a box.
  const std::string text = json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(text.size());
  for (const char letter : text) {
    if (letter == '<') {
      escaped += "\\u003c";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

ordered_json parsed(const NamedDocument& document) {
  constexpr std::string_view kAdvice =
      "save it again: a datasheet by sidelatch check --out, an experiment by sidelatch bench NAME --out";
  return parse_named_json(document.file, document.json, kAdvice);
}

// The checker knows no more of experiments; the page checks their other fields, and their version.
bool is_experiment(const ordered_json& json) {
  if (!json.is_object() || !json.value("experiment", ordered_json()).is_string()) {
    return false;
  }
  // Experiments had no name in their schema once.
  const ordered_json schema = json.value("schema", ordered_json());
  return !schema.is_object() || schema.value("name", ordered_json()) == "sidelatch-experiment";
}

// A datasheet has a schema with a name, in any version.
bool names_its_schema(const ordered_json& json) {
  const ordered_json schema = json.is_object() ? json.value("schema", ordered_json()) : ordered_json();
  return schema.is_object() && schema.value("name", ordered_json()) == kDatasheetSchema;
}

ordered_json entry(const NamedDocument& document) {
  ordered_json json = parsed(document);
  if (is_experiment(json)) {
    return {{"file", document.file}, {"experiment", std::move(json)}};
  }
  if (!names_its_schema(json)) {
    throw std::invalid_argument(
        fmt::format("{}: this is no datasheet and no experiment: make one by sidelatch check --out, or by sidelatch "
                    "bench NAME --out",
                    document.file));
  }
  return {{"file", document.file}, {"datasheet", parse_datasheet(document.file, document.json)}};
}

}  // namespace

bool holds_experiment(const NamedDocument& document) { return is_experiment(parsed(document)); }

std::string report_page(const std::vector<NamedDocument>& documents) {
  ordered_json all = ordered_json::array();
  for (const NamedDocument& document : documents) {
    all.push_back(entry(document));
  }
  std::string page(embedded_report_page());
  const std::size_t hole = page.find(kHole);
  if (hole == std::string::npos) {
    throw std::logic_error("report/page.html has no place for documents");
  }
  page.replace(hole + kHole.find("[]"), 2, for_html(all));
  return page;
}

}  // namespace sidelatch::checker

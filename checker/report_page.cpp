#include <sidelatch/checker/check.h>
#include <sidelatch/checker/report.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace sidelatch::checker {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kHole = R"(<script type="application/json" id="datasheets">[]</script>)";

ordered_json parse(const NamedDatasheet& datasheet) {
  ordered_json json;
  try {
    json = ordered_json::parse(datasheet.json);
  } catch (const ordered_json::parse_error& error) {
    throw std::invalid_argument(fmt::format(
        "{}: this is no JSON, or it is cut off after {} bytes: save the datasheet again (sidelatch check --out)",
        datasheet.file, error.byte));
  }
  const ordered_json schema = json.is_object() ? json.value("schema", ordered_json::object()) : ordered_json::object();
  const bool is_datasheet = schema.is_object() && schema.value("name", ordered_json()) == kDatasheetSchema &&
                            schema.value("version", ordered_json()).is_number_integer();
  if (!is_datasheet) {
    throw std::invalid_argument(
        fmt::format("{}: this is no datasheet (its schema is not {}): make one by sidelatch check --out",
                    datasheet.file, kDatasheetSchema));
  }
  const auto version = schema["version"].get<std::int64_t>();
  if (version != kDatasheetVersion) {
    throw std::invalid_argument(fmt::format(
        "{}: a datasheet of version {}, and this sidelatch knows version {}: {}", datasheet.file, version,
        kDatasheetVersion, version > kDatasheetVersion ? "use the newer one that made it" : "measure again"));
  }
  return json;
}

// So that no text in a datasheet can end the element that holds it.
std::string for_html(const ordered_json& json) {
  // What is no UTF-8 in a name of the operating system is shown as a question mark in a box.
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

}  // namespace

std::string report_page(const std::vector<NamedDatasheet>& datasheets) {
  ordered_json all = ordered_json::array();
  for (const NamedDatasheet& datasheet : datasheets) {
    all.push_back({{"file", datasheet.file}, {"datasheet", parse(datasheet)}});
  }
  std::string page(embedded_report_page());
  const std::size_t hole = page.find(kHole);
  if (hole == std::string::npos) {
    throw std::logic_error("report/page.html has no place for datasheets");
  }
  page.replace(hole + kHole.find("[]"), 2, for_html(all));
  return page;
}

}  // namespace sidelatch::checker

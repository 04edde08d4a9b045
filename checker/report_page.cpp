#include <sidelatch/checker/datasheet.h>
#include <sidelatch/checker/report.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace sidelatch::checker {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kHole = R"(<script type="application/json" id="datasheets">[]</script>)";

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
    all.push_back({{"file", datasheet.file}, {"datasheet", parse_datasheet(datasheet.file, datasheet.json)}});
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

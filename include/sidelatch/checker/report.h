// One HTML page from one or several datasheets: charts and tables, without the network.
//
//   write("page.html", report_page({{"mine.json", text_of("mine.json")}, {"theirs.json", text_of("theirs.json")}}));
//
// The page itself is made in report/; this fills it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::checker {

struct NamedDatasheet {
  std::string file;  ///< what the page calls it
  std::string json;  ///< as to_json() made it
};

/// Throws std::invalid_argument that names the file: it is no JSON, or cut off, or no datasheet, or of a newer version.
/// A field that is missing is named on the page.
[[nodiscard]] std::string report_page(const std::vector<NamedDatasheet>& datasheets);

/// The page without datasheets (generated from report/page.html).
[[nodiscard]] std::string_view embedded_report_page();

}  // namespace sidelatch::checker

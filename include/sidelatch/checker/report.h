// One HTML page from datasheets and results of experiments: charts and tables, without the network.
//
//   write("page.html", report_page({{"check.json", datasheet}, {"kv-store.json", result}}));
//
// The page itself is built in report/; this code fills it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::checker {

struct NamedDocument {
  std::string file;  ///< its name on the page
  /// A datasheet, as to_json() made it, or the result of an experiment, as `sidelatch bench NAME --json` prints it.
  std::string json;
};

/// True if this is the result of an experiment: an object that names its "experiment". Throws std::invalid_argument
/// that names the file if it is not JSON, or cut off.
[[nodiscard]] bool holds_experiment(const NamedDocument& document);

/// Datasheets come first on the page, then experiments; both in the order given. Throws std::invalid_argument that
/// names the file if it is not JSON, cut off, neither a datasheet nor an experiment, or a datasheet of a newer version.
/// The page names missing fields, and experiments of another version.
[[nodiscard]] std::string report_page(const std::vector<NamedDocument>& documents);

/// The page without documents (generated from report/page.html).
[[nodiscard]] std::string_view embedded_report_page();

}  // namespace sidelatch::checker

#include "timeline.h"

#include <sidelatch/explore/trace_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sidelatch::explore {

namespace {

constexpr double kCharacter = 6.7;  // of the monospaced font at kFont
constexpr int kFont = 11;
constexpr double kRowHeight = 22;
constexpr double kTop = 64;
constexpr double kLeft = 40;
constexpr double kGap = 18;
constexpr std::size_t kLongest = 44;  // characters of one text

std::string escaped(std::string_view text) {
  std::string out;
  for (const char character : text) {
    switch (character) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML has no other control characters.
        out += static_cast<unsigned char>(character) < 0x20 && character != '\n' && character != '\t' ? ' ' : character;
    }
  }
  return out;
}

std::string shortened(std::string text) {
  if (text.size() > kLongest) {
    text.resize(kLongest - 3);
    text += "...";
  }
  return text;
}

std::string text_at(double x, double y, std::string_view kind, std::string_view text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y, escaped(text));
}

std::string_view class_of(Timeline::Lane lane) {
  return lane == Timeline::Lane::client ? "client" : lane == Timeline::Lane::nic ? "nic" : "line";
}

}  // namespace

std::string to_svg(const Violation& violation, std::string_view title) {
  const Timeline timeline = timeline_of(violation);
  std::vector<std::size_t> widest(timeline.columns.size());
  for (std::size_t i = 0; i < timeline.columns.size(); ++i) {
    widest[i] = timeline.columns[i].title.size();
  }
  std::size_t remark = 0;
  const auto remark_of = [](const Timeline::Row& row) { return row.rule.empty() ? row.note : row.rule; };
  for (const Timeline::Row& row : timeline.rows) {
    widest[row.actor] = std::max(widest[row.actor], std::min(row.text.size(), kLongest) + 2);
    if (row.line != 0) {
      widest[row.line] = std::max(widest[row.line], std::min(row.words.size(), kLongest) + 2);
    }
    remark = std::max(remark, remark_of(row).size());
  }
  std::vector<double> left(timeline.columns.size());
  double x = kLeft;
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = x;
    x += static_cast<double>(widest[i]) * kCharacter + kGap;
  }
  const double remarks = x;
  const std::string headline = fmt::format("{}: {}", name(violation.kind), violation.what);
  const double width =
      std::max(remarks + static_cast<double>(remark) * kCharacter + kGap,
               kLeft + static_cast<double>(std::max(headline.size(), title.size())) * kCharacter * 1.2);
  const double bottom = kTop + kRowHeight * static_cast<double>(timeline.rows.size()) + 8;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "<title>{2}</title>\n"
      "<style>text{{font:{3}px monospace;fill:#222}}.title{{font-weight:bold;font-size:13px}}.what{{fill:#b00}}"
      ".head{{font-weight:bold}}.number{{fill:#888;text-anchor:end}}.remark{{fill:#06c}}"
      ".lane{{stroke-width:1}}.client{{stroke:#777;fill:#444}}.nic{{stroke:#9bd;fill:#368}}.line{{stroke:#db9;fill:#"
      "a50}}"
      ".touch{{stroke:#a50;stroke-width:1;stroke-dasharray:2 3}}.change{{stroke:#a50;stroke-width:1.5}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, bottom + 8, escaped(title), kFont);
  svg += text_at(kLeft, 18, "title", title);
  svg += text_at(kLeft, 36, "what", headline);
  for (std::size_t i = 0; i < timeline.columns.size(); ++i) {
    const Timeline::Column& column = timeline.columns[i];
    svg += text_at(left[i], kTop - 8, "head", column.title);
    svg += fmt::format("<line class=\"lane {0}\" x1=\"{1:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{3:.1f}\"/>\n",
                       class_of(column.lane), left[i] + 3, kTop - 4, bottom);
  }
  double y = kTop;
  std::size_t number = 0;
  for (const Timeline::Row& row : timeline.rows) {
    const double middle = y + kRowHeight / 2;
    const double at = left[row.actor] + 3;
    svg += text_at(kLeft - 8, middle + 4, "number", fmt::format("{}", ++number));
    if (row.line != 0) {
      const double to = left[row.line] + 3;
      svg += fmt::format("<line class=\"{0}\" x1=\"{1:.1f}\" x2=\"{2:.1f}\" y1=\"{3:.1f}\" y2=\"{3:.1f}\"/>\n",
                         row.is_change ? "change" : "touch", at, to, middle + 7);
      svg += fmt::format("<circle class=\"line\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill-opacity=\"{}\"/>\n", to,
                         middle + 7, row.is_change ? 1 : 0);
      svg += text_at(to + 8, middle + 4, "words", shortened(row.words));
    }
    svg += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n",
                       class_of(timeline.columns[row.actor].lane), at, middle);
    svg += text_at(at + 8, middle + 4, "step", shortened(row.text));
    const std::string said = remark_of(row);
    if (!said.empty()) {
      svg += text_at(remarks, middle + 4, row.rule.empty() ? "what" : "remark", said);
    }
    y += kRowHeight;
  }
  return svg + "</svg>\n";
}

}  // namespace sidelatch::explore

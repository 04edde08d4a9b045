#include "tests/layering/include_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

namespace sidelatch::layering {
namespace {

struct Arrow {
  std::string_view from;
  std::string_view to;
};

// A path over several arrows is allowed too.
constexpr std::array kArrows{
    Arrow{"tools", "bench"},
    Arrow{"bench", "checker"},
    Arrow{"checker", "structures"},
    Arrow{"checker", "fabric/sim"},
    Arrow{"checker", "switchsync/sim"},
    Arrow{"checker", "flows/sim"},
    Arrow{"checker", "flows/nic"},
    Arrow{"checker", "fabric/verbs"},
    Arrow{"checker", "softnic"},
    Arrow{"softnic", "softnic/nic"},
    Arrow{"softnic", "softnic/cm"},
    Arrow{"softnic", "roce"},
    Arrow{"softnic/nic", "roce"},
    Arrow{"softnic/nic", "fabric/model"},
    Arrow{"softnic/cm", "roce"},
    Arrow{"structures", "flows"},
    Arrow{"flows/nic", "flows"},
    Arrow{"flows/sim", "flows"},
    Arrow{"flows/sim", "fabric/sim"},
    Arrow{"flows/sim", "softnic/nic"},
    Arrow{"flows", "sync"},
    Arrow{"flows", "switchsync"},
    Arrow{"sync", "fabric"},
    Arrow{"switchsync", "fabric"},
    Arrow{"switchsync", "p4"},
    Arrow{"switchsync/sim", "switchsync"},
    Arrow{"switchsync/sim", "fabric/sim"},
    Arrow{"switchsync/sim", "roce"},
    Arrow{"p4", "roce"},
    Arrow{"fabric/verbs", "fabric"},
    Arrow{"fabric/sim", "fabric/model"},
    Arrow{"fabric/model", "fabric"},
    Arrow{"fabric", "common"},
    Arrow{"roce", "common"},
};

// Rooms without public headers: the rooms right above one include its headers in quotes.
constexpr std::array<std::string_view, 3> kInner{"roce", "softnic/cm", "softnic/nic"};
// Every layer may include these headers in quotes.
constexpr std::string_view kCommon = "common";

constexpr std::string_view kPublicRoot = "include/sidelatch/";
// The explorer's public face has a folder of its own, although it is a part of the checker.
constexpr std::string_view kExplorer = "explore";
constexpr std::string_view kExplorerSources = "checker/explore";
// Made by the build from the project's version.
constexpr std::string_view kGeneratedHeader = "include/sidelatch/version.h";
// Programs that nothing depends on. Like a test, they may include private headers, to measure them.
constexpr std::string_view kMicroBenchmarks = "bench/micro/";

bool reaches(std::string_view from, std::string_view to) {
  return from == to || std::any_of(kArrows.begin(), kArrows.end(),
                                   [&](const Arrow& arrow) { return arrow.from == from && reaches(arrow.to, to); });
}

bool has_arrow(std::string_view from, std::string_view to) {
  return std::any_of(kArrows.begin(), kArrows.end(),
                     [&](const Arrow& arrow) { return arrow.from == from && arrow.to == to; });
}

bool is_layer(std::string_view name) {
  return std::any_of(kArrows.begin(), kArrows.end(),
                     [&](const Arrow& arrow) { return arrow.from == name || arrow.to == name; });
}

std::string_view first_folder(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

bool is_public(std::string_view path) { return path.starts_with(kPublicRoot); }

// A file's layer; empty for a header at the top of include/sidelatch, which every layer may use.
std::string_view layer_of(std::string_view path) {
  if (is_public(path)) {
    path.remove_prefix(kPublicRoot.size());
  }
  const std::string_view folder = first_folder(path);
  if (folder == kExplorer) {
    return first_folder(kExplorerSources);
  }
  // The innermost folder with a place of its own: fabric/sim, not fabric.
  for (std::string_view inner = folder_of(path); !inner.empty(); inner = folder_of(inner)) {
    if (is_layer(inner)) {
      return inner;
    }
  }
  return folder;
}

struct Include {
  std::size_t line;
  bool quoted;
  std::string name;

  [[nodiscard]] std::string spelled() const { return quoted ? '"' + name + '"' : '<' + name + '>'; }
};

std::optional<Include> parse_include(std::string_view text, std::size_t line) {
  const auto skip_spaces = [&text] { text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size())); };
  skip_spaces();
  if (!text.starts_with('#')) {
    return std::nullopt;
  }
  text.remove_prefix(1);
  skip_spaces();
  if (!text.starts_with("include")) {
    return std::nullopt;
  }
  text.remove_prefix(std::string_view("include").size());
  skip_spaces();
  if (text.empty() || (text.front() != '<' && text.front() != '"')) {
    return std::nullopt;
  }
  const bool quoted = text.front() == '"';
  const std::size_t end = text.find(quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  return Include{line, quoted, std::string(text.substr(1, end - 1))};
}

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> includes;
  std::istringstream lines(file.text);
  std::string text;
  for (std::size_t line = 1; std::getline(lines, text); ++line) {
    if (auto include = parse_include(text, line)) {
      includes.push_back(std::move(*include));
    }
  }
  return includes;
}

class Rules {
 public:
  explicit Rules(std::span<const SourceFile> files) {
    for (const SourceFile& file : files) {
      paths_.insert(file.path);
      for (std::string_view folder = folder_of(file.path); !folder.empty(); folder = folder_of(folder)) {
        folders_.emplace(folder);
      }
    }
    paths_.emplace(kGeneratedHeader);
  }

  // Why `path` is misplaced, or nothing.
  [[nodiscard]] std::optional<std::string> misplaced(std::string_view path) const {
    const std::string_view layer = layer_of(path);
    if (is_public(path)) {
      std::string_view mirrored = folder_of(path.substr(kPublicRoot.size()));
      mirrored = mirrored == kExplorer ? kExplorerSources : mirrored;
      if (!mirrored.empty() && !folders_.contains(mirrored)) {
        return fmt::format("a public header mirrors a folder of sources, and there is no {}/", mirrored);
      }
    }
    if (!layer.empty() && layer != "examples" && !is_layer(layer)) {
      return fmt::format("{}/ has no place among the layers; give it one in tests/layering/include_rules.cpp", layer);
    }
    return std::nullopt;
  }

  // Why the file at `path` may not have this include, or nothing.
  [[nodiscard]] std::optional<std::string> forbidden(std::string_view path, const Include& include) const {
    if (include.quoted) {
      return forbidden_quoted(path, include.name);
    }
    if (include.name.starts_with("sidelatch/")) {
      return forbidden_public(path, "include/" + include.name);
    }
    if (paths_.contains(include.name)) {
      return "a private header is included by its name in quotes, from its own folder";
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::optional<std::string> forbidden_public(std::string_view path, std::string_view header) const {
    if (!paths_.contains(header)) {
      return "there is no such public header";
    }
    return forbidden_arrow(layer_of(path), layer_of(header));
  }

  [[nodiscard]] static std::optional<std::string> forbidden_arrow(std::string_view from, std::string_view to) {
    if (from == "examples" || to.empty() || reaches(from, to)) {
      return std::nullopt;
    }
    return fmt::format("{} may not use {}: arrows point down only",
                       from.empty() ? "a header at the top of include/sidelatch" : from, to);
  }

  [[nodiscard]] std::optional<std::string> forbidden_quoted(std::string_view path, std::string_view name) const {
    if (is_public(path)) {
      return "a public header includes public headers only, as <sidelatch/...>";
    }
    if (first_folder(path) == "examples") {
      return "an example includes public headers only, as <sidelatch/...>";
    }
    const std::string_view own = folder_of(path);
    std::string header = (std::filesystem::path(own) / name).lexically_normal().generic_string();
    if (!paths_.contains(header)) {
      header = name;
    }
    if (!paths_.contains(header)) {
      return "there is no such file in this folder";
    }
    if (is_public(header)) {
      return "a public header is included as <sidelatch/...>";
    }
    if (path.starts_with(kMicroBenchmarks)) {
      return std::nullopt;
    }
    const std::string_view owner = folder_of(header);
    const bool is_around = owner == own || (own.starts_with(owner) && own[owner.size()] == '/');
    const std::string_view to = layer_of(header);
    if (is_around || to == kCommon) {
      return forbidden_arrow(layer_of(path), to);
    }
    if (std::find(kInner.begin(), kInner.end(), to) == kInner.end()) {
      return fmt::format("this header is private to {}/; use its public headers", owner);
    }
    const std::string_view from = layer_of(path);
    if (from == to || has_arrow(from, to)) {
      return std::nullopt;
    }
    return fmt::format("{} may not use {}: {}", from, to,
                       reaches(from, to) ? "only the rooms right above it may" : "arrows point down only");
  }

  std::set<std::string, std::less<>> paths_;
  std::set<std::string, std::less<>> folders_;
};

}  // namespace

std::vector<std::string> include_violations(std::span<const SourceFile> files) {
  const Rules rules(files);
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    if (first_folder(file.path) == "tests") {
      continue;
    }
    if (const auto why = rules.misplaced(file.path)) {
      violations.push_back(fmt::format("{}:1: {}", file.path, *why));
    }
    for (const Include& include : includes_of(file)) {
      if (const auto why = rules.forbidden(file.path, include)) {
        violations.push_back(fmt::format("{}:{}: {}: {}", file.path, include.line, include.spelled(), *why));
      }
    }
  }
  return violations;
}

}  // namespace sidelatch::layering

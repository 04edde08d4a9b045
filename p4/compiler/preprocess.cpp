#include "preprocess.h"

#include "builtin.h"
#include "condition.h"
#include "macros.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

namespace sidelatch::p4 {

namespace {

constexpr std::size_t kMostTokensOfProgram = 2'000'000;
constexpr unsigned kDeepestInclude = 32;
constexpr unsigned kMostIncludes = 10'000;

class Preprocessor {
 public:
  Preprocessor(Sources& sources, const PreprocessOptions& options)
      : sources_(sources), options_(options), macros_(sources, options.warnings) {
    predefine("__TARGET_BMV2__", "1");  // as the reference compiler's back end for v1model
    for (const auto& [name, text] : options.macros) {
      predefine(name, text);
    }
  }

  std::vector<Token> run(std::uint32_t file) {
    include(file);
    Token end;
    end.at = last_;
    output_.push_back(std::move(end));
    return std::move(output_);
  }

 private:
  void predefine(const std::string& name, const std::string& text) {
    macros_.predefine(name, tokenize(sources_, sources_.add("<-D " + name + ">", text)));
  }

  // One #if.
  struct Branch {
    bool active;  // this branch counts
    bool taken;   // one counted already
    bool around;  // the surroundings count
    Location at;
    bool is_last = false;  // #else was there
  };

  [[nodiscard]] bool active() const { return branches_.empty() || branches_.back().active; }

  void include(std::uint32_t file) {
    const std::vector<Token> tokens = tokenize(sources_, file);
    // A condition begins and ends in one file.
    const std::vector<Branch> around = std::exchange(branches_, {});
    const auto begin = tokens.begin();
    std::size_t i = 0;
    while (i < tokens.size()) {
      std::size_t end = i + 1;
      if (tokens[i].is("#") && tokens[i].starts_line) {
        while (end < tokens.size() && !tokens[end].starts_line) {
          ++end;
        }
        directive({begin + static_cast<std::ptrdiff_t>(i) + 1, begin + static_cast<std::ptrdiff_t>(end)}, tokens[i].at,
                  file);
      } else {
        // Up to the next directive, so that the arguments of a macro may lie on several lines.
        while (end < tokens.size() && !(tokens[end].is("#") && tokens[end].starts_line)) {
          ++end;
        }
        if (active()) {
          last_ = tokens[end - 1].at;
          macros_.replace({begin + static_cast<std::ptrdiff_t>(i), begin + static_cast<std::ptrdiff_t>(end)}, output_);
          if (output_.size() > kMostTokensOfProgram) {
            fail(last_, "the program is too long after its macros have been replaced");
          }
        }
      }
      i = end;
    }
    if (!branches_.empty()) {
      fail(branches_.back().at, "#endif is missing for this condition");
    }
    branches_ = around;
  }

  void directive(std::vector<Token> line, Location at, std::uint32_t file) {
    if (line.empty()) {
      return;
    }
    const Token first = line.front();
    line.erase(line.begin());
    const std::string& name = first.text;
    if (name == "if" || name == "ifdef" || name == "ifndef") {
      const bool around = active();
      const bool value = around && condition(name, line, at);
      branches_.push_back({value, value, around, at});
    } else if (name == "elif" || name == "else" || name == "endif") {
      other_branch(name, line, at);
    } else if (!active()) {
      return;
    } else if (name == "include") {
      include_directive(line, at, file);
    } else if (name == "define") {
      macros_.define(line, at);
    } else if (name == "undef") {
      macros_.undefine(line, at);
    } else if (name == "error") {
      fail(at, "#error " + spelling(line));
    } else if (name == "warning") {
      warn(at, "#warning " + spelling(line));
    } else if (name == "pragma") {
      if (!line.empty() && line.front().is_name("once")) {
        once_.insert(identity(sources_.name(file)));
      }
    } else if (name != "line" && first.kind != TokenKind::number) {
      fail(first.at, "there is no directive #" + name);
    }
  }

  void warn(Location at, std::string message) const {
    if (options_.warnings != nullptr) {
      options_.warnings->push_back({at, std::move(message)});
    }
  }

  // The same for all ways to write a file's path.
  static std::string identity(const std::string& name) {
    std::error_code ignored;
    const std::filesystem::path path = std::filesystem::weakly_canonical(name, ignored);
    return path.empty() ? name : path.string();
  }

  bool condition(const std::string& name, const std::vector<Token>& line, Location at) {
    if (name != "if") {
      if (line.empty() || line.front().kind != TokenKind::name) {
        fail(at, "#" + name + " needs a name");
      }
      return macros_.defined(line.front().text) == (name == "ifdef");
    }
    return condition_holds(macros_.replace_in_condition(line), at);
  }

  void other_branch(const std::string& name, const std::vector<Token>& line, Location at) {
    if (branches_.empty()) {
      fail(at, "#" + name + " without #if");
    }
    if (name == "endif") {
      branches_.pop_back();
      return;
    }
    Branch& branch = branches_.back();
    if (branch.is_last) {
      fail(at, "#" + name + " after the #else of the same condition");
    }
    if (name == "else") {
      branch.is_last = true;
      branch.active = branch.around && !branch.taken;
    } else {
      branch.active = branch.around && !branch.taken && condition("if", line, at);
    }
    branch.taken = branch.taken || branch.active;
  }

  struct IncludedName {
    std::string name;
    bool quoted;
  };

  static std::optional<IncludedName> included_name(const std::vector<Token>& line) {
    if (line.size() == 1 && line.front().kind == TokenKind::string) {
      return IncludedName{line.front().text, true};
    }
    if (line.size() <= 2 || !line.front().is("<") || !line.back().is(">")) {
      return std::nullopt;
    }
    std::string name;
    for (std::size_t i = 1; i + 1 < line.size(); ++i) {
      name += line[i].text;
    }
    return IncludedName{name, false};
  }

  void include_directive(const std::vector<Token>& line, Location at, std::uint32_t file) {
    std::optional<IncludedName> included = included_name(line);
    if (!included) {
      std::vector<Token> replaced;
      macros_.replace(line, replaced);
      included = included_name(replaced);
    }
    if (!included) {
      fail(at, "#include needs <file> or \"file\"");
    }
    const auto& [name, quoted] = *included;
    if (++includes_ > kMostIncludes) {
      fail(at, fmt::format("more than {} #includes", kMostIncludes));
    }
    if (++include_depth_ > kDeepestInclude) {
      fail(at, fmt::format("#include goes deeper than {} files; does a file include itself?", kDeepestInclude));
    }
    // A file of the program hides a built-in one only if it is asked for in quotes and lies beside the program.
    std::vector<std::filesystem::path> folders;
    if (quoted) {
      folders.push_back(std::filesystem::path(sources_.name(file)).parent_path());
    }
    const std::optional<std::string_view> builtin = builtin_source(name);
    if (!builtin) {
      folders.insert(folders.end(), options_.include_folders.begin(), options_.include_folders.end());
    }
    std::error_code ignored;
    const auto found = std::find_if(folders.begin(), folders.end(), [&](const auto& folder) {
      return std::filesystem::is_regular_file(folder / included->name, ignored);
    });
    if (found != folders.end()) {
      const std::filesystem::path path = *found / name;
      if (!once_.contains(identity(path.string()))) {
        include(sources_.add(path.string(), read(path, at)));
      }
    } else if (builtin) {
      include(sources_.add("<" + name + ">", std::string(*builtin)));
    } else {
      fail(at, "there is no file " + name + "; give its folder with -I");
    }
    --include_depth_;
  }

  [[nodiscard]] std::string read(const std::filesystem::path& path, Location at) const {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    if (in.bad() || !in.is_open()) {
      fail(at, "cannot read " + path.string());
    }
    if (options_.files_read != nullptr) {
      options_.files_read->insert(path);
    }
    return text.str();
  }

  Sources& sources_;
  const PreprocessOptions& options_;
  Macros macros_;
  std::set<std::string> once_;  // files with #pragma once
  std::vector<Branch> branches_;
  std::vector<Token> output_;
  Location last_;
  unsigned include_depth_ = 0;
  unsigned includes_ = 0;
};

}  // namespace

std::vector<Token> preprocess(Sources& sources, std::uint32_t file, const PreprocessOptions& options) {
  return Preprocessor(sources, options).run(file);
}

}  // namespace sidelatch::p4

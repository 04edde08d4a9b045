#include "preprocess.h"

#include "builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace sidelatch::p4 {

namespace {

constexpr std::size_t kMostTokens = 2'000'000;
constexpr unsigned kDeepestInclude = 32;
constexpr unsigned kMostIncludes = 10'000;
constexpr std::size_t kMostExpansions = 600'000;
constexpr unsigned kDeepestCondition = 200;

struct Macro {
  bool has_parameters = false;
  std::vector<std::string> parameters;
  std::vector<Token> body;
};

// The value of an #if expression.
class Condition {
 public:
  Condition(std::vector<Token> tokens, Location at) : tokens_(std::move(tokens)), at_(at) {}

  bool value() {
    const long long result = choice();
    if (position_ < tokens_.size()) {
      fail(tokens_[position_].at, "the condition should end before '" + tokens_[position_].text + "'");
    }
    return result != 0;
  }

 private:
  [[nodiscard]] bool at_symbol(std::string_view symbol) const {
    return position_ < tokens_.size() && tokens_[position_].is(symbol);
  }
  bool take(std::string_view symbol) {
    if (!at_symbol(symbol)) {
      return false;
    }
    ++position_;
    return true;
  }

  // a ? b : c
  long long choice() {
    const long long condition = binary(0);
    if (!take("?")) {
      return condition;
    }
    if (++depth_ > kDeepestCondition) {
      fail(at_, "unsupported: a condition nested this deeply");
    }
    const long long yes = choice();
    if (!take(":")) {
      fail(at_, "':' is missing in this condition");
    }
    const long long no = choice();
    --depth_;
    return condition != 0 ? yes : no;
  }

  struct Operator {
    std::string_view symbol;
    int level;
  };

  long long binary(int level) {
    static constexpr Operator kOperators[] = {{"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5}, {"==", 6},
                                              {"!=", 6}, {"<=", 7}, {">=", 7}, {"<", 7},  {">", 7}, {"+", 9},
                                              {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}, {"<<", 8}};
    static constexpr Operator kRight{">>", 8};  // two tokens
    long long left = unary();
    while (true) {
      const Operator* found = nullptr;
      for (const Operator& candidate : kOperators) {
        if (at_symbol(candidate.symbol)) {
          found = &candidate;
          break;
        }
      }
      const bool right_shift = at_symbol(">") && position_ + 1 < tokens_.size() && tokens_[position_ + 1].is(">") &&
                               tokens_[position_ + 1].adjacent;
      found = right_shift ? &kRight : found;
      if (found == nullptr || found->level <= level) {
        return left;
      }
      const Location place = tokens_[position_].at;
      position_ += right_shift ? 2 : 1;
      const long long right = binary(found->level);
      left = apply(found->symbol, left, right, place);
    }
  }

  static long long apply(std::string_view op, long long a, long long b, Location at) {
    const auto wrap = [](unsigned long long value) { return static_cast<long long>(value); };
    const auto ua = static_cast<unsigned long long>(a);
    const auto ub = static_cast<unsigned long long>(b);
    if (op == "||") {
      return static_cast<long long>(a != 0 || b != 0);  // NOLINT
    }
    if (op == "&&") {
      return static_cast<long long>(a != 0 && b != 0);  // NOLINT
    }
    if (op == "==") {
      return static_cast<long long>(a == b);  // NOLINT
    }
    if (op == "!=") {
      return static_cast<long long>(a != b);  // NOLINT
    }
    if (op == "<=") {
      return static_cast<long long>(a <= b);  // NOLINT
    }
    if (op == ">=") {
      return static_cast<long long>(a >= b);  // NOLINT
    }
    if (op == "<") {
      return static_cast<long long>(a < b);  // NOLINT
    }
    if (op == ">") {
      return static_cast<long long>(a > b);  // NOLINT
    }
    if (op == "+") {
      return wrap(ua + ub);  // NOLINT
    }
    if (op == "-") {
      return wrap(ua - ub);  // NOLINT
    }
    if (op == "*") {
      return wrap(ua * ub);  // NOLINT
    }
    if (op == "|") {
      return wrap(ua | ub);  // NOLINT
    }
    if (op == "^") {
      return wrap(ua ^ ub);  // NOLINT
    }
    if (op == "&") {
      return wrap(ua & ub);  // NOLINT
    }
    if (op == "<<" || op == ">>") {
      if (b < 0 || b > 63) {
        fail(at, "a shift in a condition is by 0 to 63");
      }
      return op == "<<" ? wrap(ua << ub) : a >> b;
    }
    if (b == 0 || b == -1) {
      if (b == 0) {
        fail(at, "division by zero");
      }
      return op == "/" ? wrap(0 - ua) : 0;
    }
    return op == "/" ? a / b : a % b;
  }

  long long unary() {
    if (++depth_ > kDeepestCondition) {
      fail(at_, "unsupported: a condition nested this deeply");
    }
    const long long value = unary_inside();
    --depth_;
    return value;
  }

  long long unary_inside() {
    if (take("!")) {
      return static_cast<long long>(unary() == 0);
    }
    if (take("-")) {
      return static_cast<long long>(0 - static_cast<unsigned long long>(unary()));
    }
    if (take("+")) {
      return unary();
    }
    if (take("~")) {
      return static_cast<long long>(~static_cast<unsigned long long>(unary()));
    }
    if (take("(")) {
      const long long value = choice();
      if (!take(")")) {
        fail(at_, "')' is missing in this condition");
      }
      return value;
    }
    if (position_ >= tokens_.size()) {
      fail(at_, "this condition ends too early");
    }
    const Token& token = tokens_[position_++];
    if (token.kind == TokenKind::number) {
      return static_cast<long long>(std::strtoull(token.text.c_str(), nullptr, 0));
    }
    if (token.kind == TokenKind::name) {
      return 0;  // what is not defined counts as 0
    }
    fail(token.at, "a condition cannot have '" + token.text + "' here");
  }

  std::vector<Token> tokens_;
  Location at_;
  std::size_t position_ = 0;
  unsigned depth_ = 0;
};

class Preprocessor {
 public:
  Preprocessor(Sources& sources, const PreprocessOptions& options) : sources_(sources), options_(options) {
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
    Macro macro;
    macro.body = tokenize(sources_, sources_.add("<-D " + name + ">", text));
    macros_[name] = std::move(macro);
  }

  // One #if: whether this branch counts, whether one counted already, whether the surroundings count.
  struct Branch {
    bool active;
    bool taken;
    bool around;
    Location at;
  };

  [[nodiscard]] bool active() const { return branches_.empty() || branches_.back().active; }

  void include(std::uint32_t file) {
    const std::vector<Token> tokens = tokenize(sources_, file);
    const std::size_t branches_before = branches_.size();
    std::size_t i = 0;
    while (i < tokens.size()) {
      std::size_t end = i + 1;
      if (tokens[i].is("#") && tokens[i].starts_line) {
        while (end < tokens.size() && !tokens[end].starts_line) {
          ++end;
        }
        directive(std::vector<Token>(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                     tokens.begin() + static_cast<std::ptrdiff_t>(end)),
                  tokens[i].at, file);
      } else {
        // Up to the next directive, so that the arguments of a macro may lie on several lines.
        while (end < tokens.size() && !(tokens[end].is("#") && tokens[end].starts_line)) {
          ++end;
        }
        if (active()) {
          last_ = tokens[end - 1].at;
          expand(tokens, i, end, std::nullopt, output_, {});
        }
      }
      i = end;
    }
    if (branches_.size() > branches_before) {
      fail(branches_.back().at, "#endif is missing for this condition");
    }
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
      define(line, at);
    } else if (name == "undef") {
      if (line.empty() || line.front().kind != TokenKind::name) {
        fail(at, "#undef needs a name");
      }
      macros_.erase(line.front().text);
    } else if (name == "error") {
      fail(at, "#error" + joined(line, " "));
    } else if (name != "pragma" && name != "line" && name != "warning" && first.kind != TokenKind::number) {
      fail(first.at, "there is no directive #" + name);
    }
  }

  static std::string joined(const std::vector<Token>& tokens, std::string_view between) {
    std::string text;
    for (const Token& token : tokens) {
      text += between;
      text += token.text;
    }
    return text;
  }

  bool condition(const std::string& name, const std::vector<Token>& line, Location at) {
    if (name != "if") {
      if (line.empty() || line.front().kind != TokenKind::name) {
        fail(at, "#" + name + " needs a name");
      }
      return macros_.contains(line.front().text) == (name == "ifdef");
    }
    std::vector<Token> replaced;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (!line[i].is_name("defined")) {
        replaced.push_back(line[i]);
        continue;
      }
      const bool parenthesis = i + 1 < line.size() && line[i + 1].is("(");
      const std::size_t which = i + (parenthesis ? 2 : 1);
      if (which >= line.size() || line[which].kind != TokenKind::name ||
          (parenthesis && (which + 1 >= line.size() || !line[which + 1].is(")")))) {
        fail(line[i].at, "'defined' needs a name");
      }
      Token value = line[which];
      value.kind = TokenKind::number;
      value.text = macros_.contains(line[which].text) ? "1" : "0";
      replaced.push_back(std::move(value));
      i = which + (parenthesis ? 1 : 0);
    }
    std::vector<Token> expanded;
    expand(replaced, 0, replaced.size(), std::nullopt, expanded, {});
    return Condition(std::move(expanded), at).value();
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
    if (name == "else") {
      branch.active = branch.around && !branch.taken;
    } else {
      branch.active = branch.around && !branch.taken && condition("if", line, at);
    }
    branch.taken = branch.taken || branch.active;
  }

  void include_directive(const std::vector<Token>& line, Location at, std::uint32_t file) {
    std::string name;
    bool quoted = false;
    if (line.size() == 1 && line.front().kind == TokenKind::string) {
      name = line.front().text;
      quoted = true;
    } else if (line.size() > 2 && line.front().is("<") && line.back().is(">")) {
      name = joined({line.begin() + 1, line.end() - 1}, "");
    } else {
      fail(at, "#include needs <file> or \"file\"");
    }
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
      return std::filesystem::is_regular_file(folder / name, ignored);
    });
    if (found != folders.end()) {
      const std::filesystem::path path = *found / name;
      std::ifstream in(path, std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      if (!in) {
        fail(at, "cannot read " + path.string());
      }
      include(sources_.add(path.string(), text.str()));
    } else if (builtin) {
      include(sources_.add("<" + name + ">", std::string(*builtin)));
    } else {
      fail(at, "there is no file " + name + "; give its folder with -I");
    }
    --include_depth_;
  }

  void define(const std::vector<Token>& line, Location at) {
    if (line.empty() || line.front().kind != TokenKind::name) {
      fail(at, "#define needs a name");
    }
    Macro macro;
    std::size_t i = 1;
    if (i < line.size() && line[i].is("(") && line[i].adjacent) {
      macro.has_parameters = true;
      for (++i; i < line.size() && !line[i].is(")"); ++i) {
        if (line[i].kind == TokenKind::name) {
          if (std::find(macro.parameters.begin(), macro.parameters.end(), line[i].text) != macro.parameters.end()) {
            fail(line[i].at, "this macro has the parameter '" + line[i].text + "' twice");
          }
          macro.parameters.push_back(line[i].text);
        } else if (!line[i].is(",")) {
          fail(line[i].at, "a parameter of a macro is a name");
        }
      }
      if (i >= line.size()) {
        fail(at, "')' is missing after the parameters of this macro");
      }
      ++i;
    }
    macro.body.assign(line.begin() + static_cast<std::ptrdiff_t>(i), line.end());
    for (const Token& token : macro.body) {
      if (token.is("##") || token.is("#")) {
        unsupported(token.at, "'" + token.text + "' in a macro");
      }
    }
    macros_[line.front().text] = std::move(macro);
  }

  // Appends tokens[i, end) to `out`, macros replaced. `at`: the place of the outermost macro's use.
  void expand(const std::vector<Token>& tokens, std::size_t i, std::size_t end, std::optional<Location> at,
              std::vector<Token>& out, const std::set<std::string>& hidden) {
    if (++steps_ > kMostExpansions) {
      fail(end > 0 ? tokens[end - 1].at : last_,
           fmt::format("unsupported: more than {} macro expansions", kMostExpansions));
    }
    for (; i < end; ++i) {
      const Token& token = tokens[i];
      const auto found = token.kind == TokenKind::name ? macros_.find(token.text) : macros_.end();
      if (found == macros_.end() || hidden.contains(token.text) ||
          (found->second.has_parameters && !(i + 1 < end && tokens[i + 1].is("(")))) {
        out.push_back(token);
        if (at) {
          out.back().at = *at;
        }
        if (++emitted_ > kMostTokens) {
          fail(token.at, "the program is too long after its macros have been replaced");
        }
        continue;
      }
      const Macro macro = found->second;
      std::vector<Token> body = macro.body;
      if (macro.has_parameters) {
        body = with_arguments(macro, tokens, i, end, hidden);
      }
      std::set<std::string> inner = hidden;
      inner.insert(token.text);
      if (inner.size() > 200) {
        fail(token.at, "unsupported: macros nested this deeply");
      }
      expand(body, 0, body.size(), at ? *at : token.at, out, inner);
    }
  }

  // The body of the macro whose name is tokens[i], arguments in place; moves `i` to the last ')'.
  std::vector<Token> with_arguments(const Macro& macro, const std::vector<Token>& tokens, std::size_t& i,
                                    std::size_t end, const std::set<std::string>& hidden) {
    const Location at = tokens[i].at;
    std::vector<std::vector<Token>> arguments(1);
    int depth = 0;
    for (++i; i < end; ++i) {
      const Token& token = tokens[i];
      if (token.is("(") && ++depth == 1) {
        continue;
      }
      if (token.is(")") && --depth == 0) {
        break;
      }
      if (token.is(",") && depth == 1) {
        arguments.emplace_back();
      } else {
        arguments.back().push_back(token);
      }
    }
    if (i >= end) {
      fail(at, "')' is missing after the arguments of this macro");
    }
    if (macro.parameters.empty() && arguments.size() == 1 && arguments[0].empty()) {
      arguments.clear();
    }
    if (arguments.size() != macro.parameters.size()) {
      fail(at, fmt::format("this macro has {} parameters, not {}", macro.parameters.size(), arguments.size()));
    }
    std::vector<Token> body;
    for (const Token& token : macro.body) {
      const auto parameter = std::find(macro.parameters.begin(), macro.parameters.end(), token.text);
      if (token.kind != TokenKind::name || parameter == macro.parameters.end()) {
        body.push_back(token);
      } else {
        const auto& argument = arguments[static_cast<std::size_t>(parameter - macro.parameters.begin())];
        expand(argument, 0, argument.size(), std::nullopt, body, hidden);
      }
      if (body.size() > kMostTokens) {
        fail(at, "the program is too long after its macros have been replaced");
      }
    }
    return body;
  }

  Sources& sources_;
  const PreprocessOptions& options_;
  std::map<std::string, Macro> macros_;
  std::vector<Branch> branches_;
  std::vector<Token> output_;
  Location last_;
  unsigned include_depth_ = 0;
  std::size_t emitted_ = 0;
  std::size_t steps_ = 0;  // expansions, also those that leave nothing
  unsigned includes_ = 0;
};

}  // namespace

std::vector<Token> preprocess(Sources& sources, std::uint32_t file, const PreprocessOptions& options) {
  return Preprocessor(sources, options).run(file);
}

}  // namespace sidelatch::p4

#include "macros.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace sidelatch::p4 {

namespace {

constexpr std::size_t kMostTokens = 2'000'000;
constexpr std::size_t kMostReplacements = 600'000;
constexpr unsigned kDeepest = 200;

constexpr const char* kRest = "__VA_ARGS__";

bool is_fixed(const std::string& name) {
  return name == "defined" || name == kRest || name == "__LINE__" || name == "__FILE__";
}

const Token& named(const std::vector<Token>& line, Location at, const std::string& directive) {
  if (line.empty() || line.front().kind != TokenKind::name) {
    fail(at, directive + " needs a name");
  }
  if (is_fixed(line.front().text)) {
    fail(line.front().at, directive + " cannot have the name '" + line.front().text + "', which has a fixed meaning");
  }
  return line.front();
}

std::string spelling(const Token& token) {
  if (token.kind != TokenKind::string) {
    return token.text;
  }
  std::string text = "\"";
  for (const char c : token.text) {
    text += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  }
  return text + '"';
}

bool same_tokens(const std::vector<Token>& a, const std::vector<Token>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&a](const Token& x, const Token& y) {
    return x.kind == y.kind && x.text == y.text && (x.spaced == y.spaced || &x == a.data());
  });
}

Token as_string(const Token& hash, const std::vector<Token>& argument) {
  Token made = hash;
  made.kind = TokenKind::string;
  made.text = spelling(argument);
  return made;
}

}  // namespace

class Macros::Deeper {
 public:
  Deeper(Macros& macros, Location at) : macros_(macros) {
    if (++macros_.depth_ > kDeepest) {
      unsupported(at, "macros nested this deeply");
    }
  }
  ~Deeper() { --macros_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Macros& macros_;
};

std::string spelling(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token& token : tokens) {
    text += token.spaced && !text.empty() ? " " : "";
    text += spelling(token);
  }
  return text;
}

// The number of the parameter that the token is; what is none has the number of parameters.
std::size_t Macros::Macro::parameter(const Token& token) const {
  if (token.kind != TokenKind::name) {
    return parameters.size();
  }
  return static_cast<std::size_t>(std::find(parameters.begin(), parameters.end(), token.text) - parameters.begin());
}

void Macros::predefine(const std::string& name, std::vector<Token> body) {
  Macro macro;
  macro.body = std::move(body);
  for (Token& token : macro.body) {
    token.starts_line = false;
  }
  macros_[name] = std::move(macro);
}

bool Macros::defined(const std::string& name) const {
  return macros_.contains(name) || name == "__LINE__" || name == "__FILE__";
}

void Macros::undefine(const std::vector<Token>& line, Location at) { macros_.erase(named(line, at, "#undef").text); }

void Macros::define(const std::vector<Token>& line, Location at) {
  const Token& name = named(line, at, "#define");
  Macro macro;
  std::size_t position = 1;
  if (line.size() > 1 && line[1].is("(") && line[1].adjacent) {
    read_parameters(macro, line, position, at);
  }
  read_body(macro, line, position);
  const auto before = macros_.find(name.text);
  if (before != macros_.end() && warnings_ != nullptr &&
      (before->second.has_parameters != macro.has_parameters || before->second.parameters != macro.parameters ||
       !same_tokens(before->second.body, macro.body))) {
    warnings_->push_back({name.at, "the macro '" + name.text + "' gets another meaning; #undef it first"});
  }
  macros_[name.text] = std::move(macro);
}

// Moves `position` behind ')'.
void Macros::read_parameters(Macro& macro, const std::vector<Token>& line, std::size_t& position, Location at) {
  macro.has_parameters = true;
  ++position;
  bool more = position < line.size() && !line[position].is(")");
  while (more) {
    if (position >= line.size()) {
      fail(at, "')' is missing after the parameters of this macro");
    }
    const Token& token = line[position++];
    if (token.is("...")) {
      macro.is_variadic = true;
      macro.parameters.emplace_back(kRest);
    } else if (token.kind != TokenKind::name || is_fixed(token.text)) {
      fail(token.at, "a parameter of a macro is a name");
    } else if (macro.parameter(token) < macro.parameters.size()) {
      fail(token.at, "this macro has the parameter '" + token.text + "' twice");
    } else {
      macro.parameters.push_back(token.text);
      macro.is_variadic = position < line.size() && line[position].is("...");  // GNU's "name..."
      position += macro.is_variadic ? 1 : 0;
    }
    more = !macro.is_variadic && position < line.size() && line[position].is(",");
    position += more ? 1 : 0;
  }
  if (position >= line.size() || !line[position].is(")")) {
    fail(at, "')' is missing after the parameters of this macro");
  }
  ++position;
}

void Macros::read_body(Macro& macro, const std::vector<Token>& line, std::size_t position) {
  for (std::size_t i = position; i < line.size(); ++i) {
    const Token& token = line[i];
    const bool before_parameter = i + 1 < line.size() && macro.parameter(line[i + 1]) < macro.parameters.size();
    if (token.is("{#") && before_parameter) {  // P4's token, but C has two
      Token part = token;
      part.text = "{";
      macro.body.push_back(part);
      part.text = "#";
      part.spaced = false;
      macro.body.push_back(part);
      continue;
    }
    if (token.is("#") && macro.has_parameters && !before_parameter) {
      fail(token.at, "'#' in a macro with parameters needs a parameter after it");
    }
    if (token.is("##") && (i == position || i + 1 == line.size())) {
      fail(token.at, "'##' in a macro needs something on both sides");
    }
    if (token.is_name(kRest) && macro.parameter(token) == macro.parameters.size()) {
      fail(token.at, "__VA_ARGS__ is only in macros whose parameters end with '...'");
    }
    macro.body.push_back(token);
  }
}

void Macros::replace(std::vector<Token> text, std::vector<Token>& out) {
  contexts_.clear();
  contexts_.push_back({std::move(text)});
  boundary_ = false;
  space_ahead_ = false;
  replace_down_to(1, out);
}

std::vector<Token> Macros::replace_in_condition(std::vector<Token> text) {
  std::vector<Token> out;
  in_condition_ = true;
  replace(std::move(text), out);
  in_condition_ = false;
  return out;
}

// Reads what is left of the contexts from number `floor` on, counted from 1.
void Macros::replace_down_to(std::size_t floor, std::vector<Token>& out) {
  Token token;
  while (read(token, floor)) {
    if (token.kind != TokenKind::name || token.is_final || !replaced(token, floor, out)) {
      out.push_back(token);
    }
  }
}

void Macros::leave_context() {
  if (contexts_.back().macro != nullptr) {
    contexts_.back().macro->disabled = false;
  }
  contexts_.pop_back();
  boundary_ = true;
}

bool Macros::read(Token& token, std::size_t floor) {
  while (contexts_.back().position == contexts_.back().tokens.size()) {
    if (contexts_.size() == floor) {
      return false;
    }
    leave_context();
  }
  Context& context = contexts_.back();
  token = context.tokens[context.position++];
  if (contexts_.size() > 1) {
    token.at = use_;
  }
  token.adjacent = token.adjacent && !boundary_;
  token.spaced = token.spaced || space_ahead_;
  boundary_ = false;
  space_ahead_ = false;
  if (token.kind == TokenKind::name) {
    const auto found = macros_.find(token.text);
    token.is_final = token.is_final || (found != macros_.end() && found->second.disabled);
  }
  return true;
}

bool Macros::parenthesis_ahead(std::size_t floor) {
  while (contexts_.back().position == contexts_.back().tokens.size()) {
    if (contexts_.size() == floor) {
      return false;
    }
    leave_context();
  }
  return contexts_.back().tokens[contexts_.back().position].is("(");
}

// Puts what the macro becomes before what is still to be read. False: the name is no macro here.
bool Macros::replaced(const Token& name, std::size_t floor, std::vector<Token>& out) {
  if (in_condition_ && name.text == "defined") {
    out.push_back(answer_defined(name, floor));
    return true;
  }
  if (name.text == "__LINE__" || name.text == "__FILE__") {
    Token made = name;
    made.kind = name.text == "__LINE__" ? TokenKind::number : TokenKind::string;
    made.text = name.text == "__LINE__" ? std::to_string(name.at.line) : sources_.name(name.at.file);
    out.push_back(std::move(made));
    boundary_ = true;
    return true;
  }
  const auto found = macros_.find(name.text);
  if (found == macros_.end()) {
    return false;
  }
  Macro& macro = found->second;
  use_ = name.at;
  Arguments given;
  if (macro.has_parameters) {
    if (!parenthesis_ahead(floor)) {
      return false;
    }
    given = arguments(macro, name, floor);
  }
  if (++replacements_ > kMostReplacements) {
    fail(name.at, fmt::format("unsupported: more than {} macro expansions", kMostReplacements));
  }
  std::vector<Token> made = substituted(macro, name, given);
  count_tokens(made.size(), name.at);
  if (made.empty()) {
    space_ahead_ = space_ahead_ || name.spaced;
  } else {
    made.front().spaced = name.spaced;
    made.front().adjacent = false;
    made.front().starts_line = name.starts_line;
  }
  contexts_.push_back({std::move(made), 0, &macro});
  macro.disabled = true;
  return true;
}

void Macros::count_tokens(std::size_t count, Location at) {
  made_ += count;
  if (made_ > kMostTokens) {
    fail(at, "the program is too long after its macros have been replaced");
  }
}

// `defined NAME` or `defined(NAME)`.
Token Macros::answer_defined(const Token& name, std::size_t floor) {
  Token made = name;
  made.kind = TokenKind::number;
  Token token;
  bool complete = read(token, floor);
  const bool parenthesis = complete && token.is("(");
  complete = complete && (!parenthesis || read(token, floor)) && token.kind == TokenKind::name;
  made.text = defined(token.text) ? "1" : "0";
  complete = complete && (!parenthesis || (read(token, floor) && token.is(")")));
  if (!complete) {
    fail(name.at, "'defined' needs a name");
  }
  return made;
}

// The arguments as they were written; reads up to ')'.
Macros::Arguments Macros::arguments(const Macro& macro, const Token& name, std::size_t floor) {
  Arguments given;
  std::vector<std::vector<Token>>& list = given.tokens;
  list.emplace_back();
  Token token;
  read(token, floor);  // "("
  int depth = 1;
  while (true) {
    if (!read(token, floor)) {
      fail(name.at, "')' is missing after the arguments of this macro");
    }
    count_tokens(1, name.at);
    depth += token.is("(") ? 1 : 0;
    depth -= token.is(")") ? 1 : 0;
    if (depth == 0) {
      break;
    }
    const bool is_rest = macro.is_variadic && list.size() == macro.parameters.size();
    if (token.is(",") && depth == 1 && !is_rest) {
      list.emplace_back();
    } else {
      list.back().push_back(token);
    }
  }
  if (macro.parameters.empty() && list.size() == 1 && list[0].empty()) {
    list.clear();
  }
  if (macro.is_variadic && list.size() + 1 == macro.parameters.size()) {
    list.emplace_back();
    given.without_rest = true;
  }
  given.without_rest = given.without_rest || (macro.is_variadic && list.size() == 1 && list[0].empty());
  if (list.size() != macro.parameters.size()) {
    fail(name.at, fmt::format("this macro has {} parameters, not {}", macro.parameters.size(), list.size()));
  }
  return given;
}

// The body with the arguments in place, '#' and '##' done.
std::vector<Token> Macros::substituted(const Macro& macro, const Token& name, const Arguments& arguments) {
  const std::vector<Token>& body = macro.body;
  std::vector<Token> made;
  std::vector<std::optional<std::vector<Token>>> expanded(arguments.tokens.size());
  bool pastes = false;      // the token before was '##'
  bool left_empty = false;  // and what lies before it is an empty argument
  bool boundary = false;    // the token before was a parameter
  bool space = false;       // an empty argument had white space before it
  for (std::size_t i = 0; i < body.size(); ++i) {
    const std::size_t parameter = macro.parameter(body[i]);
    const bool is_parameter = parameter < macro.parameters.size();
    const bool before_paste = i + 1 < body.size() && body[i + 1].is("##");
    const bool after_paste = i > 0 && body[i - 1].is("##");
    // GNU's ", ## __VA_ARGS__": the comma is there if they were given, even as nothing.
    const bool optional_comma = macro.is_variadic && body[i].is(",") && before_paste &&
                                macro.parameter(body[i + 2]) + 1 == macro.parameters.size();
    std::vector<Token> item;
    if (macro.has_parameters && body[i].is("#")) {
      ++i;
      item.push_back(as_string(body[i - 1], arguments.tokens[macro.parameter(body[i])]));
    } else if (is_parameter && !after_paste && !before_paste) {
      if (!expanded[parameter]) {
        expanded[parameter] = expanded_argument(arguments.tokens[parameter], name);
      }
      item = *expanded[parameter];
    } else if (is_parameter) {
      item = arguments.tokens[parameter];
    } else if (!optional_comma || !arguments.without_rest) {
      item.push_back(body[i]);
    }
    if (item.empty()) {
      space = space || (is_parameter && body[i].spaced);
    } else {
      item.front().adjacent = item.front().adjacent && !is_parameter && !boundary;
      item.front().spaced = (is_parameter ? body[i].spaced : item.front().spaced) || space;
      space = false;
    }
    boundary = is_parameter;
    if (pastes && !left_empty && !item.empty()) {
      made.back() = pasted(made.back(), item.front());
      item.erase(item.begin());
      left_empty = false;
    } else {
      left_empty = item.empty() && (left_empty || !pastes);
    }
    made.insert(made.end(), std::make_move_iterator(item.begin()), std::make_move_iterator(item.end()));
    if (made.size() > kMostTokens) {
      fail(name.at, "the program is too long after its macros have been replaced");
    }
    pastes = i + 1 < body.size() && body[i + 1].is("##") && !optional_comma;
    i += pastes || optional_comma ? 1 : 0;
  }
  return made;
}

std::vector<Token> Macros::expanded_argument(const std::vector<Token>& argument, const Token& name) {
  const Deeper deeper(*this, name.at);
  std::vector<Token> made;
  contexts_.push_back({argument});
  replace_down_to(contexts_.size(), made);
  contexts_.pop_back();
  boundary_ = true;
  space_ahead_ = false;
  return made;
}

Token Macros::pasted(const Token& left, const Token& right) const {
  const std::vector<Token> made = tokenize(spelling(left) + spelling(right), left.at);
  if (made.size() != 1 || made.front().kind == TokenKind::wrong) {
    fail(left.at, "'##' makes no token of '" + left.text + "' and '" + right.text + "'");
  }
  Token token = made.front();
  token.at = left.at;
  token.adjacent = left.adjacent;
  token.spaced = left.spaced;
  token.starts_line = left.starts_line;
  return token;
}

}  // namespace sidelatch::p4

#include "print.h"

#include "parser.h"
#include "token_reader.h"

#include <fmt/format.h>

#include <set>
#include <string_view>

namespace sidelatch::p4::ast {

namespace {

class Printer {
 public:
  explicit Printer(const Sources& sources) : sources_(sources) {}

  std::string run(const Program& program) {
    std::set<std::uint32_t> included;
    for (const DeclarationPtr& declaration : program.declarations) {
      if (sources_.name(declaration->at.file).starts_with('<')) {
        include(*declaration, program, included);
        continue;
      }
      print(*declaration);
    }
    return std::move(out_);
  }

 private:
  void include(const Declaration& declaration, const Program& program, std::set<std::uint32_t>& included) {
    if (!included.insert(declaration.at.file).second) {
      return;
    }
    const std::string& file = sources_.name(declaration.at.file);
    if (file == "<v1model.p4>") {
      for (const DeclarationPtr& one : program.declarations) {
        if (one->kind == DeclarationKind::constant && one->name == "__v1model_version") {
          line(fmt::format("#define V1MODEL_VERSION {}", text(*one->value)));
        }
      }
    }
    line("#include " + file);
  }

  void line(std::string_view words) {
    if (!words.empty() && words.front() != '#') {
      out_.append(2 * static_cast<std::size_t>(depth_), ' ');
    }
    out_ += words;
    out_ += '\n';
  }
  void open(const std::string& words) {
    line(words + " {");
    ++depth_;
  }
  void close(const char* after = "") {
    --depth_;
    line(std::string("}") + after);
  }

  static std::string quoted(const std::string& words) {
    std::string made = "\"";
    for (const char c : words) {
      made += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    }
    return made + '"';
  }

  template <class List, class Each>
  static std::string joined(const List& list, Each each) {
    std::string made;
    for (const auto& one : list) {
      made += (made.empty() ? "" : ", ") + each(one);
    }
    return made;
  }

  static std::string text(const Type& type) {
    const auto sized = [&](const char* name) {
      return type.width == nullptr ? std::string(name) : fmt::format("{}<{}>", name, operand(*type.width, kTightest));
    };
    const auto arguments = [&] {
      return type.arguments.empty() ? std::string{}
                                    : "<" + joined(type.arguments, [](const TypePtr& one) { return text(*one); }) + ">";
    };
    switch (type.kind) {
      case TypeKind::bits:
        return sized("bit");
      case TypeKind::integer:
        return sized("int");
      case TypeKind::varbit:
        return sized("varbit");
      case TypeKind::boolean:
        return "bool";
      case TypeKind::error:
        return "error";
      case TypeKind::string:
        return "string";
      case TypeKind::any_integer:
        return "int";
      case TypeKind::none:
        return "void";
      case TypeKind::any:
        return "_";
      case TypeKind::tuple:
        return "tuple" + (type.arguments.empty() ? "<>" : arguments());
      case TypeKind::stack:
        return fmt::format("{}[{}]", text(*type.arguments[0]), text(*type.width));
      case TypeKind::name:
        break;
    }
    return (type.global ? "." : "") + type.name + arguments();
  }

  // Levels of binary operators are from 1 on; above them come prefixes, and then what needs no parentheses.
  static constexpr int kPrefix = 100;
  static constexpr int kTightest = 101;

  static int level(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::conditional:
      case ExprKind::mask:
      case ExprKind::range:
        return 0;
      case ExprKind::binary:
        return operator_level(expr.text);
      case ExprKind::unary:
      case ExprKind::cast:
        return kPrefix;
      default:
        return kTightest;
    }
  }

  static std::string operand(const Expr& expr, int least) {
    return level(expr) < least ? "(" + text(expr) + ")" : text(expr);
  }

  static std::string arguments(const Expr& call) {
    std::string made;
    for (std::size_t i = 1; i < call.operands.size(); ++i) {
      made +=
          (made.empty() ? "" : ", ") + (call.names.empty() ? "" : call.names[i - 1] + " = ") + text(*call.operands[i]);
    }
    return "(" + made + ")";
  }

  static std::string text(const Expr& expr) {
    const auto part = [&](std::size_t which) -> const Expr& { return *expr.operands[which]; };
    switch (expr.kind) {
      case ExprKind::number:
      case ExprKind::boolean:
        return expr.text;
      case ExprKind::string:
        return quoted(expr.text);
      case ExprKind::name:
        return (expr.global ? "." : "") + expr.text;
      case ExprKind::member:
        return operand(part(0), kTightest) + "." + expr.text;
      case ExprKind::index:
        return fmt::format("{}[{}]", operand(part(0), kTightest), text(part(1)));
      case ExprKind::slice:
        return fmt::format("{}[{}{}{}]", operand(part(0), kTightest), text(part(1)),
                           expr.text.empty() ? ":" : " +: ", text(part(2)));
      case ExprKind::unary:
        return expr.text + operand(part(0), kTightest);
      case ExprKind::binary: {
        const int mine = operator_level(expr.text);
        return fmt::format("{} {} {}", operand(part(0), mine), expr.text, operand(part(1), mine + 1));
      }
      case ExprKind::conditional:
        return fmt::format("{} ? {} : {}", operand(part(0), 1), operand(part(1), 1), operand(part(2), 1));
      case ExprKind::cast:
        return fmt::format("({}){}", text(*expr.type), operand(part(0), kTightest));
      case ExprKind::call: {
        const std::string types =
            expr.type_arguments.empty()
                ? ""
                : "<" + joined(expr.type_arguments, [](const TypePtr& one) { return text(*one); }) + ">";
        return operand(part(0), kTightest) + types + arguments(expr);
      }
      case ExprKind::list:
        if (expr.text == "...") {
          return "...";
        }
        return "{ " + joined(expr.operands, [](const ExprPtr& one) { return text(*one); }) + rest(expr) + " }";
      case ExprKind::fields: {
        std::string made;
        for (std::size_t i = 0; i < expr.operands.size(); ++i) {
          made += fmt::format("{}{} = {}", made.empty() ? "" : ", ", expr.names[i], text(part(i)));
        }
        return "{ " + made + rest(expr) + " }";
      }
      case ExprKind::type:
        return text(*expr.type);
      case ExprKind::any:
        return "_";
      case ExprKind::fallback:
        return "default";
      case ExprKind::mask:
        return operand(part(0), 1) + " &&& " + operand(part(1), 1);
      case ExprKind::range:
        return operand(part(0), 1) + " .. " + operand(part(1), 1);
      case ExprKind::invalid:
        return "{#}";
    }
    return {};
  }

  static std::string rest(const Expr& list) { return list.text.empty() ? "" : list.operands.empty() ? "..." : ", ..."; }

  static std::string text(const Annotations& list) {
    std::string made;
    for (const Annotation& one : list) {
      if (one.name == "pragma") {
        continue;
      }
      made += "@" + one.name;
      made += one.arguments.empty()
                  ? " "
                  : "(" + joined(one.arguments, [](const ExprPtr& argument) { return text(*argument); }) + ") ";
    }
    return made;
  }

  static std::string text(const std::vector<Parameter>& parameters) {
    return "(" +
           joined(parameters,
                  [](const Parameter& one) {
                    const char* direction = one.direction == Direction::in      ? "in "
                                            : one.direction == Direction::out   ? "out "
                                            : one.direction == Direction::inout ? "inout "
                                                                                : "";
                    return text(one.annotations) + direction + text(*one.type) + " " + one.name +
                           (one.otherwise == nullptr ? "" : " = " + text(*one.otherwise));
                  }) +
           ")";
  }

  static std::string type_parameters(const Declaration& of) {
    return of.type_parameters.empty()
               ? ""
               : "<" + joined(of.type_parameters, [](const std::string& one) { return one; }) + ">";
  }

  void print(const Declaration& one) {
    const std::string notes = text(one.annotations);
    switch (one.kind) {
      case DeclarationKind::constant:
        line(fmt::format("{}const {} {} = {};", notes, text(*one.type), one.name, text(*one.value)));
        return;
      case DeclarationKind::variable:
        line(fmt::format("{}{} {}{};", notes, text(*one.type), one.name,
                         one.value == nullptr ? "" : " = " + text(*one.value)));
        return;
      case DeclarationKind::alias:
      case DeclarationKind::new_type:
        line(fmt::format("{}{} {} {};", notes, one.kind == DeclarationKind::alias ? "typedef" : "type", text(*one.type),
                         one.name));
        return;
      case DeclarationKind::enumeration:
      case DeclarationKind::error:
      case DeclarationKind::match_kind:
        members(one, notes);
        return;
      case DeclarationKind::structure:
      case DeclarationKind::header:
      case DeclarationKind::header_union:
        structure(one, notes);
        return;
      case DeclarationKind::extern_object:
        open(notes + "extern " + one.name + type_parameters(one));
        for (const DeclarationPtr& method : one.locals) {
          line(text(method->annotations) + (method->is_abstract ? "abstract " : "") +
               (method->type == nullptr ? "" : text(*method->type) + " ") + method->name + type_parameters(*method) +
               text(method->parameters) + ";");
        }
        close();
        return;
      case DeclarationKind::function: {
        const std::string head = notes + text(*one.type) + " " + one.name + type_parameters(one) + text(one.parameters);
        if (one.body == nullptr) {
          line("extern " + head + ";");
        } else {
          block(head, *one.body);
        }
        return;
      }
      case DeclarationKind::action:
        block(notes + "action " + one.name + text(one.parameters), *one.body);
        return;
      case DeclarationKind::table:
        table(one, notes);
        return;
      case DeclarationKind::control:
      case DeclarationKind::parser:
        container(one, notes);
        return;
      case DeclarationKind::instance: {
        std::string given;
        for (std::size_t i = 0; i < one.arguments.size(); ++i) {
          given += (given.empty() ? "" : ", ") + (one.argument_names.empty() ? "" : one.argument_names[i] + " = ") +
                   text(*one.arguments[i]);
        }
        line(fmt::format("{}{}({}) {};", notes, text(*one.type), given, one.name));
        return;
      }
      case DeclarationKind::value_set:
        line(fmt::format("{}value_set<{}>({}) {};", notes, text(*one.type), text(*one.arguments[0]), one.name));
        return;
      case DeclarationKind::package:
        line(notes + "package " + one.name + type_parameters(one) + text(one.parameters) + ";");
        return;
    }
  }

  void members(const Declaration& one, const std::string& notes) {
    const std::string head = one.kind != DeclarationKind::enumeration ? one.name
                             : one.type == nullptr                    ? "enum " + one.name
                                                                      : "enum " + text(*one.type) + " " + one.name;
    line(notes + head + " { " +
         joined(one.members,
                [](const Member& member) {
                  return member.name + (member.value == nullptr ? "" : " = " + text(*member.value));
                }) +
         " }");
  }

  void structure(const Declaration& one, const std::string& notes) {
    const char* kind = one.kind == DeclarationKind::structure ? "struct"
                       : one.kind == DeclarationKind::header  ? "header"
                                                              : "header_union";
    open(fmt::format("{}{} {}{}", notes, kind, one.name, type_parameters(one)));
    for (const Field& field : one.fields) {
      line(text(field.annotations) + text(*field.type) + " " + field.name + ";");
    }
    close();
  }

  void container(const Declaration& one, const std::string& notes) {
    const bool is_parser = one.kind == DeclarationKind::parser;
    std::string head =
        notes + (is_parser ? "parser " : "control ") + one.name + type_parameters(one) + text(one.parameters);
    if (is_parser ? one.states.empty() && one.locals.empty() : one.body == nullptr) {
      line(head + ";");
      return;
    }
    if (!one.constructor_parameters.empty()) {
      head += text(one.constructor_parameters);
    }
    open(head);
    for (const DeclarationPtr& local : one.locals) {
      print(*local);
    }
    for (const State& state : one.states) {
      print(state);
    }
    if (!is_parser) {
      block("apply", *one.body);
    }
    close();
  }

  // One set, or several in parentheses.
  static std::string sets(const std::vector<ExprPtr>& keys) {
    const std::string made = joined(keys, [](const ExprPtr& one) { return text(*one); });
    return keys.size() == 1 ? made : "(" + made + ")";
  }

  void print(const State& state) {
    open(text(state.annotations) + "state " + state.name);
    for (const StatementPtr& one : state.body) {
      print(*one);
    }
    if (!state.select.empty() || !state.cases.empty()) {
      open("transition select(" + joined(state.select, [](const ExprPtr& one) { return text(*one); }) + ")");
      for (const SelectCase& one : state.cases) {
        line(sets(one.keys) + ": " + one.next + ";");
      }
      close();
    } else if (!state.next.empty()) {
      line("transition " + state.next + ";");
    }
    close();
  }

  static std::string key(const KeyElement& one) {
    return text(*one.value) + ": " + one.kind + " " + text(one.annotations);
  }

  static std::string without_end(std::string words) {
    while (words.ends_with(' ')) {
      words.pop_back();
    }
    return words;
  }

  void table(const Declaration& one, const std::string& notes) {
    const Table& table = *one.table;
    open(notes + "table " + one.name);
    if (!table.keys.empty()) {
      open("key =");
      for (const KeyElement& element : table.keys) {
        line(without_end(key(element)) + ";");
      }
      close();
    }
    if (table.has_actions) {
      open("actions =");
      for (const ActionReference& action : table.actions) {
        line(text(action.annotations) + text(*action.call) + ";");
      }
      close();
    }
    if (table.has_entries) {
      open(table.constant_entries ? "const entries =" : "entries =");
      for (const TableEntry& entry : table.entries) {
        line(without_end(fmt::format("{}{}{}: {} {}", entry.is_constant ? "const " : "",
                                     entry.priority == nullptr ? "" : "priority = " + text(*entry.priority) + ": ",
                                     sets(entry.keys), text(*entry.action), text(entry.annotations))) +
             ";");
      }
      close();
    }
    if (table.default_action != nullptr) {
      line(fmt::format("{}default_action = {};", table.constant_default ? "const " : "", text(*table.default_action)));
    }
    if (table.size != nullptr) {
      line("size = " + text(*table.size) + ";");
    }
    for (const auto& [name, value] : table.properties) {
      line(name + " = " + text(*value) + ";");
    }
    close();
  }

  void block(const std::string& head, const Statement& body) {
    open(head);
    for (const StatementPtr& one : body.body) {
      print(*one);
    }
    close();
  }

  // A chain stays one: it may be longer than what nests.
  void conditional(const Statement& first) {
    const Statement* one = &first;
    branch("if (" + text(*one->left) + ")", *one->body[0]);
    while (one->body.size() > 1 && one->body[1]->kind == StatementKind::conditional) {
      one = one->body[1].get();
      branch("else if (" + text(*one->left) + ")", *one->body[0]);
    }
    if (one->body.size() > 1) {
      branch("else", *one->body[1]);
    }
  }

  // A branch has braces, so that no 'else' changes its 'if'.
  void branch(const std::string& head, const Statement& body) {
    if (body.kind == StatementKind::block) {
      block(head, body);
      return;
    }
    open(head);
    print(body);
    close();
  }

  // An assignment, a call or a variable, without what ends it.
  static std::string text(const Statement& one) {
    switch (one.kind) {
      case StatementKind::assign:
        return fmt::format("{} {}= {}", text(*one.left), one.text, text(*one.right));
      case StatementKind::declare:
        return fmt::format("{}{} {}{}", text(one.declaration->annotations), text(*one.declaration->type),
                           one.declaration->name,
                           one.declaration->value == nullptr ? "" : " = " + text(*one.declaration->value));
      default:
        return text(*one.left);
    }
  }

  void loop(const Statement& one) {
    const auto list = [](const std::vector<StatementPtr>& parts) {
      return joined(parts, [](const StatementPtr& part) { return text(*part); });
    };
    branch(one.right != nullptr
               ? fmt::format("for ({} {} in {})", text(*one.declaration->type), one.declaration->name, text(*one.right))
               : fmt::format("for ({}; {}; {})", list(one.first), text(*one.left), list(one.steps)),
           *one.body[0]);
  }

  void print(const Statement& one) {
    switch (one.kind) {
      case StatementKind::block:
        line("{");
        ++depth_;
        for (const StatementPtr& inner : one.body) {
          print(*inner);
        }
        close();
        return;
      case StatementKind::assign:
      case StatementKind::call:
        line(text(one) + ";");
        return;
      case StatementKind::loop:
        loop(one);
        return;
      case StatementKind::stop:
        line("break;");
        return;
      case StatementKind::again:
        line("continue;");
        return;
      case StatementKind::conditional:
        conditional(one);
        return;
      case StatementKind::choose:
        open("switch (" + text(*one.left) + ")");
        for (const SwitchCase& choice : one.cases) {
          const std::string label = choice.label == nullptr ? "default:" : text(*choice.label) + ":";
          if (choice.body == nullptr) {
            line(label);
          } else {
            block(label, *choice.body);
          }
        }
        close();
        return;
      case StatementKind::give_back:
        line(one.left == nullptr ? "return;" : "return " + text(*one.left) + ";");
        return;
      case StatementKind::leave:
        line("exit;");
        return;
      case StatementKind::empty:
        line(";");
        return;
      case StatementKind::declare:
        print(*one.declaration);
        return;
    }
  }

  const Sources& sources_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string print(const Program& program, const Sources& sources) { return Printer(sources).run(program); }

}  // namespace sidelatch::p4::ast

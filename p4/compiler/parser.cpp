#include "parser.h"

#include "token_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace sidelatch::p4::ast {

namespace {

class DeclarationParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Program program() {
    Program program;
    while (peek().kind != TokenKind::end) {
      if (take(";")) {
        continue;
      }
      program.declarations.push_back(declaration());
    }
    return program;
  }

 private:
  static DeclarationPtr make(DeclarationKind kind, const Token& name) {
    auto made = std::make_shared<Declaration>();
    made->kind = kind;
    made->name = name.text;
    made->at = name.at;
    return made;
  }

  DeclarationPtr declaration() {
    Annotations notes = annotations();
    DeclarationPtr made = unannotated();
    made->annotations = std::move(notes);
    return made;
  }

  DeclarationPtr unannotated() {
    const Token& first = peek();
    if (first.kind == TokenKind::name) {
      if (first.text == "const") {
        return constant();  // NOLINT
      }
      if (first.text == "typedef") {
        return alias(DeclarationKind::alias);  // NOLINT
      }
      if (first.text == "type") {
        return alias(DeclarationKind::new_type);  // NOLINT
      }
      if (first.text == "enum") {
        return enumeration();  // NOLINT
      }
      if (first.text == "error" && peek(1).is("{")) {
        return names(DeclarationKind::error);  // NOLINT
      }
      if (first.text == "match_kind" && peek(1).is("{")) {
        return names(DeclarationKind::match_kind);  // NOLINT
      }
      if (first.text == "struct") {
        return structure(DeclarationKind::structure);  // NOLINT
      }
      if (first.text == "header") {
        return structure(DeclarationKind::header);  // NOLINT
      }
      if (first.text == "header_union") {
        return structure(DeclarationKind::header_union);  // NOLINT
      }
      if (first.text == "extern") {
        return extern_declaration();  // NOLINT
      }
      if (first.text == "action") {
        return action();  // NOLINT
      }
      if (first.text == "control") {
        return control();  // NOLINT
      }
      if (first.text == "parser") {
        return parser();  // NOLINT
      }
      if (first.text == "package") {
        return package();  // NOLINT
      }
    }
    return typed_declaration(true);
  }

  DeclarationPtr constant() {
    next();
    const TypePtr of = type();
    auto made = make(DeclarationKind::constant, declared_name("the name of a constant"));
    made->type = of;
    expect("=");
    made->value = initializer();
    declare_value(made->name);
    expect(";");
    return made;
  }

  DeclarationPtr alias(DeclarationKind kind) {
    next();
    Annotations ignored = annotations();
    for (const std::string_view declared : {"struct", "header", "header_union", "enum"}) {
      if (peek().is_name(declared)) {
        unsupported(peek().at, fmt::format("a {} that is declared within a typedef", declared));
      }
    }
    const TypePtr of = type();
    auto made = make(kind, declared_name("the name of a type"));
    made->type = of;
    declare_type(made->name);
    expect(";");
    return made;
  }

  DeclarationPtr enumeration() {
    next();
    TypePtr below;
    if (!(peek().kind == TokenKind::name && peek(1).is("{"))) {
      below = type();
    }
    auto made = make(DeclarationKind::enumeration, declared_name("the name of an enumeration"));
    made->type = below;
    declare_type(made->name);
    member_list(*made);
    take(";");
    return made;
  }

  DeclarationPtr names(DeclarationKind kind) {
    auto made = make(kind, next());
    member_list(*made);
    for (const Member& member : made->members) {
      if (member.value != nullptr) {
        fail(member.at, "'" + member.name + "' has no value: it is no enumeration");
      }
    }
    take(";");
    return made;
  }

  void member_list(Declaration& made) {
    expect("{");
    if (peek().is("}")) {
      fail(peek().at, "expected the name of a member: there is at least one");
    }
    while (!take("}")) {
      static_cast<void>(annotations());
      const Token name = declared_name("the name of a member");
      ExprPtr value;
      if (take("=")) {
        value = expression();
      }
      made.members.push_back({name.at, name.text, value});
      if (!peek().is("}")) {
        expect(",");
      }
    }
  }

  DeclarationPtr structure(DeclarationKind kind) {
    next();
    auto made = make(kind, declared_name("the name of a type"));
    declare_type(made->name);
    const NameScope inner(*this);
    made->type_parameters = type_parameters();
    expect("{");
    while (!take("}")) {
      Field field;
      field.annotations = annotations();
      field.type = type();
      const Token name = declared_name("the name of a field");
      field.name = name.text;
      field.at = name.at;
      made->fields.push_back(std::move(field));
      expect(";");
    }
    return made;
  }

  DeclarationPtr extern_declaration() {
    next();
    // An object has '{' after its name and type parameters; a function has a result type first.
    if (peek().kind == TokenKind::name && (peek(1).is("{") || peek(1).is("<") || peek(1).is(";"))) {
      const std::size_t start = position();
      const Token name = next();
      if (peek().is("{") || skip_type_parameters("{")) {
        seek(start);
        return extern_object();
      }
      seek(start);
    }
    return typed_declaration(false);
  }

  bool skip_type_parameters(std::string_view then) {
    if (!take("<")) {
      return false;
    }
    while (peek().kind == TokenKind::name && (peek(1).is(",") || peek(1).is(">"))) {
      next();
      if (next().is(">")) {
        return peek().is(then);
      }
    }
    return false;
  }

  DeclarationPtr extern_object() {
    auto made = make(DeclarationKind::extern_object, next());
    declare_type(made->name);
    const NameScope inner(*this);
    made->type_parameters = type_parameters();
    expect("{");
    while (!take("}")) {
      Annotations notes = annotations();
      const NameScope of_method(*this);
      DeclarationPtr method;
      if (peek().is_name(made->name) && peek(1).is("(")) {
        method = make(DeclarationKind::function, next());
        method->parameters = constructor_parameters({});
      } else {
        const bool is_abstract = peek().is_name("abstract");
        if (is_abstract) {
          next();
        }
        const TypePtr result = type();
        method = make(DeclarationKind::function, declared_name("the name of a method"));
        method->type = result;
        method->is_abstract = is_abstract;
        method->type_parameters = type_parameters();
        method->parameters = parameters();
      }
      method->annotations = std::move(notes);
      expect(";");
      check_new_method(*method, made->locals);
      made->locals.push_back(std::move(method));
    }
    return made;
  }

  // Methods with one name differ in the number or the names of their parameters.
  static void check_new_method(const Declaration& method, const std::vector<DeclarationPtr>& others) {
    const auto same = [&](const DeclarationPtr& other) {
      return other->name == method.name && same_parameters(*other, method);
    };
    if (std::any_of(others.begin(), others.end(), same)) {
      fail(method.at, "'" + method.name + "' is declared twice with these parameters");
    }
  }

  // A variable, an instance or a function: all begin with a type.
  DeclarationPtr typed_declaration(bool may_have_body) {
    const TypePtr of = type();
    if (peek().is("(")) {  // TYPE(ARGUMENTS) NAME;
      std::vector<ExprPtr> arguments;
      std::vector<std::string> argument_names;
      argument_list(arguments, argument_names);
      auto made = make(DeclarationKind::instance, declared_name("the name of an instance"));
      if (peek().is("=")) {
        unsupported(peek().at, "an instance with abstract methods");
      }
      made->type = of;
      made->arguments = std::move(arguments);
      made->argument_names = std::move(argument_names);
      declare_value(made->name);
      expect(";");
      return made;
    }
    const Token name = declared_name("a name");
    if (peek().is("(") || peek().is("<")) {
      auto made = make(DeclarationKind::function, name);
      declare_value(name.text);
      const NameScope inner(*this);
      made->type = of;
      made->type_parameters = type_parameters();
      made->parameters = parameters();
      if (may_have_body) {
        check_none_optional(made->parameters);
        made->body = block();
      } else {
        expect(";");
      }
      return made;
    }
    auto made = make(DeclarationKind::variable, name);
    made->type = of;
    if (take("=")) {
      made->value = initializer();
    }
    declare_value(made->name);
    expect(";");
    return made;
  }

  DeclarationPtr action() {
    next();
    auto made = make(DeclarationKind::action, declared_name("the name of an action"));
    declare_value(made->name);
    const NameScope inner(*this);
    made->parameters = parameters();
    check_none_optional(made->parameters);
    made->body = block();
    return made;
  }

  DeclarationPtr package() {
    next();
    auto made = make(DeclarationKind::package, declared_name("the name of a package"));
    declare_type(made->name);
    const NameScope inner(*this);
    made->type_parameters = type_parameters();
    made->parameters = constructor_parameters({});
    expect(";");
    return made;
  }

  // What P4 allows in the prototype of a control or parser only.
  static void check_implementation(const Declaration& made) {
    if (!made.type_parameters.empty()) {
      fail(made.at, "'" + made.name + "' has a body, so it has no type parameters");
    }
    check_none_optional(made.parameters);
    check_none_optional(made.constructor_parameters);
  }

  DeclarationPtr control() {
    next();
    auto made = make(DeclarationKind::control, declared_name("the name of a control"));
    declare_type(made->name);
    const NameScope inner(*this);
    made->type_parameters = type_parameters();
    made->parameters = parameters();
    if (take(";")) {
      return made;
    }
    if (peek().is("(")) {
      made->constructor_parameters = constructor_parameters(made->parameters);
    }
    check_implementation(*made);
    expect("{");
    while (!peek().is_name("apply")) {
      made->locals.push_back(local(true));
    }
    next();
    made->body = block();
    expect("}");
    return made;
  }

  DeclarationPtr local(bool in_control) {
    Annotations notes = annotations();
    DeclarationPtr made;
    if (peek().is_name("const")) {
      made = constant();
    } else if (in_control && peek().is_name("action")) {
      made = action();
    } else if (in_control && peek().is_name("table")) {
      made = table();
    } else {
      made = typed_declaration(false);
      if (made->kind == DeclarationKind::function) {
        fail(made->at, "a function is declared outside of controls and parsers");
      }
    }
    made->annotations = std::move(notes);
    return made;
  }

  DeclarationPtr parser() {
    next();
    auto made = make(DeclarationKind::parser, declared_name("the name of a parser"));
    declare_type(made->name);
    const NameScope inner(*this);
    made->type_parameters = type_parameters();
    made->parameters = parameters();
    if (take(";")) {
      return made;
    }
    if (peek().is("(")) {
      made->constructor_parameters = constructor_parameters(made->parameters);
    }
    check_implementation(*made);
    expect("{");
    while (!peek().is("}")) {
      const std::size_t start = position();
      Annotations notes = annotations();
      if (peek().is_name("state") && peek(1).kind == TokenKind::name && peek(2).is("{")) {
        made->states.push_back(state());
        made->states.back().annotations = std::move(notes);
      } else if (!made->states.empty()) {
        fail(peek().at, "expected a state: what else a parser declares comes before its states");
      } else if (peek().is_name("value_set") && peek(1).is("<")) {
        made->locals.push_back(value_set());
        made->locals.back()->annotations = std::move(notes);
      } else {
        seek(start);
        made->locals.push_back(local(false));
      }
    }
    expect("}");
    check_states(*made);
    return made;
  }

  static void check_states(const Declaration& made) {
    std::set<std::string> names{"accept", "reject"};
    for (const State& state : made.states) {
      if (!names.insert(state.name).second) {
        fail(state.at, "the state '" + state.name + "' is there twice");
      }
      if (std::any_of(made.locals.begin(), made.locals.end(),
                      [&](const DeclarationPtr& local) { return local->name == state.name; })) {
        fail(state.at, "'" + state.name + "' is declared twice");
      }
    }
    if (!names.contains("start")) {
      fail(made.at, "the parser has no state 'start'");
    }
  }

  DeclarationPtr value_set() {
    next();
    expect("<");
    const TypePtr of = type();
    expect(">");
    expect("(");
    const ExprPtr size = expression();
    expect(")");
    auto made = make(DeclarationKind::value_set, declared_name("the name of a value_set"));
    made->type = of;
    made->arguments = {size};
    declare_value(made->name);
    expect(";");
    return made;
  }

  State state() {
    next();
    State made;
    const Token name = declared_name("the name of a state");
    made.name = name.text;
    made.at = name.at;
    const NameScope inner(*this);
    expect("{");
    while (!peek().is("}") && !peek().is_name("transition")) {
      made.body.push_back(statement());
    }
    made.next_at = peek().at;
    if (peek().is_name("transition")) {
      next();
      made.next_at = peek().at;
      if (peek().is_name("select") && peek(1).is("(")) {
        select(made);
      } else {
        made.next = expect_name("the name of a state").text;
        expect(";");
      }
    }
    expect("}");
    return made;
  }

  void select(State& made) {
    next();
    expect("(");
    if (!take(")")) {
      do {
        made.select.push_back(expression());
      } while (take(","));
      expect(")");
    }
    expect("{");
    while (!take("}")) {
      SelectCase one;
      one.at = peek().at;
      one.keys = key_set();
      expect(":");
      one.next = expect_name("the name of a state").text;
      expect(";");
      made.cases.push_back(std::move(one));
    }
    if (made.select.empty() && made.cases.empty()) {
      fail(made.next_at, "a select of nothing needs a default");
    }
    take(";");
  }

  // One set, or (SET, SET ...). A parenthesis may also begin an expression.
  std::vector<ExprPtr> key_set() {
    const std::size_t start = position();
    if (take("(")) {
      std::vector<ExprPtr> keys;
      do {
        keys.push_back(set_element());
      } while (take(","));
      if (take(")") && peek().is(":")) {
        return keys;
      }
      seek(start);
    }
    return {set_element()};
  }

  DeclarationPtr table() {
    next();
    auto made = make(DeclarationKind::table, declared_name("the name of a table"));
    declare_value(made->name);
    made->table = std::make_shared<Table>();
    expect("{");
    std::set<std::string> properties;
    while (!take("}")) {
      static_cast<void>(annotations());
      bool is_constant = false;
      if (peek().is_name("const")) {
        is_constant = true;
        next();
      }
      const Token property = expect_name("a property of the table");
      if (!properties.insert(property.text).second) {
        fail(property.at, "the table has '" + property.text + "' twice");
      }
      if (is_constant && (property.text == "key" || property.text == "actions")) {
        fail(property.at, "'" + property.text + "' is no property that const is for");
      }
      expect("=");
      if (property.text == "key") {
        keys(*made->table);
      } else if (property.text == "actions") {
        made->table->has_actions = true;
        actions(*made->table);
      } else if (property.text == "entries") {
        made->table->constant_entries = is_constant;
        entries(*made->table);
      } else {
        ExprPtr value = initializer();
        expect(";");
        if (property.text == "default_action") {
          if (!made->table->has_actions) {
            fail(property.at, "default_action comes after 'actions'");
          }
          made->table->default_action = value;
          made->table->constant_default = is_constant;
        } else if (property.text == "size") {
          made->table->size = value;
        } else {
          made->table->properties.emplace_back(property.text, value);
          made->table->property_places.push_back(property.at);
        }
      }
    }
    return made;
  }

  void keys(Table& table) {
    expect("{");
    while (!take("}")) {
      KeyElement key;
      key.at = peek().at;
      key.value = expression();
      expect(":");
      key.kind = expect_name("a match kind").text;
      key.annotations = annotations();
      expect(";");
      table.keys.push_back(std::move(key));
    }
    take(";");
  }

  void actions(Table& table) {
    expect("{");
    while (!take("}")) {
      ActionReference action;
      action.annotations = annotations();
      action.at = peek().at;
      action.call = expression();
      expect(";");
      table.actions.push_back(std::move(action));
    }
    take(";");
  }

  void entries(Table& table) {
    table.has_entries = true;
    expect("{");
    while (!take("}")) {
      TableEntry entry;
      entry.at = peek().at;
      if (peek().is_name("const")) {
        entry.is_constant = true;
        next();
      }
      if (peek().is_name("priority") && peek(1).is("=")) {
        next();
        next();
        entry.priority = expression();
        expect(":");
      }
      entry.keys = key_set();
      expect(":");
      entry.action = expression();
      entry.annotations = annotations();
      expect(";");
      table.entries.push_back(std::move(entry));
    }
    take(";");
  }

  DeclarationPtr statement_declaration() override {
    if (peek().is_name("const")) {
      return constant();
    }
    return typed_declaration(false);
  }
};

}  // namespace

Program parse(std::vector<Token> tokens) { return DeclarationParser(std::move(tokens)).program(); }

const std::string* name_annotation(const Annotations& annotations) {
  for (const Annotation& one : annotations) {
    if (one.name == "name" && one.arguments.size() == 1 && one.arguments[0]->kind == ExprKind::string) {
      return &one.arguments[0]->text;
    }
  }
  return nullptr;
}

}  // namespace sidelatch::p4::ast

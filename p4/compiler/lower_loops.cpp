// Loops.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace sidelatch::p4 {

using ast::ExprKind;

namespace {

constexpr int kMostListParts = 100'000;  // as of a tuple

}  // namespace

void Lowering::loop(const ast::Statement& statement) {
  if (where_ == Where::parser) {
    fail(statement.at,
         "for is not for parsers: let a state have a transition to itself, or put the loop into a function that the "
         "state "
         "calls");
  }
  in_scope(scope_, [&] {
    if (statement.right != nullptr) {
      loop_over(statement);
      return;
    }
    for (const ast::StatementPtr& one : statement.first) {
      this->statement(*one);
    }
    ir::Block body = collect([&] {
      stop_unless(boolean(*statement.left), statement.left->at);
      in_scope(scope_, [&] { this->statement(*statement.body[0]); });
    });
    ir::Block steps = collect([&] {
      for (const ast::StatementPtr& one : statement.steps) {
        this->statement(*one);
      }
    });
    ir::Statement& made = add(ir::Do::loop, statement.at);
    made.yes = std::move(body);
    made.no = std::move(steps);
  });
}

void Lowering::stop_unless(int condition, Location at) {
  ir::Statement& branch = add(ir::Do::branch, at);
  branch.expr = condition;
  branch.no = collect([&] { add(ir::Do::stop, at); });
}

// for (TYPE NAME in LOW .. HIGH). The last value may be the type's largest, so the number is compared before it moves
// on.
void Lowering::loop_over(const ast::Statement& statement) {
  const ast::Declaration& declaration = *statement.declaration;
  const Type* type = resolve(*declaration.type);
  const ast::Expr& range = *statement.right;
  if (range.kind == ExprKind::list || is_cast_to_list(range)) {
    loop_over_list(statement, type);
    return;
  }
  if (range.kind != ExprKind::range) {
    loop_over_stack(statement, type);
    return;
  }
  if (!type->is_bits()) {
    unsupported(declaration.at, "a range of type " + text(type));
  }
  const std::vector<Value> ends = eval_all({range.operands[0].get(), range.operands[1].get()}, {type, type});
  const int high = keep(coerce(ends[1], type, range.operands[1]->at), range.at).expr;
  const Value current = new_place(type);
  store_scalar(current, scalar(coerce(ends[0], type, range.operands[0]->at), range.at), range.at);
  Symbol symbol;
  symbol.value = new_place(type);
  define(declaration, symbol);
  ir::Block body = collect([&] {
    stop_unless(node(ir::Op::less_equal, 1, load(current.place, type->width), high, -1, type->is_signed, type->width),
                range.at);
    store_scalar(symbol.value, load(current.place, type->width), range.at);
    in_scope(scope_, [&] { this->statement(*statement.body[0]); });
  });
  ir::Block steps = collect([&] {
    const int now = load(current.place, type->width);
    stop_unless(logical_not(node(ir::Op::equal, 1, now, high)), range.at);
    store_scalar(current, node(ir::Op::add, type->width, now, constant(1, type->width), -1, type->is_signed), range.at);
  });
  ir::Statement& made = add(ir::Do::loop, statement.at);
  made.yes = std::move(body);
  made.no = std::move(steps);
}

// for (TYPE NAME in STACK). NAME is a copy of the element as it is when its round begins.
void Lowering::loop_over_stack(const ast::Statement& statement, const Type* type) {
  const ast::Expr& expr = *statement.right;
  const Value stack = eval(expr);
  if (stack.kind == Value::Kind::list && stack.type != nullptr && stack.type->kind == Type::Kind::list) {
    if (type != stack.type->element) {
      fail(statement.declaration->at,
           "the elements have the type " + text(stack.type->element) + ", not " + text(type));
    }
    check_list(statement, type, stack.items.size());
    Value elements = stack;
    elements.type = nullptr;
    loop_over_values(statement, type, elements);
    return;
  }
  if (stack.kind != Value::Kind::place || stack.type->kind != Type::Kind::stack) {
    unsupported(expr.at, "for over anything but a range LOW .. HIGH, a list or a stack");
  }
  if (type != stack.type->element) {
    fail(statement.declaration->at, "the elements have the type " + text(stack.type->element) + ", not " + text(type));
  }
  loop_over_elements(statement, type, stack.place.slot + 1, stack.type->count);
}

// (list<TYPE>)...: a variable may have the name `list`, too, and so may a structure of the program.
bool Lowering::is_cast_to_list(const ast::Expr& expr) const {
  if (expr.kind != ExprKind::cast || expr.type->kind != ast::TypeKind::name || expr.type->name != "list") {
    return false;
  }
  const Symbol* symbol = find("list", expr.type->global);
  return symbol == nullptr || (symbol->kind != Symbol::Kind::type && symbol->kind != Symbol::Kind::declaration);
}

// for (TYPE NAME in {A, B}) and for (TYPE NAME in (list<TYPE>){A, B}). The list is evaluated once, into a tuple, before
// the first round.
void Lowering::loop_over_list(const ast::Statement& statement, const Type* type) {
  const ast::Declaration& declaration = *statement.declaration;
  const ast::Expr* list = statement.right.get();
  if (list->kind == ExprKind::cast) {
    const std::vector<ast::TypePtr>& arguments = list->type->arguments;
    const Type* element = arguments.size() == 1 ? resolve(*arguments[0]) : nullptr;
    if (element == nullptr) {
      fail(list->at, "list<T> has one type");
    }
    if (type != element) {
      fail(declaration.at, "the elements have the type " + text(element) + ", not " + text(type));
    }
    list = list->operands[0].get();
  }
  if (list->kind != ExprKind::list || !list->text.empty()) {
    unsupported(list->at, "for over a list that is not written as {A, B}");
  }
  check_list(statement, type, list->operands.size());
  const Type* all = types_.tuple(std::vector<const Type*>(list->operands.size(), type));
  loop_over_values(statement, type, eval(*list, all));
}

void Lowering::check_list(const ast::Statement& statement, const Type* type, std::size_t count) const {
  if (!type->is_data()) {
    unsupported(statement.declaration->at, "for over a list of " + text(type));
  }
  if (count > kMostListParts / static_cast<std::size_t>(std::max({type->slots, type->parts, 1}))) {
    unsupported(statement.right->at, fmt::format("a list of more than {} parts", kMostListParts));
  }
}

// One round for each of these values, which are kept before the first round.
void Lowering::loop_over_values(const ast::Statement& statement, const Type* type, const Value& values) {
  const Location at = statement.right->at;
  if (values.items.empty()) {
    // No round. The body is read all the same, for its mistakes.
    static_cast<void>(collect([&] { loop_over_elements(statement, type, new_slots(type), 1); }));
    return;
  }
  const Type* all = types_.tuple(std::vector<const Type*>(values.items.size(), type));
  const Value elements = new_place(all);
  initialise(elements, coerce(values, all, at), at);
  loop_over_elements(statement, type, elements.place.slot, static_cast<int>(values.items.size()));
}

// One round for each of `elements` values of this type, which lie one after the other from `slot` on.
void Lowering::loop_over_elements(const ast::Statement& statement, const Type* type, int slot, int elements) {
  const Location at = statement.right->at;
  const Type* counted = types_.bits(32, false);
  const Value current = new_place(counted);
  store_scalar(current, constant(0, 32), at);
  Symbol symbol;
  symbol.value = new_place(type);
  define(*statement.declaration, symbol);
  ir::Block body = collect([&] {
    const int now = load(current.place, 32);
    const int count = constant(static_cast<unsigned>(elements), 32);
    stop_unless(node(ir::Op::less, 1, now, count, -1, false, 32), at);
    Value element;
    element.kind = Value::Kind::place;
    element.type = type;
    element.place = {slot, now, type->slots, elements};
    store(symbol.value, element, at);
    in_scope(scope_, [&] { this->statement(*statement.body[0]); });
  });
  ir::Block steps =
      collect([&] { store_scalar(current, node(ir::Op::add, 32, load(current.place, 32), constant(1, 32)), at); });
  ir::Statement& made = add(ir::Do::loop, statement.at);
  made.yes = std::move(body);
  made.no = std::move(steps);
}

}  // namespace sidelatch::p4

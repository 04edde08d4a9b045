// Loops.
#include "lower.h"

#include <utility>

namespace sidelatch::p4 {

using ast::ExprKind;

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
  if (stack.kind != Value::Kind::place || stack.type->kind != Type::Kind::stack) {
    unsupported(expr.at, "for over anything but a range LOW .. HIGH or a stack");
  }
  if (type != stack.type->element) {
    fail(statement.declaration->at, "the elements have the type " + text(stack.type->element) + ", not " + text(type));
  }
  const Type* counted = types_.bits(32, false);
  const Value current = new_place(counted);
  store_scalar(current, constant(0, 32), expr.at);
  Symbol symbol;
  symbol.value = new_place(type);
  define(*statement.declaration, symbol);
  ir::Block body = collect([&] {
    const int now = load(current.place, 32);
    const int count = constant(static_cast<unsigned>(stack.type->count), 32);
    stop_unless(node(ir::Op::less, 1, now, count, -1, false, 32), expr.at);
    Value element;
    element.kind = Value::Kind::place;
    element.type = type;
    element.place = {stack.place.slot + 1, now, type->slots, stack.type->count};
    store(symbol.value, element, expr.at);
    in_scope(scope_, [&] { this->statement(*statement.body[0]); });
  });
  ir::Block steps =
      collect([&] { store_scalar(current, node(ir::Op::add, 32, load(current.place, 32), constant(1, 32)), expr.at); });
  ir::Statement& made = add(ir::Do::loop, statement.at);
  made.yes = std::move(body);
  made.no = std::move(steps);
}

}  // namespace sidelatch::p4

// Turns the syntax tree into IR: resolves names, checks types, instantiates controls and parsers with their arguments,
// gives every variable its slots, and orders what expressions do besides having a value.
//
// One class, whose functions are in lower_*.cpp by subject.
#pragma once

#include "ast.h"
#include "p4/ir.h"
#include "types.h"
#include "unassigned.h"

#include <sidelatch/p4/bits.h>

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::p4 {

struct Object;

/// What an expression stands for.
struct Value {
  enum class Kind : std::uint8_t {
    none,     // of a call without a result
    integer,  // a number of type int
    scalar,   // an expression of the IR
    place,    // storage
    list,     // {a, b}, or a constant structure
    invalid,  // {#}
    string,
    type,
    object,  // an instance, or a function; text: the method
    any,     // _
  };
  Kind kind = Kind::none;
  const Type* type = nullptr;
  Number number;
  int expr = -1;
  ir::Place place;
  bool writable = false;
  bool is_known = false;  // when the program is compiled, though it is kept in a place
  bool sliced = false;    // bits [low, low + type->width) of a place of `whole` bits
  unsigned low = 0;
  unsigned whole = 0;
  bool is_next = false;  // STACK.next: `stack` is the place of the stack
  ir::Place stack;
  bool in_header = false;  // a field of the header at `header`
  ir::Place header;
  const Type* union_type = nullptr;  // a member of a header union at this place
  ir::Place union_place;
  // Of a scalar: a slice that lies in these places, the highest bits first. So are those of a wide list that is
  // writable.
  std::vector<Value> items;
  std::shared_ptr<const struct MovingSlice> moving;  // a slice whose place the packet gives
  std::vector<std::string> names;
  bool has_rest = false;    // of a list: {a, ...}
  bool is_default = false;  // ... alone; of a header, {...} is valid, and this is not
  Object* object = nullptr;
  std::string text;
};

/// [low +: W] of a value.
struct MovingSlice {
  Value base;
  Value low;
};

struct Scope;

struct Object {
  enum class Kind : std::uint8_t {
    packet_in,
    packet_out,
    extern_instance,
    control,
    parser,
    table,
    action,
    function,
    extern_functions,
    value_set,
  };
  Kind kind = Kind::function;
  const ast::Declaration* declaration = nullptr;
  std::vector<const ast::Declaration*> overloads;  // of an extern function
  const Type* type = nullptr;                      // of an extern instance
  std::string name;                                // of the control plane
  Location at;
  int index = -1;                 // register, counter, table, routine, parser; of an action_selector the algorithm
  std::vector<Value> parameters;  // where they are, by position
  std::vector<const Type*> parameter_types;
  Value result;
  Scope* scope = nullptr;
  std::vector<Object*> actions;  // of a table
  std::vector<std::string> action_names;
  std::vector<const ast::Expr*> action_calls;  // as the table names them; null: NoAction, which it does not name
  int uses = 0;
  bool waits = false;            // a control whose externs come with its apply(), which then lowers it
  std::vector<Value> arguments;  // of its constructor, until then
  std::vector<Object*> externs;  // of a control or a function: what its parameters of extern types stand for
};

struct Symbol {
  enum class Kind : std::uint8_t { value, type, object, declaration } kind = Kind::value;
  Value value;
  const Type* type = nullptr;
  Object* object = nullptr;
  const ast::Declaration* declaration = nullptr;  // a control or parser to be instantiated, a generic type
  std::size_t order = 0;                          // of a declaration of the program: its place among them
  unsigned base = 0;                              // of a constant: that its number is written in
};

struct Scope {
  std::map<std::string, Symbol, std::less<>> names;
  Scope* parent = nullptr;
  std::size_t sees = std::numeric_limits<std::size_t>::max();  // of the program's declarations those up to this one
};

class Lowering {
 public:
  explicit Lowering(const ast::Program& program);
  ir::Program run();
  [[nodiscard]] const std::vector<Warning>& warnings() const { return warnings_; }

  /// What a select looks at: one key, or a list or tuple with parts.
  struct KeyTree {
    std::vector<KeyTree> parts;
    std::size_t size = 0;  // how many keys it has
    bool is_key = false;
  };

 private:
  // lower_declarations.cpp
  void declare(const ast::Declaration& declaration);
  void declare_type(const ast::Declaration& declaration);
  const Type* new_type(const ast::Declaration& declaration);
  void declare_constant(const ast::Declaration& declaration);
  Type* declare_structure(const ast::Declaration& declaration);
  const Type* varbit(const ast::Type& type);
  // The names of the type parameters, in this scope, stand for these types.
  void bind_types(const ast::Declaration& declaration, const std::vector<const Type*>& types);
  const Type* generic_structure(const ast::Declaration& declaration, const ast::Type& use);
  void declare_enumeration(const ast::Declaration& declaration);
  void enumeration_members(const ast::Declaration& declaration, Type& made);
  void define(const ast::Declaration& declaration, Symbol symbol);
  [[nodiscard]] const Symbol* find(std::string_view name, bool global = false) const;
  // What is said of a name that find() has not found.
  [[nodiscard]] std::string not_found(std::string_view name, const std::string& otherwise) const;
  const Type* resolve(const ast::Type& type);
  Object* new_object(Object::Kind kind, const ast::Declaration* declaration);
  Value wide_value(const Number& number, const Type* type);
  [[nodiscard]] Number wide_number(const Value& value) const;
  static void no_wide(const Value& value, const ast::Expr& expr);
  Value wide_cast(const Value& value, const Type* type, Location at);
  std::vector<int> wide_parts(const Value& value, Location at);
  std::vector<ir::Set> wide_set(const ast::Expr& expr, const Type* type);
  Value wide_result(const std::vector<int>& parts, const Type* type, Location at);
  int keep_bits(int expr, Location at);
  std::vector<int> wide_sum(const std::vector<int>& a, const std::vector<int>& b, int& carry, Location at);
  std::vector<int> wide_product(const std::vector<int>& a, const std::vector<int>& b, Location at);
  Value wide_unary(const std::string& op, const Value& value, Location at);
  std::optional<Value> wide_arithmetic(const std::string& op, const Value& left, const Value& right, Location at);
  int wide_less(const Value& left, const Value& right, Location at);
  Value wide_shift(const Value& left, const Value& right, bool to_left, Location at);
  Value wide_amount(const Value& value, Location at);
  Value wide_concatenation(const Value& left, const Value& right, Location at);
  [[nodiscard]] bool takes_externs(const ast::Declaration& declaration);
  std::vector<Object*> externs_of(const ast::Declaration& declaration, const ast::Expr& expr,
                                  const std::vector<const Type*>& types);
  void lower_waiting(Object& control, const ast::Expr& expr);
  void local_variable(const ast::Declaration& declaration);
  void package();
  void standard_metadata(const Value& place);
  void field_lists(const Type* type, int slot, const std::vector<unsigned>& outer);
  std::vector<unsigned> lists_of(const ast::Annotations* annotations);

  // lower_instances.cpp
  Object* instantiate(const ast::Declaration& instance, const std::string& prefix);
  Object* extern_instance(const Type* type, const ast::Declaration& instance, const std::string& prefix);
  Object* control_instance(const ast::Declaration& declaration, const std::vector<Value>& arguments, std::string name,
                           const std::vector<Value>* places);
  void lower_control(Object& object, const std::vector<Value>& arguments, const std::vector<Value>* places);
  bool has_type(const ast::Declaration& declaration, const Type* wanted);
  bool is_instance_of(const Value& value, const Type* type);
  void bind_constructor(const ast::Declaration& declaration, const std::vector<Value>& arguments, Location at);
  void check_directions(const ast::Declaration& part, std::string_view prototype) const;
  void bind_parameters(Object& object, const std::vector<ast::Parameter>& parameters, const std::vector<Value>* places);
  void declare_locals(const ast::Declaration& declaration, const std::string& prefix);
  Object* action(const ast::Declaration& declaration, const std::string& prefix);
  Object* function(const ast::Declaration& declaration, const std::vector<const Type*>& types,
                   const std::vector<Object*>& externs = {});
  [[nodiscard]] static std::string control_name(const ast::Declaration& declaration, const std::string& prefix);
  void count_instance(Location at) const;
  void count_state(std::size_t elements, std::size_t bytes, Location at);

  // lower_signatures.cpp
  const Type* type_in_signature(const ast::Type& type, const std::vector<std::string>& open);
  void check_parameter(const ast::Parameter& parameter, const Type* type, bool of_action) const;
  void check_default(const ast::Parameter& parameter, const Type* type);
  void check_parameters(const std::vector<ast::Parameter>& parameters, const std::vector<std::string>& open);
  void check_constructor(const std::vector<ast::Parameter>& parameters, ast::DeclarationKind own,
                         const std::vector<std::string>& open);
  void check_result(const ast::Declaration& function, const std::vector<std::string>& open);
  void check_signature(const ast::Declaration& declaration);

  // lower_unused.cpp
  void check_unused();
  void check_unused(const ast::Declaration& declaration);

  // lower_table.cpp
  Object* table(const ast::Declaration& declaration, const std::string& prefix);
  /// What a table and a value_set begin and end with.
  Object* begin_table(Object::Kind kind, const ast::Declaration& declaration, const std::string& prefix,
                      ir::Table& made, TableInfo& info);
  void add_table(Object& object, ir::Table made, TableInfo info);
  void table_keys(const ast::Table& source, ir::Table& table, TableInfo& info, std::vector<const Type*>& types,
                  const Object* selector);
  const Object* implementation(const ast::Table& source, const Object& object);
  void selector_hash(const Object& selector, const std::vector<Value>& keys, ir::Table& table);
  Object* property_object(const Object& table, std::string_view property, const ast::Expr& value,
                          const std::vector<std::string_view>& kinds);
  std::optional<ir::Place> header_of_key(const ast::Expr& expr, const Value& value);
  void table_actions(const ast::Table& source, Object& object, ir::Table& table, TableInfo& info,
                     const std::string& prefix);
  void table_entries(const ast::Table& source, const Object& object, TableInfo& info,
                     const std::vector<const Type*>& types);
  Value direct_extern(const Object& table, const ast::Expr& constructor);
  void table_properties(const ast::Table& source, Object& object, ir::Table& table);
  std::size_t action_call(const ast::Expr& call, const Object& object, const TableInfo& info,
                          std::vector<U128>& arguments);
  static const ast::Expr* property_of(const ast::Table& source, std::string_view name);
  std::vector<int> own_priorities(const ast::Table& source);
  int entry_priority(const ast::TableEntry& entry, std::size_t position);
  Object* value_set(const ast::Declaration& declaration, const std::string& prefix);
  [[nodiscard]] bool is_value_set(const ast::Expr& expr) const;
  [[nodiscard]] const Object* value_set_of(const ast::Expr& expr) const;
  ir::Set set(const ast::Expr& expr, const Type* type);

  // key_name.cpp
  [[nodiscard]] unsigned base_of(const ast::Expr& expr) const;
  std::optional<std::string> constant_name(const ast::Expr& expr);
  std::string name_of(const ast::Expr& expr);
  /// Of the control plane.
  std::string key_name(const ast::KeyElement& key);

  // lower_parser.cpp
  Object* parser_instance(const ast::Declaration& declaration, const std::vector<Value>& arguments, std::string name,
                          const std::vector<Value>* places);
  int look_up(const Object& value_set, std::span<const Value> keys, Location at);
  KeyTree select_keys(const Value& value, std::vector<Value>& keys, Location at);
  void select_cases(const ast::State& state, std::span<const Value> keys, std::span<const KeyTree> trees,
                    ir::ParserState& out);
  void parser_state(const ast::State& state, ir::ParserState& out, const std::map<std::string, int>& numbers);
  Value packet_in_method(const ast::Expr& call, const std::string& method, const Type* expected);
  Value packet_out_method(const ast::Expr& call, const std::string& method);
  void extract(const ast::Expr& call);
  Value lookahead(const ast::Expr& call);
  // What lies `bit` bits ahead, which moves on: of a structure or tuple one number after the other.
  Value lookahead_at(const Type* type, unsigned& bit, Location at);
  void fill(const Value& place, const Type* type, unsigned offset, int bits, const ast::Expr& at);
  void emit(const Value& value, Location at);

  // lower_statements.cpp
  void statement(const ast::Statement& statement);
  void statements(const std::vector<ast::StatementPtr>& list);
  void assign(const ast::Statement& statement);
  void conditional(const ast::Statement& statement);
  void choose(const ast::Statement& statement);
  void loop(const ast::Statement& statement);  // lower_loops.cpp
  void loop_over(const ast::Statement& statement);
  void loop_over_stack(const ast::Statement& statement, const Type* type);
  [[nodiscard]] bool is_cast_to_list(const ast::Expr& expr) const;
  void loop_over_list(const ast::Statement& statement, const Type* type);
  void check_list(const ast::Statement& statement, const Type* type, std::size_t count) const;
  void loop_over_values(const ast::Statement& statement, const Type* type, const Value& values);
  void loop_over_elements(const ast::Statement& statement, const Type* type, int slot, int elements);
  void stop_unless(int condition, Location at);
  void choose_action(const ast::Statement& statement, const ast::Expr& table_call);
  void run_cases(const std::vector<int>& conditions, const std::vector<const ast::Statement*>& bodies,
                 const ast::Statement* fallback, Location at);
  void give_back(const ast::Statement& statement);
  void call_statement(const ast::Expr& call);
  void store(const Value& target, const Value& value, Location at);
  void initialise(const Value& target, const Value& value, Location at);
  void mark(const ir::Place& header, bool valid, Location at);
  void store_scalar(const Value& target, int expr, Location at);
  void zero(const Value& place, Location at);
  void declare_unassigned(const Value& place, const std::string& name, Location at);
  void set_validity(const Value& header, bool valid, Location at);

  // lower_expressions.cpp
  Value eval(const ast::Expr& expr, const Type* expected = nullptr);
  Value eval_inside(const ast::Expr& expr, const Type* expected);
  Value name(const ast::Expr& expr);
  Value member(const ast::Expr& expr);
  Value member_of(const Value& base, const ast::Expr& expr);
  Value stack_member(const Value& base, const ast::Expr& expr);
  Value index(const ast::Expr& expr);
  Value bits_of(const Value& value, Location at);
  Value unary(const ast::Expr& expr, const Type* expected);
  Value binary(const ast::Expr& expr, const Type* expected);
  Value arithmetic(const ast::Expr& expr, Value left, Value right);
  Value shift(const ast::Expr& expr, Value left, Value right);
  Value compare(const ast::Expr& expr, Value left, Value right);
  Value lazy(const ast::Expr& expr);
  Value mux(const ast::Expr& expr, const Type* expected);
  Value cast(const Value& value, const Type* type, Location at);
  Value default_of(const Type* type, Location at);
  Value coerce(const Value& value, const Type* type, Location at);
  Value list(const ast::Expr& expr, const Type* expected);
  int any_valid(const Value& header_union);
  int equal(const Value& left, const Value& right, Location at);
  std::optional<int> equal_to_invalid(const Value& left, const Value& right, Location at);
  void unify(Value& left, Value& right, Location at);
  Value place_of(const ast::Expr& expr);
  std::vector<Value> eval_all(const std::vector<const ast::Expr*>& exprs, const std::vector<const Type*>& expected);
  Value keep(const Value& value, Location at);
  [[nodiscard]] bool has_effects(const ast::Expr& expr) const;
  // Of each of these, whether one after it has effects.
  [[nodiscard]] std::vector<bool> changed_later(std::span<const ast::Expr* const> exprs) const;
  int scalar(const Value& value, Location at);
  int boolean(const ast::Expr& expr);
  [[nodiscard]] Number constant_number(const ast::Expr& expr);
  [[nodiscard]] bool is_constant(const Value& value) const;
  [[nodiscard]] Number number_of(const Value& value, Location at) const;
  Value data_of(const Value& value, Location at);

  // lower_slices.cpp
  const Type* bits_type(unsigned width);
  Value slice(const ast::Expr& expr);
  Value fixed_slice(const Value& base, unsigned low, unsigned width, Location at);
  Value part_of(const Value& value, unsigned low, unsigned width, Location at);
  Value joined_parts(const std::vector<Value>& parts, unsigned low, unsigned width, Location at);
  void store_in_parts(const Value& target, const Value& value, Location at);
  Value moving_slice(const Value& base, const Value& target, Value low, unsigned width, Location at);
  Value shifted(const Value& value, const Value& by, bool to_left, Location at);
  void store_moving(const Value& target, const Value& value, Location at);

  // lower_calls.cpp
  Value call(const ast::Expr& expr, const Type* expected);
  Value call_method(const ast::Expr& expr, const Type* expected);
  Value data_method(const Value& base, const ast::Expr& expr);
  Value size_of(const Type* type, const ast::Expr& expr);
  const ast::Declaration& overload(const ast::Declaration& first, const ast::Expr& expr);
  const std::vector<const Type*>& inferred(const ast::Declaration& generic, const ast::Expr& expr,
                                           const Type* expected);
  std::vector<const Type*> infer(const ast::Declaration& generic, const ast::Expr& expr, const Type* expected);
  void match_type(const ast::Declaration& generic, const ast::Type& written, const Type* given,
                  std::vector<const Type*>& types) const;
  Value call_object(Object& object, const ast::Expr& expr, Location at);
  Value call_action(Object& action, const ast::Expr& expr);
  void check_type_argument(const ast::Expr& expr, const Value& argument);
  std::vector<const ast::Expr*> arguments_of(const ast::Expr& call, std::span<const ast::Parameter> parameters);
  static std::vector<std::size_t> as_written(const ast::Expr& call, std::span<const ast::Parameter> parameters);
  std::vector<const ast::Expr*> in_order(std::span<const ast::ExprPtr> given, const std::vector<std::string>& names,
                                         std::span<const ast::Parameter> parameters, Location at);
  std::vector<Value> constructor_arguments(const ast::Declaration& declaration, std::span<const ast::ExprPtr> given,
                                           const std::vector<std::string>& names, Location at, const std::string& name);
  Object* nameless(const ast::Expr& expr, const std::string& name, const std::string& prefix);
  [[nodiscard]] bool is_known(const Value& value) const;
  void pass(const ast::Expr& call, const std::vector<ast::Parameter>& parameters, const std::vector<Value>& slots,
            ir::Block& after, bool known = false);
  Value apply_table(Object& table, Location at);

  // lower_old_externs.cpp
  [[nodiscard]] static bool is_old_extern(std::string_view name);
  [[nodiscard]] std::span<const Value> parameters_here() const;
  void drop(Location at);
  void mark_copies();
  void old_extern(const std::string& name, const std::vector<const ast::Expr*>& arguments, Location at);
  [[nodiscard]] const Value* packets_own(const Type* type) const;
  [[nodiscard]] std::optional<int> frame_slot(const ir::Place& place);
  void check_kept(const Object& control, const ast::Expr& call);
  void kept_slots(const Value& value, std::vector<int>& slots, Location at);
  int kept_list(const ast::Expr& data);
  void add_kept_lists();

  // lower_externs.cpp
  void only_in(bool allowed, const std::string& name, const std::string& where, Location at) const;
  void clone(const std::string& name, const ast::Expr& kind, const ast::Expr& session, int list, Location at);
  void send_again(const std::string& name, int list, Location at);
  void mark_to_drop(const Value& meta, Location at);
  Value extern_call(const Object& function, const ast::Expr& call);
  void check_type_arguments(const ast::Declaration& function, const ast::Expr& call);
  Value extern_method(const Object& object, const std::string& method, const ast::Expr& call);
  const Type* written_type(const ast::Declaration& function, const ast::Expr& call, std::size_t parameter);
  void checksum(const std::string& name, const std::vector<const ast::Expr*>& arguments, const Type* data, Location at);
  void hash(const std::vector<const ast::Expr*>& arguments, const Type* data, Location at);
  Value checksum16(const ast::Expr& argument, const Type* written);
  int algorithm(const ast::Expr& expr);
  // Scalars one after the other, and of each -1 or whether the header that it is a field of is valid.
  struct Flat {
    std::vector<int> exprs;
    std::vector<int> valid;
    std::vector<int> sizes;
    unsigned bits = 0;
    std::vector<std::pair<ir::Place, int>> headers;  // whose validity is loaded already
  };
  void flatten(const Value& value, Flat& flat, Location at);
  void flatten_varbit(const Value& value, Flat& flat);
  void flatten_place(const Value& value, Flat& flat, Location at);
  int validity(const Value& value, Flat& flat);
  int field_list(const ast::Expr& expr);

  // lower_ir.cpp
  int constant(U128 value, unsigned width);
  int load(const ir::Place& place, unsigned width);
  int node(ir::Expr expr);
  int node(ir::Op op, unsigned width, int a, int b = -1, int c = -1, bool is_signed = false, unsigned low = 0);
  int extend(int expr, unsigned from, unsigned to, bool is_signed);
  int logical_not(int expr);
  int conjunction(int a, int b);
  int all_of(std::vector<int> conditions);
  [[nodiscard]] Value field_of(const Value& base, std::size_t which) const;
  [[nodiscard]] bool is_constant(int expr) const {
    return out_.exprs[static_cast<std::size_t>(expr)].op == ir::Op::constant;
  }
  [[nodiscard]] U128 constant_value(int expr) const { return out_.exprs[static_cast<std::size_t>(expr)].value; }
  [[nodiscard]] unsigned width_of(int expr) const { return out_.exprs[static_cast<std::size_t>(expr)].width; }
  int new_slots(const Type* type);
  Value new_place(const Type* type);
  Value scalar_value(int expr, const Type* type);
  [[nodiscard]] Value integer_value(Number number) const;
  ir::Statement& add(ir::Do kind, Location at);
  int header_type(const Type* type, Location at);
  int stack_type(const Type* type);
  [[nodiscard]] static ir::Place moved(ir::Place place, int by);
  [[nodiscard]] static ir::Origin origin(Location at) { return {at.file, at.line, at.column}; }

  /// Runs `body` with its statements going to a block of its own.
  template <class Body>
  ir::Block collect(Body&& body) {
    ir::Block made;
    ir::Block* outer = std::exchange(block_, &made);
    body();
    block_ = outer;
    return made;
  }
  template <class Body>
  void in_scope(Scope* parent, Body&& body) {
    scopes_.emplace_back();
    Scope* mine = &scopes_.back();
    mine->parent = parent;
    Scope* outer = std::exchange(scope_, mine);
    body();
    scope_ = outer;
  }

  // The body of one of the program's declarations, which is lowered when it is used. It sees what was declared before
  // it.
  template <class Body>
  void in_scope_of(const ast::Declaration& declaration, Body&& body) {
    in_scope(global_, [&] {
      if (const auto known = orders_.find(&declaration); known != orders_.end()) {
        scope_->sees = known->second;
      }
      body();
    });
  }

  enum class Where : std::uint8_t { nowhere, parser, control, action, function };

  const ast::Program& program_;
  ir::Program out_;
  Types types_;
  std::deque<Scope> scopes_;
  std::deque<Object> objects_;
  std::deque<ast::Declaration> made_here_;       // that the program has not written as declarations
  std::map<const ast::Expr*, Scope*> defaults_;  // of parameters: their names are those of the declaration
  std::deque<std::vector<Value>> kept_places_;
  Scope* global_ = nullptr;
  std::map<const ast::Declaration*, std::size_t> orders_;
  Scope* scope_ = nullptr;
  ir::Block* block_ = nullptr;
  Where where_ = Where::nowhere;
  // unknown: of what nothing uses.
  enum class Stage : std::uint8_t { none, parser, verify, ingress, egress, compute, deparser, unknown };
  Stage stage_ = Stage::none;
  // Once for each stage that uses it: what it may do differs. So do global actions.
  using FunctionKey = std::tuple<const ast::Declaration*, std::vector<const Type*>, std::vector<Object*>, Stage>;
  std::map<FunctionKey, Object*> functions_;
  // By the call, the function and the instance around it, and what is expected: an argument is looked at for its type
  // first, and calls in it would each double the work.
  std::map<std::tuple<const ast::Expr*, const Object*, const Object*, const Type*>, std::vector<const Type*>> inferred_;
  std::map<std::pair<const ast::Declaration*, std::vector<const Type*>>, const Type*> structures_;  // generic ones
  std::map<const ast::Declaration*, std::vector<const ast::Declaration*>> overloads_;  // by the first function
  std::map<const Type*, int> header_types_;
  std::map<const Type*, int> stack_types_;
  std::map<std::string, bool> match_kinds_;
  std::map<std::string, Object*> shadowed_;  // extern functions whose name something else has, too
  const Object* function_ = nullptr;         // that is being lowered
  const char* no_table_ = nullptr;           // where no table is applied: what is said of it
  bool is_quiet_ = false;  // a header that becomes valid is no part of the packet: packet_length stays
  const ast::Declaration* main_ = nullptr;
  unsigned depth_ = 0;
  Value metadata_;  // of the program, in the frame
  Value standard_;  // the standard ones
  struct Copies {
    std::vector<Value> places;
    int marks = -1;  // the routine of mark_to_drop() that marks all of them
    Location at;     // the first such call
  };
  std::map<Stage, Copies> copies_;  // of the standard metadata: parameters that are copied out
  std::map<const Object*, std::set<std::size_t>> kept_parameters_;  // of a control: those whose fields it keeps
  std::vector<std::vector<int>> kept_lists_;             // slots of the frame, of each list that a call has written
  std::size_t state_bytes_ = 0;                          // of registers and counters
  const Object* instance_ = nullptr;                     // the control or parser that is being lowered
  std::string prefix_;                                   // of the control or parser that is being lowered
  std::map<std::string, unsigned, std::less<>> direct_;  // instances without a declaration, by name
  std::set<std::string> table_names_;                    // of the control plane
  std::vector<Warning> warnings_;
  std::vector<std::string> undeclared_errors_;      // of core.p4
  std::vector<const ast::Declaration*> under_way_;  // generic structures
  std::vector<VariableSlots> variables_;            // those that find_unassigned() looks at
  std::set<const ast::Declaration*> active_;
  std::set<const ast::Declaration*> lowered_;
};

}  // namespace sidelatch::p4

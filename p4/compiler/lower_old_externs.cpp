// What v1model has given up, and older programs have: mark_to_drop(), clone3(type, session, data), resubmit(data) and
// recirculate(data). The data are a list of fields of the metadata, which the packet keeps.
#include "lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace sidelatch::p4 {

namespace {

constexpr std::array<std::string_view, 3> kOldExterns{"clone3", "resubmit", "recirculate"};
// Those of @field_list(N) are below.
constexpr unsigned kFirstKeptList = 256;

}  // namespace

bool Lowering::is_old_extern(std::string_view name) {
  return std::ranges::find(kOldExterns, name) != kOldExterns.end();
}

// Of the control that is being lowered.
std::span<const Value> Lowering::parameters_here() const {
  return instance_ != nullptr ? std::span<const Value>(instance_->parameters) : std::span<const Value>();
}

// mark_to_drop() without metadata. What runs may have a copy of the packet's standard metadata, which it gives back
// when it ends, and so may what has called it; which these are is not known here, as an instance that is an argument of
// a constructor and a global action run within several. So every copy is marked. One that is not in use gets its values
// when it is next passed.
void Lowering::drop(Location at) {
  mark_to_drop(standard_, at);
  Copies& copies = copies_[stage_];
  if (copies.marks < 0) {
    copies.at = at;
    copies.marks = static_cast<int>(out_.routines.size());
    out_.routines.push_back({"mark_to_drop", {}});
  }
  add(ir::Do::call, at).which = copies.marks;
}

// All copies are known now.
void Lowering::mark_copies() {
  for (const auto& [stage, copies] : copies_) {
    if (copies.marks < 0) {
      continue;
    }
    out_.routines[static_cast<std::size_t>(copies.marks)].body = collect([&] {
      for (const Value& copy : copies.places) {
        mark_to_drop(copy, copies.at);
      }
    });
  }
}

void Lowering::old_extern(const std::string& name, const std::vector<const ast::Expr*>& arguments, Location at) {
  if (name == "mark_to_drop") {
    only_in(stage_ == Stage::ingress || stage_ == Stage::egress, name, "Ingress and Egress", at);
    drop(at);
    return;
  }
  const std::size_t needed = name == "clone3" ? 3 : 1;
  if (arguments.size() != needed) {
    fail(at, fmt::format("{} needs {} arguments, not {}", name, needed, arguments.size()));
  }
  const int list = kept_list(*arguments.back());
  if (name == "clone3") {
    clone(name, *arguments[0], *arguments[1], list, at);
  } else {
    send_again(name, list, at);
  }
}

const Value* Lowering::packets_own(const Type* type) const {
  return type == metadata_.type ? &metadata_ : type == standard_.type ? &standard_ : nullptr;
}

// Where the packet has this part of its metadata. A control within a control has a copy of them, which it gives back
// when it ends; what counts are the values at the end of the pipeline. That the parameter is such a copy is seen where
// the control is applied.
std::optional<int> Lowering::frame_slot(const ir::Place& place) {
  if (place.index >= 0) {
    return std::nullopt;
  }
  if (place.slot >= out_.metadata_slot && place.slot < out_.persistent_slots) {
    return place.slot;
  }
  const std::span<const Value> parameters = parameters_here();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value& parameter = parameters[i];
    const int offset = place.slot - parameter.place.slot;
    const Value* whole = parameter.kind == Value::Kind::place ? packets_own(parameter.type) : nullptr;
    if (whole != nullptr && offset >= 0 && offset < whole->type->slots) {
      kept_parameters_[instance_].insert(i);
      return whole->place.slot + offset;
    }
  }
  return std::nullopt;
}

// Parameters whose fields the control keeps stand for the packet's metadata, so the arguments must be these.
void Lowering::check_kept(const Object& control, const ast::Expr& call) {
  const auto kept = kept_parameters_.find(&control);
  if (kept == kept_parameters_.end()) {
    return;
  }
  const std::vector<ast::Parameter>& parameters = control.declaration->parameters;
  const std::vector<const ast::Expr*> arguments = arguments_of(call, parameters);
  for (const std::size_t i : kept->second) {
    Value given;
    static_cast<void>(collect([&] { given = eval(*arguments[i], control.parameters[i].type); }));
    const Value* whole = packets_own(control.parameters[i].type);
    const bool is_place = given.kind == Value::Kind::place && given.type == whole->type;
    if (!is_place || frame_slot(given.place) != whole->place.slot) {
      unsupported(arguments[i]->at, fmt::format("keeping what is no field of the metadata ('{}' keeps fields of '{}')",
                                                control.declaration->name, parameters[i].name));
    }
  }
}

void Lowering::kept_slots(const Value& value, std::vector<int>& slots, Location at) {
  if (value.kind == Value::Kind::list) {
    for (const Value& item : value.items) {
      kept_slots(item, slots, at);
    }
    return;
  }
  const std::optional<int> slot =
      value.kind == Value::Kind::place && !value.sliced ? frame_slot(value.place) : std::nullopt;
  if (!slot) {
    unsupported(at, "keeping what is no field of the metadata");
  }
  for (int i = 0; i < value.type->slots; ++i) {
    slots.push_back(*slot + i);
  }
}

// A list for this call; -1: nothing is kept.
int Lowering::kept_list(const ast::Expr& data) {
  std::vector<int> slots;
  kept_slots(eval(data), slots, data.at);
  if (slots.empty()) {
    return -1;
  }
  kept_lists_.push_back(std::move(slots));
  return static_cast<int>(kFirstKeptList + kept_lists_.size() - 1);
}

// One entry for each slot, in their order.
void Lowering::add_kept_lists() {
  std::map<int, std::vector<unsigned>> lists;
  for (ir::FieldListEntry& entry : out_.field_lists) {
    lists[entry.slot] = std::move(entry.lists);
  }
  for (std::size_t i = 0; i < kept_lists_.size(); ++i) {
    for (const int slot : kept_lists_[i]) {
      lists[slot].push_back(kFirstKeptList + static_cast<unsigned>(i));
    }
  }
  out_.field_lists.clear();
  for (auto& [slot, of_slot] : lists) {
    out_.field_lists.push_back({slot, std::move(of_slot)});
  }
}

}  // namespace sidelatch::p4

// Finds variables that are read before anything was assigned to them, on every path there.
#pragma once

#include "p4/ir.h"

#include <functional>
#include <string>
#include <vector>

namespace sidelatch::p4 {

/// The slots of one variable.
struct VariableSlots {
  int first = 0;
  int count = 0;
  std::string name;
};

/// Calls `report` once for each such variable, with the first statement that reads it. Declarations without an initial
/// value are the `zero` statements with `which` 1. Without a false alarm: what may have been assigned, or is an element
/// of a stack, is not reported; of parsers only the start state is looked at.
void find_unassigned(const ir::Program& program, const std::vector<VariableSlots>& variables,
                     const std::function<void(const ir::Origin&, const std::string& name)>& report);

}  // namespace sidelatch::p4

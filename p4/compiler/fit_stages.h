// What the stages of a Tofino hold.
#pragma once

#include "p4/ir.h"

#include <sidelatch/p4/fit.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace sidelatch::p4 {

/// "ingress" or "egress", and the first stage that can be it, from 1 on.
using FirstStage = std::pair<std::string, int>;

/// Writes how many stages the chip has, and memory blocks in all of them.
void describe_stages(Chip chip, FitReport& report);

/// Puts each register and table that the program uses into a stage from its first one on, and writes where, how much
/// memory they need, and what finds no stage to the report.
void fill_stages(const ir::Program& program, std::map<int, FirstStage> registers,
                 std::map<std::size_t, FirstStage> tables, FitReport& report);

}  // namespace sidelatch::p4

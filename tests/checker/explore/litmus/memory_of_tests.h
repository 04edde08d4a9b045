// What stands in front of the threads in litmus tests that are about something else.
#pragma once

#include <string>

namespace sidelatch::explore {

/// Two words, a line and an object of three lines of M0, and a word of M1. Lines 1 to 6: what follows begins in line 7.
inline const std::string kMemory =
    "litmus t\n"
    "var x = 0\n"
    "var y = 0\n"
    "line L { a = 0, b = 0 }\n"
    "object D[3] = 0\n"
    "node M1 { var z = 0 }\n";

}  // namespace sidelatch::explore

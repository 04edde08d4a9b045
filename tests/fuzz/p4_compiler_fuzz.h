// What must hold for any text that is given to the P4 compiler.
#pragma once

#include <string>

namespace sidelatch::p4 {

/// Aborts if the compiler does anything but refuse the text with a CompileError, or make a program that takes packets.
/// Returns whether it made a program.
bool check_compiler(const std::string& text);

}  // namespace sidelatch::p4

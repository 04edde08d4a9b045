// Values and keys as the control file writes them.
#pragma once

#include <sidelatch/p4/program.h>

#include <string>

namespace sidelatch::p4 {

/// "18", "0x12", "0b10010", a MAC "02:00:00:00:00:01", an IPv4 address "10.0.0.1" or an IPv6 address "fd00::1". Throws
/// ControlError.
[[nodiscard]] U128 control_value(const std::string& text);

/// What a key matches, by its kind: VALUE; ternary VALUE&&&MASK or "*"; lpm VALUE/BITS; range LOW..HIGH; optional VALUE
/// or "*". Throws ControlError.
[[nodiscard]] Match control_match(const KeyInfo& key, const std::string& text);

}  // namespace sidelatch::p4

// Captures must not overwrite what is read, or each other.
#pragma once

#include <sidelatch/p4/wired_switch.h>

namespace sidelatch::p4 {

/// Throws std::invalid_argument if one file has two uses and is written in one of them. Two paths may lead to one file.
void check_capture_files(const WiredSwitchOptions& options);

}  // namespace sidelatch::p4

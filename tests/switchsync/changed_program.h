// The switch programs of p4/ with a mistake, as specimens for tests.
#pragma once

#include <sidelatch/p4/program.h>

#include <memory>
#include <string>

namespace sidelatch::switchsync {

/// The text of p4/NAME.
[[nodiscard]] std::string source_of(const std::string& name);
/// p4/NAME with `wrong` in the place of `right`, which must be in it.
[[nodiscard]] std::shared_ptr<const p4::Program> changed_program(const std::string& name, const std::string& right,
                                                                 const std::string& wrong);

}  // namespace sidelatch::switchsync

// The switch programs of p4/ with a mistake, as specimens for tests.
#pragma once

#include <sidelatch/p4/program.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::switchsync {

/// The text of p4/NAME.
[[nodiscard]] std::string source_of(const std::string& name);
/// p4/NAME with `wrong` in the place of `right`, which must be in it or in what it includes.
[[nodiscard]] std::shared_ptr<const p4::Program> changed_program(const std::string& name, const std::string& right,
                                                                 const std::string& wrong);
/// The same for several places.
using Changes = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] std::shared_ptr<const p4::Program> changed_program(const std::string& name, const Changes& changes);

/// p4/switch_cached.p4 with `wrong` in the place of `right`, which must be in what it includes.
[[nodiscard]] std::shared_ptr<const p4::Program> changed_cached_program(const std::string& right,
                                                                        const std::string& wrong);
/// p4/switch_cached.p4 with versions for so many tuples.
[[nodiscard]] std::shared_ptr<const p4::Program> cached_program_for(std::size_t tuples);

}  // namespace sidelatch::switchsync

// A P4 program on the command line: its file, folders of includes, macros.
#pragma once

#include "options.h"

#include <sidelatch/p4/program.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sidelatch::tools {

struct P4Source {
  std::string program;
  std::vector<std::string> folders;
  std::vector<std::string> macros;
};

/// `source` must live until the program has run.
void add_p4_source(Command& command, P4Source& source);

/// Prints warnings. `files_read` gets the files that were read, if it is not null. Throws p4::CompileError.
[[nodiscard]] std::shared_ptr<const p4::Program> compile_p4(const P4Source& source,
                                                            std::set<std::filesystem::path>* files_read = nullptr);

}  // namespace sidelatch::tools

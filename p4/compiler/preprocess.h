// The C preprocessor. P4_16 demands a part of it; this is all that C17 has, but for #line and _Pragma, which are
// ignored or unknown. Sources: the P4_16 language specification, "Preprocessing"; ISO C17, 6.10.
#pragma once

#include "lexer.h"
#include "source.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sidelatch::p4 {

struct PreprocessOptions {
  /// Folders for #include, after the one of the including file.
  std::vector<std::filesystem::path> include_folders;
  /// Macros without parameters, from -D NAME=TEXT.
  std::map<std::string, std::string> macros;
  /// Where warnings are appended, if anywhere.
  std::vector<Warning>* warnings = nullptr;
  /// Gets the path of each included file that is read, if it is not null.
  std::set<std::filesystem::path>* files_read = nullptr;
};

/// The tokens of a program, ending with an end token. <core.p4> and <v1model.p4> are built in. Tokens of a macro have
/// the place of its use.
[[nodiscard]] std::vector<Token> preprocess(Sources& sources, std::uint32_t file, const PreprocessOptions& options);

}  // namespace sidelatch::p4

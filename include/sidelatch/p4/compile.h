// Compiles P4_16 programs for v1model, to be interpreted.
//
//   const auto program = p4::compile_file("switch.p4", {.include_folders = {"include"}});
//
// What is not in the subset of docs/p4.md is refused, never accepted silently.
//
// Thread-safety: functions without state.
#pragma once

#include <sidelatch/p4/program.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace sidelatch::p4 {

/// what() is "FILE:LINE:COLUMN: error: MESSAGE", the source line, and a caret below the column. The message of what P4
/// allows and this compiler does not begins with "unsupported: ".
class CompileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CompileOptions {
  /// Folders for #include, after that of the including file. core.p4 and v1model.p4 are built in.
  std::vector<std::filesystem::path> include_folders;
  /// Macros without parameters, and their texts.
  std::map<std::string, std::string> macros;
  /// If not null, gets one text like that of a CompileError for everything doubtful.
  std::vector<std::string>* warnings = nullptr;
  /// If not null, gets the path of each file that is read, as it was found: the program's own, and those of #include.
  /// Also if an error ends the reading.
  std::set<std::filesystem::path>* files_read = nullptr;
};

/// Throws CompileError. `name` stands for the file in messages.
[[nodiscard]] std::shared_ptr<const Program> compile(const std::string& text, const std::string& name,
                                                     const CompileOptions& options = {});
/// Throws CompileError, also if the file cannot be read.
[[nodiscard]] std::shared_ptr<const Program> compile_file(const std::filesystem::path& file,
                                                          const CompileOptions& options = {});

/// The program as the compiler has read it, as one P4 file: macros replaced, files of the program in their places, and
/// core.p4 and v1model.p4 included. It means the same: every packet leaves as it did. Throws CompileError as
/// compile_file() does.
[[nodiscard]] std::string print_file(const std::filesystem::path& file, const CompileOptions& options = {});

}  // namespace sidelatch::p4

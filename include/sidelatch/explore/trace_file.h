// Traces of violations: kept in a file and run again, and drawn.
//
//   const explore::Verdict verdict = explore::check(program, options);
//   if (verdict.violation) {
//     explore::save_trace("lost.json", *verdict.violation, options, "my program");
//     write("lost.svg", explore::to_svg(*verdict.violation, "my program"));
//   }
//   ...
//   explore::replay_trace(program, "lost.json");      // under a debugger: the same execution
//
// `sidelatch explore --trace` and `--replay` do the same for the schemes of the registry, in files of their own.
//
// Thread-safety: any thread.
#pragma once

#include <sidelatch/explore/check.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::explore {

/// Writes the violation, the model's rules, and the choices that lead to it, as one JSON value. `program` is a name for
/// people. Throws std::runtime_error that names the file if it cannot be written.
void save_trace(const std::filesystem::path& file, const Violation& violation, const Options& options,
                std::string_view program);

/// What replay needs of a file of save_trace().
struct SavedTrace {
  std::string program;
  Options options;  ///< rules and writing_retries; the rest are the defaults
  Kind kind = Kind::assertion;
  std::string what;
  std::vector<std::string> choices;
};
/// Throws std::invalid_argument that names the file and what is wrong with it.
[[nodiscard]] SavedTrace load_trace(const std::filesystem::path& file);

/// replay() along the choices of the file, under its rules: `broken` with the violation if it is still there, otherwise
/// `bounded`. Throws as load_trace() and replay().
[[nodiscard]] Verdict replay_trace(const Program& program, const std::filesystem::path& file);

/// A picture of the trace: time goes down; a lane for each client and CPU thread, then one for each NIC, then one for
/// each line of memory, with its words after each step. An SVG document.
[[nodiscard]] std::string to_svg(const Violation& violation, std::string_view title);

}  // namespace sidelatch::explore

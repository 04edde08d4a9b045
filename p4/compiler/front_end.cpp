#include "p4/front_end.h"

#include "lower.h"
#include "p4/interpreter.h"
#include "parser.h"
#include "preprocess.h"
#include "print.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

namespace sidelatch::p4 {

namespace {

// Calls `use` with what the program means and how it was written.
template <class Use>
auto with_program(const std::string& text, const std::string& name, const CompileOptions& options, Use use) {
  Sources sources;
  try {
    const std::uint32_t file = sources.add(name, text);
    std::vector<Warning> warnings;
    const ast::Program program =
        ast::parse(preprocess(sources, file, {options.include_folders, options.macros, &warnings, options.files_read}));
    Lowering lowering(program);
    ir::Program made = lowering.run();
    made.info.name = name;
    for (std::uint32_t i = 0; i < sources.count(); ++i) {
      made.files.push_back(sources.name(i));
    }
    warnings.insert(warnings.end(), lowering.warnings().begin(), lowering.warnings().end());
    std::set<std::string> said;  // what each use of a function would say again
    for (const Warning& warning : warnings) {
      if (options.warnings == nullptr) {
        break;
      }
      std::string report = sources.describe(warning.at, "warning", warning.message);
      if (said.insert(report).second) {
        options.warnings->push_back(std::move(report));
      }
    }
    return use(std::move(made), program, sources);
  } catch (const Failure& failure) {
    throw CompileError(failure.at.line == 0 ? name + ": error: " + failure.message
                                            : sources.describe(failure.at, "error", failure.message));
  }
}

}  // namespace

ir::Program front_end(const std::string& text, const std::string& name, const CompileOptions& options) {
  return with_program(text, name, options, [](ir::Program made, const ast::Program&, const Sources&) { return made; });
}

std::string print_file(const std::filesystem::path& file, const CompileOptions& options) {
  return with_program(read_source(file, options), file.string(), options,
                      [](const ir::Program&, const ast::Program& program, const Sources& sources) {
                        return ast::print(program, sources);
                      });
}

std::string read_source(const std::filesystem::path& file, const CompileOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored)) {
    throw CompileError(file.string() + ": error: cannot read the file: it is a folder or a device");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw CompileError(file.string() + ": error: cannot read the file: " + std::strerror(errno));
  }
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) {
    throw CompileError(file.string() + ": error: cannot read the file");
  }
  if (options.files_read != nullptr) {
    options.files_read->insert(file);
  }
  return text.str();
}

std::shared_ptr<const Program> compile(const std::string& text, const std::string& name,
                                       const CompileOptions& options) {
  return std::make_shared<Interpreter>(front_end(text, name, options));
}

std::shared_ptr<const Program> compile_file(const std::filesystem::path& file, const CompileOptions& options) {
  return compile(read_source(file, options), file.string(), options);
}

}  // namespace sidelatch::p4

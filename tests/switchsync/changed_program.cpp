#include "changed_program.h"

#include "tests/paths.h"

#include <sidelatch/p4/compile.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace sidelatch::switchsync {

std::string source_of(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(in_source_tree("p4/" + name)).rdbuf();
  return text.str();
}

namespace {

// With the files of p4/include in it, which may be changed, too.
std::string with_included(const std::string& text) {
  std::istringstream in(text);
  std::ostringstream out;
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view kInclude = "#include \"include/";
    if (line.starts_with(kInclude)) {
      const std::string name = line.substr(kInclude.size(), line.find_last_of('"') - kInclude.size());
      out << with_included(source_of("include/" + name));
    } else {
      out << line << '\n';
    }
  }
  return out.str();
}

std::shared_ptr<const p4::Program> changed(const std::string& source, const Changes& changes) {
  std::string text = with_included(source);
  for (const auto& [right, wrong] : changes) {
    const std::size_t at = text.find(right);
    EXPECT_NE(at, std::string::npos) << right;
    text.replace(at, right.size(), wrong);
  }
  p4::CompileOptions options;
  options.include_folders = {in_source_tree("p4"), in_source_tree("p4/include")};
  return p4::compile(text, "wrong.p4", options);
}

}  // namespace

std::shared_ptr<const p4::Program> changed_program(const std::string& name, const std::string& right,
                                                   const std::string& wrong) {
  return changed(source_of(name), {{right, wrong}});
}

std::shared_ptr<const p4::Program> changed_program(const std::string& name, const Changes& changes) {
  return changed(source_of(name), changes);
}

std::shared_ptr<const p4::Program> changed_cached_program(const std::string& right, const std::string& wrong) {
  return changed("#define CACHED_TUPLES\n" + source_of("switch_optimistic.p4"), {{right, wrong}});
}

std::shared_ptr<const p4::Program> cached_program_for(std::size_t tuples) {
  // One number more stands for none.
  return changed_cached_program("const bit<32> TUPLES = 262144;",
                                "const bit<32> TUPLES = " + std::to_string(tuples + 1) + ";");
}

}  // namespace sidelatch::switchsync

#include "changed_program.h"

#include "tests/paths.h"

#include <sidelatch/p4/compile.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <sstream>

namespace sidelatch::switchsync {

std::string source_of(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(in_source_tree("p4/" + name)).rdbuf();
  return text.str();
}

std::shared_ptr<const p4::Program> changed_program(const std::string& name, const std::string& right,
                                                   const std::string& wrong) {
  std::string text = source_of(name);
  const std::size_t at = text.find(right);
  EXPECT_NE(at, std::string::npos) << right;
  p4::CompileOptions options;
  options.include_folders = {in_source_tree("p4")};
  return p4::compile(text.replace(at, right.size(), wrong), "wrong.p4", options);
}

}  // namespace sidelatch::switchsync

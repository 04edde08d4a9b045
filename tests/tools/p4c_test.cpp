// sidelatch-p4c as its users and their builds meet it: what it refuses, what it never overwrites, what it tells a
// build.
#include "tests/paths.h"
#include "tests/tools/program.h"
#include "tests/tools/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace sidelatch::tools {
namespace {
namespace p4_compiler {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
namespace files = std::filesystem;

// Each test is in a folder of its own, which has a space in its name. There is "main.p4", which includes "a part.p4".
class P4Compiler : public ::testing::Test {
 protected:
  P4Compiler() {
    files::create_directories(folder_ / "parts");
    std::ofstream(folder_ / "parts" / "a part.p4") << "// nothing\n";
    std::ofstream(folder_ / "main.p4") << "#include \"a part.p4\"\n"
                                       << std::ifstream(in_source_tree("p4/l2_l3.p4")).rdbuf();
  }
  ~P4Compiler() override { files::remove_all(folder_); }
  P4Compiler(const P4Compiler&) = delete;
  P4Compiler& operator=(const P4Compiler&) = delete;

  // In the folder; what it prints on both streams.
  [[nodiscard]] ShellResult compile(const std::string& arguments) const {
    return run_shell("cd '" + folder_.string() + "' && timeout 60 " + program_path() + "-p4c " + arguments + " 2>&1");
  }
  [[nodiscard]] std::string read(const std::string& name) const { return slurp(folder_ / name); }
  [[nodiscard]] bool exists(const std::string& name) const { return files::exists(folder_ / name); }

  files::path folder_ = files::path(::testing::TempDir()) / ("p4c test " + std::to_string(::getpid()));
};

TEST_F(P4Compiler, SaysWhatItWantsAndWhatIsWrong) {
  const auto [helped, help] = compile("--help");
  EXPECT_EQ(helped, 0);
  EXPECT_THAT(help, StartsWith("usage: sidelatch-p4c"));
  const std::array<std::pair<std::string, std::string>, 9> wrong{{{"", "-o FILE.cpp"},
                                                                  {"main.p4", "-o FILE.cpp"},
                                                                  {"main.p4 -o", "-o needs a value"},
                                                                  {"main.p4 more.p4 -o x", "more.p4"},
                                                                  {"main.p4 -o x -o y", "-o: give it once"},
                                                                  {"main.p4 -o ''", "-o: its value is empty"},
                                                                  {"main.p4 -o x --header ''", "--header: its value"},
                                                                  {"main.p4 -o x --depfile ''", "--depfile: its value"},
                                                                  {"'' -o x", "PROGRAM.p4: its value is empty"}}};
  for (const auto& [arguments, part] : wrong) {
    const auto [status, printed] = compile(arguments);
    EXPECT_EQ(status, 2) << arguments;
    EXPECT_THAT(printed, AllOf(HasSubstr(part), HasSubstr("usage:"))) << arguments;
  }
  EXPECT_FALSE(exists("x"));
  EXPECT_FALSE(exists("y"));
}

// As `sidelatch p4` does.
TEST_F(P4Compiler, RefusesWrongInputWithStatusTwo) {
  const std::array<std::pair<std::string, std::string>, 8> wrong{
      {{"main.p4 -I parts -I /no/folder -o x", "-I /no/folder: there is no such folder"},
       {"main.p4 -I parts -I '' -o x", "-I : there is no such folder"},
       {"main.p4 -I parts -D '' -o x", "-D : it is NAME or NAME=TEXT"},
       {"main.p4 -I parts -D '9 x=3' -o x", "-D 9 x=3: it is NAME or NAME=TEXT"},
       {"main.p4 -I parts --function switch -o x", "'switch' cannot be the name of a C++ function"},
       {"main.p4 -I parts -o /no/folder/x.cpp", "cannot write /no/folder/x.cpp: No such file"},
       {"none.p4 -o x", "none.p4: error: cannot read the file: No such file"},
       {"main.p4 -o x", "main.p4:1:1: error: there is no file a part.p4"}}};
  for (const auto& [arguments, part] : wrong) {
    const auto [status, printed] = compile(arguments);
    EXPECT_EQ(status, 2) << arguments;
    EXPECT_THAT(printed, AllOf(HasSubstr(part), Not(HasSubstr("usage:")))) << arguments;
  }
  EXPECT_FALSE(exists("x"));
}

TEST_F(P4Compiler, OverwritesNeitherWhatItReadsNorWhatItWrites) {
  const std::string before = read("main.p4");
  files::create_symlink("main.p4", folder_ / "link.cpp");
  files::create_symlink("new.cpp", folder_ / "dangling.h");
  const std::array<std::pair<std::string, std::string>, 9> wrong{
      {{"-o main.p4", "-o main.p4: this would overwrite main.p4, which the program is made of"},
       {"-o ./link.cpp", "main.p4, which the program is made of"},
       {"-o 'parts/a part.p4'", "parts/a part.p4, which the program is made of"},
       {"-o new.cpp --header parts/../main.p4", "--header parts/../main.p4: this would overwrite main.p4"},
       {"-o new.cpp --depfile main.p4", "--depfile main.p4: this would overwrite main.p4"},
       {"-o new.cpp --header ./new.cpp", "this would overwrite the file of --header ./new.cpp"},
       {"-o new.cpp --header dangling.h", "this would overwrite the file of --header dangling.h"},
       {"-o new.cpp --depfile new.cpp", "this would overwrite the file of --depfile new.cpp"},
       {"-o new.cpp --header new.h --depfile ./new.h", "this would overwrite the file of --header new.h"}}};
  for (const auto& [arguments, part] : wrong) {
    const auto [status, printed] = compile("main.p4 -I parts " + arguments);
    EXPECT_EQ(status, 2) << arguments;
    EXPECT_THAT(printed, HasSubstr(part)) << arguments;
  }
  EXPECT_EQ(read("main.p4"), before);
  EXPECT_EQ(read("parts/a part.p4"), "// nothing\n");
  EXPECT_FALSE(exists("new.cpp"));
  EXPECT_FALSE(exists("new.h"));
  EXPECT_EQ(compile("main.p4 -I parts -o /dev/null --header /dev/null").status, 0);
}

TEST_F(P4Compiler, WritesForABuildWhatTheSourceIsMadeOf) {
  const auto [status, printed] =
      compile("main.p4 -I parts -o 'a made.cpp' --header made.h --depfile made.d --function made");
  EXPECT_EQ(status, 0);
  EXPECT_THAT(printed, IsEmpty());
  EXPECT_THAT(read("a made.cpp"), HasSubstr("std::shared_ptr<const Program> made()"));
  EXPECT_THAT(read("made.h"), HasSubstr("std::shared_ptr<const Program> made();"));
  std::string folder = files::canonical(folder_).string();
  for (std::size_t at = 0; (at = folder.find(' ', at)) != std::string::npos; at += 2) {
    folder.insert(at, 1, '\\');
  }
  EXPECT_EQ(read("made.d"), "a\\ made.cpp: \\\n  " + folder + "/main.p4 \\\n  " + folder + "/parts/a\\ part.p4\n");
}

}  // namespace p4_compiler
}  // namespace
}  // namespace sidelatch::tools

// A file is the same however it is named, also before it is there.
#include "common/same_file.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sidelatch {
namespace {
namespace same_file {

namespace files = std::filesystem;

class SameFile : public testing::Test {
 protected:
  SameFile() {
    files::create_directories(folder_ / "sub");
    files::create_directories(folder_ / "other/inner");
    std::ofstream(folder_ / "here") << "text";
    std::ofstream(folder_ / "elsewhere") << "text";
  }
  ~SameFile() override { files::remove_all(folder_); }
  SameFile(const SameFile&) = delete;
  SameFile& operator=(const SameFile&) = delete;

  [[nodiscard]] bool same(const std::string& a, const std::string& b) const {
    EXPECT_EQ(is_same_file(folder_ / a, folder_ / b), is_same_file(folder_ / b, folder_ / a));
    return is_same_file(folder_ / a, folder_ / b);
  }

  files::path folder_ = files::path(testing::TempDir()) / ("same-file-" + std::to_string(::getpid()));
};

TEST_F(SameFile, OfAFileThatIsThere) {
  files::create_symlink("here", folder_ / "link");
  files::create_symlink("link", folder_ / "link_to_link");
  files::create_hard_link(folder_ / "here", folder_ / "hard");
  files::create_symlink("sub", folder_ / "folder");
  for (const std::string name : {"here", "./here", "sub/../here", "link", "link_to_link", "hard", "folder/../here"}) {
    EXPECT_TRUE(same("here", name)) << name;
  }
  EXPECT_FALSE(same("here", "elsewhere"));
  EXPECT_FALSE(same("here", "new"));
}

TEST_F(SameFile, OfAFileThatIsNotThereYet) {
  files::create_symlink("../new", folder_ / "sub/dangling");
  files::create_directory_symlink("other/inner", folder_ / "folder");
  for (const std::string name : {"new", "./new", "sub/../new", "sub/dangling", "sub/./dangling"}) {
    EXPECT_TRUE(same("new", name)) << name;
  }
  EXPECT_TRUE(same("other/new", "folder/../new")) << "the folder is a link to elsewhere";
  EXPECT_FALSE(same("new", "folder/../new"));
  EXPECT_FALSE(same("new", "newer"));
}

TEST_F(SameFile, RelativeNamesAreOfTheCurrentFolder) {
  const std::string name = "same-file-new-" + std::to_string(::getpid());
  EXPECT_TRUE(is_same_file(name, "./" + name));
  EXPECT_TRUE(is_same_file("./" + name, name));
  EXPECT_TRUE(is_same_file(name, files::current_path() / name));
}

TEST_F(SameFile, WhatKeepsNothingMayBeWrittenTwice) {
  EXPECT_FALSE(is_same_file("/dev/null", "/dev/null"));
  EXPECT_FALSE(is_same_file("", ""));
  EXPECT_FALSE(is_same_file(folder_ / "here", ""));
}

// Whoever opens it gets an error that names it.
TEST_F(SameFile, ANameThatLeadsNowhereIsNoFile) {
  files::create_symlink("loop", folder_ / "loop");
  EXPECT_FALSE(same("loop", "here"));
  const std::string too_long(5000, 'x');
  EXPECT_FALSE(same(too_long, too_long + "y"));
}

}  // namespace same_file
}  // namespace
}  // namespace sidelatch

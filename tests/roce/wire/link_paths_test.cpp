// The two ends of a link are two sockets, however their paths are written.
#include "roce/wire/link_paths.h"

#include "tests/roce/wire/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace sidelatch::roce {
namespace {
namespace link_paths_tests {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LinkPaths, OneSocketIsNoLink) {
  EXPECT_EQ(fault_of_link("a", "b"), "");
  EXPECT_EQ(fault_of_link("/none/a", "/none/b"), "");
  EXPECT_THAT(fault_of_link("a", "a"), AllOf(HasSubstr("'a' and 'a' are one socket"), HasSubstr("a link has two")));
  EXPECT_THAT(fault_of_link("a", "./a"), HasSubstr("are one socket"));
  EXPECT_THAT(fault_of_link("a", std::filesystem::current_path() / "a"), HasSubstr("are one socket"));
  EXPECT_THAT(fault_of_link("/none/a", "/none/b/../a"), HasSubstr("are one socket"));
}

TEST(LinkPaths, AFolderIsTheSameHoweverItIsNamed) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / new_wire_name();
  std::filesystem::create_directory(folder);
  std::filesystem::create_directory_symlink(".", folder / "same");
  EXPECT_THAT(fault_of_link(folder / "a", folder / "same/a"), HasSubstr("are one socket"));
  EXPECT_EQ(fault_of_link(folder / "a", folder / "same/b"), "");
  std::filesystem::remove_all(folder);
}

}  // namespace link_paths_tests
}  // namespace
}  // namespace sidelatch::roce

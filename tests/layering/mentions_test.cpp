#include "tests/layering/source_tree.h"
#include "tests/paths.h"

#include <gtest/gtest.h>

namespace sidelatch::layering {
namespace {

// Folders that exist only beside the tree where it is developed; no text of the project may need them.
TEST(Mentions, NoFilePointsOutOfTheProject) {
  // Assembled at run time, so that this file does not mention them.
  const std::string outside = std::string("shared") + "/";
  for (const SourceFile& file : read_tree(in_source_tree(""), [](const auto&) { return true; })) {
    for (const char* folder : {"design", "findings", "hooks", "papers", "rxe-vm"}) {
      EXPECT_EQ(file.text.find(outside + folder), std::string::npos) << file.path << " mentions " << outside << folder;
    }
  }
}

}  // namespace
}  // namespace sidelatch::layering

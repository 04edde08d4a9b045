#include "tests/layering/source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace sidelatch::layering {
namespace {

bool is_left_out(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  return name == "build" || (name.starts_with('.') && name != ".ci");
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<SourceFile> read_tree(const std::filesystem::path& root,
                                  const std::function<bool(const std::filesystem::path&)>& wanted) {
  std::vector<SourceFile> files;
  for (auto entry = std::filesystem::recursive_directory_iterator(root);
       entry != std::filesystem::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory()) {
      if (is_left_out(entry->path())) {
        entry.disable_recursion_pending();
      }
      continue;
    }
    const std::filesystem::path path = entry->path().lexically_relative(root);
    if (entry->is_regular_file() && wanted(path)) {
      files.push_back({path.generic_string(), read_file(entry->path())});
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace sidelatch::layering

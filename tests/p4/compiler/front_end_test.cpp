// Which files a program is made of.
#include "tests/message_of.h"

#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/emit.h>
#include <sidelatch/p4/fit.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

namespace sidelatch::p4 {
namespace {
namespace front_end_files {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace files = std::filesystem;

constexpr const char* kRest = R"(
#include <core.p4>
#include <v1model.p4>
#include "used.p4"
#include "used.p4"
#include <far.p4>
#ifdef NEVER
#include "unused.p4"
#endif
struct H {}
struct M {}
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply {} }
V1Switch(P(), V(), I(), I(), V(), D()) main;
)";

class FilesRead : public testing::Test {
 protected:
  FilesRead() {
    files::create_directories(folder_ / "sub");
    write("main.p4", kRest);
    write("used.p4", "#pragma once\n#include \"inner.p4\"\n");
    write("inner.p4", "");
    write("unused.p4", "");
    write("sub/far.p4", "");
  }
  ~FilesRead() override { files::remove_all(folder_); }
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;

  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  // What is built in is no file.
  [[nodiscard]] testing::Matcher<std::set<files::path>> all() const {
    return ElementsAre(folder_ / "inner.p4", main(), folder_ / "sub" / "far.p4", folder_ / "used.p4");
  }
  [[nodiscard]] files::path main() const { return folder_ / "main.p4"; }

  [[nodiscard]] std::set<files::path> files_of(const std::function<void(const CompileOptions&)>& use) const {
    std::set<files::path> read;
    CompileOptions options;
    options.include_folders = {folder_ / "sub"};
    options.files_read = &read;
    use(options);
    return read;
  }

  files::path folder_ = files::path(testing::TempDir()) / ("files-read-" + std::to_string(::getpid()));
};

TEST_F(FilesRead, AreTheProgramAndWhatItIncludes) {
  EXPECT_THAT(files_of([this](const auto& o) { static_cast<void>(compile_file(main(), o)); }), all());
  EXPECT_THAT(files_of([this](const auto& o) { static_cast<void>(print_file(main(), o)); }), all());
  EXPECT_THAT(files_of([this](const auto& o) { static_cast<void>(emit_cpp(main(), "made", o)); }), all());
  EXPECT_THAT(files_of([this](const auto& o) { static_cast<void>(fit(main(), Chip::tofino, o)); }), all());
}

TEST_F(FilesRead, OfATextAreOnlyWhatItIncludes) {
  EXPECT_THAT(
      files_of([this](const auto& o) { static_cast<void>(compile(kRest, (folder_ / "nowhere.p4").string(), o)); }),
      ElementsAre(folder_ / "inner.p4", folder_ / "sub" / "far.p4", folder_ / "used.p4"));
}

TEST_F(FilesRead, AreKnownUpToAnError) {
  write("inner.p4", "#error wrong\n");
  EXPECT_THAT(files_of([this](const auto& o) {
                EXPECT_THAT(message_of<CompileError>([&] { static_cast<void>(compile_file(main(), o)); }),
                            HasSubstr("inner.p4:1:"));
              }),
              ElementsAre(folder_ / "inner.p4", main(), folder_ / "used.p4"));
  EXPECT_THAT(files_of([this](const auto& o) {
                const files::path none = folder_ / "none.p4";
                EXPECT_THAT(message_of<CompileError>([&] { static_cast<void>(compile_file(none, o)); }),
                            HasSubstr("cannot read"));
              }),
              IsEmpty());
}

}  // namespace front_end_files
}  // namespace
}  // namespace sidelatch::p4

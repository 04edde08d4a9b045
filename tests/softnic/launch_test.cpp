#include <sidelatch/softnic/launch.h>

#include "softnic/settings.h"
#include "tests/softnic/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include <fstream>
#include <map>
#include <optional>
#include <string>

namespace sidelatch::softnic {
namespace {

constexpr const char* kOurs = "/opt/lib/libsidelatch-verbs.so";

TEST(Preloads, AreOurLibraryAloneWhereThereIsNothingElse) {
  EXPECT_EQ(preloads("", kOurs), kOurs);
  EXPECT_EQ(preloads(" : ", kOurs), kOurs);
}

TEST(Preloads, HaveRuntimesOfSanitizersFirst) {
  for (const std::string runtime :
       {"libasan.so.8", "/usr/lib/gcc/libasan.so", "/usr/lib/libtsan.so.2", "/usr/lib/libubsan.so.1", "liblsan.so.0",
        "/usr/lib/libhwasan.so.0", "/usr/lib/clang/16/lib/libclang_rt.asan-x86_64.so"}) {
    EXPECT_EQ(preloads(runtime, kOurs), runtime + " " + kOurs);
    EXPECT_EQ(preloads("/a/libother.so " + runtime, kOurs), runtime + " " + kOurs + " /a/libother.so");
  }
}

TEST(Preloads, HaveAllElseBehindOurLibrary) {
  EXPECT_EQ(preloads("/a/libibverbs.so.1 /b/libjemalloc.so.2", kOurs),
            std::string(kOurs) + " /a/libibverbs.so.1 /b/libjemalloc.so.2");
  // No runtimes: the names only look alike.
  EXPECT_EQ(preloads("/libasan.so/libother.so libmyasan.so", kOurs),
            std::string(kOurs) + " /libasan.so/libother.so libmyasan.so");
}

TEST(Preloads, KeepTheOrderOfTheOthers) {
  EXPECT_EQ(preloads("b.so libubsan.so.1 a.so libasan.so.8", kOurs),
            "libubsan.so.1 libasan.so.8 " + std::string(kOurs) + " b.so a.so");
}

TEST(Preloads, ReadBothSeparators) {
  EXPECT_EQ(preloads("a.so:libasan.so.8 b.so", kOurs), "libasan.so.8 " + std::string(kOurs) + " a.so b.so");
  EXPECT_EQ(preloads("::a.so  b.so:", kOurs), std::string(kOurs) + " a.so b.so");
}

TEST(Preloads, HaveOneCopyOfOurLibrary) {
  EXPECT_EQ(preloads(kOurs, kOurs), kOurs);
  EXPECT_EQ(preloads("/old/libsidelatch-verbs.so:a.so libsidelatch-verbs.so", kOurs), std::string(kOurs) + " a.so");
  EXPECT_EQ(preloads("/old/libsidelatch-verbs.so.bak", kOurs), std::string(kOurs) + " /old/libsidelatch-verbs.so.bak");
}

// What set_environment() changes, and where it finds a library: any file will do. The environment is as before in the
// end.
class Environment : public testing::Test {
 protected:
  Environment() {
    keep("LD_PRELOAD");
    keep(kLibraryVariable);
    for (const char* const name : kVariables) {
      keep(name);
    }
    std::ofstream(library_) << "no library";
    set(kLibraryVariable, library_);
  }
  ~Environment() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        set(name, *value);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

  static void set(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }
  static std::optional<std::string> get(const std::string& name) {
    const char* const value = ::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }
  [[nodiscard]] const std::string& library() const { return library_; }
  [[nodiscard]] std::string in_folder(const std::string& name) const { return (folder_.path() / name).string(); }

  static constexpr const char* kLibraryVariable = "SIDELATCH_SOFTNIC_LIBRARY";

 private:
  void keep(const std::string& name) { before_.emplace(name, get(name)); }

  TemporaryFolder folder_;
  std::string library_ = (folder_.path() / "libsidelatch-verbs.so").string();
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(Environment, HasTheLibraryAndTheSettings) {
  ::unsetenv("LD_PRELOAD");
  set(kVariables[5], "/of/a/program/around.pcap");
  LaunchOptions options;
  options.wire = "shm:launch-test";
  options.order = "relaxed";
  options.seed = 7;
  set_environment(options);
  EXPECT_EQ(get("LD_PRELOAD"), library());
  EXPECT_EQ(get(kVariables[0]), "shm:launch-test");
  EXPECT_EQ(get(kVariables[1]), "relaxed");
  EXPECT_EQ(get(kVariables[2]), "7");
  EXPECT_EQ(get(kVariables[5]), std::nullopt);
  EXPECT_EQ(describe_environment(), "shm:launch-test, order relaxed, seed 7");
}

TEST_F(Environment, KeepsWhatIsPreloadedAlready) {
  set("LD_PRELOAD", "/a/libother.so:/b/libasan.so.8 /old/libsidelatch-verbs.so");
  set_environment({});
  EXPECT_EQ(get("LD_PRELOAD"), "/b/libasan.so.8 " + library() + " /a/libother.so");
  set_environment({});
  EXPECT_EQ(get("LD_PRELOAD"), "/b/libasan.so.8 " + library() + " /a/libother.so") << "the same if it is called again";
}

TEST_F(Environment, IsLeftAloneIfASettingHasNoMeaning) {
  set("LD_PRELOAD", "/a/libother.so");
  LaunchOptions options;
  options.order = "backwards";
  EXPECT_THROW(set_environment(options), SettingsError);
  EXPECT_EQ(get("LD_PRELOAD"), "/a/libother.so");
}

TEST_F(Environment, IsLeftAloneIfTheLibraryIsMissing) {
  set("LD_PRELOAD", "/a/libother.so");
  for (const char* const name : {"missing.so", "."}) {
    set(kLibraryVariable, in_folder(name));
    EXPECT_THROW(set_environment({}), LibraryError);
    EXPECT_EQ(get("LD_PRELOAD"), "/a/libother.so");
  }
}

TEST_F(Environment, IsLeftAloneIfTheLibraryCannotBeNamed) {
  set("LD_PRELOAD", "/a/libother.so");
  for (const char* const name : {"with space.so", "with:colon.so"}) {
    std::ofstream(in_folder(name)) << "no library";
    set(kLibraryVariable, in_folder(name));
    EXPECT_THROW(set_environment({}), LibraryError);
    EXPECT_EQ(get("LD_PRELOAD"), "/a/libother.so");
  }
}

}  // namespace
}  // namespace sidelatch::softnic

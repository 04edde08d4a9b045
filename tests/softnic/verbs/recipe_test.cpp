// The recipe of docs/softnic.md for a project's own suite in CI: its commands run as they are written there, without
// any privilege.
#include "programs.h"
#include "tests/paths.h"
#include "tests/softnic/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>
#include <regex>
#include <string>

namespace sidelatch::softnic {
namespace {

using ::testing::HasSubstr;

// The line of the page that runs a suite and has `mark`; nothing if there is no such line, or several.
std::string command_with(const std::string& mark) {
  std::ifstream page(in_source_tree("docs/softnic.md"));
  std::string found;
  for (std::string line; std::getline(page, line);) {
    if (line.find("-- make check") != std::string::npos && line.find(mark) != std::string::npos) {
      if (!found.empty()) {
        return {};
      }
      found = std::regex_replace(line, std::regex("^ *- (run: )?"), "");
    }
  }
  return found;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  return at == std::string::npos ? std::string() : text.replace(at, what.size(), by);
}

class Recipe : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    if (!is_installed("mpirun") || !is_installed("make") ||
        site_.run({"/usr/bin/python3", "-c", "import mpi4py.MPI"}).status != 0) {
      GTEST_SKIP() << "make, openmpi-bin or python3-mpi4py is not installed: run scripts/install-deps test";
    }
    // A project whose suite exchanges data over the device, compares it, and says so.
    std::ofstream(project_.path() / "Makefile")
        << "check:\n"
           "\tibv_devices | grep -q sidelatch0\n"
           "\ttest \"$$SIDELATCH_SOFTNIC_ORDER:$$SIDELATCH_SOFTNIC_SEED\" = relaxed:3\n"
           "\tgrep -q '^CapEff:.0*$$' /proc/self/status\n"
           "\tmpirun --oversubscribe -np 2 --mca pml ucx --mca osc ucx --mca btl ^openib,vader,tcp /usr/bin/python3 "
        << in_source_tree("tests/softnic/verbs/mpi_exchange.py") << " 2\n";
    for (const char* const variable :
         {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "UCX_TLS=rc_v,self", "SEED=3"}) {
      site_.set(variable);
    }
  }
  // A user without privileges: for root, one without capabilities.
  Outcome run_project(const std::string& command) {
    Command all = {"env", "-C", project_.path().string(), "LD_PRELOAD="};
    if (::geteuid() == 0) {
      all.insert(all.end(), {"setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"});
    }
    all.insert(all.end(), {"sh", "-ec", command});
    return site_.run(all);
  }
  void expect_that_it_works(const std::string& command) {
    ASSERT_NE(command, "") << "docs/softnic.md has no such command, or several";
    const Outcome outcome = run_project(command);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("ranks: 2 wrong: 0\n"));
  }
  TemporaryFolder project_;
  Site site_;
};

constexpr const char* kBuilt = "/tmp/sidelatch/build/release/sidelatch";

TEST_F(Recipe, OfGitHubActionsWorks) {
  expect_that_it_works(
      replaced(replaced(command_with("${{ matrix.seed }}"), "${{ matrix.seed }}", "3"), kBuilt, program_path()));
}

TEST_F(Recipe, OfGitLabWorks) { expect_that_it_works(replaced(command_with("$SEED"), kBuilt, program_path())); }

}  // namespace
}  // namespace sidelatch::softnic

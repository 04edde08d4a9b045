// Tests of a cluster that need no NIC: its options, and the ranks that its starters give. tests/vm has the rest.
#include <sidelatch/bench/cluster.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sidelatch::bench {
namespace {

using ::testing::HasSubstr;

// Sets variables in the environment of this process, and removes all of the starters' before and after.
class Environment {
 public:
  using Variables = std::vector<std::pair<const char*, const char*>>;
  explicit Environment(const Variables& variables) {
    clear();
    for (const auto& [name, value] : variables) {
      ::setenv(name, value, 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"}) {
      ::unsetenv(name);
    }
  }
};

TEST(RankFromEnvironment, IsWhatTheStarterSays) {
  for (const auto& [rank, ranks] : {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    std::pair{"PMI_RANK", "PMI_SIZE"}, std::pair{"SLURM_PROCID", "SLURM_NTASKS"}}) {
    const Environment environment({{rank, "3"}, {ranks, "8"}});
    const auto found = rank_from_environment();
    ASSERT_TRUE(found.has_value()) << rank;
    EXPECT_EQ(found->rank, 3U);
    EXPECT_EQ(found->ranks, 8U);
  }
}

TEST(RankFromEnvironment, IsNothingWithoutAStarter) {
  const Environment environment({});
  EXPECT_FALSE(rank_from_environment().has_value());
}

// mpirun within a Slurm job.
TEST(RankFromEnvironment, MpirunComesBeforeSlurm) {
  const Environment environment(
      {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}});
  EXPECT_EQ(rank_from_environment()->rank, 1U);
}

// A shell of salloc has the number of tasks, but is not one of them.
TEST(RankFromEnvironment, AShellWithinASlurmJobHasNone) {
  const Environment environment(Environment::Variables{{"SLURM_NTASKS", "4"}});
  EXPECT_FALSE(rank_from_environment().has_value());
}

TEST(RankFromEnvironment, NamesWhatIsWrong) {
  const auto error = [](const Environment::Variables& variables) -> std::string {
    const Environment environment(variables);
    try {
      static_cast<void>(rank_from_environment());
    } catch (const std::invalid_argument& wrong) {
      return wrong.what();
    }
    return "no error";
  };
  EXPECT_THAT(error(Environment::Variables{{"PMI_RANK", "0"}}), HasSubstr("PMI_SIZE"));
  EXPECT_THAT(error(Environment::Variables{{"PMI_SIZE", "2"}}), HasSubstr("PMI_RANK"));
  EXPECT_THAT(error({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), HasSubstr("PMI_RANK=2"));
  EXPECT_THAT(error({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), HasSubstr("PMI_RANK is '-1'"));
  EXPECT_THAT(error({{"PMI_RANK", "0"}, {"PMI_SIZE", "two"}}), HasSubstr("PMI_SIZE is 'two'"));
}

}  // namespace
}  // namespace sidelatch::bench

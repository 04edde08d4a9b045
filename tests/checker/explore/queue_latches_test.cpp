// Latches with a queue, with more clients and more operations than the table of verdicts has.
#include <sidelatch/explore/gtest.h>
#include <sidelatch/explore/scheme_check.h>
#include <sidelatch/explore/scheme_program.h>

#include "checking.h"
#include "tests/sampled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace sidelatch::explore {
namespace {

using fabric::model::Preset;

struct QueueRun {
  std::string_view scheme;
  Preset preset;
  Workload workload;
};

class QueueLatches : public ::testing::TestWithParam<QueueRun> {};

// The levels with requests in one doorbell have many more states, and three writers take latch-mcs half a minute under
// what reorders. A sanitizer makes seconds of latch-mcs minutes.
bool is_sample(const QueueRun& run) {
  return run.scheme == "latch-ticket/basic" || (run.scheme == "latch-mcs/basic" && !is_sampled() &&
                                                (run.preset == Preset::strict || run.workload.writers == 2));
}

// Through states: executions are too many, and a search that takes turns takes three times what the states take.
TEST_P(QueueLatches, AreSafe) {
  if (!takes_long() && !is_sample(GetParam())) {
    GTEST_SKIP() << "CI has a sample; SIDELATCH_LONG=1 runs it";
  }
  const checker::SelectedScheme selected = checker::select_scheme(GetParam().scheme);
  Options options = under(GetParam().preset);
  options.mode = Mode::states;
  const Verdict verdict =
      check(scheme_program(*selected.scheme, selected.entry->promise, GetParam().workload), options);
  EXPECT_EQ(verdict.outcome, Outcome::safe) << to_text(verdict);
}

std::vector<QueueRun> runs() {
  std::vector<QueueRun> all;
  for (const checker::SchemeEntry& entry : checker::schemes()) {
    for (const Preset preset : kPresets) {
      if (entry.kind == checker::Kind::queue) {
        all.push_back({entry.name, preset, {.writers = 2, .updates = 2}});
        all.push_back({entry.name, preset, {.writers = 3, .updates = 1}});
      }
    }
  }
  return all;
}

std::string name_of_run(const ::testing::TestParamInfo<QueueRun>& info) {
  std::string text = std::string(info.param.scheme) + "_" + std::string(name(info.param.preset)) + "_" +
                     std::to_string(info.param.workload.writers) + "x" + std::to_string(info.param.workload.updates);
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Registry, QueueLatches, ::testing::ValuesIn(runs()), name_of_run);

TEST(QueueLatchCells, ACrashIsRefused) {
  for (const char* const scheme : {"latch-ticket/combined", "latch-mcs/combined"}) {
    EXPECT_THAT(message_of([&] { (void)explore_cell(scheme, {.crash = true}); }),
                ::testing::HasSubstr("it has no leases"));
    EXPECT_THAT(message_of([&] { require_possible(scheme, {.crash = true}); }),
                ::testing::HasSubstr("it has no leases"));
    EXPECT_NO_THROW(require_possible(scheme, {}));
  }
}

}  // namespace
}  // namespace sidelatch::explore

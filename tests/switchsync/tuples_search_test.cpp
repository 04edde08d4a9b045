// p4/switch_tuples.p4 without one of its mends: the search of optimistic_search_test.cpp, which finds nothing in the
// program itself, must find each.
#include "changed_program.h"
#include "optimistic_search.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace short_versions_searched {

struct Specimen {
  const char* name;
  Changes changes;
  SearchOptions options;
};

SearchOptions without_faults(const std::vector<Script>& clients) {
  return {.clients = clients, .losses = 0, .repeats = 0, .overtakings = 0, .early_timers = 0};
}
SearchOptions with_faults(const std::vector<Script>& clients, int losses, int repeats, int overtakings) {
  return {.clients = clients, .losses = losses, .repeats = repeats, .overtakings = overtakings, .early_timers = 0};
}
SearchOptions with_a_restart(const std::vector<Script>& clients) {
  SearchOptions options = without_faults(clients);
  options.restarts = true;
  return options;
}

const std::vector<Specimen> kSpecimens = {
    {"AVerdictThatIsAlwaysGood",
     {{"bit<64> verdict = 1;", "bit<64> verdict = place[63:32] ++ (version & ~32w1);"}},
     without_faults({Script::reader, Script::writer})},
    {"AnEqualVersionThatIsOdd",
     {{"version == read_version && (version[0:0] == 0 || is_own)", "version == read_version"},
      {"verdict = place[63:32] ++ version;", "verdict = place[63:32] ++ (version & ~32w1);"}},
     without_faults({Script::reader, Script::writer})},
    {"AVersionThatIsStoredAgainForARepeatedRead",
     {{"if (takes && asks == READ) {\n            seen",
       "if ((takes || is_repeated) && asks == READ) {\n            seen"}},
     with_faults({Script::reader, Script::writer}, 0, 1, 0)},
    {"ARepeatedLatchThatIsExecutedAgain",
     {{"            if (is_repeated) {\n                version = old[31:0];\n            }\n", ""}},
     with_faults({Script::writer, Script::aborter}, 1, 0, 0)},
    // A second acknowledgement unlatches nothing, for two reasons: the first one counts, and the latch is another's.
    {"ASecondAcknowledgementThatUnlatches",
     {{"kind == WRITE && is_waiting;", "kind == WRITE;"},
      {"new_latch = latch[63:32] & ~MUST_WRITE == own_read ?", "new_latch = true ?"},
      {"if (has_written && !may_write) {", "if (false) {"}},
     with_faults({Script::reader, Script::writer}, 0, 1, 1)},
    {"ASecondAcknowledgementThatIsNotPassedOn",
     {{"kind == WRITE && is_waiting;", "kind == WRITE;"}},
     with_faults({Script::reader, Script::writer}, 1, 0, 0)},
    // Both times, as the ALU and the packet's own fields compare.
    {"AnAcknowledgementThatIsNotMatchedByPsn",
     {{"new_end = end[55:32] == after && ", "new_end = "}, {"!is_request && at_memory == after\n", "!is_request\n"}},
     with_faults({Script::twice, Script::reader}, 0, 1, 1)},
    // Of the second pass.
    {"ASecondPassOfALatchThatDoesNotCompareTheVersion",
     {{"new_latch = latch[31:0] == compare ? new_holder ++", "new_latch = true ? new_holder ++"}},
     without_faults({Script::updater, Script::updater})},
    // Nothing is wrong if no packet comes between.
    {"ASecondPassThatTakesWhatTheFirstOneHasSeen",
     {{"new_latch = latch[31:0] == compare ? new_holder ++", "new_latch = m.noted == compare ? new_holder ++"},
      {"bit<32> version = latch[31:0];", "bit<32> version = m.second == LATCHES ? m.noted : latch[31:0];"},
      {"            m.second = LATCHES;\n", "            m.second = LATCHES;\n            m.noted = version;\n"}},
     without_faults({Script::writer, Script::writer})},
    {"ASecondPassOfALatchThatDoesNotCompareThePsn",
     {{"new_end = end[31:31] ++ end[29:29] ++ end[23:0] == psn ? end[63:32] ++ taken",
       "new_end = m.second == LATCHES || end[31:31] ++ end[29:29] ++ end[23:0] == psn ? end[63:32] ++ taken"}},
     with_faults({Script::writer, Script::reader}, 0, 1, 0)},
    {"AHolderWhoseReadIsForgotten",
     {{"m.has_read = place[31:0] == number && read_version == compare;", "m.has_read = false;"}},
     without_faults({Script::updater, Script::reader})},
    {"AHolderWithoutARead",
     {{"m.has_read = place[31:0] == number && read_version == compare;", "m.has_read = true;"}},
     without_faults({Script::writer, Script::blind})},
    {"AWriteByWhoHoldsNoLatch",
     {{"asks == WRITE && !may_write && (is_new || is_waiting)", "false"}},
     without_faults({Script::reader, Script::intruder})},
    // Of the two halves of a version.
    {"AVersionOfNoEpoch",
     {{"verdict = place[63:32] ++ version;", "verdict = 32w0 ++ version;"}},
     with_a_restart({Script::reader, Script::writer})},
};

class SwitchTuplesSpecimen : public testing::TestWithParam<Specimen> {};

TEST_P(SwitchTuplesSpecimen, IsCaught) {
  const SearchResult result = search(changed_program("switch_tuples.p4", GetParam().changes), GetParam().options);
  EXPECT_NE(result.violation, "") << result.states << " states";
  std::printf("%s\n", trace_of(result).c_str());
}

INSTANTIATE_TEST_SUITE_P(Mends, SwitchTuplesSpecimen, testing::ValuesIn(kSpecimens),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace short_versions_searched
}  // namespace
}  // namespace sidelatch::switchsync

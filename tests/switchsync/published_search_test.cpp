// p4/broken/switch_as_published.p4: the published write, which `sidelatch bench switch-latency` times as N22.write. It
// corrupts tuples, and the search must show how.
#include "optimistic_search.h"

#include <p4/switch_as_published.h>
#include <p4/switch_optimistic.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace sidelatch::switchsync {
namespace {
namespace published {

// Without faults of the network: the protocol itself is wrong.
SearchResult without_faults(const std::shared_ptr<const p4::Program>& program, const std::vector<Script>& clients) {
  return search(program, {.clients = clients, .losses = 0, .repeats = 0, .overtakings = 0, .early_timers = 0});
}

void expect_broken(const std::vector<Script>& clients) {
  const SearchResult result = without_faults(p4::programs::switch_as_published(), clients);
  EXPECT_NE(result.violation, "") << result.states << " states";
  std::printf("broken: %s\n", trace_of(result).c_str());
}

// The first WRITE is acknowledged, and placed after the second one.
TEST(SwitchAsPublished, TwoWritesAreBroken) { expect_broken({Script::published, Script::published}); }
TEST(SwitchAsPublished, AWriteAfterAnotherClientsWriteWithAReadIsBroken) {
  expect_broken({Script::writer, Script::published});
}

// What is wrong is the WRITE without a READ, and nothing else of this variant: with the READ all is well on it, too.
TEST(SwitchAsPublished, WritesThatReadFirstAreWhole) {
  const SearchResult result = without_faults(p4::programs::switch_as_published(), {Script::updater, Script::updater});
  EXPECT_EQ(result.violation, "") << trace_of(result);
  EXPECT_TRUE(result.is_complete);
  EXPECT_GT(result.ends, 0U);
}

// The experiment times one client, beside whom nobody writes.
TEST(SwitchAsPublished, OneClientAloneIsWhole) {
  const SearchResult result = without_faults(p4::programs::switch_as_published(), {Script::published});
  EXPECT_EQ(result.violation, "") << trace_of(result);
  EXPECT_TRUE(result.is_complete);
}

// The program that is not broken lets no such WRITE pass.
TEST(SwitchAsPublished, TheSafeProgramRefusesSuchAWrite) {
  const SearchResult result = without_faults(p4::programs::switch_optimistic(), {Script::published});
  EXPECT_NE(result.violation.find("client 0 has sent its request"), std::string::npos) << result.violation;
}

}  // namespace published
}  // namespace
}  // namespace sidelatch::switchsync

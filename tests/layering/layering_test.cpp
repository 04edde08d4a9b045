#include "tests/layering/include_rules.h"
#include "tests/layering/source_tree.h"
#include "tests/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sidelatch::layering {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The violations of `files` in a small tree that otherwise breaks no rule.
std::vector<std::string> violations_with(std::vector<SourceFile> files) {
  const std::vector<SourceFile> sound = {
      {"include/sidelatch/fabric/node.h", ""},
      {"include/sidelatch/fabric/model/machine.h", "#include <sidelatch/fabric/node.h>\n"},
      {"include/sidelatch/fabric/sim/world.h", "#include <sidelatch/fabric/model/machine.h>\n"},
      {"include/sidelatch/fabric/verbs/device.h", "#include <sidelatch/fabric/node.h>\n"},
      {"include/sidelatch/softnic/launch.h", ""},
      {"include/sidelatch/p4/program.h", ""},
      {"include/sidelatch/sync/latch.h", "#include <sidelatch/fabric/node.h>\n#include <span>\n"},
      {"include/sidelatch/switchsync/client.h", "#include <sidelatch/p4/program.h>\n"},
      {"include/sidelatch/flows/ring.h", "#include <sidelatch/sync/latch.h>\n"},
      {"include/sidelatch/structures/table.h", "#include <sidelatch/flows/ring.h>\n"},
      {"include/sidelatch/checker/schemes.h", "#include <sidelatch/switchsync/client.h>\n"},
      {"include/sidelatch/bench/figure.h", "#include <sidelatch/checker/schemes.h>\n"},
      {"fabric/node.cpp", "#include <sidelatch/fabric/node.h>\n#include <sidelatch/version.h>\n"},
      {"fabric/model/machine.cpp", ""},
      {"fabric/sim/world.cpp", "#include \"queue.h\"\n"},
      {"fabric/sim/queue.h", ""},
      {"common/descriptor.h", ""},
      {"roce/packet.h", "#include \"common/descriptor.h\"\n"},
      {"roce/wire/ring.cpp", "#include \"roce/packet.h\"\n"},
      {"softnic/nic/nic.h", "#include <sidelatch/fabric/model/machine.h>\n#include \"roce/packet.h\"\n"},
      {"softnic/adapter.h", "#include \"softnic/nic/nic.h\"\n"},
      {"softnic/verbs/pair.cpp", "#include \"softnic/nic/nic.h\"\n#include \"softnic/adapter.h\"\n"},
      {"fabric/verbs/device.cpp", "#include <infiniband/verbs.h>\n"},
      {"p4/program.cpp", "#include \"roce/packet.h\"\n"},
      {"sync/words.h", ""},
      {"sync/latch.cpp", "#include \"words.h\"\n"},
      {"sync/broken/naive.cpp", "#include \"../words.h\"\n#include \"sync/words.h\"\n"},
      {"switchsync/client.cpp", ""},
      {"flows/ring.cpp", ""},
      {"structures/table.cpp", ""},
      {"checker/schemes.cpp", "#include <sidelatch/fabric/sim/world.h>\n#include <sidelatch/fabric/verbs/device.h>\n"},
      {"bench/figure.cpp", "#include <sidelatch/fabric/model/machine.h>\n"},
      {"bench/micro/queue.cpp", "#include \"fabric/sim/queue.h\"\n"},
      {"tools/main.cpp", "#include <sidelatch/bench/figure.h>\n#include <sidelatch/fabric/sim/world.h>\n"},
      {"examples/hello.cpp", "#include <sidelatch/structures/table.h>\n"},
      {"tests/sync/latch_test.cpp", "#include \"sync/words.h\"\n#include \"fabric/sim/queue.h\"\n"},
  };
  files.insert(files.end(), sound.begin(), sound.end());
  return include_violations(files);
}

TEST(Layering, TheProjectBreaksNoRule) {
  const auto is_source = [](const std::filesystem::path& path) {
    return path.extension() == ".h" || path.extension() == ".cpp";
  };
  const std::vector<SourceFile> files = read_tree(in_source_tree(""), is_source);
  ASSERT_FALSE(files.empty());
  EXPECT_THAT(include_violations(files), IsEmpty());
}

TEST(Layering, ASoundTreeBreaksNoRule) { EXPECT_THAT(violations_with({}), IsEmpty()); }

struct Specimen {
  const char* name;
  SourceFile file;
  const char* violation;
};

void PrintTo(const Specimen& specimen, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << specimen.file.path;
}

class BrokenRule : public testing::TestWithParam<Specimen> {};

TEST_P(BrokenRule, IsReportedWithFileAndLine) {
  EXPECT_THAT(violations_with({GetParam().file}), ElementsAre(GetParam().violation));
}

INSTANTIATE_TEST_SUITE_P(
    Layering, BrokenRule,
    testing::Values(
        Specimen{"CheckerUsesBench",
                 {"checker/x.cpp", "#include <span>\n#include <sidelatch/bench/figure.h>\n"},
                 "checker/x.cpp:2: <sidelatch/bench/figure.h>: checker may not use bench: arrows point down only"},
        Specimen{"StructuresUseChecker",
                 {"structures/x.cpp", "#include <sidelatch/checker/schemes.h>\n"},
                 "structures/x.cpp:1: <sidelatch/checker/schemes.h>: structures may not use checker: arrows point down "
                 "only"},
        Specimen{"FlowsUseStructures",
                 {"flows/x.cpp", "#include <sidelatch/structures/table.h>\n"},
                 "flows/x.cpp:1: <sidelatch/structures/table.h>: flows may not use structures: arrows point down only"},
        Specimen{"SyncUsesFlows",
                 {"sync/x.cpp", "  #  include <sidelatch/flows/ring.h>  // why\n"},
                 "sync/x.cpp:1: <sidelatch/flows/ring.h>: sync may not use flows: arrows point down only"},
        Specimen{"SyncUsesSwitchsync",
                 {"sync/x.cpp", "#include <sidelatch/switchsync/client.h>\n"},
                 "sync/x.cpp:1: <sidelatch/switchsync/client.h>: sync may not use switchsync: arrows point down only"},
        Specimen{"SyncUsesP4",
                 {"sync/x.cpp", "#include <sidelatch/p4/program.h>\n"},
                 "sync/x.cpp:1: <sidelatch/p4/program.h>: sync may not use p4: arrows point down only"},
        Specimen{"SyncChoosesAWorld",
                 {"sync/x.cpp", "#include <sidelatch/fabric/sim/world.h>\n"},
                 "sync/x.cpp:1: <sidelatch/fabric/sim/world.h>: sync may not use fabric/sim: arrows point down only"},
        Specimen{"FabricUsesSync",
                 {"fabric/x.cpp", "#include <sidelatch/sync/latch.h>\n"},
                 "fabric/x.cpp:1: <sidelatch/sync/latch.h>: fabric may not use sync: arrows point down only"},
        Specimen{"FabricUsesModel",
                 {"include/sidelatch/fabric/x.h", "\n\n#include <sidelatch/fabric/model/machine.h>\n"},
                 "include/sidelatch/fabric/x.h:3: <sidelatch/fabric/model/machine.h>: fabric may not use fabric/model: "
                 "arrows point down only"},
        Specimen{"ModelUsesSim",
                 {"fabric/model/x.cpp", "#include <sidelatch/fabric/sim/world.h>\n"},
                 "fabric/model/x.cpp:1: <sidelatch/fabric/sim/world.h>: fabric/model may not use fabric/sim: arrows "
                 "point down only"},
        Specimen{"SimUsesPackets",
                 {"fabric/sim/x.cpp", "#include \"roce/packet.h\"\n"},
                 "fabric/sim/x.cpp:1: \"roce/packet.h\": fabric/sim may not use roce: arrows point down only"},
        Specimen{"VerbsUsePackets",
                 {"fabric/verbs/x.cpp", "#include \"roce/packet.h\"\n"},
                 "fabric/verbs/x.cpp:1: \"roce/packet.h\": fabric/verbs may not use roce: arrows point down only"},
        Specimen{"PacketsUseTheInterface",
                 {"roce/x.cpp", "#include <sidelatch/fabric/node.h>\n"},
                 "roce/x.cpp:1: <sidelatch/fabric/node.h>: roce may not use fabric: arrows point down only"},
        Specimen{"WiresUseTheNic",
                 {"roce/wire/x.cpp", "#include \"softnic/nic/nic.h\"\n"},
                 "roce/wire/x.cpp:1: \"softnic/nic/nic.h\": roce may not use softnic/nic: arrows point down only"},
        Specimen{"TheNicUsesItsAdapter",
                 {"softnic/nic/x.cpp", "#include \"softnic/adapter.h\"\n"},
                 "softnic/nic/x.cpp:1: \"softnic/adapter.h\": softnic/nic may not use softnic: arrows point down only"},
        Specimen{"TheSwitchUsesTheNic",
                 {"p4/x.cpp", "#include \"softnic/nic/nic.h\"\n"},
                 "p4/x.cpp:1: \"softnic/nic/nic.h\": p4 may not use softnic/nic: arrows point down only"},
        Specimen{"AnAlgorithmUsesPackets",
                 {"sync/x.cpp", "#include \"roce/packet.h\"\n"},
                 "sync/x.cpp:1: \"roce/packet.h\": sync may not use roce: arrows point down only"},
        Specimen{"FlowsUsePackets",
                 {"flows/x.cpp", "#include \"roce/packet.h\"\n"},
                 "flows/x.cpp:1: \"roce/packet.h\": flows may not use roce: only the rooms right above it may"},
        Specimen{"CommonUsesARoom",
                 {"common/x.h", "#include \"roce/packet.h\"\n"},
                 "common/x.h:1: \"roce/packet.h\": common may not use roce: arrows point down only"},
        Specimen{"AHeaderAtTheTopUsesALayer",
                 {"include/sidelatch/x.h", "#include <sidelatch/fabric/node.h>\n"},
                 "include/sidelatch/x.h:1: <sidelatch/fabric/node.h>: a header at the top of include/sidelatch may not "
                 "use fabric: arrows point "
                 "down only"},
        Specimen{"UnknownPublicHeader",
                 {"sync/x.cpp", "#include <sidelatch/fabric/nude.h>\n"},
                 "sync/x.cpp:1: <sidelatch/fabric/nude.h>: there is no such public header"},
        Specimen{"UnknownPrivateHeader",
                 {"sync/x.cpp", "#include \"wards.h\"\n"},
                 "sync/x.cpp:1: \"wards.h\": there is no such file in this folder"},
        Specimen{"PrivateHeaderOfAnotherFolder",
                 {"flows/x.cpp", "#include \"sync/words.h\"\n"},
                 "flows/x.cpp:1: \"sync/words.h\": this header is private to sync/; use its public headers"},
        Specimen{
            "PrivateHeaderInAnExperiment",
            {"bench/x.cpp", "#include \"fabric/sim/queue.h\"\n"},
            "bench/x.cpp:1: \"fabric/sim/queue.h\": this header is private to fabric/sim/; use its public headers"},
        Specimen{"PrivateHeaderOfASubfolder",
                 {"fabric/x.cpp", "#include \"sim/queue.h\"\n"},
                 "fabric/x.cpp:1: \"sim/queue.h\": this header is private to fabric/sim/; use its public headers"},
        Specimen{"PrivateHeaderOfASiblingFolder",
                 {"fabric/verbs/x.cpp", "#include \"../sim/queue.h\"\n"},
                 "fabric/verbs/x.cpp:1: \"../sim/queue.h\": this header is private to fabric/sim/; use its public "
                 "headers"},
        Specimen{"PrivateHeaderInAngleBrackets",
                 {"sync/x.cpp", "#include <sync/words.h>\n"},
                 "sync/x.cpp:1: <sync/words.h>: a private header is included by its name in quotes, from its own "
                 "folder"},
        Specimen{"PublicHeaderInQuotes",
                 {"sync/x.cpp", "#include \"include/sidelatch/sync/latch.h\"\n"},
                 "sync/x.cpp:1: \"include/sidelatch/sync/latch.h\": a public header is included as <sidelatch/...>"},
        Specimen{"PublicHeaderUsesAPrivateOne",
                 {"include/sidelatch/sync/x.h", "#include \"sync/words.h\"\n"},
                 "include/sidelatch/sync/x.h:1: \"sync/words.h\": a public header includes public headers only, as "
                 "<sidelatch/...>"},
        Specimen{"ExampleUsesAPrivateHeader",
                 {"examples/x.cpp", "#include \"sync/words.h\"\n"},
                 "examples/x.cpp:1: \"sync/words.h\": an example includes public headers only, as <sidelatch/...>"},
        Specimen{"PublicFolderWithoutSources",
                 {"include/sidelatch/sync/tickets/x.h", ""},
                 "include/sidelatch/sync/tickets/x.h:1: a public header mirrors a folder of sources, and there is no "
                 "sync/tickets/"},
        Specimen{"FolderOutsideTheLayers",
                 {"utils/x.cpp", ""},
                 "utils/x.cpp:1: utils/ has no place among the layers; give it one in "
                 "tests/layering/include_rules.cpp"}),
    [](const testing::TestParamInfo<Specimen>& specimen) { return std::string(specimen.param.name); });

}  // namespace
}  // namespace sidelatch::layering

// What a switch does first, where there is much to do.
#include <sidelatch/p4/compile.h>
#include <sidelatch/p4/switch.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace sidelatch::p4 {
namespace {

// A packet that begins with 0 leaves at port 1, one that begins with 1 goes round in ingress for ever, one with 2 in
// all.
constexpr const char* kProgram = R"(
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t {}
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  state start { p.extract(h.h); transition accept; }
}
control Verify(inout headers_t h, inout metadata_t m) { apply {} }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  apply { s.egress_spec = 1; if (h.h.kind == 1) { resubmit_preserving_field_list(0); } }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
  apply { if (h.h.kind == 2) { recirculate_preserving_field_list(0); } }
}
control Compute(inout headers_t h, inout metadata_t m) { apply {} }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.h); } }
V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
)";

std::size_t departures(Switch& device) {
  std::size_t count = 0;
  while (device.departed()) {
    ++count;
  }
  return count;
}

TEST(SwitchTurns, PacketsThatGoRoundForEverDoNotKeepOthersFromLeaving) {
  for (const std::byte kind : {std::byte{1}, std::byte{2}}) {
    Switch device(compile(kProgram, "test.p4"), {.ports = 2});
    const std::vector<std::byte> endless(100, kind);
    device.receive(0, endless);
    EXPECT_FALSE(device.run(1000));
    for (int i = 0; i < 50; ++i) {
      device.receive(0, std::vector<std::byte>(100));
    }
    // Each of the 50 needs two steps; for each the endless one takes as many, and what ingress may do before them.
    EXPECT_FALSE(device.run(400));
    EXPECT_EQ(departures(device), 50U) << "kind " << std::to_integer<int>(kind);
  }
}

TEST(SwitchTurns, IngressGoesFirst) {
  Switch device(compile(kProgram, "test.p4"), {.ports = 2, .queue_bytes = 1000});
  for (int i = 0; i < 20; ++i) {
    device.receive(0, std::vector<std::byte>(100));
  }
  EXPECT_TRUE(device.run());
  EXPECT_EQ(departures(device), 10U);
  EXPECT_EQ(device.drops(Drop::queue_full), 10U);
}

}  // namespace
}  // namespace sidelatch::p4

// Two-sided messages of real verbs: what they promise in every world.
#include "tests/fabric/two_sided_suite.h"

#include "requests.h"

#include <sidelatch/fabric/verbs/verbs_fabric.h>

namespace sidelatch::fabric::two_sided {
namespace {

Site verbs_site() { return site_in(std::make_unique<verbs::VerbsFabric>(verbs::DeviceOptions{}, verbs::kConnections)); }

// A sender that was told that its message arrived may forget it.
TEST_P(TwoSidedMessages, AMessageThatArrivedBeforeItsReceiverFailedIsReceivedFirst) {
  ASSERT_TRUE(client_->post_receive(out(0, 64)));
  End sending;
  End failing;
  spawn(note_end(submit_all(server_.get(), {send(in(0, 8))}), &sending));
  RemoteSpan nowhere = table_.remote(0, 8);
  nowhere.rkey.value ^= 0xabc000;
  spawn(note_end(submit_all(client_.get(), {fetch_add(nowhere, 1)}), &failing));
  run_until(sending.over);
  run_until(failing.over);
  EXPECT_TRUE(failing.status);
  std::vector<Received> received;
  const End end = end_of(receive_until_the_end(client_.get(), &received));
  EXPECT_TRUE(end.status);
  if (!sending.status) {
    EXPECT_EQ(received.size(), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(Verbs, TwoSidedMessages, ::testing::Values(&verbs_site));

}  // namespace
}  // namespace sidelatch::fabric::two_sided

// run_on_nic() on a real driver: all that a run's clients have asked for has arrived when the run is judged, and before
// the next one begins.
#include <sidelatch/checker/scene.h>
#include <sidelatch/fabric/queue_pair.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace sidelatch::checker {
namespace {

using fabric::Task;

struct Seen {
  SceneClient* client = nullptr;
  std::uint64_t last = 0;  // the number of its last request
};

// Nobody can see when a WRITE is placed. But what was posted behind its completion and has completed proves it (rule
// 2).
TEST(SceneOnNic, HasPlacedEachWriteWhenItIsJudged) {
  Seen seen;
  const Scene scene{.clients = 1,
                    .client = [&seen](SceneClient* me) -> Task<void> {
                      return [](SceneClient* client, Seen* what) -> Task<void> {
                        co_await client->qp().write(client->buffer(0, 72), client->memory(0, 72));
                        *what = {.client = client, .last = client->qp().posted()};
                      }(me, &seen);
                    },
                    .at_end =
                        [&seen](SceneEnd& end) {
                          end.require(seen.client->qp().completed() > seen.last, "no request has proved the placement");
                        }};
  const SceneReport report = run_on_nic(scene, {.runs = 3});
  EXPECT_EQ(report.runs, 3);
  EXPECT_EQ(report.broken, 0) << report.first;
}

// What the client has posted before may be under way still.
TEST(SceneOnNic, EndsWithTheRunInWhichAClientFails) {
  const Scene scene{.clients = 1, .memory_bytes = 8, .client = [](SceneClient* me) -> Task<void> {
                      co_await me->qp().fetch_add(me->word(8), 1);
                    }};
  const SceneReport report = run_on_nic(scene, {.runs = 2});
  EXPECT_EQ(report.runs, 1);
  EXPECT_EQ(report.broken, 1);
  EXPECT_TRUE(report.first.starts_with("client 0: ")) << report.first;
}

}  // namespace
}  // namespace sidelatch::checker

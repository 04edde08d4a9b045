// A scene is one program: its worlds agree on what it does. (On a NIC: examples/one_program.cpp, and the tests of the
// software NIC.)
#include <sidelatch/checker/scene.h>
#include <sidelatch/explore/check.h>
#include <sidelatch/fabric/sim/profile.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace sidelatch::checker {
namespace {

using fabric::Task;
using ::testing::HasSubstr;

constexpr std::uint64_t kSceneLatch = 0;
constexpr std::uint64_t kSceneCounter = 64;
constexpr std::uint64_t kGiveBack = ~std::uint64_t{0};

Task<void> count_without_latch(SceneClient* me) {
  co_await me->qp().read(me->buffer(0, 8), me->word(kSceneCounter));
  me->set(0, me->value(0) + 1);
  co_await me->qp().write(me->buffer(0, 8), me->word(kSceneCounter));
}

Task<void> count_under_latch(SceneClient* me) {
  const auto loop = me->reactor().begin_retries();
  for (;;) {
    const std::uint64_t holder = co_await me->qp().compare_swap(me->word(kSceneLatch), 0, 1);
    if (holder == 0) {
      break;
    }
    co_await me->reactor().retry(loop, fabric::from_ns(100));
  }
  co_await count_without_latch(me);
  co_await me->qp().fetch_add(me->word(kSceneLatch), kGiveBack);
}

// The second one never gives the latch back.
Task<void> keep_the_latch(SceneClient* me) {
  if (me->number() == 0) {
    co_await count_under_latch(me);
  } else {
    co_await me->qp().compare_swap(me->word(kSceneLatch), 0, 1);
  }
}

Task<void> leave_by_an_exception(SceneClient* me) {
  if (me->number() == 1) {
    throw std::runtime_error("out of luck");
  }
  co_await me->qp().fetch_add(me->word(kSceneCounter), 1);
}

Scene counting(std::function<Task<void>(SceneClient*)> client) {
  return {.client = std::move(client), .at_end = [](SceneEnd& end) {
            end.require(end.word(kSceneCounter) == 2, "an increment is lost", explore::Kind::lost_update);
          }};
}

SimulateOptions simulated(std::uint64_t runs) {
  return {.world = {.profile = fabric::sim::load_profile("connectx5")}, .runs = runs};
}

TEST(Scene, ThatIsSafeIsSafeInEachWorld) {
  const Scene scene = counting(count_under_latch);
  EXPECT_EQ(check(explored(scene), {}).outcome, explore::Outcome::safe);
  const SceneReport report = simulate(scene, simulated(50));
  EXPECT_EQ(report.runs, 50);
  EXPECT_EQ(report.broken, 0) << report.first;
}

TEST(Scene, ThatIsBrokenIsBrokenInEachWorld) {
  const Scene scene = counting(count_without_latch);
  const explore::Verdict verdict = check(explored(scene), {});
  ASSERT_TRUE(verdict.violation);
  EXPECT_EQ(verdict.violation->kind, explore::Kind::lost_update);
  EXPECT_EQ(verdict.violation->what, "an increment is lost");
  const SceneReport report = simulate(scene, simulated(50));
  EXPECT_GT(report.broken, 0);
  EXPECT_EQ(report.first, "an increment is lost");
}

TEST(Scene, SaysThatAClientIsStuck) {
  const Scene scene{.client = keep_the_latch};
  const explore::Verdict verdict = check(explored(scene), {});
  ASSERT_TRUE(verdict.violation);
  EXPECT_EQ(verdict.violation->kind, explore::Kind::deadlock);
  SimulateOptions options = simulated(20);
  options.limit = fabric::from_ns(100'000);
  const SceneReport report = simulate(scene, options);
  EXPECT_GT(report.broken, 0);
  EXPECT_THAT(report.first, HasSubstr("has not ended"));
}

TEST(Scene, SaysWhichClientFailed) {
  const Scene scene{.client = leave_by_an_exception};
  const explore::Verdict verdict = check(explored(scene), {});
  ASSERT_TRUE(verdict.violation);
  EXPECT_EQ(verdict.violation->what, "client 1: out of luck");
  EXPECT_EQ(simulate(scene, simulated(1)).first, "client 1: out of luck");
}

TEST(Scene, BeginsWithWhatIsPutIntoItsMemory) {
  Scene scene = counting([](SceneClient* me) -> Task<void> { return leave_by_an_exception(me); });
  scene.clients = 1;
  scene.at_start = [](std::span<std::byte> memory) { memory[kSceneCounter] = std::byte{1}; };
  EXPECT_EQ(check(explored(scene), {}).outcome, explore::Outcome::safe);
  EXPECT_EQ(simulate(scene, simulated(3)).broken, 0);
}

std::string refused_scene(const Scene& scene) {
  try {
    static_cast<void>(explored(scene));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Scene, ThatIsNoneIsRefusedByField) {
  EXPECT_THAT(refused_scene({}), HasSubstr("client is empty"));
  EXPECT_THAT(refused_scene({.clients = 0, .client = count_under_latch}), HasSubstr("clients is 0"));
  EXPECT_THAT(refused_scene({.memory_bytes = 0, .client = count_under_latch}), HasSubstr("memory_bytes is 0"));
  EXPECT_THAT(refused_scene({.buffer_bytes = 0, .client = count_under_latch}), HasSubstr("buffer_bytes is 0"));
  EXPECT_THROW(static_cast<void>(simulate(counting(count_under_latch), simulated(0))), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(run_on_nic(counting(count_under_latch), {.runs = 0})), std::invalid_argument);
}

}  // namespace
}  // namespace sidelatch::checker

// One program in every world: two clients add one to a counter under a latch. The explorer shows that no execution
// loses an increment; the simulator and the NIC run it. `sidelatch softnic run ./one_program` has a NIC everywhere.
#include <sidelatch/checker/scene.h>
#include <sidelatch/explore/check.h>
#include <sidelatch/fabric/sim/profile.h>
#include <sidelatch/fabric/verbs/device.h>

#include <iostream>

using namespace sidelatch;
using checker::Scene;
using checker::SceneClient;
using checker::SceneEnd;
using checker::SceneReport;

constexpr std::uint64_t kLatch = 0;
constexpr std::uint64_t kCounter = 64;  // on a line of its own

fabric::Task<void> add_one(SceneClient* me) {
  const auto loop = me->reactor().begin_retries();
  for (;;) {
    const std::uint64_t holder = co_await me->qp().compare_swap(me->word(kLatch), 0, 1);
    if (holder == 0) {
      break;
    }
    co_await me->reactor().retry(loop, fabric::from_ns(1000));
  }
  co_await me->qp().read(me->buffer(0, 8), me->word(kCounter));
  me->set(0, me->value(0) + 1);
  co_await me->qp().write(me->buffer(0, 8), me->word(kCounter));
  co_await me->qp().fetch_add(me->word(kLatch), ~std::uint64_t{0});
}

void no_increment_is_lost(SceneEnd& end) {
  end.require(end.word(kCounter) == 2, "an increment is lost", explore::Kind::lost_update);
  end.require(end.word(kLatch) == 0, "the latch is held");
}

bool print(const char* world, const SceneReport& report) {
  std::cout << world << ": " << report.runs << " runs, " << report.broken << " broken " << report.first << "\n";
  return report.broken == 0;
}

int main() {
  const Scene scene{.clients = 2, .client = add_one, .at_end = no_increment_is_lost};
  const explore::Verdict verdict = explore::check(explored(scene), {.rules = rules_of(fabric::model::Preset::relaxed)});
  std::cout << "explorer: " << to_text(verdict);
  bool good = verdict.outcome == explore::Outcome::safe;
  good = print("simulator",
               simulate(scene, {.world = {.profile = fabric::sim::load_profile("connectx5")}, .runs = 1000})) &&
         good;
  try {
    good = print("NIC", run_on_nic(scene, {.runs = 1000})) && good;
  } catch (const fabric::verbs::DeviceError& error) {
    std::cout << "NIC: " << error.what() << "\n";
  }
  return good ? 0 : 1;
}

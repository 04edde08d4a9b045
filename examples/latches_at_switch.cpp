// Latches and versions at a switch: the same update and read through both schemes. The switches' programs run,
// compiled, between simulated machines.
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/switchsync/sim/tuples_at_switch.h>
#include <sidelatch/sync/switch_latch.h>
#include <sidelatch/sync/switched_version.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

using namespace sidelatch::fabric;
using namespace sidelatch::sync;
using namespace sidelatch::switchsync;

namespace {

constexpr std::uint64_t kPayload = 200;
constexpr std::uint64_t kObjects = 100;

Task<bool> update_then_read(const Scheme& scheme, Session& session, Object object) {
  const bool updated = co_await scheme.update(
      session, object, [](std::span<std::byte> payload) { std::ranges::fill(payload, std::byte{42}); });
  std::vector<std::byte> seen(kPayload);
  const ReadResult result = co_await scheme.read(session, object, seen);
  std::cout << scheme.name() << ": after " << to_ns(session.now()) << " ns, " << session.qp().counters().round_trips
            << " waits for the memory node or the switch before it\n";
  co_return updated&& result.accepted&& std::ranges::all_of(seen, [](std::byte b) { return b == std::byte{42}; });
}

// Words of the switch are the latches; a second queue pair reaches them.
bool with_words() {
  sim::Simulation world({.profile = sim::load_profile("connectx5"), .seed = 1});
  Node& storage = world.add_node("storage");
  Node& client = world.add_node("client");
  const SwitchLatch scheme;
  const Layout layout(scheme.shape(kPayload, LayoutKind::slotted), LayoutKind::slotted, kObjects);
  const MemoryRegion memory = storage.allocate(layout.total_bytes(), Access::remote_all);
  const ObjectArray objects(layout, memory.remote());
  WordsAtSwitch words(world, storage, memory.remote(), layout.stride());
  const auto to_switch = words.connect(client);
  const auto to_memory = client.connect(storage);
  SessionOptions options;
  options.latches = {.queue_pair = to_switch.get(),
                     .words = words.words(),
                     .first = memory.remote().address,
                     .granule = layout.stride()};
  Session session(*to_memory, buffer_bytes(layout.shape()), options);
  return world.reactor().run(update_then_read(scheme, session, objects.at(7))) &&
         words.word(objects.at(7).record_address) == 0;
}

// The switch before the memory node knows the version of each object.
bool with_tuples() {
  sim::Simulation world({.profile = sim::load_profile("connectx5"), .seed = 1});
  Node& storage = world.add_node("storage");
  Node& client = world.add_node("client");
  const SwitchedVersion scheme;
  const Layout layout(scheme.shape(kPayload, LayoutKind::slotted), LayoutKind::slotted, kObjects);
  const MemoryRegion memory = storage.allocate(layout.total_bytes(), Access::remote_all);
  const ObjectArray objects(layout, memory.remote());
  TuplesAtSwitch between(world, storage);
  between.add(memory.remote(), layout.count(), layout.shape().bytes, layout.stride());
  const auto through_switch = client.connect(storage);
  Session session(*through_switch, buffer_bytes(layout.shape()), {.versions_at_switch = true});
  return world.reactor().run(update_then_read(scheme, session, objects.at(7))) && between.control().version(7) == 2;
}

}  // namespace

int main() {
  const bool words = with_words();
  const bool tuples = with_tuples();
  return words && tuples ? 0 : 1;
}

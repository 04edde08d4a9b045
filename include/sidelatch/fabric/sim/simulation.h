// Simulation: a fabric in virtual time. NICs, links and PCIe slots with the service times of a profile, over real
// bytes.
//
//   Simulation world({.profile = load_profile("connectx5"), .seed = 1});
//   Node& storage = world.add_node("storage");
//   Node& client  = world.add_node("client");
//   MemoryRegion table = storage.allocate(1 << 20, Access::remote_all);
//   auto qp = client.connect(storage);
//   world.reactor().run(task(*qp, table.remote()));
//
// Work requests become the micro-steps of the memory model (fabric/model), with timing: each step happens at a moment
// of virtual time that the ordering table allows. Torn reads, lost unlatches and reused buffers happen as often as the
// profile's delays cause them. Equal options and equal programs give equal runs, on every machine.
//
// What is simulated: doorbells, NIC service times and latencies, the queue-pair state cache, link rate, MTU, PCIe
// latency and the pace of a request's lines, lines of a READ that are sampled late, WRITEs that stall, the lock table
// of atomics, max_rd_atomic, fences, two-sided messages, errors and flushes. Not simulated: CPU time, PCIe bandwidth
// shared between requests, packet loss, congestion inside the switch, address translation caches, CPU caches.
//
// A request's lines may be copied together when it ends, as long as no other request can tell. So code that looks at a
// target's bytes directly may see a request late. This holds after run(), too: a WRITE completes before it is placed
// (rule 2), and run() ends with the last task. A READ sees all that has completed before it was posted. Before a direct
// look let time pass: `reactor().run_for()` places what is due by then.
//
// Thread-safety: a simulation and all in it belong to one thread; run as many side by side as there are cores.
#pragma once

#include <sidelatch/fabric/fabric.h>
#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/sim/network_device.h>
#include <sidelatch/fabric/sim/profile.h>

#include <cstdint>
#include <memory>
#include <string>

namespace sidelatch::fabric::sim {

class World;

struct SimulationOptions {
  Profile profile;  ///< for nodes added without a profile of their own
  /// The memory model's rules. `rules.atom` is replaced by each target's profile.memory.atom_bytes if that is smaller.
  model::Rules rules = model::rules_of(model::Preset::observed);
  std::uint64_t seed = 1;
  /// Work requests in flight over all queue pairs; the default is beyond what any experiment needs.
  std::uint32_t completion_queue_depth = 1U << 30;
};

/// A micro-step that happened, for an observer.
struct SimStep {
  enum class Kind : std::uint8_t {
    post,
    fetch,
    place,
    sample,
    load,
    store,
    load_store,
    execute,
    deliver,
    complete,
    receive,      ///< the CPU of the receiving end learns of the SEND `sequence` of `queue_pair`
    post_receive  ///< the end `queue_pair` posts a receive buffer, which has no sequence number
  };
  Kind kind = Kind::post;
  Time time{};
  const QueuePair* queue_pair = nullptr;  ///< null once it has ended, or has forgotten the request after an error
  std::uint64_t sequence = 0;             ///< of the request on its queue pair
  std::uint64_t piece = 0;                ///< index of the piece for fetch, place and sample
  const WorkRequest* request = nullptr;   ///< as posted; valid during the call
  /// The number of the queue pair, which no other one gets and which remains when it has ended. 0 for post_receive.
  std::uint64_t connection = 0;
};

/// Sees every micro-step in the order in which it takes effect. With an observer the simulation takes no short cuts and
/// is slower; requests read and write the same bytes.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void on_step(const SimStep& step) = 0;
};

class Simulation : public Fabric {
 public:
  /// Throws ProfileError for a wrong profile, and std::invalid_argument for wrong rules.
  explicit Simulation(const SimulationOptions& options);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation() override;

  /// A new machine with one NIC. It lives as long as the simulation. Throws ProfileError for a wrong profile.
  Node& add_node(std::string name);
  Node& add_node(std::string name, const Profile& profile);

  [[nodiscard]] std::string_view kind() const noexcept override { return "sim"; }
  [[nodiscard]] Reactor& reactor() noexcept override;
  [[nodiscard]] const SimulationOptions& options() const noexcept;

  /// Sets the observer; null ends the observation. Call it before the first request is posted.
  void observe(StepObserver* observer) noexcept;

  /// The connection is lost: all requests in flight on `queue_pair` fail, those that have been executed, too, and those
  /// that have not reached the target are never executed. reconnect() brings the connection back. False if nothing was
  /// in flight; then nothing happens. Throws std::invalid_argument for a queue pair of another fabric.
  bool lose_connection(QueuePair& queue_pair);

  /// The queue pair's requests and their answers pass the device, which must stay as long as the simulation runs, also
  /// when the queue pair has ended: something may be on its way. Returns the number
  /// by which the device knows it. Call it before the first request. Throws std::invalid_argument for a queue pair of
  /// another fabric, for an end of a pair, and if it has a device already.
  std::uint64_t pass_through(QueuePair& queue_pair, NetworkDevice& device);
  /// The same for each queue pair that connects to `target` from now on, but for the ends of pairs. The device learns
  /// of it by connected(). Throws std::invalid_argument for a node of another simulation.
  void put_before(Node& target, NetworkDevice& device);

  /// Events handled so far: a measure of work, not of time.
  [[nodiscard]] std::uint64_t events() const noexcept;

 private:
  std::unique_ptr<World> world_;
};

}  // namespace sidelatch::fabric::sim

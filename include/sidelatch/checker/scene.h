// Scene: one program for every world. Clients run beside a memory node; the scene makes nodes, memory, queue pairs and
// buffers, and one call runs it in the explorer, in the simulator, or on a NIC.
//
//   Task<void> add_one(checker::SceneClient* me) { co_await me->qp().fetch_add(me->word(0), 1); }
//
//   const checker::Scene scene{.client = add_one, .at_end = [](checker::SceneEnd& end) {
//                                end.require(end.word(0) == 2, "an increment is lost");
//                              }};
//   explore::Verdict verdict = explore::check(explored(scene), {});                       // every execution
//   SceneReport simulated = simulate(scene, {.runs = 1000});                              // by chance, in virtual time
//   SceneReport measured = run_on_nic(scene, {.device = {.device = "rxe0"}, .runs = 1000});  // as it happens
//
// A program that is started by `sidelatch softnic run` finds the software NIC: there run_on_nic() runs on that.
//
// Memory and buffers are zero at the beginning of each run, but for what `at_start` puts into the memory. A client's
// task gets a SceneClient, which lives until the run has ended. What a client keeps in objects of the process is its
// own: see <sidelatch/explore/world.h> for what a program promises to the explorer.
//
// Thread-safety: a scene may be run by several threads at once.
#pragma once

#include <sidelatch/explore/world.h>
#include <sidelatch/fabric/fabric.h>
#include <sidelatch/fabric/sim/simulation.h>
#include <sidelatch/fabric/verbs/device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sidelatch::checker {

/// What one client has. Offsets are bytes.
class SceneClient {
 public:
  /// Tells who calls it of a requirement that does not hold.
  using Report = std::function<void(explore::Kind, std::string_view)>;
  SceneClient(unsigned number, fabric::Node& node, fabric::RemoteSpan memory, fabric::MemoryRegion buffers,
              std::unique_ptr<fabric::QueuePair> qp, Report report)
      : number_(number),
        node_(&node),
        memory_(memory),
        buffers_(std::move(buffers)),
        qp_(std::move(qp)),
        report_(std::move(report)) {}

  /// 0, 1, ... of the scene's clients.
  [[nodiscard]] unsigned number() const noexcept { return number_; }
  [[nodiscard]] fabric::Node& node() const noexcept { return *node_; }
  [[nodiscard]] fabric::Reactor& reactor() const { return node_->reactor(); }
  /// To the memory node.
  [[nodiscard]] fabric::QueuePair& qp() const noexcept { return *qp_; }
  /// A part of the memory node's memory. Throws std::out_of_range.
  [[nodiscard]] fabric::RemoteSpan memory(std::uint64_t offset, std::uint64_t length) const {
    return memory_.subspan(offset, length);
  }
  /// Eight bytes of it.
  [[nodiscard]] fabric::RemoteSpan word(std::uint64_t offset) const { return memory(offset, 8); }
  /// A part of the client's own buffers. Throws std::out_of_range.
  [[nodiscard]] fabric::LocalSpan buffer(std::uint64_t offset, std::uint64_t length) const {
    return buffers_.local(offset, length);
  }
  [[nodiscard]] std::span<std::byte> buffer_bytes() const { return buffers_.bytes(); }
  /// The word at `offset` of the buffers.
  [[nodiscard]] std::uint64_t value(std::uint64_t offset) const;
  void set(std::uint64_t offset, std::uint64_t word) const;
  /// Fails the run if `holds` is false.
  void require(bool holds, std::string_view what, explore::Kind kind = explore::Kind::assertion) const {
    if (!holds) {
      report_(kind, what);
    }
  }

 private:
  unsigned number_;
  fabric::Node* node_;
  fabric::RemoteSpan memory_;
  fabric::MemoryRegion buffers_;
  std::unique_ptr<fabric::QueuePair> qp_;
  Report report_;
};

/// The end of a run: every client's task has ended, and all requests have arrived.
class SceneEnd {
 public:
  SceneEnd(std::span<const std::byte> memory, const SceneClient::Report& report) : memory_(memory), report_(&report) {}
  [[nodiscard]] std::span<const std::byte> memory() const noexcept { return memory_; }
  /// The word at `offset` of the memory node's memory.
  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const;
  void require(bool holds, std::string_view what, explore::Kind kind = explore::Kind::assertion) const {
    if (!holds) {
      (*report_)(kind, what);
    }
  }

 private:
  std::span<const std::byte> memory_;
  const SceneClient::Report* report_;
};

struct Scene {
  std::uint32_t clients = 2;
  std::uint64_t memory_bytes = 4096;  ///< of the memory node; others may READ, WRITE, and use atomics
  std::uint64_t buffer_bytes = 4096;  ///< of each client
  /// A client's task. The pointer is valid until the task has ended.
  std::function<fabric::Task<void>(SceneClient*)> client{};
  std::function<void(std::span<std::byte>)> at_start{};  ///< fills the memory; may be empty
  std::function<void(SceneEnd&)> at_end{};               ///< looks at it; may be empty

  /// Throws std::invalid_argument that names the field.
  void validate() const;
};

/// The scene for explore::check() and explore::replay(). Throws std::invalid_argument as validate().
[[nodiscard]] explore::Program explored(Scene scene);

struct SceneReport {
  std::uint64_t runs = 0;
  std::uint64_t broken = 0;  ///< runs in which a requirement did not hold, a task failed, or a client did not end
  std::string first{};       ///< what was wrong in the first of them
};

struct SimulateOptions {
  fabric::sim::SimulationOptions world{};  ///< run `i` has the seed `world.seed + i`
  std::uint64_t runs = 1;
  fabric::Duration limit = std::chrono::milliseconds(10);  ///< of virtual time: a client that has not ended is stuck
};
/// Throws std::invalid_argument for a wrong scene or option.
[[nodiscard]] SceneReport simulate(const Scene& scene, const SimulateOptions& options);

struct NicOptions {
  fabric::verbs::DeviceOptions device{};
  fabric::verbs::ConnectionOptions connections{};
  std::uint64_t runs = 1;
  fabric::Duration limit = std::chrono::seconds(5);  ///< of each run: a client that has not ended by then is stuck
};
/// All clients and the memory node are in this process, on one device, and each client has its own queue pair. After a
/// run in which a client is stuck or fails no other follows. Throws DeviceError if there is no device, and
/// std::invalid_argument for a wrong scene or option.
[[nodiscard]] SceneReport run_on_nic(const Scene& scene, const NicOptions& options);

}  // namespace sidelatch::checker

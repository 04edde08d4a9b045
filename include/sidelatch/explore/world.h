// World: a program for the explorer, as it is being built and run. It is a Fabric, so schemes and sessions run in it as
// they do on a NIC; what may happen next is not decided by a clock but by the memory model.
//
//   void count_twice(explore::World& world) {
//     fabric::Node& memory = world.add_node("memory");
//     auto& counter = world.make<fabric::MemoryRegion>(memory.allocate(64, fabric::Access::remote_all));
//     for (int i = 0; i < 2; ++i) {
//       fabric::Node& node = world.add_node(fmt::format("client {}", i));
//       auto& qp = *world.make<std::unique_ptr<fabric::QueuePair>>(node.connect(memory));
//       world.spawn(node, add_one(world, qp, counter.remote()));
//     }
//   }
//   explore::Verdict verdict = explore::check(count_twice, {});
//
// The explorer calls the program again for each execution, so a program must do the same each time: no clocks, no
// random numbers without a fixed seed, nothing kept between two calls. Memory that NICs touch comes from allocate().
// Clients tell each other things through the fabric only. What they share in this process must not change what they do,
// and a check on it while they run sees one order of many that are equivalent: two clients that never meet in the
// fabric run one after the other, whatever they exclude. Take moment() where something begins and ends, and compare
// with Order::before in at_end(). A queue pair is used by its own client's tasks, and lives until its requests are
// done.
//
// Time does not pass, except for a task that sleeps: now() is the sum of what the calling client has slept. Retry loops
// say that they are (sync::Attempts does, or Reactor::begin_retries and retry); a loop that does not is cut off as one
// that never ends.
//
// Thread-safety: a world belongs to one thread; the explorer makes one for each of its threads.
#pragma once

#include <sidelatch/fabric/fabric.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::explore {

/// What can be wrong with an execution. The names are those of the command line's `violation.kind`.
enum class Kind : std::uint8_t {
  torn_read,         ///< a value was accepted that is no committed one
  lost_update,       ///< a committed update is not in the end result
  mutual_exclusion,  ///< two that exclude each other were inside at once
  linearizability,   ///< a value is older than one that was there before the operation began
  deadlock,          ///< clients wait, and nothing is left that could happen
  livelock,          ///< clients keep each other from going on, for ever
  buffer_race,       ///< a local buffer was changed while the NIC may still read it
  assertion,         ///< World::require
  exception,         ///< left a task
};

/// "torn-read", "lost-update", ...
[[nodiscard]] std::string_view name(Kind kind);

/// A moment of an execution: the number of its event.
using Moment = std::uint32_t;

/// What came before what in an execution, in all its equivalent orders.
class Order {
 public:
  /// Whether `first` is `second` or happens before it in every order of this execution's events.
  [[nodiscard]] virtual bool before(Moment first, Moment second) const = 0;

  /// Bytes of a node's memory that a request has touched.
  struct Access {
    Moment moment = 0;
    std::uint64_t tag = 0;  ///< of the client that posted it, at that time; see World::tag
    fabric::RemoteAddress address;
    std::uint64_t length = 0;
    const fabric::Node* node = nullptr;
  };
  /// Lines of WRITEs placed, results of atomics and CPU stores, in their order.
  [[nodiscard]] virtual const std::vector<Access>& changes() const = 0;
  /// Lines of READs, in their order.
  [[nodiscard]] virtual const std::vector<Access>& samples() const = 0;

 protected:
  ~Order() = default;
};

/// A CPU thread of a node, with a TSO store buffer. Awaiting one of its operations is one step of the thread.
class Cpu;

class World : public fabric::Fabric {
 public:
  [[nodiscard]] std::string_view kind() const noexcept final { return "model"; }

  /// A machine. It is a memory node, or a client, or both; `nics`: NICs that serve as targets, at least 1.
  [[nodiscard]] virtual fabric::Node& add_node(std::string_view name, unsigned nics = 1) = 0;
  /// As from.connect(to), to a chosen NIC of `to`.
  [[nodiscard]] virtual std::unique_ptr<fabric::QueuePair> connect(fabric::Node& from, fabric::Node& to, unsigned nic,
                                                                   const fabric::QueuePairOptions& options) = 0;
  [[nodiscard]] virtual Cpu& add_cpu(fabric::Node& node, std::string_view name) = 0;
  /// Gives a client or a CPU thread its task; several tasks of one client begin each in its
  /// own time. A CPU thread has one.
  virtual void spawn(fabric::Node& client, fabric::Task<void> task) = 0;
  virtual void spawn(Cpu& cpu, fabric::Task<void> task) = 0;
  /// The client may stop for ever at any of its steps (rule 9). At most one client crashes in an execution. Its task
  /// runs on to its next wait, without effect on the world; do not judge by what it sets in this process meanwhile.
  virtual void may_crash(fabric::Node& client) = 0;
  /// Others must get on although a client has crashed, as with leases. Without it waiting for the dead is no deadlock.
  virtual void require_liveness_after_crash() = 0;

  /// An object that lives as long as this execution. What was made last ends first, after all tasks.
  template <class T, class... Arguments>
  T& make(Arguments&&... arguments) {
    auto object = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    T& made = *object;
    keep({object.release(), [](void* pointer) { delete static_cast<T*>(pointer); }});
    return made;
  }

  /// The program is wrong in this execution: it ends here.
  virtual void fail(Kind kind, std::string what) = 0;
  /// fail(Kind::assertion, what) if `holds` is false.
  void require(bool holds, std::string_view what) {
    if (!holds) {
      fail(Kind::assertion, std::string(what));
    }
  }
  /// The moment of the event that is happening.
  [[nodiscard]] virtual Moment moment() const = 0;
  /// The moment at which the running client posted its newest chain.
  [[nodiscard]] virtual Moment last_post() const = 0;
  /// The moment at which an attempt of the running client last failed (Reactor::retry); 0 if none has.
  [[nodiscard]] virtual Moment last_retry() const = 0;
  /// What the running client posts from now on carries this number (Order::Access). 0 at the beginning.
  virtual void tag(std::uint64_t number) = 0;
  /// Called at the end of an execution in which every task has ended or its client crashed, with everything placed.
  virtual void at_end(std::function<void(const Order&)> judge) = 0;
  /// Whether a client has crashed in this execution.
  [[nodiscard]] virtual bool crashed() const = 0;

  /// Awaiters, each one step of the client.
  class Step : public fabric::Waiter {
   public:
    enum class What : std::uint8_t { start, yield, store, load, fence, local_store, completion };

    Step(World& world, fabric::Node* client, Cpu* cpu, What what, fabric::RemoteAddress word = {},
         fabric::LocalSpan local_word = {}, std::uint64_t number = 0) noexcept
        : address(word), local(local_word), value(number), world_(&world), client_(client), cpu_(cpu), what_(what) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> awaiter) {
      handle = awaiter;
      world_->suspend(*this);
    }
    void await_resume() const noexcept {}

    [[nodiscard]] What what() const noexcept { return what_; }
    [[nodiscard]] fabric::Node* client() const noexcept { return client_; }
    [[nodiscard]] Cpu* cpu() const noexcept { return cpu_; }

    fabric::RemoteAddress address;
    fabric::LocalSpan local;
    std::uint64_t value = 0;

   protected:
    World* world_;
    fabric::Node* client_;
    Cpu* cpu_;
    What what_;
  };
  /// A step that gives the value it loaded.
  class Load : public Step {
   public:
    using Step::Step;
    [[nodiscard]] std::uint64_t await_resume() const noexcept { return value; }
  };

  /// Lets others go on before the client does: one step that does nothing.
  [[nodiscard]] Step yield(fabric::Node& client) noexcept { return {*this, &client, nullptr, Step::What::yield}; }
  /// A store of the client's CPU to an 8-byte word of a local buffer; a NIC may be reading it (no buffer race).
  [[nodiscard]] Step store_local(fabric::Node& client, fabric::LocalSpan word, std::uint64_t value) noexcept {
    return {*this, &client, nullptr, Step::What::local_store, {}, word, value};
  }

 protected:
  struct Kept {
    void* object;
    void (*destroy)(void*);
  };
  virtual void keep(Kept kept) = 0;
  virtual void suspend(Step& step) = 0;
};

class Cpu {
 public:
  Cpu(World& world, fabric::Node& node) noexcept : world_(&world), node_(&node) {}
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;
  virtual ~Cpu() = default;

  /// `word`: 8 bytes of a region of the thread's own node, aligned to 8.
  [[nodiscard]] World::Step store(fabric::RemoteSpan word, std::uint64_t value) noexcept {
    return {*world_, nullptr, this, World::Step::What::store, word.address, {}, value};
  }
  [[nodiscard]] World::Load load(fabric::RemoteSpan word) noexcept {
    return {*world_, nullptr, this, World::Step::What::load, word.address};
  }
  /// Waits until the thread's stores are in memory.
  [[nodiscard]] World::Step mfence() noexcept { return {*world_, nullptr, this, World::Step::What::fence}; }
  [[nodiscard]] fabric::Node& node() const noexcept { return *node_; }

 private:
  World* world_;
  fabric::Node* node_;
};

/// Builds one execution: nodes, memory, clients. Called once per execution, from several threads at once.
using Program = std::function<void(World&)>;

}  // namespace sidelatch::explore

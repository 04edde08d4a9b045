// World: a program for the explorer, while it is built and run. It is a Fabric, so schemes and sessions run in it as
// they do on a NIC. The memory model, not a clock, decides what may happen next.
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
// random numbers without a fixed seed, nothing kept between two calls; one that differs is refused. Memory that NICs
// touch comes from allocate(). Clients communicate only through the fabric. Objects that several clients can reach and
// one changes (a history, a counter of those inside) make the steps that touch them dependent, which takes longer.
// Cheaper: each client records moment() at the beginning and end of what you check, in an object of its own, and
// at_end() compares with Order::before. A queue pair is used by its own client's tasks, and lives until its requests
// are done. docs/explorer.md, "What a program promises", says what is checked.
//
// Time does not pass, except for a task that sleeps: now() is the sum of what the calling client has slept. Who asks
// for it after another wait makes the verdict `bounded`, as long as no client may crash. Retry loops should announce
// themselves (with sync::Attempts, or Reactor::begin_retries and retry). One that does not costs time.
//
// Thread-safety: a world belongs to one thread; the explorer makes one for each of its threads.
#pragma once

#include <sidelatch/fabric/cpu.h>
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
  torn_read,         ///< a value was accepted that was never committed
  lost_update,       ///< a committed update is missing in the final state
  mutual_exclusion,  ///< two clients that exclude each other were inside at once
  linearizability,   ///< a value is older than one present before the operation began
  deadlock,          ///< clients wait, and nothing more can happen
  livelock,          ///< clients keep each other from making progress for ever
  buffer_race,       ///< a local buffer was changed while the NIC may still read it
  assertion,         ///< World::require
  exception,         ///< an exception left a task
};

/// "torn-read", "lost-update", ...
[[nodiscard]] std::string_view name(Kind kind);

/// A moment of an execution: the number of its event.
using Moment = std::uint32_t;

/// Which events come before which in an execution, in all its equivalent orders.
class Order {
 public:
  /// Whether `first` is `second` or happens before it in every order of this execution's events.
  [[nodiscard]] virtual bool before(Moment first, Moment second) const = 0;

  /// Bytes of a node's memory that a request has touched.
  struct Access {
    Moment moment = 0;
    std::uint64_t tag = 0;  ///< the client's tag when it posted the request; see World::tag
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

class World : public fabric::Fabric {
 public:
  [[nodiscard]] std::string_view kind() const noexcept final { return "model"; }

  /// A machine: a memory node, a client, or both. `nics`: the number of NICs that serve as targets, at least 1.
  [[nodiscard]] virtual fabric::Node& add_node(std::string_view name, unsigned nics = 1) = 0;
  /// Like from.connect(to), but to a chosen NIC of `to`.
  [[nodiscard]] virtual std::unique_ptr<fabric::QueuePair> connect(fabric::Node& from, fabric::Node& to, unsigned nic,
                                                                   const fabric::QueuePairOptions& options) = 0;
  /// One more CPU thread of the node, with a store buffer of its own, besides node.cpu(), on which the node's tasks
  /// run.
  [[nodiscard]] virtual fabric::Cpu& add_cpu(fabric::Node& node, std::string_view name) = 0;
  /// Gives a client or a CPU thread a task. Tasks of one client may begin at different times. A CPU thread has one
  /// task.
  virtual void spawn(fabric::Node& client, fabric::Task<void> task) = 0;
  virtual void spawn(fabric::Cpu& cpu, fabric::Task<void> task) = 0;
  /// The client may stop for ever at any of its steps, also before the first one (rule 9). At most one client crashes
  /// in an execution. Its tasks do nothing more; but behind QueuePair::post(), where none can wait, a task runs on to
  /// its next wait.
  virtual void may_crash(fabric::Node& client) = 0;
  /// The others must make progress although a client has crashed, as with leases. Without this call, waiting for a
  /// crashed client is no deadlock.
  virtual void require_liveness_after_crash() = 0;

  /// An object that lives as long as this execution. Objects are destroyed in reverse order, after all tasks.
  template <class T, class... Arguments>
  T& make(Arguments&&... arguments) {
    auto object = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    T& made = *object;
    keep({object.release(), [](void* pointer) { delete static_cast<T*>(pointer); }});
    return made;
  }

  /// Reports a violation and ends this execution.
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
  /// Requests that the running client posts from now on carry this number (Order::Access). Initially 0.
  virtual void tag(std::uint64_t number) = 0;
  /// Sets a function to call at the end of an execution, when every task has ended or its client crashed, and
  /// everything is placed.
  virtual void at_end(std::function<void(const Order&)> judge) = 0;
  /// True in a search through states (Mode::states). It runs every order of the steps that call order_matters(), and
  /// steps happen in the order in which they run. So a program judges at once, by numbers that it keeps in its own
  /// objects. moment() and Order are for the other searches: what a program knows of moments makes all states differ.
  [[nodiscard]] virtual bool judges_in_order() const = 0;
  /// A judge can see when this step of the running client happens.
  virtual void order_matters() = 0;
  /// An object of make() in which judges keep what they have seen. Clients write to it in steps that call
  /// order_matters(), and nothing that they do depends on what is in it. This is believed: else it is an object that
  /// clients share.
  virtual void judges_with(const void* object) = 0;
  /// What an observer of a search through states is told. Requests carry the tag of their client; see World::tag.
  struct Observer {
    std::function<void(const Order::Access&)> changed;  ///< a line of a WRITE was placed, an atomic stored
    /// A line of a READ. What is made of it must not depend on what other steps came before it.
    std::function<void(const Order::Access&)> sampled;
    std::function<bool(std::uint64_t tag)> posted;   ///< a client posted a request; whether it matters when
    std::function<void(std::uint64_t tag)> retried;  ///< an attempt of a client has failed (Reactor::retry)
  };
  /// Does nothing in other searches.
  virtual void observe(Observer observer) = 0;
  /// Whether a client has crashed in this execution.
  [[nodiscard]] virtual bool crashed() const = 0;

  /// An awaiter that is one step of the client.
  class Step : public fabric::Waiter {
   public:
    enum class What : std::uint8_t { start, yield, access, local_store, completion, message, retry };

    Step(World& world, fabric::Node& client, What what, const fabric::LocalSpan& local_word = {},
         std::uint64_t number = 0) noexcept
        : local(local_word), value(number), world_(&world), client_(&client), what_(what) {}
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    /// A coroutine that waits here may be destroyed: then the client has no such step.
    ~Step() {
      if (handle != nullptr) {
        world_->forget(*this);
      }
    }
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> awaiter) {
      handle = awaiter;
      world_->suspend(*this);
    }
    void await_resume() noexcept { handle = nullptr; }

    [[nodiscard]] What what() const noexcept { return what_; }
    [[nodiscard]] fabric::Node& client() const noexcept { return *client_; }

    fabric::LocalSpan local;
    std::uint64_t value = 0;

   private:
    World* world_;
    fabric::Node* client_;
    What what_;
  };

  /// Lets others go on before the client does: one step that does nothing.
  [[nodiscard]] Step yield(fabric::Node& client) noexcept { return {*this, client, Step::What::yield}; }
  /// A store of the client's CPU to an 8-byte word of a local buffer; a NIC may be reading it (no buffer race).
  [[nodiscard]] Step store_local(fabric::Node& client, fabric::LocalSpan word, std::uint64_t value) noexcept {
    return {*this, client, Step::What::local_store, word, value};
  }

 protected:
  struct Kept {
    void* object;
    void (*destroy)(void*);
  };
  virtual void keep(Kept kept) = 0;
  virtual void suspend(Step& step) = 0;
  virtual void forget(const Step& step) noexcept = 0;
};

/// Builds one execution: nodes, memory, clients. Called once per execution, from several threads at once.
using Program = std::function<void(World&)>;

}  // namespace sidelatch::explore

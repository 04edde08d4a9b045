// The simulated world: its clock, its agenda, and the path of a work request from doorbell to completion.
//
//   requester.cpp   doorbell -> initiator's NIC -> payload fetch -> link           (SimQueuePair, World::issue)
//   device.cpp      link -> device between the nodes, if there is one, both ways   (World::pass, pass_back)
//   responder.cpp   link -> target's NIC -> when its micro-steps happen            (World::arrive)
//   receiver.cpp    receive buffers: which SEND waits, which takes which          (World::arrive_at_end, receive)
//   memory.cpp      the micro-steps themselves, on the target's bytes              (World::begin, step, load, store)
//   requester.cpp   response -> delivery -> completion in posting order            (World::deliver, complete)
//
// Every part of a NIC serves in the order of arrival, so its queue is one number: the time at which it is free.
// That of the initiator's part also knows the doorbells that it will see soon (requester_queue.h).
#pragma once

#include "event_queue.h"
#include "request.h"
#include "sim_node.h"

#include <sidelatch/fabric/model/pieces.h>
#include <sidelatch/fabric/sim/simulation.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <unordered_set>
#include <vector>

namespace sidelatch::fabric::sim {

class SimReactor final : public Reactor {
 public:
  SimReactor(World& world, std::uint32_t completion_queue_depth);
  SimReactor(const SimReactor&) = delete;
  SimReactor& operator=(const SimReactor&) = delete;
  ~SimReactor() override;
  [[nodiscard]] Time now() const override;
  using Reactor::has_ready;

 protected:
  bool advance(std::optional<Time> limit) override;
  std::uint64_t start_timer(Duration duration, Waiter& waiter) override;
  void cancel_timer(std::uint64_t timer) noexcept override;

 private:
  World* world_;
};

struct Timer {
  Waiter* waiter = nullptr;
  std::uint32_t generation = 1;
};

/// The smallest difference in time. The agenda breaks ties by insertion, which does not follow the rules.
inline constexpr Time kAfter{1};

/// The initiator's error for a queue pair that the target has ended.
inline constexpr const char* kRevoked = "the target has ended this queue pair; connect a new one";

class World {
 public:
  explicit World(const SimulationOptions& simulation_options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  /// What an event does to its request. The agenda keeps the value in the low bits of the request's address.
  enum class Action : std::uint8_t {
    fetch,
    arrive,
    begin,
    step,
    end,
    load,
    store,
    deliver,
    complete,
    receive,
    pass,
    pass_back
  };

  // The agenda.
  bool advance(std::optional<Time> limit);
  void schedule(Time time, Request& request, Action action) {
    ++request.references;
    agenda_.push(std::max(time, now), reinterpret_cast<std::uintptr_t>(&request) | static_cast<std::uintptr_t>(action));
  }
  std::uint64_t start_timer(Duration duration, Waiter& waiter);
  void cancel_timer(std::uint64_t timer) noexcept;

  // A request's life, in order.
  Request* make_request(SimQueuePair& queue_pair, const CheckedRequest& checked, std::uint64_t sequence,
                        SimNode& initiator, SimNode& target);
  /// With one reference.
  [[nodiscard]] Connection* make_connection(std::uint64_t number);
  /// The NIC serves the doorbell first, for so long.
  void issue(Request& request, Time doorbell_service);
  void fetch(Request& request);
  void arrive(Request& request);
  void begin(Request& request);
  void step(Request& request);
  void end(Request& request);
  void load(Request& request);
  void store(Request& request);
  /// The first byte of its answer is at the initiator.
  void deliver(Request& request);
  void complete(Request& request);
  void receive(Request& request);
  /// At the device between the nodes: on the way there, and back.
  void pass(Request& request);
  void pass_back(Request& request);
  void answer_at_device(Request& request);
  /// Continues requests that `end` of a pair held back, as far as there are receive buffers.
  void resume_held(SimQueuePair& end);
  /// Called when `end` of a pair ends: what its NIC has accepted is placed, and its messages are received.
  void settle(SimQueuePair& end);
  /// Called when `end` of a pair has ended: refuses what it held back, and notifies its peer after all that `end` has
  /// sent.
  void hang_up(SimQueuePair& end);
  /// Drops one reference; the last one frees the request.
  void release(Request& request) {
    if (--request.references == 0) {
      if (request.at_target) [[unlikely]] {
        lose_answers(request);
      }
      release(*request.connection);
      pool_.give_back(&request);
    }
  }
  void release(Connection& connection) {
    if (--connection.references == 0) [[unlikely]] {
      connection_pool_.give_back(&connection);
    }
  }

  /// Call before reading or writing these bytes at once: requests executing there catch up first.
  void touch(SimNode& node, const std::byte* data, std::uint64_t length, bool writes) {
    if (!node.executing.empty()) {
      catch_up(node, data, length, writes);
    }
  }
  /// A task waits for a change of these bytes: requests executing there proceed step by step.
  void watch(SimNode& node, const std::byte* data, std::uint64_t length);
  /// These bytes may have changed.
  static void changed(const SimNode& node, const std::byte* data, std::uint64_t length) {
    if (node.watching != nullptr && node.watching->has_waits()) [[unlikely]] {
      node.watching->look(data, length);
    }
  }
  /// Revocation: no micro-step of this connection's requests happens at its target any more.
  void revoke(SimNode& target, std::uint64_t connection);
  [[nodiscard]] bool revoked(std::uint64_t connection) const {
    return !revoked_.empty() && revoked_.contains(connection);
  }
  [[nodiscard]] bool revoked(const Request& request) const { return revoked(request.connection->number); }
  /// Stops requests executing in these bytes because their region has ended.
  void stop_executing(SimNode& node, const std::byte* data, std::uint64_t length);
  void observe_step(SimStep::Kind kind, const Request& request, std::uint64_t piece = 0) {
    if (observer != nullptr) [[unlikely]] {
      tell_observer(kind, request, piece);
    }
  }
  [[nodiscard]] model::Order order(model::Kind first, model::Kind second, bool fence) const {
    return order_[static_cast<std::size_t>(first)][static_cast<std::size_t>(second)][fence ? 1 : 0];
  }
  [[nodiscard]] bool chance(double probability) {
    return probability > 0 && static_cast<double>(random_() >> 11) * 0x1.0p-53 < probability;
  }
  [[nodiscard]] Time uniform(double at_most_ns) {
    if (at_most_ns <= 0) {
      return Time::zero();
    }
    const double part = static_cast<double>(random_() >> 11) * 0x1.0p-53;
    return Time{static_cast<std::int64_t>(part * at_most_ns * 1e3)};
  }

  SimulationOptions options;
  SimReactor reactor;
  Time now{};
  StepObserver* observer = nullptr;
  std::uint64_t events = 0;
  std::uint64_t connections = 0;  // made so far
  std::vector<std::unique_ptr<SimNode>> nodes;

 private:
  void tell_observer(SimStep::Kind kind, const Request& request, std::uint64_t piece);
  void lose_answers(Request& request);
  [[nodiscard]] Time qp_state_cost(SimNode& node, SimQueuePair& queue_pair);
  void arrive_at_end(Request& request);
  bool take_buffer(Request& request);
  void expect(Request& request);
  void hand_over(Request& request);
  [[nodiscard]] bool place_the_rest(Request& request);
  bool refuse(Request& request);
  void explain_refusal(Request& request, const Node::Registration* region);
  void respond_with_error(Request& request, Status status, std::string detail);
  void respond(Request& request, Time ready, std::uint64_t bytes, Time tail);
  void deliver_at(Request& request, Time first, Time last, std::uint64_t bytes);
  void receive_answer(Request& request, Time first);
  [[nodiscard]] static Time wire_of(const Request& request, std::uint64_t bytes);
  [[nodiscard]] static Time wire_time(const SimNode& node, std::uint64_t bytes, std::uint64_t count) {
    const auto on_wire = static_cast<double>(bytes + count * node.profile.link.header_bytes);
    return Time{static_cast<std::int64_t>(on_wire * node.times.wire_ps_per_byte)};
  }
  [[nodiscard]] std::array<std::array<unsigned, 2>, 4> kinds_waited_for() const;
  [[nodiscard]] Time not_before(const Request& request, Time time) const;
  void plan_write(Request& request, Time served, Time received_first, Time received_last);
  void plan_read(Request& request, Time served);
  void plan_atomic(Request& request, Time served);
  void plan_pieces(Request& request, Time first, Time gap);
  [[nodiscard]] Time piece_time(const Request& request, std::uint64_t piece) const;
  [[nodiscard]] std::byte* resolve(const Request& request) const;
  void refuse_unresolved(Request& request);
  void execute(Request& request);

  [[gnu::noinline]] void catch_up(SimNode& node, const std::byte* data, std::uint64_t length, bool writes);
  void make_steps(Request& request);
  void make_stepwise(Request& request);
  void advance_steps(Request& request, Time until);
  void do_piece(Request& request, std::uint64_t piece);
  void do_all_pieces(Request& request);
  void stop(Request& request);

  model::Order order_[4][4][2];
  /// By the later request's kind and fence: the kinds whose earlier requests must have been executed (rule 5), as bits.
  std::array<std::array<unsigned, 2>, 4> waits_for_;
  std::unordered_set<std::uint64_t> revoked_;  // connections
  std::mt19937_64 random_;
  EventQueue agenda_;
  Pool<Request> pool_;
  Pool<Connection> connection_pool_;
  std::vector<Timer> timers_;
  std::vector<std::uint32_t> free_timers_;
};

}  // namespace sidelatch::fabric::sim

// The explorer's side of the fabric interface: nodes, queue pairs and the reactor of an Execution.
#pragma once

#include "execution.h"

#include <sidelatch/fabric/cpu.h>
#include <sidelatch/fabric/node.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/reactor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace sidelatch::explore {

/// Tasks continue when the explorer says so; sleeping takes no step.
class ModelReactor final : public fabric::Reactor {
 public:
  explicit ModelReactor(Execution& execution) : Reactor(1U << 20), execution_(&execution) { explores_ = true; }
  ModelReactor(const ModelReactor&) = delete;
  ModelReactor& operator=(const ModelReactor&) = delete;
  ~ModelReactor() override { destroy_spawned(); }

  [[nodiscard]] fabric::Time now() const override { return execution_->now(); }
  [[nodiscard]] fabric::Time lease_clock() const override { return execution_->lease_clock(); }
  using Reactor::has_ready;
  /// Those behind a post may have to wait for a step of their own.
  void resume_ready() {
    while (has_ready()) {
      fabric::Waiter& next = take_ready();
      if (!execution_->part_behind_post(&next)) {
        next.handle.resume();
        execution_->settle_what_goes_on();
      }
    }
    tell_failure();
  }
  /// A task that a task has spawned may have thrown.
  void tell_failure() {
    if (const std::exception_ptr failure = take_failure()) [[unlikely]] {
      execution_->spawned_task_failed(failure);
    }
  }
  /// Tasks of an actor that wait behind a post. They may be destroyed there.
  [[nodiscard]] fabric::WaitList& parted(std::size_t actor) noexcept {
    return parted_.at(std::min(actor, parted_.size() - 1));
  }

 protected:
  bool part_behind_post(fabric::Waiter* waiter) override { return execution_->part_behind_post(waiter); }
  // The explorer alone drives this reactor, and calls none of what calls this.
  bool advance(std::optional<fabric::Time> /*limit*/) override {
    execution_->on_not_explored(
        "makes the world go on (Reactor::run, run_for, wait_until_idle), and waits in no step "
        "(co_await what it waits for)");
    return false;
  }
  std::uint64_t start_timer(fabric::Duration duration, fabric::Waiter& waiter) override {
    return execution_->on_sleep(duration, waiter);
  }
  void cancel_timer(std::uint64_t timer) noexcept override { execution_->on_retry_cancelled(timer); }
  [[nodiscard]] LoopId begin_loop(const std::source_location& place, bool forgets) override {
    return execution_->on_begin_loop(place, forgets);
  }
  void leave_out(std::span<const std::byte> tally) override { execution_->on_tally(tally); }
  void leave_out(const Spares& spares) override { execution_->on_spares(spares); }
  void leave_out_no_more(const Spares& spares) noexcept override { execution_->on_spares_end(spares); }
  void note_tally() const override { execution_->on_tally_read(); }
  void note_progress(const fabric::QueuePair* of, bool changes_alone) const override {
    execution_->on_progress_read(of, changes_alone);
  }
  void note_not_explored(std::string_view what) const noexcept override { execution_->on_not_explored(what); }
  [[nodiscard]] bool other_tasks_may_go_on() const override { return !execution_->is_alone_in_client(); }
  [[nodiscard]] std::uint64_t start_retry(LoopId loop, fabric::Duration duration, fabric::Waiter& waiter) override {
    return execution_->on_retry(loop, duration, waiter);
  }

 private:
  Execution* execution_;
  std::array<fabric::WaitList, 64> parted_;
};

/// A CPU thread: that of a node's tasks, or one of its own.
class ModelCpu final : public fabric::Cpu {
 public:
  ModelCpu(Execution& execution, fabric::Node& of, std::uint16_t actor) noexcept
      : Cpu(of), execution_(&execution), actor_(actor) {}
  [[nodiscard]] bool uses(fabric::LKey /*key*/) const noexcept override { return false; }

 protected:
  bool begin(Access& access) override {
    execution_->on_access(actor_, access);
    return true;
  }
  void end(Access& /*access*/) override {}
  void cancel(Access& access) noexcept override { execution_->on_access_cancelled(actor_, access); }

 private:
  Execution* execution_;
  std::uint16_t actor_;
};

class ModelNode final : public fabric::Node {
 public:
  ModelNode(Execution& execution, std::string name, std::uint16_t actor, fabric::model::NodeId id,
            fabric::model::NicId first_nic, unsigned nics)
      : Node(std::move(name)), execution_(&execution), actor_(actor), id_(id), first_nic_(first_nic), nics_(nics) {}
  ModelNode(const ModelNode&) = delete;
  ModelNode& operator=(const ModelNode&) = delete;
  ~ModelNode() override { release_memory(); }

  [[nodiscard]] fabric::Reactor& reactor() override { return execution_->reactor(); }
  using Node::connect;
  [[nodiscard]] std::unique_ptr<fabric::QueuePair> connect(Node& target,
                                                           const fabric::QueuePairOptions& options) override {
    return execution_->connect(*this, target, 0, options);
  }
  using Node::connect_pair;
  [[nodiscard]] std::pair<std::unique_ptr<fabric::QueuePair>, std::unique_ptr<fabric::QueuePair>> connect_pair(
      Node& peer, const fabric::QueuePairOptions& options) override {
    return execution_->connect_pair(*this, peer, options);
  }
  void revoke(fabric::QueuePair& queue_pair) override;

  [[nodiscard]] std::uint16_t actor() const noexcept { return actor_; }
  [[nodiscard]] fabric::model::NodeId id() const noexcept { return id_; }
  [[nodiscard]] fabric::model::NicId nic(unsigned number) const {
    return {static_cast<std::uint16_t>(first_nic_.value + number)};
  }
  [[nodiscard]] unsigned nics() const noexcept { return nics_; }
  [[nodiscard]] const Execution& execution() const noexcept { return *execution_; }

 protected:
  [[nodiscard]] std::byte* obtain_memory(std::uint64_t bytes) override {
    const Zone::Use own(nullptr);
    return execution_->arena_.take(bytes);
  }
  void return_memory(std::byte* /*memory*/, std::uint64_t /*bytes*/) noexcept override {}
  [[nodiscard]] std::unique_ptr<fabric::Cpu> make_cpu() override {
    const Zone::Use own(&execution_->world_zone_);
    return std::make_unique<ModelCpu>(*execution_, *this, actor_);
  }
  void place_region(Registration& registration) override;
  void region_removed(Registration& registration, bool in_use) noexcept override;

 private:
  Execution* execution_;
  std::uint16_t actor_;
  fabric::model::NodeId id_;
  fabric::model::NicId first_nic_;
  unsigned nics_;
  std::uint64_t next_address_ = 0x1000;
};

class ModelQueuePair final : public fabric::QueuePair {
 public:
  ModelQueuePair(Execution& execution, ModelNode& from, ModelNode& to, fabric::model::QpId id,
                 const fabric::QueuePairOptions& options)
      : QueuePair(from, execution.reactor(), options), execution_(&execution), from_(&from), to_(&to), id_(id) {
    count_from(first_request_number(id.value));
  }
  ModelQueuePair(const ModelQueuePair&) = delete;
  ModelQueuePair& operator=(const ModelQueuePair&) = delete;
  ~ModelQueuePair() override {
    disconnect();
    execution_->on_disconnect(*this);
    if (peer_ != nullptr) {
      peer_->peer_ = nullptr;
    }
  }

  [[nodiscard]] fabric::model::QpId id() const noexcept { return id_; }
  [[nodiscard]] ModelNode& from() const noexcept { return *from_; }
  [[nodiscard]] ModelNode& to() const noexcept { return *to_; }
  using QueuePair::append_bookkeeping;
  /// The other end, or null.
  [[nodiscard]] ModelQueuePair* peer() const noexcept { return peer_; }
  static void join(ModelQueuePair& here, ModelQueuePair& there) {
    here.peer_ = &there;
    there.peer_ = &here;
    here.make_two_sided();
    there.make_two_sided();
  }
  using QueuePair::on_completed;
  using QueuePair::on_error;
  using QueuePair::receives;
  using QueuePair::unsignaled;

 protected:
  void post_chain(std::span<const fabric::CheckedRequest> chain, std::uint64_t first) override {
    execution_->on_post(*this, chain, first);
  }
  void receive_posted(const fabric::LocalSpan& into) override { execution_->on_receive_posted(*this, into); }
  void cancel_in_flight() noexcept override {}
  fabric::Task<void> restore_connection() override;

 private:
  Execution* execution_;
  ModelNode* from_;
  ModelNode* to_;
  ModelQueuePair* peer_ = nullptr;
  fabric::model::QpId id_;
};

}  // namespace sidelatch::explore

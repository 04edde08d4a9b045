// Cpu: the accesses of a node's own processor to registered memory of that node, where NICs of other nodes may be at
// work on the same words. Every world has it, with one meaning.
//
//   MemoryRegion mailbox = node.allocate(64, Access::remote_write);
//   Cpu& cpu = node.cpu();
//   co_await cpu.store(mailbox.local(0, 8), 0);
//   ...                                                            // tell a peer, which WRITEs to mailbox.remote(0, 8)
//   const std::uint64_t letter = co_await cpu.wait(mailbox.local(0, 8), WordCondition::is_not(0));
//
// What orders these accesses (docs/memory-model.md, "The CPU of a node"):
//
// - The accesses of one Cpu are in program order, but a store waits in the store buffer until it drains, at any later
//   time. Loads pass it; a load of the same word sees the youngest store in the buffer. fence() waits for the buffer.
// - A request that a task posts is taken by the NIC after the stores that came before the post have drained. So is a
//   receive buffer.
// - A load sees a word whole. It sees a remote WRITE or atomic as soon as that word is placed, which may be before or
//   after the remote client sees the completion, and in any order with other words, except where a rule orders the
//   placements.
// - What a load, or a wait, has seen stays seen: later loads of the Cpu, and requests that are posted later, come
// after.
// - Do not store to a word that NICs change by atomics: the atomic of a NIC and a store of the CPU may not be atomic
//   with each other, and the store may be lost (rule 8).
//
// A word that is accessed through a Cpu is not accessed by pointer at the same time: in the explorer, pointers do not
// see the store buffer.
//
// wait() is a load that comes when its condition holds. It does not spin: in the simulator it is woken by the change of
// the word, on a NIC the reactor looks at the word each time it polls, and other tasks go on. It ends with an error if
// the device is lost, and with FabricError{Status::stuck} in worlds that know that nothing else can happen. wait_for()
// also ends when its time is over (in the explorer, that may be so at any moment).
//
// Errors: std::invalid_argument for a word that is not 8 bytes, aligned to 8; FabricError{Status::local_protection} for
// one outside of the live regions of the node. A region in which a task waits is in use: deregister() throws
// Status::busy.
//
// Thread-safety: a Cpu and its node belong to the reactor's thread.
#pragma once

#include <sidelatch/fabric/reactor.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/fabric/wait_list.h>

#include <coroutine>
#include <cstdint>
#include <optional>

namespace sidelatch::fabric {

class Node;

/// A condition on a word: whether its bits in `mask` are, or are not, those of `value`.
struct WordCondition {
  std::uint64_t mask = ~std::uint64_t{0};
  std::uint64_t value = 0;
  bool equal = true;

  [[nodiscard]] static constexpr WordCondition is(std::uint64_t value) noexcept { return {.value = value}; }
  [[nodiscard]] static constexpr WordCondition is_not(std::uint64_t value) noexcept {
    return {.value = value, .equal = false};
  }
  /// The same for some bits of the word.
  [[nodiscard]] constexpr WordCondition in(std::uint64_t bits) const noexcept { return {bits, value & bits, equal}; }
  [[nodiscard]] constexpr bool holds(std::uint64_t word) const noexcept { return ((word & mask) == value) == equal; }
};

class Cpu {
 public:
  explicit Cpu(Node& node) noexcept : node_(&node) {}
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;
  virtual ~Cpu() = default;

  [[nodiscard]] Node& node() const noexcept { return *node_; }

  enum class What : std::uint8_t { load, store, fence, wait };

  /// One access, as an awaitable; lies in the frame of the task.
  class [[nodiscard]] Access : public Waiter {
   public:
    Access(Cpu& cpu, What what, const LocalSpan& word = {}, std::uint64_t value = 0, const WordCondition& until = {},
           std::optional<Duration> limit = {}) noexcept
        : word_(word),
          value_(value),
          mask_(until.mask),
          compared_(until.value),
          limit_(limit.value_or(Duration::zero())),
          cpu_(&cpu),
          equal_(until.equal),
          is_limited_(limit.has_value()),
          what_(what) {}
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    ~Access() {
      if (waits_) [[unlikely]] {
        cpu_->cancel(*this);
      }
    }
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> awaiter) {
      handle = awaiter;
      if (what_ != What::fence) {
        cpu_->check(word_);
      }
      waits_ = cpu_->begin(*this);
      return waits_;
    }
    void await_resume() {
      if (waits_) {
        waits_ = false;
        cpu_->end(*this);
      }
    }

    // For worlds.
    [[nodiscard]] What what() const noexcept { return what_; }
    [[nodiscard]] const LocalSpan& word() const noexcept { return word_; }
    [[nodiscard]] std::uint64_t value() const noexcept { return value_; }
    [[nodiscard]] WordCondition until() const noexcept { return {mask_, compared_, equal_}; }
    [[nodiscard]] std::optional<Duration> limit() const noexcept {
      return is_limited_ ? std::optional(limit_) : std::nullopt;
    }
    /// What a load or a wait has seen.
    void give(std::uint64_t value) noexcept { value_ = value; }
    std::uint64_t timer = 0;  ///< of wait_for(), in worlds that have time

   private:
    LocalSpan word_;
    std::uint64_t value_;
    // Of the condition and the limit, without the bytes between their members, which nobody sets: they would look to
    // the explorer like something that a client knows.
    std::uint64_t mask_;
    std::uint64_t compared_;
    Duration limit_;
    Cpu* cpu_;
    bool equal_;
    bool is_limited_;
    What what_;
    bool waits_ = false;
  };
  class Load : public Access {
   public:
    using Access::Access;
    std::uint64_t await_resume() {
      Access::await_resume();
      return value();
    }
  };
  class WaitFor : public Access {
   public:
    using Access::Access;
    std::optional<std::uint64_t> await_resume() {
      Access::await_resume();
      return until().holds(value()) ? std::optional(value()) : std::nullopt;
    }
  };

  [[nodiscard]] Load load(const LocalSpan& word) noexcept { return {*this, What::load, word}; }
  [[nodiscard]] Access store(const LocalSpan& word, std::uint64_t value) noexcept {
    return {*this, What::store, word, value};
  }
  /// Waits until this Cpu's stores are in memory.
  [[nodiscard]] Access fence() noexcept { return {*this, What::fence}; }
  /// Waits until the condition holds, and returns the word with which it does.
  [[nodiscard]] Load wait(const LocalSpan& word, const WordCondition& until) noexcept {
    return {*this, What::wait, word, 0, until};
  }
  /// The same, or nothing if the condition does not hold after `limit`.
  [[nodiscard]] WaitFor wait_for(const LocalSpan& word, const WordCondition& until, Duration limit) noexcept {
    return {*this, What::wait, word, 0, until, limit};
  }

  /// Whether a task waits for a word of that region; for Node.
  [[nodiscard]] virtual bool uses(LKey key) const noexcept = 0;

 protected:
  /// Makes the access happen. True: later; the world makes its waiter ready then.
  virtual bool begin(Access& access) = 0;
  /// An access that happened later has ended: its task goes on.
  virtual void end(Access& access) = 0;
  /// The task that waits is destroyed.
  virtual void cancel(Access& access) noexcept = 0;

 private:
  void check(const LocalSpan& word) const;

  Node* node_;
};

/// A Cpu whose accesses happen at once, on the bytes themselves, in worlds that run tasks on a real processor.
class DirectCpu : public Cpu {
 public:
  DirectCpu(Node& node, Reactor& reactor) noexcept : Cpu(node), reactor_(&reactor) {}
  DirectCpu(const DirectCpu&) = delete;
  DirectCpu& operator=(const DirectCpu&) = delete;
  ~DirectCpu() override = default;

  [[nodiscard]] bool uses(LKey key) const noexcept override;
  [[nodiscard]] bool has_waits() const noexcept { return !waits_.empty(); }
  /// Whether a task waits for one of these bytes.
  [[nodiscard]] bool watches(const std::byte* data, std::uint64_t length) const noexcept;
  /// Looks at all words that tasks wait for.
  void look();
  /// The same for words in these bytes, which may have changed.
  void look(const std::byte* data, std::uint64_t length);

 protected:
  bool begin(Access& access) final;
  void end(Access& access) final;
  void cancel(Access& access) noexcept final;
  /// The CPU is about to touch the word.
  virtual void about_to_touch(const LocalSpan& word, bool writes) {
    (void)word;
    (void)writes;
  }
  /// A task begins, or ends, to wait.
  virtual void wait_begins(const LocalSpan& word) { (void)word; }
  virtual void wait_ends() noexcept {}

 private:
  void look_at(Access& access);
  void stop_timer(Access& access) noexcept;

  Reactor* reactor_;
  WaitList waits_;
};

}  // namespace sidelatch::fabric

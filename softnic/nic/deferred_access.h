// DeferredAccess: memory with the behaviours that the memory model allows. The lines of a request are touched at times
// drawn by a seed, in an order that the rules allow, when the NIC is advanced to these times.
//
//   DeferredAccess memory({.rules = fabric::model::rules_of(fabric::model::Preset::observed), .seed = 7, .spread =
//   2000}); Nic nic(options, memory);
//
// Each piece (model/pieces.h) gets a time: after the steps that order_between() makes it wait for (rule 5), after
// WRITEs acknowledged before if rule 2 requires it, ascending if rule 3 requires it, and otherwise anywhere within
// `spread` nanoseconds from now. With atomic_scope = nic an atomic loads and stores at two times; atomics whose words
// share a slot exclude each other (rule 8). With one_step_requests the pieces of a packet are touched at once, and an
// acknowledgement waits for them.
//
// With `torn_bias` some packets are cut in two, and one part of their pieces is touched much later than the other,
// which is still an order that the rules allow. Concurrent reads and writes are then torn more often.
//
// Differences from the model: a request of several packets is touched packet by packet, so under `strict` it is one
// step only if it fits in one packet, and a line that two packets share is two pieces. A piece is whole for all steps
// of this NIC; to CPU threads it is only as whole as copies of 8-byte words.
//
// The same seed and the same calls give the same order. Allocates until it has as many buffers as are used at the same
// time.
//
// Thread-safety: none; shared_bytes.h describes how memory itself is touched.
#pragma once

#include "memory_access.h"

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

namespace sidelatch::softnic::nic {

struct DeferredOptions {
  fabric::model::Rules rules{};
  std::uint64_t seed = 1;
  Time spread = 2000;    ///< ns over which a packet's pieces may be spread; at least 1
  double torn_bias = 0;  ///< probability, 0 to 1, that a part of a packet's pieces is touched 10 spreads later
};

/// A step that was taken, named as in fabric::model::StepKind; a CAS that finds another value has no store.
struct DeferredStep {
  enum class Kind : std::uint8_t { place, sample, load, store, load_store, receive };
  Kind kind = Kind::place;
  AccessSource source;
  const std::byte* memory = nullptr;  ///< the place, except for `receive`
  std::size_t length = 0;
};

/// Sees every step when it has been taken; for tests.
class DeferredObserver {
 public:
  DeferredObserver() = default;
  DeferredObserver(const DeferredObserver&) = delete;
  DeferredObserver& operator=(const DeferredObserver&) = delete;
  virtual ~DeferredObserver() = default;
  virtual void on_step(const DeferredStep& step) = 0;
};

class DeferredAccess final : public MemoryAccess {
 public:
  /// Throws std::invalid_argument if the rules are invalid, the spread is 0, or the bias is not 0 to 1.
  explicit DeferredAccess(const DeferredOptions& options);

  /// The observer stays until another one, or nullptr, replaces it.
  void observe(DeferredObserver* observer) noexcept { observer_ = observer; }

  [[nodiscard]] bool is_immediate() const noexcept override { return false; }
  [[nodiscard]] bool acknowledges_placed() const noexcept override { return options_.rules.one_step_requests; }
  [[nodiscard]] const std::byte* place(const AccessSource& source, std::byte* to,
                                       std::span<const std::byte> bytes) override;
  void sample(const AccessSource& source, const std::byte* from, std::span<std::byte> into,
              Operation& operation) override;
  void atomic(const AccessSource& source, std::byte* word, const AtomicStep& step, Operation& operation) override;
  void receive(const AccessSource& source, Operation& operation) override;
  void acknowledged(std::uint32_t queue_pair) override;
  void end_queue_pair(std::uint32_t queue_pair) override;
  void end_region(std::uint32_t key) override;
  bool advance(Time now) override;
  [[nodiscard]] Time next_deadline() const noexcept override { return agenda_.empty() ? kNever : agenda_.front().at; }
  [[nodiscard]] std::optional<GonePlace> next_gone_place() override;

 private:
  enum class Step : std::uint8_t { touch, load, store, finish };

  // One call of place(), sample(), atomic() or receive().
  struct Job {
    AccessSource source;
    bool is_live = false;
    bool is_dropped = false;  // takes no more steps
    std::byte* memory = nullptr;
    std::size_t length = 0;
    std::byte* into = nullptr;  // sample: the destination; nullptr: place
    Operation* operation = nullptr;
    AtomicStep step;
    std::uint64_t loaded = 0;
    std::uint32_t steps_left = 0;
    std::vector<std::byte> bytes;  // place
  };

  struct Entry {
    Time at = 0;
    std::uint64_t order = 0;
    Job* job = nullptr;
    Step step = Step::touch;
    std::uint64_t piece = 0;
    friend bool operator>(const Entry& a, const Entry& b) noexcept {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  // The requests that a queue pair has begun; times are those of the last steps.
  struct Stream {
    std::array<Time, 4> until{};  // by kind
    Time placed = 0;
    std::uint64_t message = 0;
    bool has_message = false;
    Time not_before = 0;  // of the current message
    Time last = 0;        // of the current message
  };

  // The late pieces of a packet: those below `cut` or those from `cut` on; none if `cut` is 0.
  struct Tear {
    std::uint64_t cut = 0;
    bool lower_is_late = false;
  };

  [[nodiscard]] Stream& stream_of(const AccessSource& source);
  [[nodiscard]] Time earliest(const AccessSource& source, const Stream& stream) const;
  [[nodiscard]] Job& new_job(const AccessSource& source, Operation* operation);
  void plan_pieces(Job& job, Stream& stream);
  [[nodiscard]] Tear draw_tear(std::uint64_t pieces);
  void add(Time at, Job& job, Step step, std::uint64_t piece = 0);
  [[nodiscard]] Time draw(Time below) { return below == 0 ? 0 : random_() % below; }
  [[nodiscard]] std::uint64_t pieces_of(const Job& job) const;
  void take_step(const Entry& entry);
  // Return nullptr, or the address whose page is gone.
  [[nodiscard]] const std::byte* carry_out(Job& job, const Entry& entry);
  [[nodiscard]] const std::byte* touch(const Job& job, std::uint64_t piece) const;
  [[nodiscard]] const std::byte* store(const Job& job) const;
  void report(DeferredStep::Kind kind, const Job& job, const std::byte* memory, std::size_t length) const;

  DeferredOptions options_;
  std::mt19937_64 random_;
  std::mt19937_64 tears_;  // a generator of its own, so that the bias changes none of the other draws
  std::unordered_map<std::uint32_t, Stream> streams_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<Job*> free_jobs_;
  std::vector<Entry> agenda_;  // a heap, the earliest first
  std::vector<Time> slots_;    // when the atomics' slots are free
  std::uint64_t order_ = 0;
  std::deque<GonePlace> gone_places_;
  Time acknowledged_ = 0;  // all placements of acknowledged WRITEs have happened by then
  Time now_ = 0;
  bool has_finished_ = false;
  DeferredObserver* observer_ = nullptr;
};

}  // namespace sidelatch::softnic::nic

// The memory model as a state machine: the steps that one-sided RDMA may take next, and their effects.
//
//   Machine machine(rules_of(Preset::observed));
//   NodeId memory = machine.add_node();
//   machine.map(memory, RemoteAddress{0x1000}, storage);
//   QpId qp = machine.add_qp(machine.add_client(), machine.add_nic(memory));
//   WrId wr = machine.post(qp, request);
//   for (machine.enabled(steps); !steps.empty(); machine.enabled(steps)) machine.apply(steps[choose(steps)]);
//
// Each micro-step is atomic, and each sequence of enabled steps is a behaviour that the rules allow; there are no
// others. Machine keeps no bytes of target memory. It reads and writes the mapped storage and the requests' local
// buffers. These must outlive their use, and reset() does not restore them. The same calls on the same parts give the
// same steps in the same order, provided that local buffers keep their alignment to 64-byte lines. After the first few
// executions reset(), post(), enabled() and apply() allocate nothing.
//
// Thread-safety: none; one thread per Machine.
#pragma once

#include <sidelatch/fabric/model/pieces.h>
#include <sidelatch/fabric/model/rules.h>
#include <sidelatch/fabric/model/step.h>
#include <sidelatch/fabric/types.h>
#include <sidelatch/fabric/work_request.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace sidelatch::fabric::model {

class Machine {
 public:
  /// Throws std::invalid_argument if validate(rules) does.
  explicit Machine(const Rules& rules);

  [[nodiscard]] const Rules& rules() const { return rules_; }

  // ---- Parts. Add them before anything is posted; they stay for ever.

  NodeId add_node();
  /// One more NIC at a node: atomics of different NICs do not exclude each other (rule 8).
  NicId add_nic(NodeId node);
  /// Makes `storage` the node's memory from `base` on. Throws std::invalid_argument if it overlaps a mapped range.
  void map(NodeId node, RemoteAddress base, std::span<std::byte> storage);
  /// Ends the mapped range that begins at `base`; nothing in flight may touch it.
  void unmap(NodeId node, RemoteAddress base);
  /// A CPU thread of the node, with a TSO store buffer of unlimited size.
  ThreadId add_thread(NodeId node);
  ClientId add_client();
  /// A client that runs on a CPU thread. The NIC takes its requests only after the thread's earlier stores drained, and
  /// an inline payload is bound as that thread sees it.
  ClientId add_client(ThreadId thread);
  QpId add_qp(ClientId client, NicId target);

  /// Forgets everything that was posted, stored, crashed and revoked; keeps the parts and all capacity.
  void reset();
  /// Does the same, and continues with other rules. Throws std::invalid_argument if validate(rules) does.
  void reset(const Rules& rules);

  // ---- What clients and CPU threads do. These calls are the program's own steps.

  /// Adds a request to the queue. Reads and binds an inline payload. For a READ or atomic, also binds the completed
  /// WRITEs that it has to wait for (rule 2). Throws std::out_of_range if the remote range is not inside one mapped
  /// range (the message names the address), std::invalid_argument for a null local buffer, a misaligned atomic, an
  /// atomic's buffer that is not 8 bytes, Opcode::recv, a WRITE with immediate, or a SEND longer than its receive
  /// buffer, and std::logic_error if the client has crashed. Nothing is posted if it throws.
  WrId post(QpId qp, const WorkRequest& request);
  /// Gives the target of `qp` a buffer for the queue pair's first SEND without a buffer; `request` is an Opcode::recv.
  /// The target's NIC takes the buffer only after the earlier stores of `poster` drained, the thread that posts it.
  /// The pieces of a SEND are counted from the start of the buffer, as if it were line-aligned. Throws
  /// std::invalid_argument if `request` is no receive, or its buffer null or too short for a SEND already posted, and
  /// std::out_of_range if there is no thread `poster`.
  void post_receive(QpId qp, const WorkRequest& request, std::optional<ThreadId> poster = {});

  /// Puts an 8-byte store into the thread's store buffer. Throws std::invalid_argument if `address` is not a multiple
  /// of 8, std::out_of_range if it is not mapped.
  void cpu_store(ThreadId thread, RemoteAddress address, std::uint64_t value);
  /// The value that the thread loads now: its own youngest buffered store to the word, else memory. Throws as
  /// cpu_store.
  [[nodiscard]] std::uint64_t cpu_load(ThreadId thread, RemoteAddress address) const;
  /// Stores of the thread since reset(), drained or not.
  [[nodiscard]] std::uint32_t stores(ThreadId thread) const;
  /// Whether the thread's store buffer is empty, so that an mfence may pass.
  [[nodiscard]] bool drained(ThreadId thread) const;

  /// Rule 9. The client posts nothing more. Its NIC has taken all requests posted so far and still executes them,
  /// completions included (a fence needs them). A crash within a chain is a crash between two calls of post().
  void crash(ClientId client);
  /// Rule 10. No request of the queue pair takes another step at the target: unplaced pieces are lost, even those of a
  /// completed WRITE, and nobody waits for them any more. Uncompleted and later requests complete in order as failed;
  /// the target has to find out whether they took effect.
  void revoke(QpId qp);

  // ---- Steps.

  /// Replaces `out` by all steps that may happen now: first by queue pair and posting order, then drains by thread.
  void enabled(std::vector<Step>& out) const;
  [[nodiscard]] bool is_enabled(const Step& step) const { return !blocked_by(step).has_value(); }
  /// The rule that forbids `step` now, or nothing. A step that has happened or that does not exist violates
  /// micro_steps.
  [[nodiscard]] std::optional<Rule> blocked_by(const Step& step) const;
  /// The rule that lets an enabled step leave the order that naive designs assume: a piece before a lower one, a
  /// request before an earlier one of its queue, a completion before the placement, a write into the middle of an
  /// atomic, a step after a crash. Nothing for a step that keeps that order. For traces; does not change what may
  /// happen.
  [[nodiscard]] std::optional<Rule> permitted_by(const Step& step) const;
  /// Does `step`. Throws std::logic_error that names the step and the rule if it is not enabled.
  void apply(const Step& step);
  /// Does `step`, which must be enabled; otherwise the behaviour is undefined.
  void apply_enabled(const Step& step);

  // ---- State.

  [[nodiscard]] const WorkRequest& request(WrId wr) const;
  [[nodiscard]] bool completed(WrId wr) const;
  /// Whether the request's queue pair was revoked before it completed; meaningful once it has completed.
  [[nodiscard]] bool failed(WrId wr) const;
  /// Whether the request is done at the target: placed, sampled, or loaded and stored.
  [[nodiscard]] bool placed(WrId wr) const;
  /// Whether the target's CPUs have learned of this SEND.
  [[nodiscard]] bool received(WrId wr) const;
  /// The value an atomic found. Throws std::logic_error if the request is no atomic or has not completed with success.
  [[nodiscard]] std::uint64_t old_value(WrId wr) const;
  /// The same as soon as the atomic has loaded it; 0 before that.
  [[nodiscard]] std::uint64_t loaded_value(WrId wr) const;
  /// Requests posted since reset().
  [[nodiscard]] std::uint32_t posted(QpId qp) const;
  /// Requests posted but not completed.
  [[nodiscard]] std::uint32_t outstanding(QpId qp) const;
  [[nodiscard]] std::uint32_t outstanding(ClientId client) const;
  /// Whether no request of the queue pair has a step to come, at either end.
  [[nodiscard]] bool idle(QpId qp) const;
  /// SENDs of this queue pair that the target has received.
  [[nodiscard]] std::uint32_t received_count(QpId qp) const;
  [[nodiscard]] bool crashed(ClientId client) const;
  /// Whether nothing is left to happen: all requests completed and placed (or lost), all SENDs received, all stores
  /// drained. If no step is enabled although this is false, there is a deadlock, such as a SEND without a receive
  /// buffer.
  [[nodiscard]] bool quiescent() const;

  // ---- For explorers. Valid for steps of this execution, including those that have happened.

  [[nodiscard]] Footprint footprint(const Step& step) const;
  /// The footprint of a CPU thread's access to bytes of its node.
  [[nodiscard]] Footprint footprint(NodeId node, RemoteAddress address, std::uint64_t length, bool writes) const;
  /// How many requests of its queue pair that were posted before `wr` have steps to come.
  [[nodiscard]] std::uint32_t unfinished_before(WrId wr) const;
  /// Whether nothing but the exclusion of atomics on one word (rule 8) forbids `step` now.
  [[nodiscard]] bool waits_for_word(QpId qp, std::uint32_t index) const;
  /// Appends all that decides what may still happen, except for the bytes of memory. Requests are numbered from the
  /// first one of their queue pair that has steps to come or is not below `known`, by queue pair: the client has been
  /// told of those before. `place` gives an address of memory the same name in all states.
  void append_state(std::span<const std::uint32_t> known, const std::function<std::uint64_t(const std::byte*)>& place,
                    std::vector<std::uint64_t>& out) const;

 private:
  struct Range {
    RemoteAddress base;
    std::byte* data = nullptr;
    std::uint64_t length = 0;
  };
  struct Node {
    std::vector<Range> ranges;
  };
  struct Nic {
    NodeId node;
    std::vector<WrId> unplaced;            // WRITEs and SENDs that completed before they were placed
    std::vector<const std::byte*> locked;  // words between an atomic's load and its store
  };
  struct Store {
    std::byte* word = nullptr;
    RemoteAddress address;
    std::uint64_t value = 0;
  };
  struct Thread {
    NodeId node;
    std::vector<Store> stores;  // all since reset(), because a drained store still has a footprint
    std::uint32_t drained = 0;  // this many stores, the oldest, have left the buffer
  };
  struct Client {
    bool has_thread = false;
    ThreadId thread;
    bool crashed = false;
    std::uint32_t outstanding = 0;
  };
  // Something that a request waits for before its first step at the target.
  struct Wait {
    WrId wr;
    bool for_completion = false;  // false: waits until nothing is left to wait for at the target
    Rule rule = Rule::queue_order;
  };
  struct Wr {
    WorkRequest request;
    std::byte* target = nullptr;  // host bytes of the remote range; for a SEND, of its receive buffer
    std::uint64_t old = 0;        // atomic: the value that load found
    std::uint64_t value = 0;      // atomic: the value that store will write
    std::uint64_t posted_at = 0;  // time on clock_
    std::uint64_t completed_at = 0;
    std::size_t staging = 0;  // where its bytes in flight begin in staging_
    std::size_t bits = 0;     // where its bit sets begin in bits_: lines fetched, then pieces done
    std::uint32_t waits_begin = 0;
    std::uint32_t waits_end = 0;
    std::uint32_t behind = 0;  // stores of its thread that have to drain first
    std::uint32_t lines = 0;   // local lines to fetch
    std::uint32_t pieces = 0;  // pieces to place or sample
    std::uint32_t fetched = 0;
    std::uint32_t done = 0;
    std::uint32_t send = 0;  // SEND: how many SENDs were posted before it
    Kind kind = Kind::write;
    bool loaded = false;
    bool placed = false;   // everything at the target is done
    bool settled = false;  // placed, or lost by a revocation: nothing to wait for
    bool delivered = false;
    bool completed = false;
    bool failed = false;
    bool received = false;
    bool finished = false;
  };
  struct Receive {
    LocalSpan buffer;
    ThreadId thread;           // that has posted it
    std::uint32_t behind = 0;  // stores of `thread` that have to drain first
  };
  struct Qp {
    ClientId client;
    NicId nic;
    std::vector<Wr> wrs;
    std::vector<Receive> receives;
    std::uint32_t first_active = 0;  // all requests before it are finished
    std::uint32_t completed = 0;     // completions come in posting order, so a count is enough
    std::uint32_t sends = 0;
    std::uint32_t received = 0;
    bool revoked = false;
  };
  using Gate = std::optional<Rule>;  // the rule that forbids the step

  // machine.cpp: the parts, and the program's own steps
  [[nodiscard]] const Qp& at(QpId qp) const;
  [[nodiscard]] Qp& at(QpId qp);
  [[nodiscard]] const Thread& at(ThreadId thread) const;
  [[nodiscard]] Thread& at(ThreadId thread);
  [[nodiscard]] const Client& at(ClientId client) const;
  [[nodiscard]] Client& at(ClientId client);
  [[nodiscard]] const Wr& at(WrId wr) const;
  [[nodiscard]] std::byte* resolve(NodeId node, RemoteAddress address, std::uint64_t length) const;
  [[nodiscard]] std::byte* resolve_word(NodeId node, RemoteAddress address) const;
  void check(const Qp& qp, const WorkRequest& request) const;
  void lay_out(Qp& qp, Wr& wr);
  void bind_inline(const Qp& qp, const Wr& wr);
  void note_waits(QpId id, Wr& wr);

  // machine_order.cpp: which steps may happen
  [[nodiscard]] static std::size_t words(std::uint32_t bits) { return (bits + std::size_t{63}) / 64; }
  [[nodiscard]] static std::size_t done_set(const Wr& wr) { return wr.bits + words(wr.lines); }
  [[nodiscard]] bool test(std::size_t set, std::uint32_t i) const { return (bits_[set + i / 64] >> (i % 64) & 1) != 0; }
  [[nodiscard]] static bool has_deliver(const Wr& wr);
  [[nodiscard]] Piece piece(const Wr& wr, std::uint32_t i) const;
  [[nodiscard]] static Piece line(const Wr& wr, std::uint32_t i);
  [[nodiscard]] static std::uint32_t line_of(const Wr& wr, std::uint64_t offset);
  [[nodiscard]] const Wr* find(const Step& step) const;
  [[nodiscard]] Gate taken_gate(const Qp& qp, const Wr& wr) const;
  [[nodiscard]] Gate buffer_gate(const Qp& qp, const Wr& send) const;
  [[nodiscard]] std::uint32_t undrained_before(const Receive& receive) const;
  [[nodiscard]] Gate fence_gate(const Wr& wr) const;
  [[nodiscard]] Gate fetch_gate(const Qp& qp, const Wr& wr) const;
  [[nodiscard]] Gate touch_gate(const Qp& qp, const Wr& wr) const;
  [[nodiscard]] Gate place_gate(const Wr& wr, std::uint32_t i) const;
  [[nodiscard]] Gate lock_gate(const Qp& qp, const Wr& wr) const;
  [[nodiscard]] Gate complete_gate(const Qp& qp, const Wr& wr, std::uint32_t index) const;
  [[nodiscard]] Gate receive_gate(const Qp& qp, const Wr& wr, std::uint32_t index) const;
  [[nodiscard]] Gate drain_gate(const Step& step) const;
  void append_enabled(const Qp& qp, std::uint16_t owner, std::uint32_t index, std::vector<Step>& out) const;

  // machine_step.cpp: the effects of steps
  void mark(std::size_t set, std::uint32_t i) { bits_[set + i / 64] |= std::uint64_t{1} << (i % 64); }
  void do_fetch(Wr& wr, std::uint32_t i);
  void do_place(Qp& qp, Wr& wr, WrId id, std::uint32_t i);
  void do_sample(Wr& wr, std::uint32_t i);
  void do_load(Qp& qp, Wr& wr);
  void do_store(Qp& qp, Wr& wr);
  void do_load_store(Wr& wr);
  void do_execute(Qp& qp, Wr& wr);
  void do_deliver(Wr& wr);
  void do_complete(Qp& qp, Wr& wr, WrId id);
  void do_drain(const Step& step);
  void settle(Qp& qp, Wr& wr, WrId id);
  void retire(Qp& qp, Wr& wr);

  // machine_state.cpp
  void append_request(const Qp& qp, const Wr& wr, const std::function<std::uint64_t(const std::byte*)>& place,
                      std::vector<std::uint64_t>& out) const;

  Rules rules_;
  std::vector<Node> nodes_;
  std::vector<Nic> nics_;
  std::vector<Thread> threads_;
  std::vector<Client> clients_;
  std::vector<Qp> qps_;
  std::vector<Wait> waits_;          // of all requests, one stretch each
  std::vector<std::uint64_t> bits_;  // of all requests, one stretch each
  std::vector<std::byte> staging_;   // of all requests, one stretch each: bytes that a NIC holds
  std::uint64_t clock_ = 0;          // counts posts and completions
  std::uint32_t unfinished_ = 0;     // requests with steps to come
  std::uint32_t buffered_ = 0;       // CPU stores not drained
};

}  // namespace sidelatch::fabric::model

// Small programs for the memory model, and all their outcomes. An execution is a sequence of choices between the
// Machine's enabled micro-steps and the actors' next steps; every sequence is replayed from the start.
//
//   Program p;                                        // a memory node, all words 0
//   p.client().write(p.line(0), 1).write(p.line(1), 1);
//   p.cpu().load(p.line(1)).load(p.line(0));
//   EXPECT_FALSE(reachable(p, Preset::observed, {1, 0}));
//
// An outcome lists, in the order in which the program names them: the words of each READ, the old value of each atomic,
// the value of each CPU load, and the final value of each word given to observe(). Unreached entries stay kUnset.
#pragma once

#include <sidelatch/fabric/model/machine.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

namespace sidelatch::fabric::model::enumeration {

inline constexpr std::uint64_t kUnset = 99;
using Outcome = std::vector<std::uint64_t>;
using Outcomes = std::set<Outcome>;

/// The only outcome of an execution that ended before its actors did.
inline const Outcome kDeadlock{0xdead};

enum class OpKind : std::uint8_t { post, post_receive, local_store, cpu_store, cpu_load, signal, revoke };
enum class Guard : std::uint8_t { none, completed, drained, signalled, received };

/// One step of an actor, possible when its guards allow it.
struct Op {
  OpKind kind = OpKind::post;
  bool joined = false;  // one step with the op before it, as in one doorbell
  std::vector<Guard> guards;
  std::size_t awaited = 0;  // the actor whose signal, or the queue pair whose SEND, is awaited
  QpId qp;
  WorkRequest request;
  RemoteAddress address;
  std::uint64_t value = 0;
  std::byte* local = nullptr;
  std::size_t cell = 0;
};

class Program;

/// A client, a CPU thread of the memory node, or both. Posts that follow one another are one chain.
class Actor {
 public:
  Actor& write(RemoteAddress to, std::uint64_t value, std::size_t words = 1);
  /// WRITE from a buffer of the program, fetched after the post.
  Actor& write_from(std::byte* buffer, RemoteAddress to, std::size_t words = 1);
  /// READ from `from` up to the last of the given words; the outcome shows the given words.
  Actor& read(RemoteAddress from, const std::vector<std::size_t>& words = {0});
  /// READ of one word into a buffer of the program, which the outcome does not show.
  Actor& read_into(std::byte* buffer, RemoteAddress from);
  Actor& cas(RemoteAddress word, std::uint64_t expected, std::uint64_t desired);
  Actor& faa(RemoteAddress word, std::uint64_t addend);
  Actor& send(std::uint64_t value, std::size_t words = 1);
  Actor& fenced();   ///< the request before
  Actor& inlined();  ///< the request before
  Actor& apart();    ///< the request before is not in one chain with those before it
  Actor& on(std::size_t qp);

  Actor& receive(const Actor& sender, std::byte* buffer, std::size_t words = 1);
  Actor& await_received(const Actor& sender);
  Actor& local_store(std::byte* word, std::uint64_t value);
  Actor& store(RemoteAddress word, std::uint64_t value);
  Actor& load(RemoteAddress word);
  Actor& wait();    ///< what follows happens after all of this client's requests completed
  Actor& mfence();  ///< what follows happens after this thread's stores drained
  Actor& signal();
  Actor& await(const Actor& other);   ///< what follows happens after `other` signalled
  Actor& revoke(const Actor& other);  ///< all queue pairs of `other`
  Actor& may_crash();

 private:
  friend class Program;
  friend class World;
  Op& push(OpKind kind);
  Actor& post(const WorkRequest& request);

  Program* program_ = nullptr;
  std::size_t number_ = 0;
  bool has_thread_ = false;
  ThreadId thread_;
  bool has_client_ = false;
  ClientId client_;
  std::vector<QpId> qps_;
  std::size_t qp_ = 0;
  bool may_crash_ = false;
  std::vector<Guard> guards_;
  std::size_t awaited_ = 0;
  std::vector<Op> ops_;
};

/// A memory node of four lines with two NICs, and actors.
class Program {
 public:
  static constexpr std::size_t kLines = 4;

  Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Word `word` of the memory node's line `line`.
  [[nodiscard]] static RemoteAddress line(std::size_t line, std::size_t word = 0) {
    return RemoteAddress{0x1000 + 64 * line + 8 * word};
  }
  /// The same word as bytes of this process, for use as a local buffer.
  [[nodiscard]] std::byte* bytes(RemoteAddress address);
  void set(RemoteAddress word, std::uint64_t initial);
  /// A local buffer, line-aligned, all words `initial`.
  [[nodiscard]] std::byte* buffer(std::uint64_t initial, std::size_t words = 1);

  /// A client on another machine, with one queue pair to each of these NICs of the memory node.
  Actor& client(const std::vector<std::size_t>& nics = {0});
  /// A CPU thread of the memory node.
  Actor& cpu();
  /// A CPU thread that is also a client of its own node.
  Actor& cpu_client();
  void observe(RemoteAddress word);

 private:
  friend class Actor;
  friend class World;
  struct Cell {
    const std::byte* word = nullptr;  // null: the old value of the actor's atomic
    WrId wr;
  };
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  Actor& add_actor();

  Machine machine_;
  NodeId node_;
  std::vector<NicId> nics_;
  std::vector<Line> memory_, initial_memory_;
  std::deque<std::vector<Line>> buffers_, initial_buffers_;
  std::deque<Actor> actors_;
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> posted_;  // per queue pair, by the program as written
};

/// A micro-step, the next step of an actor, or an actor's crash.
struct Choice {
  enum class Kind : std::uint8_t { micro_step, actor_step, crash } kind = Kind::micro_step;
  Step step;
  std::size_t actor = 0;
  std::size_t op = 0;
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// A running program.
class World {
 public:
  World(Program& program, const Rules& rules);
  void restart();
  void choices(std::vector<Choice>& out);
  [[nodiscard]] bool possible(const Choice& choice) const;
  void take(const Choice& choice);
  [[nodiscard]] Outcome outcome() const;
  [[nodiscard]] const Machine& machine() const { return p_.machine_; }

 private:
  [[nodiscard]] bool passes(const Actor& actor, const Op& op) const;
  [[nodiscard]] std::size_t batch_end(const Choice& actor_step) const;

  Program& p_;
  Rules rules_;
  std::vector<std::size_t> next_op_;
  std::vector<bool> crashed_, signalled_;
  std::vector<Step> steps_;
};

[[nodiscard]] Outcomes outcomes(Program& program, const Rules& rules);
[[nodiscard]] inline Outcomes outcomes(Program& program, Preset preset) { return outcomes(program, rules_of(preset)); }
[[nodiscard]] inline bool reachable(Program& program, const Rules& rules, const Outcome& outcome) {
  return outcomes(program, rules).contains(outcome);
}
[[nodiscard]] inline bool reachable(Program& program, Preset preset, const Outcome& outcome) {
  return reachable(program, rules_of(preset), outcome);
}

}  // namespace sidelatch::fabric::model::enumeration

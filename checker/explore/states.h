// The search through the states of a program, breadth first.
//
// Two executions that lead to the same state have the same future, so each state is left once by each of its actions.
// A loop whose attempts change nothing that lasts leads back to a state that was visited. So finite programs have
// finite graphs, however often their loops are tried. The graph shows what clients may do for ever: see find_endless().
//
// There is no reduction but one: a step that is independent of all that may happen before it, whatever that is, goes
// first and alone (Execution::may_come_first, could_come_first).
#pragma once

#include "execution.h"
#include "search.h"

#include <sidelatch/explore/check.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sidelatch::explore {

/// A hash of a state; two lanes of 64 bits.
struct StateHash {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const StateHash&, const StateHash&) = default;
};
[[nodiscard]] StateHash hash_of(const std::vector<std::uint64_t>& words) noexcept;

/// Numbers of states by their hashes: open addressing.
class StateTable {
 public:
  static constexpr std::uint32_t kNone = 0xffff'ffff;
  StateTable() : slots_(1024) {}
  [[nodiscard]] std::uint32_t find(const StateHash& hash) const noexcept;
  /// The number that the hash has now: `number` if it is new.
  std::uint32_t insert(const StateHash& hash, std::uint32_t number);
  [[nodiscard]] std::size_t size() const noexcept { return used_; }

 private:
  struct Slot {
    StateHash hash;
    std::uint32_t number = kNone;
  };
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

/// An edge of the graph, with the name of its action. Without a target: the action waits for another on its word only,
/// or a bound kept the search from following it.
struct StateEdge {
  std::uint32_t target = StateTable::kNone;
  std::uint32_t name = 0;
  bool beside = false;  ///< another action that the edge before it takes, too: it goes first behind the edge's own
};

/// Endless behaviour in a graph: a part in which every action that stays possible is taken.
struct Endless {
  bool is_deadlock = false;                ///< nothing leads out of it
  std::vector<std::uint32_t> cycle;        ///< its states in an order of visits; the first is reached from the start
  std::vector<std::uint32_t> cycle_edges;  ///< the edge that leaves each of them, by its number at the state
};
/// What is known of a state's edges.
enum class Leaving : std::uint8_t {
  unknown,  ///< it was not left, or not by all actions: it may lead anywhere
  first,    ///< by the one action that goes first; others are possible
  all,      ///< by all actions that are possible
};
/// `edges_begin` has one entry more than there are states.
[[nodiscard]] std::optional<Endless> find_endless(const std::vector<std::uint64_t>& edges_begin,
                                                  const std::vector<StateEdge>& edges,
                                                  const std::vector<Leaving>& leaving);

struct StatesResult {
  std::optional<Found> found;
  std::string bound;                    ///< empty: every state was visited
  bool only_loops = false;              ///< only the number of attempts of loops was bounded
  std::optional<BlindSpot> blind_spot;  ///< Execution::blind_spot()
  bool orders_objects = false;          ///< Options::order_objects became necessary
  bool parts_posts = false;             ///< Options::part_posts
  bool parts_completions = false;       ///< Options::part_completions
  const char* unable = nullptr;         ///< why the program has no states to compare; nothing else is set then
  std::uint64_t states = 0;
  std::uint64_t edges = 0;
  std::uint64_t judged = 0;
  std::uint64_t events = 0;
};

class StateSearch {
 public:
  StateSearch(const Program& program, const Options& options, unsigned threads,
              std::optional<std::chrono::steady_clock::time_point> deadline,
              const std::vector<Execution::Changing>& changing);
  [[nodiscard]] StatesResult run();

 private:
  struct Node {
    std::uint32_t parent;
    std::uint32_t length;  // actions from the start to it
    std::uint64_t begin;   // of its own actions in actions_: those after its parent
    std::uint32_t count;
  };
  struct Next {
    StateHash hash;
    std::uint32_t name = 0;
    std::vector<std::uint32_t> beside;  // names of the actions that went first behind it
    std::vector<Action> actions;
    bool is_cut = false;
    bool is_end = false;  // everybody has reached the end there
    std::optional<Failure> failure;
  };
  struct Expansion {
    std::vector<Next> next;
    std::vector<std::uint32_t> waiting;  // names of atomics that wait for their word
    Leaving leaving = Leaving::all;
    std::uint64_t events = 0;
  };
  struct Hand {  // what one thread works with
    explicit Hand(const Program& program, const Options& options);
    Execution execution;
    std::vector<Action> path;
    std::vector<Action> enabled;
    std::vector<std::uint64_t> words;
  };

  [[nodiscard]] StatesResult search();
  Hand& hand(std::size_t slot);
  void path_to(std::uint32_t state, std::vector<Action>& path) const;
  void expand(Hand& hand, std::uint32_t state, Expansion& result);
  void finish(Hand& hand, Next& next, std::uint64_t& events);
  [[nodiscard]] Found found_at(std::uint32_t state, const std::vector<Action>& more, const Failure& failure) const;
  static void go_first(Hand& hand, std::vector<Action>& actions, std::vector<std::uint32_t>& names);
  [[nodiscard]] std::optional<Found> endless();
  [[nodiscard]] bool late() const;

  const Program* program_;
  Options options_;
  unsigned threads_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  // Of the thread that searches. All hands know it, or a state that one of them reaches would be new to the others.
  std::uintptr_t stack_low_ = 0;
  std::uintptr_t stack_top_ = 0;
  bool compares_clock_ = false;
  bool orders_revocations_ = false;
  ObjectsSeen objects_;
  std::vector<std::unique_ptr<Hand>> hands_;
  StateTable table_;
  std::vector<Node> nodes_;
  std::vector<Action> actions_;
  std::vector<std::uint64_t> edges_begin_;
  std::vector<StateEdge> edges_;
  std::vector<Leaving> leaving_;
  std::optional<Cut> cut_;
  bool leads_back_ = true;  // a cycle that was found, when its steps were taken again
  bool is_local_ = false;   // a cycle of steps that went first: nobody else took one
};

}  // namespace sidelatch::explore

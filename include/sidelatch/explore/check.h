// Checks a program in every execution that the memory model allows.
//
//   explore::Verdict verdict = explore::check(program, {.rules = rules_of(Preset::spec)});
//   if (verdict.outcome == explore::Outcome::broken) std::cout << to_text(*verdict.violation);
//
// The search is stateless: the program runs again for each execution, along another sequence of choices among the
// possible next events. Executions that differ only in the order of independent events are explored once (source-set
// dynamic partial-order reduction with sleep sets: Abdulla, Aronsson, Jonsson, Sagonas: Optimal dynamic partial order
// reduction, POPL 2014). docs/explorer.md says what is sound, what is bounded and what is not modelled.
//
// Thread-safety: check() may be called from several threads; it uses all cores by itself.
#pragma once

#include <sidelatch/explore/world.h>
#include <sidelatch/fabric/model/rules.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sidelatch::explore {

enum class Mode : std::uint8_t {
  exhaustive,
  /// Every state once, so that loops need no bound; a program without states that can be compared is searched by its
  /// executions, and the verdict has a note. See docs/explorer.md
  states,
  plain,   ///< every order of events, without reduction: for testing the reduction
  random,  ///< random choices
  pct,     ///< random priorities with a few changes (Burckhardt et al., ASPLOS 2010)
};

struct Options {
  fabric::model::Rules rules{};
  Mode mode = Mode::exhaustive;
  std::uint64_t seed = 1;              ///< random, pct
  std::uint64_t max_executions = 0;    ///< 0: no bound; random and pct need a bound, and use 10 000 by default
  std::uint32_t max_events = 10'000;   ///< per execution; a longer one is a bound, unless its states decide it
  std::uint32_t priority_changes = 3;  ///< pct
  /// How many failed attempts of one retry loop that others can see are repeated. Where one more might have mattered,
  /// the verdict is `bounded`. Attempts that leave no trace are covered without bound. See docs/explorer.md.
  std::uint32_t writing_retries = 2;
  /// Looks at all frames, also at those of the library's loops that say that they keep nothing of a failed attempt. It
  /// takes longer; for testing that word.
  bool look_at_all_frames = false;
  /// Compares the library's counters, too, where a client tries again: then no attempt of a loop that counts leaves no
  /// trace. check() and replay() begin again with it when the program reads such a counter.
  bool look_at_counters = false;
  /// Takes two steps of clients for dependent if one changes an object of the process that the other may look at.
  /// check() and replay() begin again with it when a client has changed an object that another one can reach, other
  /// than World::judges_with.
  bool order_objects = false;
  /// What a client does behind a post or an access of a Cpu, with no wait between them, is a step of its own, so that
  /// others may come between. check() and replay() begin again with it when a client has looked there at what others
  /// may change.
  bool part_posts = false;
  /// A client goes on in a step of its own behind a completion, so that others may come between. check() and replay()
  /// begin again with it when a queue pair of a client that lives has been revoked.
  bool part_completions = false;
  std::uint64_t max_states = 10'000'000;  ///< `states`: at most so many
  /// `exhaustive`: where nothing but loops is left open, or executions are many, a search through so many states may
  /// decide it. Where both do not end, they take turns, each time with four times as much, states up to `max_states`.
  /// 0: executions alone.
  std::uint64_t states_for_loops = 30'000;
  /// `exhaustive`, `states`: where nothing was found, at most so many executions by chance follow (at least 100, and as
  /// many as the search had). Nothing is left out in them, and no order stands for another. So they may show what the
  /// searches cannot see: clients that share objects, or keep something where nobody looks. 0: none.
  std::uint64_t walks = 1000;
  std::chrono::duration<double> budget{0};  ///< 0: no limit
  unsigned threads = 0;                     ///< 0: all cores; at most 4096. The verdict does not depend on it
  /// After a violation, this many more executions look for one with a shorter trace.
  std::uint64_t look_for_shorter = 500;
  const std::atomic<bool>* interrupted = nullptr;
  /// Called from time to time with the number of executions so far.
  std::function<void(std::uint64_t)> progress{};
};

enum class Outcome : std::uint8_t {
  safe,     ///< all executions were explored, loops included
  broken,   ///< a violation was found
  bounded,  ///< no violation in the part that was explored
};

/// "safe", "broken", "bounded".
[[nodiscard]] std::string_view name(Outcome outcome);

struct TraceStep {
  std::string actor;   ///< a client, a CPU thread, or a NIC
  std::string action;  ///< "sample", "place", "posts", ...
  std::string wr;      ///< the request, "qp0[2] WRITE"; may be empty
  std::string target;  ///< the bytes at the memory node; may be empty
  std::string value;   ///< the words that were read or written; may be empty
  std::string rule;    ///< the rule that let the step leave the order that naive designs assume; may be empty
  std::string note;
};

struct Violation {
  Kind kind = Kind::assertion;
  std::string what;
  std::vector<TraceStep> trace;      ///< what the violation depends on, in an order that changes actors seldom
  std::vector<std::string> choices;  ///< the same execution, for replay()
};

struct Verdict {
  Outcome outcome = Outcome::safe;
  std::uint64_t executions = 0;  ///< executions that are not equivalent to each other
  std::uint64_t redundant = 0;   ///< executions given up because an equivalent one was explored
  std::uint64_t events = 0;      ///< events in all executions, replays included
  /// States that were visited, if there was a search through states. If `outcome` is safe, 0 says that the executions
  /// have shown it, and any other number that these states have.
  std::uint64_t states = 0;
  double seconds = 0;
  std::string bound;  ///< which bound was met, if `outcome` is bounded
  std::string note;   ///< if not what was asked for was done: what else, and why
  /// If `outcome` is bounded: whether nothing but the number of attempts of retry loops was bounded.
  bool only_loops_bounded = false;
  std::optional<Violation> violation;
};

/// Throws what the program throws while it is built, and std::logic_error if the program differs between runs.
[[nodiscard]] Verdict check(const Program& program, const Options& options);

/// Runs the program once along `choices`, then with default choices. Throws std::invalid_argument if a choice is not
/// possible at its place.
[[nodiscard]] Verdict replay(const Program& program, const Options& options, const std::vector<std::string>& choices);

/// What a verdict rests on: "all 411 executions" or "all 1234 states" if it is safe, "97 executions" or "97 executions
/// and 1234 states" if it is bounded. Empty if it is broken: there the violation shows it.
[[nodiscard]] std::string proof_in_words(const Verdict& verdict);

/// A timeline with one column per actor.
[[nodiscard]] std::string to_text(const Violation& violation);
/// "safe: all 1234 executions", "broken: torn-read after ...", with the timeline.
[[nodiscard]] std::string to_text(const Verdict& verdict);

}  // namespace sidelatch::explore

// Faults that tests plant in the explorer, and must catch: so they are worth something. Most are planted in
// tests/checker/explore/oracle/mutants_test.cpp, for the comparison with the oracle. Nothing else sets one.
#pragma once

#include <atomic>
#include <cstdint>

namespace sidelatch::explore {

enum class Mutation : std::uint8_t {
  none,
  // When an attempt is left out.
  changes_do_not_count,  ///< also an attempt that placed or stored something
  cuts_are_not_told,     ///< `safe` although a loop was given up
  // What the state of a client is.
  frames_left_out,
  buffers_left_out,
  clock_left_out,
  // The reduction.
  sleepers_stay_asleep,
  memory_is_no_race,
  objects_are_no_race,           ///< of the process
  looks_after_posts_are_unseen,  ///< in the same step
  rule_2_is_no_race,
  locks_are_not_reversed,
  fences_are_not_reversed,   ///< of a CPU, of which several tasks are
  destructions_are_reduced,  ///< of coroutines that wait for a step; also in the search through states
  revocations_are_reduced,
  crashes_after_all_posts,  ///< and not between them
  clients_begin,            ///< before they crash
  the_dead_go_on,           ///< to their next wait
  heads_are_waits,          ///< of loops of the library, although other tasks of the client could come between
  // The end.
  nobody_is_stuck,
  // What a state is, in the search through states.
  states_without_heap,
  states_without_memory,
  states_without_requests,
  states_without_next_steps,
  // What goes first there.
  siblings_come_first,
  looks_come_first,        ///< of clients with memory that others reach
  full_queues_come_first,  ///< whose requests wait, or are signalled, because few have completed
  judged_steps_come_first,
  buffers_come_first,  ///< although the client may run, and change them
  deliveries_are_unseen,
  completions_come_first,         ///< of what is not placed
  untold_completions_come_first,  ///< that nobody is told of, of what is not placed
  revocations_come_last,
  // What may go on for ever there.
  every_cycle_is_fair,
  waiting_is_not_possible,  ///< an atomic that waits for its word may be left out for ever
  cut_steps_are_not_possible,
};

inline constinit std::atomic<Mutation> planted_mutation{Mutation::none};

[[nodiscard]] inline bool has(Mutation mutation) noexcept {
  return planted_mutation.load(std::memory_order_relaxed) == mutation;
}

}  // namespace sidelatch::explore

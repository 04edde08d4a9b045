// Histories of operations on one key, and whether they are linearizable. That holds if an order of them exists that
// respects which operations ended before others began, and in which a single map gives the same results. Operations on
// different keys are independent, so a structure is linearizable if the history of each key is (Herlihy, Wing:
// Linearizability, TOPLAS 1990, locality). The search is Wing and Gong's (1993), with Lowe's memory of failed states
// (2017).
#pragma once

#include <sidelatch/structures/client.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace sidelatch::structures {

enum class Call : std::uint8_t { get, insert, put, update, remove };

struct Event {
  Call call = Call::get;
  std::uint64_t argument = 0;  ///< the value given to insert, put or update
  Outcome outcome = Outcome::done;
  std::uint64_t result = 0;  ///< the value that get returned
  std::int64_t began = 0;
  std::int64_t ended = 0;
  bool is_open = false;  ///< it has not ended: it may have happened, or not
};

/// The effect of the call on a map in which `state` is the key's value; nothing if the outcome differs from the
/// event's.
[[nodiscard]] std::optional<std::optional<std::uint64_t>> apply(const Event& event, std::optional<std::uint64_t> state);

/// Whether the first event ended before the second began.
using Precedes = std::function<bool(const Event& first, const Event& second)>;
[[nodiscard]] bool by_time(const Event& first, const Event& second);

/// Histories may be long if few of their events overlap.
[[nodiscard]] bool is_linearizable(const std::vector<Event>& history, std::optional<std::uint64_t> initial = {},
                                   const Precedes& precedes = by_time);

using Histories = std::map<std::uint64_t, std::vector<Event>>;  // by key

/// The first key whose history is not linearizable.
[[nodiscard]] std::optional<std::uint64_t> first_violation(const Histories& histories);

}  // namespace sidelatch::structures

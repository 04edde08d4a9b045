// The requests that give back what a session owes, and the ones that were asked for it.
#pragma once

#include <sidelatch/fabric/work_request.h>
#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/owed.h>

#include <cstdint>

namespace sidelatch::sync {

/// Leaves the word of a dead holder in the latch, or frees it if there was none.
[[nodiscard]] inline fabric::WorkRequest unlatch_of(const OwedLatch& owed) {
  switch (owed.by) {
    case UnlatchBy::swap_apart:
      return fabric::compare_swap(owed.latch, compact_word(owed.word), compact_word(owed.inherited));
    case UnlatchBy::count_back:
      return fabric::compare_swap(owed.latch, owed.word, owed.word - 1);
    case UnlatchBy::subtraction:
      break;
  }
  return fabric::fetch_add(owed.latch, owed.inherited - owed.word);
}

/// Of the request that was asked.
[[nodiscard]] inline std::uint64_t number_of(const OwedLatch::Asked& asked) noexcept {
  return asked.number != 0 ? asked.number : asked.posting.last;
}

}  // namespace sidelatch::sync

// How an operation retries after it met another client's latch: at once or after a random wait, for ever or until a
// deadline.
//
//   SessionOptions options{.retry = Retry::backoff().within(from_ns(1e6))};
//
// Backoff draws each wait uniformly from zero to a bound that doubles with each attempt, up to a cap. A deadline counts
// from the operation's begin; when it passes, the operation ends without result and leaves nothing latched. A posted
// request is not taken back: if it gets the latch, that is the operation's result even after the deadline. It may be
// shorter than a lease: the session's next operation on the latch goes on watching a holder that seems dead.
//
// Thread-safety: values.
#pragma once

#include <sidelatch/fabric/types.h>

#include <cstdint>
#include <optional>

namespace sidelatch::sync {

struct Retry {
  enum class Wait : std::uint8_t { at_once, backoff };

  Wait wait = Wait::backoff;
  fabric::Duration first = fabric::from_ns(500);   ///< bound of the first wait
  fabric::Duration cap = fabric::from_ns(32'000);  ///< bound of every wait
  std::optional<fabric::Duration> deadline{};      ///< none: for ever

  [[nodiscard]] static Retry at_once() { return {.wait = Wait::at_once}; }
  [[nodiscard]] static Retry backoff() { return {}; }
  [[nodiscard]] static Retry backoff(fabric::Duration first, fabric::Duration cap) {
    return {.first = first, .cap = cap};
  }
  [[nodiscard]] Retry within(fabric::Duration limit) const {
    Retry copy = *this;
    copy.deadline = limit;
    return copy;
  }

  /// Throws std::invalid_argument that names the field, its value and what is allowed.
  void validate() const;
};

}  // namespace sidelatch::sync

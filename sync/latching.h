// What the latches share: chains of a few requests, and the checks around leases.
#pragma once

#include <sidelatch/sync/exclusive_latch.h>
#include <sidelatch/sync/guard.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace sidelatch::sync {

/// The READs that a latched object needs: its record, and its version where that lies apart.
class Reads {
 public:
  Reads(const Object& object, const ObjectBuffer& buffer) {
    requests_[n_++] = fabric::read(buffer.record(), object.record());
    if (object.shape->decoupled && object.shape->has_version()) {
      requests_[n_++] = fabric::read(buffer.header(), object.header());
    }
  }
  [[nodiscard]] std::span<const fabric::WorkRequest> requests() const { return std::span(requests_).first(n_); }

 private:
  std::array<fabric::WorkRequest, 2> requests_;
  std::size_t n_ = 0;
};

/// One request before or behind some others, in one doorbell.
class Chain {
 public:
  static constexpr std::size_t kMost = 4;

  Chain(const fabric::WorkRequest& first, const Reads& rest) {
    add(first);
    for (const fabric::WorkRequest& request : rest.requests()) {
      add(request);
    }
  }
  Chain(std::span<const fabric::WorkRequest> first, const fabric::WorkRequest& last) {
    for (const fabric::WorkRequest& request : first) {
      add(request);
    }
    add(last);
  }
  [[nodiscard]] std::span<const fabric::WorkRequest> requests() const { return std::span(requests_).first(n_); }

 private:
  void add(const fabric::WorkRequest& request) { requests_.at(n_++) = request; }

  std::array<fabric::WorkRequest, kMost> requests_;
  std::size_t n_ = 0;
};

/// "basic", "speculative", "combined" or "async"; for other combinations "basic+async", say.
[[nodiscard]] std::string_view level_name(Acquire acquire, Release release);

/// The payload alone, without the latch word.
[[nodiscard]] fabric::WorkRequest write_payload(const Hold& hold);

/// Throws LatchError::lease_expired if the hold is older than its lease allows.
void require_lease(const Hold& hold);

/// Has the memory node end the queue pairs of the holder in `word`, once. Throws LatchError::takeover_refused.
[[nodiscard]] fabric::Task<void> revoke_holder(Session& session, Object object, std::uint64_t word);

[[noreturn]] void throw_holder_lost(const Object& object, std::uint64_t word);

}  // namespace sidelatch::sync

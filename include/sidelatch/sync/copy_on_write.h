// Out-of-place updates: the record has two copies of the payload, and the version says which one is current.
//
//   reader   READ header -> wait -> READ copy (version mod 2) -> wait -> READ header: same version
//   writer   CAS latch, READ record; WRITE the other copy, FETCH-ADD(+1) on the version, fenced FETCH-ADD unlatch
//
// A committed payload is never overwritten while it is current, so a reader does not care whether a writer is at work.
// Only a second update could touch the copy that it reads, and the version shows that. A writer that dies half-way
// leaves the current copy whole, so a takeover needs no repair. Three round trips per read, twice the space.
//
// The WRITE is placed before the FETCH-ADD that publishes it (rule 5, under every preset). The unlatch is fenced: two
// atomics on different words are not ordered, and the next writer must see the new version. An atomic, not a WRITE,
// changes the version pointer, because two WRITEs are not ordered under `relaxed`.
//
// Thread-safety: no state.
#pragma once

#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync {

class CopyOnWrite final : public OptimisticScheme {
 public:
  /// `release`: whether the writer waits for its unlatch. Write unlatch is impossible: the WRITE does not cover the
  /// latch.
  explicit CopyOnWrite(Release release = Release::combined);

  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.version = true, .copies = kCopies}; }

 protected:
  static constexpr std::uint32_t kCopies = 2;

  [[nodiscard]] fabric::Task<Attempt> try_read(Session& session, Object object,
                                               const ObjectBuffer& buffer) const override;
  [[nodiscard]] bool attempt_validates() const noexcept override { return true; }
  void encode(const ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const ObjectBuffer& /*buffer*/) const override {}

  [[nodiscard]] fabric::Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                                      Takeover takeover) const override;
  [[nodiscard]] fabric::Task<void> commit(Hold& hold) const override;
  [[nodiscard]] fabric::Task<bool> validate(Hold& hold) const override;
};

}  // namespace sidelatch::sync

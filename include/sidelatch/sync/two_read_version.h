// Versioning with two reads: the version is read before the data, so the order of lines within one READ does not
// matter.
//
//   READ header: latch free -> wait -> READ payload -> wait -> READ header: free and same version
//
// The reads must not overlap: two READs in flight on one queue pair may be sampled in either order (rule 5). Latch and
// version must lie in one line, which is sampled whole. Three round trips per read, no cost per byte. The third READ is
// the final validation, so a consistent read costs as much as a latch-equivalent one. Source: TODS 2025, section 4.3
// and figure 13(a).
#pragma once

#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync {

class TwoReadVersion final : public OptimisticScheme {
 public:
  explicit TwoReadVersion(WriterUnlatch unlatch = Release::combined)
      : OptimisticScheme("optimistic/two-read", unlatch) {}

  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.version = true}; }

 protected:
  [[nodiscard]] fabric::Task<Attempt> try_read(Session& session, Object object,
                                               const ObjectBuffer& buffer) const override;
  [[nodiscard]] bool attempt_validates() const noexcept override { return true; }
  void encode(const ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const ObjectBuffer& /*buffer*/) const override {}
};

}  // namespace sidelatch::sync

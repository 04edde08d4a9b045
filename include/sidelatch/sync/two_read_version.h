// Versioning with two reads: the version is read before the data, so that no line order inside one READ matters.
//
//   READ header: latch free -> wait -> READ payload -> wait -> READ header: free and same version
//
// The reads must not overlap: two READs in flight on one queue pair may be sampled in either order (rule 5). Three
// round trips per read, no cost per byte. Source: TODS 2025, section 4.3 and figure 13(a).
#pragma once

#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync {

class TwoReadVersion final : public OptimisticScheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "optimistic/two-read"; }
  [[nodiscard]] std::uint64_t payload_bytes(std::uint64_t object_bytes) const noexcept override {
    return object_bytes - kHeaderBytes;
  }
  [[nodiscard]] fabric::Task<ReadResult> read(fabric::QueuePair& qp, fabric::RemoteSpan object,
                                              fabric::LocalSpan scratch, std::span<std::byte> payload) const override;

 protected:
  void encode(std::span<std::byte> object, std::uint64_t version, std::span<const std::byte> payload) const override;
};

}  // namespace sidelatch::sync

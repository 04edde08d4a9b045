// FaRM's line versions: every line carries the object's version, so that one READ tells whether its lines belong
// together.
//
//   READ object: latch free, all versions equal -> READ header: free and same version
//
// A line is sampled whole by coherent DMA, so its version and its data belong together; hence lines must be aligned and
// the NIC must not copy in smaller pieces. Two round trips per read; 8 bytes of each line are lost, and payload is
// gathered from the lines. Source: FaRM (NSDI 2014); TODS 2025, section 4.3.
#pragma once

#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync {

class FarmLineVersions final : public OptimisticScheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "optimistic/farm"; }
  [[nodiscard]] std::uint64_t payload_bytes(std::uint64_t object_bytes) const noexcept override;
  [[nodiscard]] fabric::Task<ReadResult> read(fabric::QueuePair& qp, fabric::RemoteSpan object,
                                              fabric::LocalSpan scratch, std::span<std::byte> payload) const override;

 protected:
  void encode(std::span<std::byte> object, std::uint64_t version, std::span<const std::byte> payload) const override;
};

}  // namespace sidelatch::sync

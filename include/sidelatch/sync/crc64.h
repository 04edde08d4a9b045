// Checksums: the object carries the CRC64 of its version and payload, so that one READ tells whether it is a mixture.
//
//   READ object: latch free, CRC right -> READ header: free and same version
//
// Two round trips per read, and a cost per byte at the client. Safe up to collisions: a mixture is accepted with
// probability 2^-64 where its bits are random. The polynomial is ECMA-182, reflected, by ISA-L. Source: TODS 2025,
// section 4.3 and figure 13(b).
#pragma once

#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync {

/// CRC-64/XZ: ECMA-182 reflected, initial value and final xor all ones.
[[nodiscard]] std::uint64_t crc64(std::span<const std::byte> bytes);

class Crc64 final : public OptimisticScheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "optimistic/crc64"; }
  [[nodiscard]] std::uint64_t payload_bytes(std::uint64_t object_bytes) const noexcept override {
    return object_bytes - kHeaderBytes - 8;
  }
  [[nodiscard]] fabric::Task<ReadResult> read(fabric::QueuePair& qp, fabric::RemoteSpan object,
                                              fabric::LocalSpan scratch, std::span<std::byte> payload) const override;

 protected:
  void encode(std::span<std::byte> object, std::uint64_t version, std::span<const std::byte> payload) const override;
};

}  // namespace sidelatch::sync

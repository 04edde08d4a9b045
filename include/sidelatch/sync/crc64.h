// Checksums: the object carries the CRC64 of its version and payload, so one READ shows whether it is a mixture.
//
//   READ record: latch free, CRC right -> READ header: free and same version
//
// Two round trips per read (one for a consistent read), and a cost per byte at the client. Safe up to collisions: a
// mixture of random bits is accepted with probability 2^-64. The polynomial is ECMA-182, reflected. ISA-L computes it
// fast enough to remove the paper's reason to avoid CRC above 4 KiB. Source: TODS 2025, section 4.3 and figure 13(b).
//
// Two other checksums serve only to check the scheme: crc8, whose collisions are found quickly, and ideal, which has
// none because it remembers every content it has seen.
#pragma once

#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync {

/// CRC-64/XZ: ECMA-182 reflected, initial value and final xor all ones.
[[nodiscard]] std::uint64_t crc64(std::span<const std::byte> bytes);

enum class Checksum : std::uint8_t { crc64, crc8, ideal };

class Crc64 final : public OptimisticScheme {
 public:
  explicit Crc64(WriterUnlatch unlatch = Release::combined, Checksum checksum = Checksum::crc64);

  [[nodiscard]] RecordNeeds needs() const noexcept override {
    return {.version = true, .checksum = true, .header_inside = true};
  }

 protected:
  [[nodiscard]] fabric::Task<Attempt> try_read(Session& session, Object object,
                                               const ObjectBuffer& buffer) const override;
  void encode(const ObjectBuffer& buffer, std::uint64_t version) const override;
  void decode(const ObjectBuffer& /*buffer*/) const override {}

 private:
  [[nodiscard]] std::uint64_t checksum_of(std::uint64_t version, std::span<const std::byte> payload) const;

  Checksum checksum_;
};

}  // namespace sidelatch::sync

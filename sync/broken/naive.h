// The naive optimistic latch: latch, version and data by one READ, and the header once more for validation.
//
// Several published systems did this, an earlier one of the TODS 2025 paper's own authors among them (section 4.2). It
// trusts that the header is sampled before the data. The lines of one READ are sampled in any order (rule 4): the data
// may be old and the header, sampled after the writer has unlatched, new; the validation then confirms the new header.
#pragma once

#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync::broken {

class Naive final : public OptimisticScheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "broken/naive"; }
  [[nodiscard]] std::uint64_t payload_bytes(std::uint64_t object_bytes) const noexcept override {
    return object_bytes - kHeaderBytes;
  }
  [[nodiscard]] fabric::Task<ReadResult> read(fabric::QueuePair& qp, fabric::RemoteSpan object,
                                              fabric::LocalSpan scratch, std::span<std::byte> payload) const override;

 protected:
  void encode(std::span<std::byte> object, std::uint64_t version, std::span<const std::byte> payload) const override;
};

}  // namespace sidelatch::sync::broken

// Bookends: a version before the data and the same version behind it; a reader accepts if both are equal.
//
// The idea is older than RDMA (a sequence lock's two counters). Several one-sided stores and message rings carry a
// header and a footer version this way; figure 1 of TODS 2025 measures how it fails. It trusts that the lines of one
// READ are sampled in ascending order. They are sampled in any order (rule 4): both ends may be new, or both old, while
// a line between them is not. Up to two lines there is nothing between the ends.
#include "specimens.h"

#include <sidelatch/sync/optimistic.h>

#include <cstring>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class Bookend final : public OptimisticScheme {
 public:
  Bookend() : OptimisticScheme("broken/bookend") {}
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.version = true, .header_inside = true}; }
  // The last word behind the payload, where a checksum might be, holds the version again.
  [[nodiscard]] RecordShape shape(std::uint64_t payload_bytes, LayoutKind /*kind*/) const override {
    RecordShape shape = OptimisticScheme::shape((payload_bytes + 7) / 8 * 8 + 8, LayoutKind::padded);
    shape.payload_bytes = payload_bytes;
    shape.checksum = shape.bytes - 8;
    return shape;
  }

 protected:
  [[nodiscard]] Task<Attempt> try_read(Session& session, Object object, const ObjectBuffer& buffer) const override {
    co_await session.qp().read(buffer.record(), object.record());
    const ObjectHeader header = header_in_record(buffer);
    std::uint64_t tail = 0;
    std::memcpy(&tail, buffer.record().data + object.shape->checksum, sizeof tail);
    co_return Attempt{header.version == tail, header};
  }
  // Consistent, not latch-equivalent: there is no validation.
  [[nodiscard]] bool attempt_validates() const noexcept override { return true; }
  void encode(const ObjectBuffer& buffer, std::uint64_t version) const override {
    std::memcpy(buffer.record().data + buffer.shape().checksum, &version, sizeof version);
  }
  void decode(const ObjectBuffer& /*buffer*/) const override {}
};

}  // namespace

std::unique_ptr<Scheme> make_bookend() { return std::make_unique<Bookend>(); }

}  // namespace sidelatch::sync::broken

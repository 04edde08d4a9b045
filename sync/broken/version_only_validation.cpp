// Version-only validation: versioning with two reads, with the header behind the data. The validation checks the
// version but not the latch.
//
// Write unlatch needs a footer layout, and "the version did not change" sounds like enough. It is not: data is placed
// before the version that announces it. A reader that begins after the latch was taken is refused at its first READ.
// One that began earlier sees new data and, at its validation, still the old version.
#include "specimens.h"

#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class VersionOnlyValidation final : public OptimisticScheme {
 public:
  VersionOnlyValidation() : OptimisticScheme("broken/version-only-validation") {}
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.version = true}; }
  [[nodiscard]] LayoutKind default_layout() const noexcept override { return LayoutKind::padded_footer; }

 protected:
  [[nodiscard]] Task<Attempt> try_read(Session& session, Object object, const ObjectBuffer& buffer) const override {
    const ObjectHeader before = co_await read_header(session, object, buffer);
    if (before.latch != kFree) {
      co_return Attempt{false, before};
    }
    const RecordShape& shape = *object.shape;
    co_await session.qp().read(buffer.part(shape.payload, shape.payload_bytes),
                               object.record().subspan(shape.payload, shape.payload_bytes));
    const ObjectHeader after = co_await read_header(session, object, buffer);
    co_return Attempt{after.version == before.version, after};
  }
  [[nodiscard]] bool attempt_validates() const noexcept override { return true; }
  void encode(const ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const ObjectBuffer& /*buffer*/) const override {}
};

}  // namespace

std::unique_ptr<Scheme> make_version_only_validation() { return std::make_unique<VersionOnlyValidation>(); }

}  // namespace sidelatch::sync::broken

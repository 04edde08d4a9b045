// The naive optimistic latch: one READ gets latch, version and data; a second READ of the header validates them.
//
// Several published systems did this, among them an earlier one by the authors of TODS 2025 (section 4.2). It trusts
// that the header is sampled before the data. The lines of one READ are sampled in any order (rule 4): the data may be
// old and the header new, sampled after the writer has unlatched. The validation then confirms the new header.
#include "specimens.h"

#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class Naive final : public OptimisticScheme {
 public:
  Naive() : OptimisticScheme("broken/naive") {}
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.version = true, .header_inside = true}; }

 protected:
  [[nodiscard]] Task<Attempt> try_read(Session& session, Object object, const ObjectBuffer& buffer) const override {
    co_await session.qp().read(buffer.record(), object.record());
    const ObjectHeader header = header_in_record(buffer);
    co_return Attempt{header.latch == kFree, header};
  }
  void encode(const ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const ObjectBuffer& /*buffer*/) const override {}
};

}  // namespace

std::unique_ptr<Scheme> make_naive() { return std::make_unique<Naive>(); }

}  // namespace sidelatch::sync::broken

// Overlapped reads: versioning with two reads, where the first two READs share a doorbell without a fence.
//
// It looks like the speculative READ of a latch and saves a round trip; TODS 2025, section 4.3, warns of it. It trusts
// that two READs of one queue pair are executed in posting order. Only their completions are in order. Their samples
// interleave (rule 5, READ \ READ), so the data may be sampled before the version.
#include "specimens.h"

#include <sidelatch/sync/latch_word.h>
#include <sidelatch/sync/optimistic.h>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

class OverlappedReads final : public OptimisticScheme {
 public:
  OverlappedReads() : OptimisticScheme("broken/overlapped-reads") {}
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.version = true}; }

 protected:
  [[nodiscard]] Task<Attempt> try_read(Session& session, Object object, const ObjectBuffer& buffer) const override {
    const RecordShape& shape = *object.shape;
    const WorkRequest header = fabric::read(buffer.header(), object.header());
    const WorkRequest data = fabric::read(buffer.part(shape.payload, shape.payload_bytes),
                                          object.record().subspan(shape.payload, shape.payload_bytes));
    co_await session.qp().submit(header, data);
    const ObjectHeader before = header_in(buffer.header().bytes(), shape);
    if (before.latch != kFree) {
      co_return Attempt{false, before};
    }
    const ObjectHeader after = co_await read_header(session, object, buffer);
    co_return Attempt{after.latch == kFree && after.version == before.version, after};
  }
  [[nodiscard]] bool attempt_validates() const noexcept override { return true; }
  void encode(const ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const ObjectBuffer& /*buffer*/) const override {}
};

}  // namespace

std::unique_ptr<Scheme> make_overlapped_reads() { return std::make_unique<OverlappedReads>(); }

}  // namespace sidelatch::sync::broken

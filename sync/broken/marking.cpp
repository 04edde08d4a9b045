// Marking: the writer marks the object as being written, writes it, and removes the mark; a reader accepts if its READ
// shows no mark.
//
// Stores that mark a bucket or an entry as invalid while they change it work like this (TODS 2025, table 1). The scheme
// trusts that a READ that overlaps the WRITE also sees the mark. The lines of one READ are sampled in any order
// (rule 4): the marked line may be sampled before the mark is set or after it is gone, and the data in between.
#include "specimens.h"

#include "sync/latching.h"

#include <sidelatch/sync/optimistic.h>

#include <cstring>

namespace sidelatch::sync::broken {

using namespace fabric;

namespace {

// The mark is in the version's place.
class Marking final : public OptimisticScheme {
 public:
  Marking() : OptimisticScheme("broken/marking") {}
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {.version = true, .header_inside = true}; }
  [[nodiscard]] LayoutKind default_layout() const noexcept override { return LayoutKind::padded; }

 protected:
  [[nodiscard]] Task<Attempt> try_read(Session& session, Object object, const ObjectBuffer& buffer) const override {
    co_await session.qp().read(buffer.record(), object.record());
    const ObjectHeader header = header_in_record(buffer);
    co_return Attempt{header.version == 0, header};
  }
  // Consistent, not latch-equivalent: there is no validation.
  [[nodiscard]] bool attempt_validates() const noexcept override { return true; }
  void encode(const ObjectBuffer& /*buffer*/, std::uint64_t /*version*/) const override {}
  void decode(const ObjectBuffer& /*buffer*/) const override {}

  [[nodiscard]] Task<void> commit(Hold& hold) const override {
    // Two sources, because the NIC reads them after the post.
    const LocalSpan marks = hold.buffer.header();
    const std::uint64_t mark = 1;
    const std::uint64_t none = 0;
    std::memcpy(marks.data, &mark, sizeof mark);
    std::memcpy(marks.data + sizeof mark, &none, sizeof none);
    co_await hold.qp().submit(write(marks.subspan(0, 8), hold.object.version()), write_payload(hold),
                              write(marks.subspan(8, 8), hold.object.version()),
                              fetch_add(hold.object.latch(), std::uint64_t{0} - hold.word));
  }
};

}  // namespace

std::unique_ptr<Scheme> make_marking() { return std::make_unique<Marking>(); }

}  // namespace sidelatch::sync::broken

// RwLatch: a reader/writer latch in one 8-byte word, by compare-and-swap and fetch-and-add.
//
//   exclusive   CAS 0 -> held; READ; WRITE; FETCH-ADD(-held)          the steps of ExclusiveLatch, with its levels
//   shared      FETCH-ADD(+1 reader) and READ; if a writer holds it: FETCH-ADD(-1 reader) and begin again;
//               FETCH-ADD(-1 reader)
//
// Readers count themselves in before they know whether a writer is there, so the word changes under a writer's feet.
// Two things follow. First, the writer unlatches by FETCH-ADD: a CAS from the word that it stored would fail while a
// reader is counted, and an asynchronous writer would not notice. Second, no WRITE may cover the word: it would erase
// such a count, or an atomic that has already loaded the latched word would erase the WRITE (rule 8). RwLatch therefore
// has no write unlatch.
//
// A reader unlatches after its READ has completed. In the same doorbell the FETCH-ADD might overtake the READ (rule 5,
// READ \ atomic). Source: TODS 2025, sections 3.1 and 3.3, figure 8.
//
// Thread-safety: no state.
#pragma once

#include <sidelatch/sync/exclusive_latch.h>

namespace sidelatch::sync {

class RwLatch : public Scheme {
 public:
  explicit RwLatch(LatchLevel level = LatchLevel::async) : RwLatch(acquire_of(level), release_of(level)) {}
  RwLatch(Acquire acquire, Release release);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] RecordNeeds needs() const noexcept override { return {}; }

 protected:
  [[nodiscard]] fabric::Task<ExclusiveGuard> do_latch(Session& session, Object object, std::source_location place,
                                                      Takeover takeover) const override;
  [[nodiscard]] fabric::Task<void> commit(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> abort(Hold& hold) const override;
  [[nodiscard]] fabric::Task<ReadGuard> do_begin_read(Session& session, Object object,
                                                      std::source_location place) const override;
  [[nodiscard]] fabric::Task<bool> validate(Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> release(Hold& hold) const override;

 private:
  ExclusiveLatch writer_;
  Acquire acquire_;
  Release release_;
  std::string name_;
};

}  // namespace sidelatch::sync

// No synchronization at all: the upper bound for schemes in the papers. A read is one READ; an update is a READ
// and then a WRITE, each of which is waited for.
#pragma once

#include <sidelatch/sync/scheme.h>

namespace sidelatch::bench {

class Unsynchronised final : public sync::Scheme {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "unsynchronised"; }
  [[nodiscard]] sync::RecordNeeds needs() const noexcept override { return {}; }

 protected:
  [[nodiscard]] fabric::Task<sync::ExclusiveGuard> do_latch(sync::Session& session, sync::Object object,
                                                            std::source_location place,
                                                            sync::Takeover takeover) const override;
  [[nodiscard]] fabric::Task<void> commit(sync::Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> abort(sync::Hold& hold) const override;
  [[nodiscard]] fabric::Task<sync::ReadGuard> do_begin_read(sync::Session& session, sync::Object object,
                                                            std::source_location place) const override;
  [[nodiscard]] fabric::Task<bool> validate(sync::Hold& hold) const override;
  [[nodiscard]] fabric::Task<void> release(sync::Hold& hold) const override;

 private:
  [[nodiscard]] fabric::Task<sync::Hold> fetch(sync::Session& session, sync::Object object,
                                               std::source_location place) const;
};

}  // namespace sidelatch::bench

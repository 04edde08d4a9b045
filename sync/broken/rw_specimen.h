// A reader/writer latch in which a specimen replaces the unlatches by wrong ones; everything else is RwLatch.
#pragma once

#include <sidelatch/sync/rw_latch.h>

namespace sidelatch::sync::broken {

class RwSpecimen : public RwLatch {
 public:
  explicit RwSpecimen(std::string_view name) : name_(name) {}
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }

 private:
  std::string_view name_;
};

}  // namespace sidelatch::sync::broken

#include <sidelatch/fabric/object_number.h>

#include <atomic>

namespace sidelatch::fabric {

namespace {

constinit thread_local CountAnew* counted_anew = nullptr;

}  // namespace

CountAnew::CountAnew() noexcept : outer_(counted_anew) { counted_anew = this; }
CountAnew::~CountAnew() { counted_anew = outer_; }

std::uint64_t next_object_number() noexcept {
  static constinit std::atomic<std::uint64_t> last{std::uint64_t{1} << 32};  // none of those counted anew
  return counted_anew != nullptr ? ++counted_anew->last_ : ++last;
}

}  // namespace sidelatch::fabric

// Numbers by which objects are told apart, also from those that have been at their place before.
#pragma once

#include <cstdint>

namespace sidelatch::fabric {

/// A number, not 0, that no other object of this process has. Under a CountAnew it is one that no other object made
/// under that one has, and none made outside.
[[nodiscard]] std::uint64_t next_object_number() noexcept;

/// While it lives, this thread's objects are counted from 1 on. The explorer builds a program again and again, and
/// needs the same objects each time.
class CountAnew {
 public:
  CountAnew() noexcept;
  CountAnew(const CountAnew&) = delete;
  CountAnew& operator=(const CountAnew&) = delete;
  ~CountAnew();

 private:
  friend std::uint64_t next_object_number() noexcept;
  std::uint64_t last_ = 0;
  CountAnew* outer_;
};

}  // namespace sidelatch::fabric

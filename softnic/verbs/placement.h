// Where the objects that libibverbs gives out live: on the heap, or where the allocator of a parent domain says
// (ibv_alloc_parent_domain(3)).
//
//   auto pair = make_object<QueuePair>(parent);      // parent: nullptr, or any domain; ENOMEM as std::bad_alloc
//   end_object(*pair.release());
//
// A parent domain with allocators counts its objects, because its function ends them. The program's functions are
// called without any lock.
//
// Thread-safety: functions without state.
#pragma once

#include "objects.h"

#include <cstdint>
#include <memory>
#include <new>

namespace sidelatch::softnic::verbs {

/// The kind of memory that allocators are asked for: there is only one.
inline constexpr std::uint64_t kObjectMemory = 0;

template <class Object>
void end_object(Object& object) noexcept {
  ProtectionDomain* const parent = object.placed_by;
  if (parent == nullptr) {
    delete &object;
    return;
  }
  object.~Object();
  parent->free(parent, parent->user, &object, kObjectMemory);
  --*parent->users;
}

template <class Object>
struct EndObject {
  void operator()(Object* object) const noexcept { end_object(*object); }
};
template <class Object>
using Owned = std::unique_ptr<Object, EndObject<Object>>;

/// All fields of its C struct are 0.
template <class Object>
[[nodiscard]] Owned<Object> make_object(ProtectionDomain* parent) {
  // IBV_ALLOCATOR_USE_DEFAULT, which is an old-style cast. NOLINTNEXTLINE(performance-no-int-to-ptr)
  void* const heap = reinterpret_cast<void*>(~std::uintptr_t{0});
  void* place = heap;
  if (parent != nullptr && parent->alloc != nullptr) {
    place = parent->alloc(parent, parent->user, sizeof(Object), alignof(Object), kObjectMemory);
  }
  if (place == heap) {
    return Owned<Object>(new Object());
  }
  if (place == nullptr) {
    throw std::bad_alloc();
  }
  try {
    Owned<Object> made(new (place) Object());
    made->placed_by = parent;
    ++*parent->users;
    return made;
  } catch (...) {
    parent->free(parent, parent->user, place, kObjectMemory);
    throw;
  }
}

}  // namespace sidelatch::softnic::verbs

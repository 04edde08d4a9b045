#include "memory_access.h"

#include "shared_bytes.h"

namespace sidelatch::softnic::nic {

const std::byte* MemoryAccess::fetch(std::span<std::byte> into, const std::byte* from) {
  return load_shared(into, from);
}

const std::byte* MemoryAccess::deliver(std::byte* to, std::span<const std::byte> bytes) {
  return store_shared(to, bytes);
}

std::optional<std::uint64_t> apply_shared(std::byte* word, const AtomicStep& step) noexcept {
  return step.is_swap           ? exchange_shared(word, step.swap_or_add)
         : step.is_compare_swap ? compare_swap_shared(word, step.compare, step.swap_or_add)
                                : fetch_add_shared(word, step.swap_or_add);
}

const std::byte* ImmediateAccess::place(const AccessSource& /*source*/, std::byte* to,
                                        std::span<const std::byte> bytes) {
  return store_shared(to, bytes);
}

void ImmediateAccess::sample(const AccessSource& /*source*/, const std::byte* from, std::span<std::byte> into,
                             Operation& operation) {
  if (const std::byte* const gone = load_shared(into, from)) {
    operation.fail(gone);
  } else {
    operation.finish();
  }
}

void ImmediateAccess::atomic(const AccessSource& /*source*/, std::byte* word, const AtomicStep& step,
                             Operation& operation) {
  if (const std::optional<std::uint64_t> old = apply_shared(word, step)) {
    operation.original = *old;
    operation.finish();
  } else {
    operation.fail(word);
  }
}

void ImmediateAccess::receive(const AccessSource& /*source*/, Operation& operation) { operation.finish(); }

}  // namespace sidelatch::softnic::nic

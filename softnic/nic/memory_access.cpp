#include "memory_access.h"

#include "shared_bytes.h"

namespace sidelatch::softnic::nic {

void MemoryAccess::fetch(std::span<std::byte> into, const std::byte* from) { load_shared(into, from); }

void MemoryAccess::deliver(std::byte* to, std::span<const std::byte> bytes) { store_shared(to, bytes); }

std::uint64_t apply_shared(std::byte* word, const AtomicStep& step) noexcept {
  return step.is_swap           ? exchange_shared(word, step.swap_or_add)
         : step.is_compare_swap ? compare_swap_shared(word, step.compare, step.swap_or_add)
                                : fetch_add_shared(word, step.swap_or_add);
}

void ImmediateAccess::place(const AccessSource& /*source*/, std::byte* to, std::span<const std::byte> bytes) {
  store_shared(to, bytes);
}

void ImmediateAccess::sample(const AccessSource& source, const std::byte* from, std::span<std::byte> into,
                             Operation& operation) {
  source.is_repeated ? load_shared_if_mapped(into, from) : load_shared(into, from);
  operation.finish();
}

void ImmediateAccess::atomic(const AccessSource& /*source*/, std::byte* word, const AtomicStep& step,
                             Operation& operation) {
  operation.original = apply_shared(word, step);
  operation.finish();
}

void ImmediateAccess::receive(const AccessSource& /*source*/, Operation& operation) { operation.finish(); }

}  // namespace sidelatch::softnic::nic

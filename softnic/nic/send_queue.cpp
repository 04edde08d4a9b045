#include "send_queue.h"

#include "scatter.h"

#include <algorithm>
#include <cstring>

namespace sidelatch::softnic::nic {

namespace {

std::uint64_t total(std::span<const Sge> sges) {
  std::uint64_t bytes = 0;
  for (const Sge& sge : sges) {
    bytes += sge.length;
  }
  return bytes;
}

}  // namespace

SendQueue::SendQueue(std::uint32_t depth, std::uint32_t most_sges, std::uint32_t most_inline)
    : most_sges_(most_sges),
      most_inline_(most_inline),
      inline_room_(std::max(most_inline, kAtomicBytes)),
      entries_(depth),
      sges_(std::size_t{depth} * most_sges),
      inlined_(std::size_t{depth} * inline_room_) {}

std::span<std::byte> SendQueue::inline_of(std::uint64_t number) noexcept {
  return std::span(inlined_).subspan(number % entries_.size() * inline_room_, inline_room_);
}

Post SendQueue::post(const SendRequest& request) noexcept {
  const std::uint64_t length = total(request.sges);
  const std::uint32_t most_inline = request.kind == WorkKind::atomic_write ? inline_room_ : most_inline_;
  if (request.inlined && length > most_inline) {
    return Post::inline_too_long;
  }
  // Inlined bytes form one run, regardless of their source.
  if (!request.inlined && request.sges.size() > most_sges_) {
    return Post::too_many_sges;
  }
  if (room() == 0) {
    return Post::full;
  }
  SendEntry& entry = at(end_);
  entry = SendEntry{.request = request, .length = length};
  if (request.inlined) {
    std::byte* to = inline_of(end_).data();
    for (const Sge& sge : request.sges) {
      if (sge.length != 0) {
        // The poster's pointer, passed as a number.
        const auto* const from = reinterpret_cast<const void*>(sge.address);  // NOLINT(performance-no-int-to-ptr)
        std::memcpy(to, from, sge.length);
        to += sge.length;
      }
    }
    entry.request.sges = {};
  } else {
    const std::span<Sge> own = std::span(sges_).subspan(end_ % entries_.size() * most_sges_, request.sges.size());
    std::ranges::copy(request.sges, own.begin());
    entry.request.sges = own;
  }
  ++end_;
  return Post::done;
}

bool SendQueue::may_touch(std::uint64_t number, const MemoryTable& table, Domain domain, Rights needed) noexcept {
  return std::ranges::all_of(at(number).request.sges, [&](const Sge& sge) {
    return sge.length == 0 || table.local(sge.lkey, domain, sge.address, sge.length, needed) != nullptr;
  });
}

bool SendQueue::gather(std::uint64_t number, std::uint64_t offset, std::span<std::byte> into, const MemoryTable& table,
                       Domain domain, MemoryAccess& memory, const std::byte*& gone) noexcept {
  if (at(number).request.inlined) {
    std::ranges::copy(inline_of(number).subspan(offset, into.size()), into.begin());
    return true;
  }
  std::byte* to = into.data();
  return for_each_part(
      at(number).request.sges, offset, into.size(), [&](const Sge& sge, std::uint64_t from, std::uint64_t bytes) {
        const std::byte* const data = table.local(sge.lkey, domain, sge.address + from, bytes, Rights::none);
        if (data == nullptr) {
          return false;
        }
        if (const std::byte* const missing = memory.fetch({to, bytes}, data)) {
          gone = missing;
          return false;
        }
        to += bytes;
        return true;
      });
}

bool SendQueue::scatter(std::uint64_t number, std::uint64_t offset, std::span<const std::byte> bytes,
                        const MemoryTable& table, Domain domain, MemoryAccess& memory,
                        const std::byte*& gone) noexcept {
  const std::span<const Sge> sges = at(number).request.sges;
  const auto find = [&](const Sge& sge, std::uint64_t from, std::uint64_t length) {
    return table.local(sge.lkey, domain, sge.address + from, length, Rights::local_write);
  };
  const bool is_allowed = for_each_part(
      sges, offset, bytes.size(),
      [&](const Sge& sge, std::uint64_t from, std::uint64_t length) { return find(sge, from, length) != nullptr; });
  const std::byte* next = bytes.data();
  return is_allowed &&
         for_each_part(sges, offset, bytes.size(), [&](const Sge& sge, std::uint64_t from, std::uint64_t length) {
           if (const std::byte* const missing = memory.deliver(find(sge, from, length), {next, length})) {
             gone = missing;
             return false;
           }
           next += length;
           return true;
         });
}

}  // namespace sidelatch::softnic::nic

#include <sidelatch/p4/compiled.h>

#include <algorithm>

namespace sidelatch::p4::compiled {

std::uint64_t draw(PacketContext& packet, std::uint64_t low, std::uint64_t high) noexcept {
  std::uint64_t drawn = 0;
  if (packet.random_state != nullptr) {  // splitmix64
    std::uint64_t z = *packet.random_state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    drawn = z ^ (z >> 31);
  }
  return low >= high ? low : low + static_cast<std::uint64_t>(U128{drawn} % (U128{high} - low + 1));
}

void CompiledProgram::clear_headers(std::byte* frame) const {
  for (const auto& [offset, size] : layout_.headers) {
    std::memset(frame + offset, 0, size);
  }
}

std::uint64_t CompiledProgram::get(const std::byte* frame, MetadataField field) const {
  std::uint64_t value = 0;
  std::memcpy(&value, frame + layout_.fields[static_cast<std::size_t>(field)].offset, sizeof value);
  return value;
}

void CompiledProgram::set(std::byte* frame, MetadataField field, std::uint64_t value) const {
  const SlotPlace& place = layout_.fields[static_cast<std::size_t>(field)];
  value &= static_cast<std::uint64_t>(ones(place.width));
  std::memcpy(frame + place.offset, &value, sizeof value);
}

void CompiledProgram::keep_metadata(std::byte* frame, const std::byte* from, int list) const {
  // In place: what stays is set aside in the lists' order, which is that of the offsets within each range.
  if (frame != from) {
    for (const auto& [offset, size] : layout_.metadata) {
      std::memcpy(frame + offset, from + offset, size);
    }
  }
  const auto keeps = [&](const FieldListSlot& slot) {
    return list >= 0 &&
           std::find(slot.lists.begin(), slot.lists.end(), static_cast<unsigned>(list)) != slot.lists.end();
  };
  for (const auto& [begin, size] : layout_.metadata) {
    std::size_t at = begin;
    for (const FieldListSlot& slot : layout_.lists) {
      if (slot.place.offset < begin || slot.place.offset >= begin + size || !keeps(slot)) {
        continue;
      }
      std::memset(frame + at, 0, slot.place.offset - at);
      at = slot.place.offset + (slot.place.wide ? sizeof(U128) : sizeof(std::uint64_t));
    }
    std::memset(frame + at, 0, begin + size - at);
  }
}

}  // namespace sidelatch::p4::compiled

#include "memory_table.h"

#include "nic_error.h"
#include "roce/packet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace sidelatch::softnic::nic {

namespace {

constexpr std::uint32_t kGenerationBits = 8;

[[noreturn]] void refuse(const std::string& what) { throw NicError(NicError::Kind::invalid, what); }

void require_no_windows(std::uint32_t windows, std::uint32_t key) {
  if (windows != 0) {
    throw NicError(
        NicError::Kind::busy,
        fmt::format("{} memory windows are bound to the region of the key {:#x}: end them first", windows, key));
  }
}

constexpr bool writes(Rights needed) {
  return allows(needed, Rights::local_write) || allows(needed, Rights::remote_write) ||
         allows(needed, Rights::remote_atomic);
}

// What null regions read and write.
constexpr std::size_t kNullBytes = bytes_of(PathMtu::b4096);
alignas(8) std::array<std::byte, kNullBytes> zeros{};
alignas(8) std::array<std::byte, kNullBytes> lost{};

constexpr bool wraps(std::uint64_t address, std::uint64_t length) {
  return length - 1 > std::numeric_limits<std::uint64_t>::max() - address;
}

}  // namespace

Domain MemoryTable::add_domain() {
  const auto unused = std::find(domains_.begin(), domains_.end(), false);
  const auto index = static_cast<std::size_t>(unused - domains_.begin());
  if (unused == domains_.end()) {
    domains_.push_back(true);
  } else {
    *unused = true;
  }
  return static_cast<Domain>(index + 1);
}

bool MemoryTable::has_domain(Domain domain) const noexcept {
  return domain != 0 && domain <= domains_.size() && domains_[domain - 1];
}

void MemoryTable::remove_domain(Domain domain) {
  if (!has_domain(domain)) {
    refuse(fmt::format("there is no protection domain {}", domain));
  }
  for (const Slot& slot : slots_) {
    if (slot.is_used && slot.region.domain == domain) {
      throw NicError(NicError::Kind::busy,
                     fmt::format("protection domain {} still has memory regions or windows: end them first", domain));
    }
  }
  domains_[domain - 1] = false;
}

void MemoryTable::check(const Region& region) const {
  if (!has_domain(region.domain)) {
    refuse(fmt::format("there is no protection domain {}", region.domain));
  }
  if (region.is_null) {
    return;
  }
  if (region.data == nullptr || region.length == 0 || wraps(region.address, region.length) ||
      wraps(reinterpret_cast<std::uintptr_t>(region.data), region.length)) {
    refuse(fmt::format("a memory region of {} bytes at {:#x}: it must have bytes, and must not wrap around",
                       region.length, region.address));
  }
  if ((allows(region.rights, Rights::remote_write) || allows(region.rights, Rights::remote_atomic)) &&
      !allows(region.rights, Rights::local_write)) {
    refuse("a memory region with remote_write or remote_atomic needs local_write too");
  }
}

std::uint32_t MemoryTable::take_place() {
  if (free_.empty() && slots_.size() < most_regions_) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  if (free_.empty()) {
    if (worn_.empty()) {
      throw NicError(NicError::Kind::full, fmt::format("all {} memory regions of the NIC are in use", most_regions_));
    }
    free_.push_back(worn_.front());
    worn_.pop_front();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  const std::uint8_t generation = slots_[index].generation;
  slots_[index] = {.generation = generation, .is_used = true};
  return index;
}

void MemoryTable::free_place(std::uint32_t index) {
  slots_[index].is_used = slots_[index].is_valid = false;
  if (++slots_[index].generation == 0) {
    worn_.push_back(index);
  } else {
    free_.push_back(index);
  }
}

std::uint32_t MemoryTable::add(const Region& region) {
  check(region);
  const std::uint32_t index = take_place();
  Slot& slot = slots_[index];
  slot.region = region;
  slot.is_valid = true;
  // Index 0 would make key 0, which programs take for no key.
  return (index + 1) << kGenerationBits | slot.generation;
}

void MemoryTable::change(std::uint32_t key, const Region& region) {
  if (slot_of(key) == nullptr || is_window(key) || slot_of(key)->region.is_null) {
    refuse(fmt::format("there is no memory region of the key {:#x}, or it is a null one", key));
  }
  require_no_windows(slot_of(key)->windows, key);
  check(region);
  Slot& slot = slots_[(key >> kGenerationBits) - 1];
  slot.region = region;
  slot.is_valid = true;
}

const MemoryTable::Slot* MemoryTable::slot_of(std::uint32_t key) const noexcept {
  const std::uint32_t index = (key >> kGenerationBits) - 1;  // wraps for 0, and is then too large
  if (index >= slots_.size()) {
    return nullptr;
  }
  const Slot& slot = slots_[index];
  return slot.is_used && slot.generation == static_cast<std::uint8_t>(key) ? &slot : nullptr;
}

void MemoryTable::remove(std::uint32_t key) {
  if (slot_of(key) == nullptr || is_window(key)) {
    refuse(fmt::format("the key {:#x} names no memory region", key));
  }
  require_no_windows(slot_of(key)->windows, key);
  free_place((key >> kGenerationBits) - 1);
}

bool MemoryTable::invalidate(std::uint32_t key, Domain domain, std::uint32_t queue_pair) noexcept {
  const Slot* const slot = slot_of(key);
  // A region ends by its program alone, as on real devices and in Linux's rxe: who may READ it must not end what is
  // received into it.
  if (slot == nullptr || !slot->window || !slot->is_valid || slot->region.domain != domain ||
      *slot->window == WindowType::one || slot->queue_pair != queue_pair) {
    return false;
  }
  unbind(slots_[(key >> kGenerationBits) - 1]);
  return true;
}

// ---- Windows.

MemoryTable::Slot* MemoryTable::window_of(std::uint32_t key) noexcept {
  const std::uint32_t index = (key >> kGenerationBits) - 1;
  return index < slots_.size() && slots_[index].is_used && slots_[index].window ? &slots_[index] : nullptr;
}

bool MemoryTable::is_window(std::uint32_t key) const noexcept {
  const Slot* const slot = slot_of(key);
  return slot != nullptr && slot->window.has_value();
}

std::uint32_t MemoryTable::window_key(std::uint32_t key) const noexcept {
  const std::uint32_t index = (key >> kGenerationBits) - 1;
  return index < slots_.size() && slots_[index].is_used && slots_[index].window
             ? (index + 1) << kGenerationBits | slots_[index].generation
             : 0;
}

std::uint32_t MemoryTable::add_window(Domain domain, WindowType type) {
  if (!has_domain(domain)) {
    refuse(fmt::format("there is no protection domain {}", domain));
  }
  const std::uint32_t index = take_place();
  Slot& slot = slots_[index];
  slot.region.domain = domain;
  slot.window = type;
  return (index + 1) << kGenerationBits | slot.generation;
}

void MemoryTable::unbind(Slot& window) noexcept {
  if (const std::uint32_t parent = (std::exchange(window.parent, 0) >> kGenerationBits) - 1; parent < slots_.size()) {
    --slots_[parent].windows;
  }
  window.is_valid = false;
}

void MemoryTable::remove_window(std::uint32_t key) {
  Slot* const window = window_of(key);
  if (window == nullptr) {
    refuse(fmt::format("the key {:#x} names no memory window", key));
  }
  unbind(*window);
  // Its program has chosen generations: the next ones may be those of keys that this place had before.
  window->generation = 0xff;
  free_place((key >> kGenerationBits) - 1);
}

bool MemoryTable::bind(const Binding& binding, Domain domain, std::uint32_t queue_pair) noexcept {
  constexpr std::uint32_t kPlace = ~((1U << kGenerationBits) - 1);
  Slot* const window = window_of(binding.window);
  if (window == nullptr || window->region.domain != domain || ((binding.window ^ binding.new_key) & kPlace) != 0) {
    return false;
  }
  if (*window->window == WindowType::two && (window->is_valid || binding.length == 0)) {
    return false;  // it must be invalidated first
  }
  std::byte* data = nullptr;
  bool (*region_is_there)(std::byte*, std::uint64_t, bool) = nullptr;
  if (binding.length != 0) {
    const Slot* const region = slot_of(binding.region);
    region_is_there = region == nullptr ? nullptr : region->region.is_there;
    data = region == nullptr || region->window
               ? nullptr
               : local(binding.region, domain, binding.address, binding.length,
                       writes(binding.rights) ? Rights::window_bind | Rights::local_write : Rights::window_bind);
    if (data == nullptr) {
      return false;
    }
  }
  unbind(*window);
  window->generation = static_cast<std::uint8_t>(binding.new_key);
  if (data != nullptr) {
    window->region = {.data = data,
                      .length = binding.length,
                      .address = binding.is_zero_based ? 0 : binding.address,
                      .domain = domain,
                      .rights = binding.rights,
                      .is_there = region_is_there};
    window->queue_pair = queue_pair;
    window->parent = binding.region;
    window->is_valid = true;
    ++slots_[(binding.region >> kGenerationBits) - 1].windows;
  }
  return true;
}

const Region* MemoryTable::find(std::uint32_t key) const noexcept {
  const Slot* const slot = slot_of(key);
  return slot == nullptr ? nullptr : &slot->region;
}

std::uint32_t MemoryTable::key_of(const std::byte* place) const noexcept {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Region& region = slots_[i].region;
    const auto offset = reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(region.data);
    if (slots_[i].is_used && !slots_[i].window && !region.is_null && offset < region.length) {
      return static_cast<std::uint32_t>(i + 1) << kGenerationBits | slots_[i].generation;
    }
  }
  return 0;
}

std::byte* MemoryTable::access(std::uint32_t key, Domain domain, std::uint64_t address, std::uint64_t length,
                               Rights needed, const std::uint32_t* queue_pair) const noexcept {
  const Slot* const slot = slot_of(key);
  if (slot == nullptr || !slot->is_valid || slot->region.domain != domain || !allows(slot->region.rights, needed)) {
    return nullptr;
  }
  if (slot->window &&
      (queue_pair == nullptr || (*slot->window == WindowType::two && slot->queue_pair != *queue_pair))) {
    return nullptr;
  }
  const Region& region = slot->region;
  if (region.is_null) {
    return queue_pair != nullptr ? nullptr : writes(needed) ? lost.data() : zeros.data();
  }
  const std::uint64_t offset = address - region.address;
  // An address below the region wraps to an offset that is too large.
  if (address < region.address || offset > region.length || length > region.length - offset) {
    return nullptr;
  }
  if (region.is_there != nullptr && length != 0 && !region.is_there(region.data + offset, length, writes(needed))) {
    return nullptr;
  }
  return region.data + offset;
}

}  // namespace sidelatch::softnic::nic

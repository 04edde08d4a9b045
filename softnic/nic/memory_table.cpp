#include "memory_table.h"

#include "nic_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace sidelatch::softnic::nic {

namespace {

constexpr std::uint32_t kGenerationBits = 8;

[[noreturn]] void refuse(const std::string& what) { throw NicError(NicError::Kind::invalid, what); }

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
                     fmt::format("protection domain {} still has memory regions: deregister them first", domain));
    }
  }
  domains_[domain - 1] = false;
}

void MemoryTable::check(const Region& region) const {
  if (!has_domain(region.domain)) {
    refuse(fmt::format("there is no protection domain {}", region.domain));
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

std::uint32_t MemoryTable::add(const Region& region) {
  check(region);
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
  Slot& slot = slots_[index];
  slot.region = region;
  slot.is_used = slot.is_valid = true;
  // Index 0 would make key 0, which programs take for no key.
  return (index + 1) << kGenerationBits | slot.generation;
}

void MemoryTable::change(std::uint32_t key, const Region& region) {
  if (slot_of(key) == nullptr) {
    refuse(fmt::format("there is no memory region of the key {:#x}", key));
  }
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
  if (slot_of(key) == nullptr) {
    refuse(fmt::format("the key {:#x} names no memory region", key));
  }
  const std::uint32_t index = (key >> kGenerationBits) - 1;
  slots_[index].is_used = slots_[index].is_valid = false;
  if (++slots_[index].generation == 0) {
    worn_.push_back(index);
  } else {
    free_.push_back(index);
  }
}

bool MemoryTable::invalidate(std::uint32_t key, Domain domain) noexcept {
  const Slot* const slot = slot_of(key);
  if (slot == nullptr || !slot->is_valid || slot->region.domain != domain) {
    return false;
  }
  slots_[(key >> kGenerationBits) - 1].is_valid = false;
  return true;
}

const Region* MemoryTable::find(std::uint32_t key) const noexcept {
  const Slot* const slot = slot_of(key);
  return slot == nullptr ? nullptr : &slot->region;
}

std::byte* MemoryTable::access(std::uint32_t key, Domain domain, std::uint64_t address, std::uint64_t length,
                               Rights needed) const noexcept {
  const Slot* const slot = slot_of(key);
  if (slot == nullptr || !slot->is_valid || slot->region.domain != domain || !allows(slot->region.rights, needed)) {
    return nullptr;
  }
  const Region& region = slot->region;
  const std::uint64_t offset = address - region.address;
  // An address below the region wraps to an offset that is too large.
  if (address < region.address || offset > region.length || length > region.length - offset) {
    return nullptr;
  }
  return region.data + offset;
}

}  // namespace sidelatch::softnic::nic

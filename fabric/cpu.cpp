#include <sidelatch/fabric/cpu.h>

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/node.h>

#include "common/full_fence.h"

#include <fmt/format.h>

#include <atomic>
#include <stdexcept>

namespace sidelatch::fabric {

namespace {

constexpr std::uint64_t kWord = 8;

// A NIC, or its thread, may change the word meanwhile.
std::atomic_ref<std::uint64_t> word_at(const LocalSpan& word) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word.data));
}

bool overlap(const LocalSpan& word, const std::byte* data, std::uint64_t length) {
  return word.data < data + length && data < word.data + kWord;
}

}  // namespace

void Cpu::check(const LocalSpan& word) const {
  if (word.length != kWord || reinterpret_cast<std::uintptr_t>(word.data) % kWord != 0) {
    throw std::invalid_argument(
        fmt::format("an access of the CPU of node {} to {} bytes at {}: it must be a word of 8 bytes, aligned to 8",
                    node_->name(), word.length, static_cast<const void*>(word.data)));
  }
  const Node::Registration* const region = node_->find(word.lkey);
  if (region == nullptr || region->data == nullptr || word.data < region->data ||
      word.data + kWord > region->data + region->length) {
    throw FabricError(Status::local_protection,
                      fmt::format("an access of the CPU to a word that is in no live region of node {}: name it by "
                                  "local() of a region of that node",
                                  node_->name()));
  }
}

// ---- DirectCpu.

bool DirectCpu::uses(LKey key) const noexcept {
  for (Waiter* one = waits_.empty() ? nullptr : &waits_.front(); one != nullptr; one = waits_.after(*one)) {
    if (static_cast<const Access*>(one)->word().lkey == key) {
      return true;
    }
  }
  return false;
}

bool DirectCpu::watches(const std::byte* data, std::uint64_t length) const noexcept {
  for (Waiter* one = waits_.empty() ? nullptr : &waits_.front(); one != nullptr; one = waits_.after(*one)) {
    if (overlap(static_cast<const Access*>(one)->word(), data, length)) {
      return true;
    }
  }
  return false;
}

bool DirectCpu::begin(Access& access) {
  switch (access.what()) {
    case What::load:
      about_to_touch(access.word(), false);
      access.give(word_at(access.word()).load(std::memory_order_acquire));
      return false;
    case What::store:
      about_to_touch(access.word(), true);
      word_at(access.word()).store(access.value(), std::memory_order_release);
      look(access.word().data, kWord);
      return false;
    case What::fence:
      full_fence();
      return false;
    case What::wait:
      break;
  }
  about_to_touch(access.word(), false);
  access.give(word_at(access.word()).load(std::memory_order_acquire));
  if (access.until().holds(access.value()) || (access.limit() && *access.limit() <= Duration::zero())) {
    return false;
  }
  wait_begins(access.word());
  if (access.limit()) {
    access.timer = reactor_->start_timer(*access.limit(), access);
  }
  waits_.push_back(access);
  return true;
}

void DirectCpu::look_at(Access& access) {
  access.give(word_at(access.word()).load(std::memory_order_acquire));
  if (access.until().holds(access.value())) {
    stop_timer(access);
    reactor_->ready(access);
  }
}

void DirectCpu::look() {
  for (Waiter* one = waits_.empty() ? nullptr : &waits_.front(); one != nullptr;) {
    Waiter* const next = waits_.after(*one);
    look_at(static_cast<Access&>(*one));
    one = next;
  }
}

void DirectCpu::look(const std::byte* data, std::uint64_t length) {
  for (Waiter* one = waits_.empty() ? nullptr : &waits_.front(); one != nullptr;) {
    Waiter* const next = waits_.after(*one);
    auto& access = static_cast<Access&>(*one);
    if (overlap(access.word(), data, length)) {
      look_at(access);
    }
    one = next;
  }
}

void DirectCpu::stop_timer(Access& access) noexcept {
  if (access.timer != 0) {
    reactor_->cancel_timer(access.timer);
    access.timer = 0;
  }
}

// The condition holds, or the time is over and the word is looked at for the last time: it may have changed since.
void DirectCpu::end(Access& access) {
  const bool timed_out = !access.until().holds(access.value());
  stop_timer(access);
  wait_ends();
  if (timed_out) {
    about_to_touch(access.word(), false);
    access.give(word_at(access.word()).load(std::memory_order_acquire));
  }
}

void DirectCpu::cancel(Access& access) noexcept {
  stop_timer(access);
  access.unlink();
  wait_ends();
}

}  // namespace sidelatch::fabric

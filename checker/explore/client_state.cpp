#include "client_state.h"

#include "word_hash.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>

namespace sidelatch::explore {

std::uintptr_t lowest_of_this_stack() noexcept {
  thread_local const std::uintptr_t kLowest = [] {
    pthread_attr_t attributes;
    void* lowest = nullptr;
    std::size_t bytes = 0;
    if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
      if (::pthread_attr_getstack(&attributes, &lowest, &bytes) != 0) {
        lowest = nullptr;
      }
      ::pthread_attr_destroy(&attributes);
    }
    return reinterpret_cast<std::uintptr_t>(lowest);
  }();
  return kLowest;
}

void ClientState::leave_out_stack(const void* top) noexcept {
  stack_low_ = lowest_of_this_stack();
  stack_high_ = stack_low_ == 0 ? 0 : reinterpret_cast<std::uintptr_t>(top);
}

void ClientState::clear() noexcept {
  pieces_.clear();
  bytes_.clear();
  numbers_.clear();
}

void ClientState::leave_out(std::span<const std::byte> tally) noexcept {
  const Piece& piece = pieces_.back();
  const std::byte* const begin = std::max(tally.data(), piece.at);
  const std::byte* const end = std::min(tally.data() + tally.size(), piece.at + piece.length);
  if (begin < end) {
    std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(piece.begin + static_cast<std::size_t>(begin - piece.at)),
                end - begin, std::byte{0});
  }
}

std::uint64_t ClientState::hash() const noexcept {
  std::uint64_t hash = numbers_.size();
  for (const std::uint64_t number : numbers_) {
    hash = mixed(hash, number);
  }
  return mixed(hash, bytes_);
}

std::string ClientState::difference(const ClientState& other) const {
  if (pieces_ != other.pieces_) {
    return fmt::format("it has {} blocks of memory at other places", pieces_.size());
  }
  std::string text;
  for (const bool registered : {false, true}) {
    std::size_t differing = 0;
    const Piece* first = nullptr;
    std::size_t where = 0;
    for (const Piece& piece : pieces_) {
      for (std::size_t i = 0; piece.is_registered == registered && i < piece.length; ++i) {
        if (bytes_[piece.begin + i] != other.bytes_[piece.begin + i]) {
          ++differing;
          if (first == nullptr) {
            first = &piece;
            where = i;
          }
        }
      }
    }
    if (differing != 0) {
      text += fmt::format("{}{} byte{} of its {}, the first at {} of {}", text.empty() ? "" : ", and ", differing,
                          differing == 1 ? "" : "s", registered ? "registered memory" : "frames and heap", where,
                          first->length);
    }
  }
  return !text.empty() ? text : "its clock, its queue pairs or its tag";
}

}  // namespace sidelatch::explore

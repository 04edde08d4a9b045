#include "frame_ring.h"

#include "roce/wire/wire.h"

#include <fmt/format.h>

namespace sidelatch::roce {

std::uint64_t RingMemory::behind(std::uint64_t position, std::uint32_t word) const {
  if (word == kGoesOnAtTheBeginning && offset_of(position) != 0) {
    return position + bytes_to_end(position);
  }
  const std::size_t bytes = record_bytes(word);
  if (word > kMostFrameBytes || bytes > bytes_to_end(position)) {
    throw WireError(
        fmt::format("a ring of frames in shared memory is damaged (length {:#x} at offset {:#x}): end all processes of "
                    "this wire and start them again",
                    word, offset_of(position)));
  }
  return position + bytes;
}

std::uint64_t RingMemory::end_of_records(std::uint64_t position) const {
  const std::uint64_t begun = position;
  while (const std::uint32_t word = word_at(position).load(std::memory_order_acquire)) {
    position = behind(position, word);
    if (position - begun > 2 * capacity()) {
      throw WireError(
          "a ring of frames in shared memory is damaged (it has no end): end all processes of this wire and start them "
          "again");
    }
  }
  return position;
}

RingWriter::RingWriter(RingControl& control, std::span<std::byte> data)
    : RingMemory(control, data),
      position_(end_of_records(control.released.load(std::memory_order_acquire))),
      released_(control.released.load(std::memory_order_acquire)) {}

// Whether there is room for `bytes` from the position on, and for the word after them, which is also written.
bool RingWriter::has_room(std::size_t bytes) noexcept {
  const std::uint64_t end = position_ + bytes + kAlignment;
  if (end - released_ <= capacity()) {
    return true;
  }
  // Acquire: the reader has finished reading the bytes that we are about to overwrite.
  released_ = control().released.load(std::memory_order_acquire);
  return end - released_ <= capacity();
}

std::span<std::byte> RingWriter::reserve(std::size_t bytes) noexcept {
  const std::size_t record = record_bytes(bytes);
  const std::size_t to_end = bytes_to_end(position_);
  wraps_ = record > to_end;
  if (!has_room(wraps_ ? to_end + record : record)) {
    return {};
  }
  return frame_at(wraps_ ? position_ + to_end : position_, bytes);
}

// The ring is whole for the next writer after each store: the word that ends the records is 0 before an earlier word
// says that there is more.
void RingWriter::commit(std::size_t bytes) noexcept {
  if (bytes == 0) {
    return;
  }
  if (wraps_) {
    const std::uint64_t beginning = position_ + bytes_to_end(position_);
    word_at(beginning).store(0, std::memory_order_relaxed);
    word_at(position_).store(kGoesOnAtTheBeginning, std::memory_order_release);
    position_ = beginning;
    wraps_ = false;
  }
  const std::uint64_t next = position_ + record_bytes(bytes);
  word_at(next).store(0, std::memory_order_relaxed);
  word_at(position_).store(static_cast<std::uint32_t>(bytes), std::memory_order_release);
  position_ = next;
}

RingReader::RingReader(RingControl& control, std::span<std::byte> data)
    : RingMemory(control, data), position_(control.released.load(std::memory_order_acquire)), released_(position_) {}

std::span<const std::byte> RingReader::next() {
  std::uint32_t word = word_at(position_).load(std::memory_order_acquire);
  if (word == kGoesOnAtTheBeginning) {
    position_ = behind(position_, word);
    word = word_at(position_).load(std::memory_order_acquire);
  }
  if (word == 0) {
    return {};
  }
  const std::uint64_t next = behind(position_, word);
  const std::span<const std::byte> frame = frame_at(position_, word);
  position_ = next;
  return frame;
}

void RingReader::release() noexcept {
  if (released_ != position_) {
    released_ = position_;
    control().released.store(released_, std::memory_order_release);
  }
}

void RingReader::discard_all() {
  while (!next().empty()) {
    release();
  }
  release();
}

}  // namespace sidelatch::roce

// A ring of frames in shared memory, for one writer and one reader, of which either may be killed at any instruction
// and followed by another.
//
//   RingWriter writer(control, bytes);                RingReader reader(control, bytes);
//   if (auto room = writer.reserve(n); !room.empty()) while (auto frame = reader.next(); !frame.empty()) use(frame);
//     writer.commit(n);                               reader.release();
//
// A record is a word with the length, and the frame. The word of the next record is 0 until that is whole; then its
// length is stored, with release. So a reader looks at one cache line for a short frame, and there is no index of the
// writer that could be wrong: whoever follows a killed writer walks from what the reader has released to the word that
// is 0. (Words instead of a shared index: J. Giacomoni et al., "FastForward for efficient pipeline parallelism",
// PPoPP 2008.) The reader publishes what it has released seldom, and the writer looks at that only when it seems full.
//
// Zeroed memory is an empty ring. Positions count bytes from the beginning of time; at the end of the memory a record
// that does not fit leaves a mark, and begins at offset 0.
//
// Thread-safety: one thread writes, one reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::roce {

struct RingControl {
  /// Position up to which the reader needs nothing any more. Written by the reader.
  alignas(64) std::atomic<std::uint64_t> released{0};
  /// Not 0: the writer found no room, and wants to be woken when there is some. Written by both.
  alignas(64) std::atomic<std::uint32_t> writer_waits{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// What both ends know: where the records are.
class RingMemory {
 public:
  /// `data` is aligned to 64 bytes, and its length is a power of two.
  RingMemory(RingControl& control, std::span<std::byte> data) noexcept : control_(&control), data_(data) {}

  [[nodiscard]] RingControl& control() const noexcept { return *control_; }
  /// The longest frame that surely fits in an empty ring, wherever its end is.
  [[nodiscard]] std::size_t most_frame_bytes() const noexcept { return data_.size() / 2 - 2 * kAlignment; }

 protected:
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kWordBytes = sizeof(std::uint32_t);
  static constexpr std::uint32_t kGoesOnAtTheBeginning = 0xffffffff;

  [[nodiscard]] static constexpr std::size_t record_bytes(std::size_t frame_bytes) noexcept {
    return (kWordBytes + frame_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  [[nodiscard]] std::size_t offset_of(std::uint64_t position) const noexcept {
    return static_cast<std::size_t>(position) & (data_.size() - 1);
  }
  [[nodiscard]] std::size_t bytes_to_end(std::uint64_t position) const noexcept {
    return data_.size() - offset_of(position);
  }
  [[nodiscard]] std::atomic_ref<std::uint32_t> word_at(std::uint64_t position) const noexcept {
    return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(data_.data() + offset_of(position)));
  }
  [[nodiscard]] std::span<std::byte> frame_at(std::uint64_t position, std::size_t bytes) const noexcept {
    return data_.subspan(offset_of(position) + kWordBytes, bytes);
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return data_.size(); }
  /// The position behind the record whose word is this. Throws WireError if no writer of ours can have written it.
  [[nodiscard]] std::uint64_t behind(std::uint64_t position, std::uint32_t word) const;
  /// The first word that is 0, at `position` or behind it.
  [[nodiscard]] std::uint64_t end_of_records(std::uint64_t position) const;

 private:
  RingControl* control_;
  std::span<std::byte> data_;
};

class RingWriter : public RingMemory {
 public:
  /// Goes on where the last writer ended. Throws WireError if the ring is damaged.
  RingWriter(RingControl& control, std::span<std::byte> data);

  /// Room for a frame of this many bytes, at most most_frame_bytes(). Empty: the ring is full.
  [[nodiscard]] std::span<std::byte> reserve(std::size_t bytes) noexcept;
  /// The first `bytes` of the room are a frame; the reader sees it. 0: there is no frame.
  void commit(std::size_t bytes) noexcept;
  /// Whether the reader has released something since reserve() looked last.
  [[nodiscard]] bool has_room_again() const noexcept {
    return control().released.load(std::memory_order_acquire) != released_;
  }

 private:
  [[nodiscard]] bool has_room(std::size_t bytes) noexcept;

  std::uint64_t position_;  // where the word is 0
  std::uint64_t released_;  // as seen last
  bool wraps_ = false;      // what was reserved last stands at offset 0
};

class RingReader : public RingMemory {
 public:
  /// Goes on where the last reader had released everything. Throws WireError if the ring is damaged.
  RingReader(RingControl& control, std::span<std::byte> data);

  /// The next frame; valid until it or what follows it is released. Empty: there is none. Throws WireError if the ring
  /// is damaged.
  [[nodiscard]] std::span<const std::byte> next();
  /// Whether next() would find one.
  [[nodiscard]] bool has_next() const noexcept { return word_at(position_).load(std::memory_order_acquire) != 0; }
  /// Bytes that next() has passed and release() has not given back.
  [[nodiscard]] std::size_t unreleased() const noexcept { return static_cast<std::size_t>(position_ - released_); }
  /// The writer may use again what next() has passed.
  void release() noexcept;
  /// Passes all frames that are there, and releases them.
  void discard_all();

 private:
  std::uint64_t position_;
  std::uint64_t released_;
};

}  // namespace sidelatch::roce

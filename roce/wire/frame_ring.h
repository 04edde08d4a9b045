// A ring of frames in shared memory, for one writer and one reader. Either may be killed at any instruction and
// replaced by another.
//
//   RingWriter writer(control, bytes);                RingReader reader(control, bytes);
//   if (auto room = writer.reserve(n); !room.empty()) while (auto frame = reader.next(); !frame.empty()) use(frame);
//     writer.commit(n);                               reader.release();
//
// A record is a word with the length, followed by the frame. The word of the next record is 0 until the record is
// whole; then its length is stored with release. A reader therefore looks at one cache line for a short frame. There is
// no writer's index that could be wrong: the successor of a killed writer walks from the released position to the word
// that is 0. (Words instead of a shared index: J. Giacomoni et al., "FastForward for efficient pipeline parallelism",
// PPoPP 2008.) The reader seldom publishes its released position, and the writer reads that only when the ring seems
// full.
//
// Zeroed memory is an empty ring. Positions count bytes since the ring was made. A record that does not fit at the end
// of the memory leaves a mark there and begins at offset 0.
//
// Thread-safety: one thread writes, one reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sidelatch::roce {

struct RingControl {
  /// The position up to which the reader no longer needs bytes. Written by the reader.
  alignas(64) std::atomic<std::uint64_t> released{0};
  /// Not 0: the writer found no room, and wants to be woken when there is room. Written by both.
  alignas(64) std::atomic<std::uint32_t> writer_waits{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// The part common to both ends: the positions of records.
class RingMemory {
 public:
  /// `data` is aligned to 64 bytes, and its length is a power of two.
  RingMemory(RingControl& control, std::span<std::byte> data) noexcept : control_(&control), data_(data) {}

  [[nodiscard]] RingControl& control() const noexcept { return *control_; }
  /// The longest frame that always fits in an empty ring, at any position.
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
  /// The position after the record with this word. Throws WireError if none of our writers can have written the word.
  [[nodiscard]] std::uint64_t behind(std::uint64_t position, std::uint32_t word) const;
  /// The position of the first word that is 0, at `position` or after it.
  [[nodiscard]] std::uint64_t end_of_records(std::uint64_t position) const;

 private:
  RingControl* control_;
  std::span<std::byte> data_;
};

class RingWriter : public RingMemory {
 public:
  /// Continues where the last writer ended. Throws WireError if the ring is damaged.
  RingWriter(RingControl& control, std::span<std::byte> data);

  /// Room for a frame of this many bytes, at most most_frame_bytes(). Empty: the ring is full.
  [[nodiscard]] std::span<std::byte> reserve(std::size_t bytes) noexcept;
  /// Publishes the first `bytes` of the room as a frame. 0: there is no frame.
  void commit(std::size_t bytes) noexcept;
  /// Whether the reader has released something since reserve() last looked.
  [[nodiscard]] bool has_room_again() const noexcept {
    return control().released.load(std::memory_order_acquire) != released_;
  }

 private:
  [[nodiscard]] bool has_room(std::size_t bytes) noexcept;

  std::uint64_t position_;  // of the word that is 0
  std::uint64_t released_;  // as last seen
  bool wraps_ = false;      // the last reservation is at offset 0
};

class RingReader : public RingMemory {
 public:
  /// Continues at the last reader's released position. Throws WireError if the ring is damaged.
  RingReader(RingControl& control, std::span<std::byte> data);

  /// The next frame; valid until it or a later frame is released. Empty: there is none. Throws WireError if the ring is
  /// damaged.
  [[nodiscard]] std::span<const std::byte> next();
  /// Whether next() would find a frame.
  [[nodiscard]] bool has_next() const noexcept { return word_at(position_).load(std::memory_order_acquire) != 0; }
  /// Bytes that next() has passed but release() has not given back.
  [[nodiscard]] std::size_t unreleased() const noexcept { return static_cast<std::size_t>(position_ - released_); }
  /// Lets the writer reuse the bytes that next() has passed.
  void release() noexcept;
  /// Passes and releases all present frames.
  void discard_all();

 private:
  std::uint64_t position_;
  std::uint64_t released_;
};

}  // namespace sidelatch::roce

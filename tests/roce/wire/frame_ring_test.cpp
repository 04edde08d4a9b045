// The ring of frames: frames come out unchanged, and either end may be killed between any two stores.
#include "roce/wire/frame_ring.h"

#include "roce/wire/wire.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace sidelatch::roce {
namespace {

constexpr std::size_t kBytes = 4096;

struct Memory {
  RingControl control;
  alignas(64) std::array<std::byte, kBytes> data{};
};

std::vector<std::byte> frame_of(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> frame(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    frame[i] = static_cast<std::byte>(i * 7 + seed);
  }
  return frame;
}

bool put(RingWriter& writer, const std::vector<std::byte>& frame) {
  const auto room = writer.reserve(frame.size());
  if (room.empty()) {
    return false;
  }
  std::memcpy(room.data(), frame.data(), frame.size());
  writer.commit(frame.size());
  return true;
}

std::vector<std::byte> take(RingReader& reader) {
  const auto frame = reader.next();
  return {frame.begin(), frame.end()};
}

TEST(FrameRing, ZeroedMemoryIsEmpty) {
  Memory memory;
  RingReader reader(memory.control, memory.data);
  EXPECT_FALSE(reader.has_next());
  EXPECT_TRUE(reader.next().empty());
}

TEST(FrameRing, GivesFramesOfAllLengthsInOrderAroundItsEnd) {
  Memory memory;
  RingWriter writer(memory.control, memory.data);
  RingReader reader(memory.control, memory.data);
  std::mt19937 random(1);
  std::deque<std::vector<std::byte>> expected;
  for (unsigned i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1 + random() % writer.most_frame_bytes();
    if (random() % 2 == 0) {
      auto frame = frame_of(bytes, i);
      if (put(writer, frame)) {
        expected.push_back(std::move(frame));
      }
    } else {
      EXPECT_EQ(reader.has_next(), !expected.empty());
      const auto frame = take(reader);
      if (expected.empty()) {
        EXPECT_TRUE(frame.empty());
      } else {
        ASSERT_EQ(frame, expected.front());
        expected.pop_front();
      }
      if (random() % 4 == 0) {
        reader.release();
      }
    }
  }
}

TEST(FrameRing, TakesTheLongestFrameWhereverItsEndIs) {
  for (std::size_t first = 1; first < kBytes / 2; first += 13) {
    Memory memory;
    RingWriter writer(memory.control, memory.data);
    RingReader reader(memory.control, memory.data);
    ASSERT_TRUE(put(writer, frame_of(first, 0)));
    ASSERT_EQ(take(reader).size(), first);
    reader.release();
    const auto longest = frame_of(writer.most_frame_bytes(), 1);
    ASSERT_TRUE(put(writer, longest)) << first;
    ASSERT_EQ(take(reader), longest) << first;
  }
}

TEST(FrameRing, MayCommitLessThanWasReserved) {
  Memory memory;
  RingWriter writer(memory.control, memory.data);
  RingReader reader(memory.control, memory.data);
  ASSERT_FALSE(writer.reserve(1000).empty());
  writer.commit(20);
  ASSERT_FALSE(writer.reserve(1000).empty());
  writer.commit(0);
  EXPECT_EQ(reader.next().size(), 20U);
  EXPECT_FALSE(reader.has_next());
}

TEST(FrameRing, IsFullUntilTheReaderReleases) {
  Memory memory;
  RingWriter writer(memory.control, memory.data);
  RingReader reader(memory.control, memory.data);
  while (put(writer, frame_of(100, 0))) {
  }
  EXPECT_FALSE(writer.has_room_again());
  while (!reader.next().empty()) {
  }
  EXPECT_FALSE(put(writer, frame_of(100, 0)));
  EXPECT_GT(reader.unreleased(), kBytes / 2);
  reader.release();
  EXPECT_TRUE(writer.has_room_again());
  EXPECT_TRUE(put(writer, frame_of(100, 0)));
}

// A killed process leaves only the memory to the next one.
TEST(FrameRing, EitherEndMayBeFollowedByAnotherAnywhere) {
  Memory memory;
  std::mt19937 random(2);
  std::deque<std::vector<std::byte>> expected;
  auto writer = std::make_unique<RingWriter>(memory.control, memory.data);
  auto reader = std::make_unique<RingReader>(memory.control, memory.data);
  for (unsigned i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1 + random() % 600;
    switch (random() % 5) {
      case 0:
      case 1:
        if (auto frame = frame_of(bytes, i); put(*writer, frame)) {
          expected.push_back(std::move(frame));
        }
        break;
      case 2:
        // Killed inside a frame: half of it is written, and no one sees it.
        if (const auto room = writer->reserve(bytes); !room.empty()) {
          std::memset(room.data(), 0xee, room.size() / 2);
        }
        writer = std::make_unique<RingWriter>(memory.control, memory.data);
        break;
      case 3:
        if (const auto frame = take(*reader); !frame.empty()) {
          ASSERT_FALSE(expected.empty());
          ASSERT_EQ(frame, expected.front());
          expected.pop_front();
        }
        reader->release();
        break;
      default:
        reader = std::make_unique<RingReader>(memory.control, memory.data);
        break;
    }
  }
  reader->discard_all();
  EXPECT_FALSE(reader->has_next());
  EXPECT_TRUE(put(*writer, frame_of(600, 0)));
}

// Only between these two stores of commit() can a reader see something: the mark at the end, and the frame's word.
TEST(FrameRing, IsWholeWhenTheWriterIsKilledBehindTheMark) {
  Memory memory;
  RingWriter writer(memory.control, memory.data);
  RingReader reader(memory.control, memory.data);
  // Up to 64 bytes before the end.
  while (reinterpret_cast<std::uintptr_t>(writer.reserve(1).data()) <
         reinterpret_cast<std::uintptr_t>(memory.data.data()) + kBytes - 64) {
    ASSERT_TRUE(put(writer, frame_of(10, 0)));
    ASSERT_EQ(take(reader).size(), 10U);
    reader.release();
  }
  const std::size_t offset = static_cast<std::size_t>(memory.control.released.load()) & (kBytes - 1);
  const std::uint32_t mark = 0xffffffff;
  std::memset(memory.data.data(), 0, 4);
  std::memcpy(memory.data.data() + offset, &mark, sizeof mark);
  RingReader next_reader(memory.control, memory.data);
  EXPECT_TRUE(next_reader.next().empty());
  EXPECT_FALSE(next_reader.has_next());
  RingWriter next_writer(memory.control, memory.data);
  ASSERT_TRUE(put(next_writer, frame_of(200, 9)));
  EXPECT_EQ(take(next_reader), frame_of(200, 9));
}

TEST(FrameRing, SaysThatItIsDamaged) {
  Memory memory;
  const std::uint32_t nonsense = 70'000;
  std::memcpy(memory.data.data(), &nonsense, sizeof nonsense);
  RingReader reader(memory.control, memory.data);
  EXPECT_THROW(static_cast<void>(reader.next()), WireError);
  EXPECT_THROW(RingWriter(memory.control, memory.data), WireError);
  // Frames without an end.
  for (std::size_t i = 0; i < kBytes; i += 16) {
    const std::uint32_t short_frame = 12;
    std::memcpy(memory.data.data() + i, &short_frame, sizeof short_frame);
  }
  EXPECT_THROW(RingWriter(memory.control, memory.data), WireError);
}

}  // namespace
}  // namespace sidelatch::roce

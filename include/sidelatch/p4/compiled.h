// What the C++ that emit_cpp() writes is built on. Programs include the emitted header, not this one.
#pragma once

#include <sidelatch/p4/bits.h>
#include <sidelatch/p4/hashing.h>
#include <sidelatch/p4/packet_bits.h>
#include <sidelatch/p4/program.h>
#include <sidelatch/p4/state.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace sidelatch::p4::compiled {

/// The numbers of core.p4's errors, which come first.
enum CoreError : std::uint8_t { no_error, too_short, no_match, out_of_bounds, header_too_short, timeout, bad_argument };
inline constexpr std::array<std::string_view, 7> kCoreErrors{
    "NoError",       "PacketTooShort",       "NoMatch", "StackOutOfBounds", "HeaderTooShort",
    "ParserTimeout", "ParserInvalidArgument"};

/// What a routine says to its caller: go on, the control has executed exit, the parser has rejected the packet.
enum Flow : int { on = 0, leave = 1, reject = 2 };

/// A parser that goes round without reading anything ends after as many transitions.
inline constexpr unsigned kMostTransitions = 65'536;

/// A packet whose loops go round, and whose functions and controls are called, more often in one stage is dropped.
inline constexpr unsigned kMostIterations = 1'000'000;

struct Env {
  State& state;
  PacketContext& packet;
  std::size_t cursor = 0;  ///< bytes
  unsigned transitions = 0;
  unsigned iterations = 0;
  std::uint64_t error = 0;
  bool checksum_error = false;
  std::span<std::byte> out{};
  std::size_t written = 0;
  std::array<std::byte, 4096> hashed;

  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the buffer is written before it is read
  Env(State& its_state, PacketContext& its_packet) : state(its_state), packet(its_packet) {}
};

[[nodiscard]] constexpr U128 wide(std::uint64_t high, std::uint64_t low) noexcept { return U128{high} << 64 | low; }

/// A field of `Width` bits, `Offset` bits from `from` on.
template <unsigned Offset, unsigned Width>
[[nodiscard]] inline auto read_field(const std::byte* from) noexcept {
  if constexpr (Offset % 8 + Width <= 64) {
    constexpr unsigned kBytes = (Offset % 8 + Width + 7) / 8;
    const std::byte* begin = from + Offset / 8;
    std::uint64_t value = 0;
    if constexpr (kBytes == 8) {
      std::memcpy(&value, begin, 8);
      value = __builtin_bswap64(value);
    } else if constexpr (kBytes == 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, begin, 4);
      value = __builtin_bswap32(word);
    } else {
      for (unsigned i = 0; i < kBytes; ++i) {
        value = value << 8 | std::to_integer<std::uint64_t>(begin[i]);
      }
    }
    return (value >> (8 * kBytes - Offset % 8 - Width)) & static_cast<std::uint64_t>(ones(Width));
  } else if constexpr (Width <= 64) {
    return static_cast<std::uint64_t>(read_bits({from, (Offset + Width + 7) / 8}, Offset, Width));
  } else {
    return read_bits({from, (Offset + Width + 7) / 8}, Offset, Width);
  }
}

template <unsigned Offset, unsigned Width, class T>
inline void write_field(std::byte* to, T value) noexcept {
  if constexpr (Offset % 8 == 0 && Width == 64) {
    const std::uint64_t word = __builtin_bswap64(static_cast<std::uint64_t>(value));
    std::memcpy(to + Offset / 8, &word, 8);
  } else if constexpr (Offset % 8 == 0 && Width == 32) {
    const std::uint32_t word = __builtin_bswap32(static_cast<std::uint32_t>(value));
    std::memcpy(to + Offset / 8, &word, 4);
  } else if constexpr (Offset % 8 == 0 && Width % 8 == 0) {
    for (unsigned i = 0; i < Width / 8; ++i) {
      to[Offset / 8 + i] = static_cast<std::byte>(value >> (Width - 8 - 8 * i));
    }
  } else {
    write_bits({to, (Offset + Width + 7) / 8}, Offset, Width, value);
  }
}

/// By 0 it is 0: P4 leaves it open.
template <class T>
[[nodiscard]] constexpr T divided(T a, T b) noexcept {
  return b == 0 ? 0 : a / b;
}
template <class T>
[[nodiscard]] constexpr T modulo(T a, T b) noexcept {
  return b == 0 ? 0 : a % b;
}

[[nodiscard]] inline std::uint64_t index_of(U128 value) noexcept {
  return value > ~std::uint64_t{0} ? ~std::uint64_t{0} : static_cast<std::uint64_t>(value);
}

/// A number from low to high; low if there is none.
[[nodiscard]] std::uint64_t draw(PacketContext& packet, std::uint64_t low, std::uint64_t high) noexcept;

inline void count(std::vector<Count>& counter, std::uint64_t index, const PacketContext& packet) noexcept {
  if (index < counter.size()) {
    ++counter[index].packets;
    counter[index].bytes += packet.packet.size();
  }
}

/// Appends a value to what is to be hashed.
inline void append(Env& env, std::size_t& bits, unsigned width, U128 value) noexcept {
  write_bits(env.hashed, bits, width, value);
  bits += width;
}

/// Fills the last byte with zero bits; returns the bytes.
[[nodiscard]] inline std::size_t fill_byte(Env& env, std::size_t bits) noexcept {
  if (bits % 8 != 0) {
    write_bits(env.hashed, bits, static_cast<unsigned>(8 - bits % 8), 0);
  }
  return (bits + 7) / 8;
}

[[nodiscard]] inline U128 checksum(Env& env, HashAlgorithm algorithm, std::size_t bytes, bool payload) noexcept {
  return hash(algorithm, std::span(env.hashed).first(bytes),
              payload ? env.packet.packet.subspan(env.packet.parsed_bytes) : std::span<const std::byte>{});
}

/// Where a slot that the switch or a field list names is in a frame.
struct SlotPlace {
  std::size_t offset = 0;  ///< bytes
  bool wide = false;
  unsigned width = 0;
};

struct FieldListSlot {
  SlotPlace place;
  std::vector<unsigned> lists;
};

/// What an emitted program says about its frame.
struct Layout {
  std::size_t frame_bytes = 0;
  std::size_t kept_bytes = 0;
  std::vector<std::pair<std::size_t, std::size_t>> headers;  ///< ranges of bytes: offset, size
  std::vector<std::pair<std::size_t, std::size_t>> metadata;
  std::array<SlotPlace, kMetadataFields> fields;
  std::vector<FieldListSlot> lists;
};

/// The part of a compiled program that is the same for all.
class CompiledProgram : public Program {
 public:
  CompiledProgram(ProgramInfo info, Layout layout) : info_(std::move(info)), layout_(std::move(layout)) {}
  [[nodiscard]] const ProgramInfo& info() const override { return info_; }
  [[nodiscard]] std::size_t frame_bytes() const override { return layout_.frame_bytes; }
  [[nodiscard]] std::size_t kept_bytes() const override { return layout_.kept_bytes; }
  void clear(std::byte* frame) const override { std::memset(frame, 0, layout_.kept_bytes); }
  void clear_headers(std::byte* frame) const override;
  [[nodiscard]] std::uint64_t get(const std::byte* frame, MetadataField field) const override;
  void set(std::byte* frame, MetadataField field, std::uint64_t value) const override;
  void keep_metadata(std::byte* frame, const std::byte* from, int list) const override;

 private:
  ProgramInfo info_;
  Layout layout_;
};

}  // namespace sidelatch::p4::compiled

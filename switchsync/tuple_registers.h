// The registers of the programs that keep the versions of tuples: p4/switch_optimistic.p4, p4/switch_cached.p4, and
// p4/switch_tuples.p4, whose elements are pairs of 32 bits. What the bits mean is in the programs' heads.
#pragma once

#include <sidelatch/p4/state.h>

#include <cstddef>
#include <cstdint>

namespace sidelatch::switchsync {

inline constexpr std::uint32_t kMustWrite = 0x8000'0000;  // of a holder
inline constexpr std::uint32_t kHolder = 0xffff;

class TupleRegisters {
 public:
  /// Throws p4::ControlError if the state is that of another program.
  explicit TupleRegisters(p4::State& state);

  /// Versions have 32 bits, and the upper half of a version is in the table of regions.
  [[nodiscard]] bool has_short_versions() const { return latches_ != nullptr; }
  [[nodiscard]] std::size_t connections() const { return has_short_versions() ? ends_->size() : psns_->size(); }
  [[nodiscard]] std::size_t tuples() const { return has_short_versions() ? latches_->size() : versions_->size(); }

  /// The lower half if it has_short_versions().
  [[nodiscard]] std::uint64_t version(std::uint32_t number) const;
  [[nodiscard]] std::uint32_t holder(std::uint32_t number) const;
  void write_version(std::uint32_t number, std::uint64_t version);
  void write_holder(std::uint32_t number, std::uint32_t holder);

  /// A connection whose client begins with this PSN.
  void begin(std::uint32_t connection, std::uint32_t psn);
  /// A WRITE of this tuple, whose latch the connection holds, was passed on, and was not acknowledged yet.
  [[nodiscard]] bool is_writing(std::uint32_t connection, std::uint32_t number) const;
  /// Of switch_cached.p4: the WRITE that is_writing() is one to memory that is no tuple: its acknowledgement passes,
  /// and unlatches nothing.
  void take_for_other_write(std::uint32_t connection);
  /// Of the latest READ or WRITE.
  [[nodiscard]] std::uint32_t wanted(std::uint32_t connection) const;
  void write_wanted(std::uint32_t connection, std::uint32_t number);

 private:
  p4::RegisterState* psns_ = nullptr;
  p4::RegisterState* answered_ = nullptr;
  p4::RegisterState* versions_ = nullptr;
  p4::RegisterState* holders_ = nullptr;
  // Of pairs.
  p4::RegisterState* ends_ = nullptr;
  p4::RegisterState* latches_ = nullptr;
  p4::RegisterState* kept_ = nullptr;
  // Of both.
  p4::RegisterState* wanted_;
  p4::RegisterState* seen_;
};

}  // namespace sidelatch::switchsync

// Runs the IR of a program as it is.
#pragma once

#include "p4/ir.h"

#include <sidelatch/p4/program.h>

#include <cstddef>
#include <span>

namespace sidelatch::p4 {

/// A frame is an array of U128, one for each slot.
class Interpreter : public Program {
 public:
  explicit Interpreter(ir::Program program);

  [[nodiscard]] const ProgramInfo& info() const override { return program_.info; }
  [[nodiscard]] std::size_t frame_bytes() const override { return program_.slot_widths.size() * sizeof(U128); }
  [[nodiscard]] std::size_t kept_bytes() const override {
    return static_cast<std::size_t>(program_.persistent_slots) * sizeof(U128);
  }
  void clear(std::byte* frame) const override;
  void clear_headers(std::byte* frame) const override;
  [[nodiscard]] std::uint64_t get(const std::byte* frame, MetadataField field) const override;
  void set(std::byte* frame, MetadataField field, std::uint64_t value) const override;
  void keep_metadata(std::byte* frame, const std::byte* from, int list) const override;
  void parse(State& state, std::byte* frame, PacketContext& packet) const override;
  void ingress(State& state, std::byte* frame, PacketContext& packet) const override;
  void egress(State& state, std::byte* frame, PacketContext& packet) const override;
  std::size_t deparse(State& state, std::byte* frame, PacketContext& packet, std::span<std::byte> out) const override;

  [[nodiscard]] const ir::Program& ir() const { return program_; }

 private:
  ir::Program program_;
};

}  // namespace sidelatch::p4

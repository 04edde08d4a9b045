// A program whose frames are not clean: what is behind kept_bytes() is what packets before have left there. It must not
// matter.
#pragma once

#include <sidelatch/p4/program.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace sidelatch::p4 {

class StainedProgram : public Program {
 public:
  explicit StainedProgram(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  [[nodiscard]] const ProgramInfo& info() const override { return program_->info(); }
  [[nodiscard]] std::size_t frame_bytes() const override { return program_->frame_bytes(); }
  [[nodiscard]] std::size_t kept_bytes() const override { return program_->kept_bytes(); }
  void clear(std::byte* frame) const override { program_->clear(frame); }
  void clear_headers(std::byte* frame) const override { program_->clear_headers(frame); }
  [[nodiscard]] std::uint64_t get(const std::byte* frame, MetadataField field) const override {
    return program_->get(frame, field);
  }
  void set(std::byte* frame, MetadataField field, std::uint64_t value) const override {
    program_->set(frame, field, value);
  }
  void keep_metadata(std::byte* frame, const std::byte* from, int list) const override {
    program_->keep_metadata(frame, from, list);
  }
  void parse(State& state, std::byte* frame, PacketContext& packet) const override {
    stain(frame);
    program_->parse(state, frame, packet);
  }
  void ingress(State& state, std::byte* frame, PacketContext& packet) const override {
    stain(frame);
    program_->ingress(state, frame, packet);
  }
  void egress(State& state, std::byte* frame, PacketContext& packet) const override {
    stain(frame);
    program_->egress(state, frame, packet);
  }
  std::size_t deparse(State& state, std::byte* frame, PacketContext& packet, std::span<std::byte> out) const override {
    stain(frame);
    return program_->deparse(state, frame, packet, out);
  }

 private:
  // 1 fits every width, and makes every header valid.
  void stain(std::byte* frame) const {
    for (std::size_t at = kept_bytes(); at + sizeof(U128) <= frame_bytes(); at += sizeof(U128)) {
      const U128 one = 1;
      std::memcpy(frame + at, &one, sizeof one);
    }
  }

  std::shared_ptr<const Program> program_;
};

}  // namespace sidelatch::p4

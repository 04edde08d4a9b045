// RequestShape: the place of a request packet in its message, by its opcode.
//
// Source: InfiniBand Architecture Specification, volume 1, 9.2 (opcodes) and 9.7 (opcode sequences).
//
// Thread-safety: values.
#pragma once

#include "roce/opcode.h"

namespace sidelatch::softnic::nic {

using namespace roce;

struct RequestShape {
  enum class Kind : std::uint8_t { none, send, write, read, atomic, atomic_write };
  Kind kind = Kind::none;  ///< none: an answer, or no packet of a reliable connection
  bool starts = false;
  bool ends = false;
  bool has_immediate = false;
  bool has_invalidate = false;
};

/// The same for UC and XRC as for RC.
[[nodiscard]] constexpr RequestShape shape_of(Opcode opcode) noexcept {
  using Kind = RequestShape::Kind;
  if (service_of(opcode) == Service::ud) {
    return {};
  }
  switch (operation_of(opcode)) {
    case Opcode::send_first:
      return {.kind = Kind::send, .starts = true};
    case Opcode::send_middle:
      return {.kind = Kind::send};
    case Opcode::send_last:
      return {.kind = Kind::send, .ends = true};
    case Opcode::send_last_with_immediate:
      return {.kind = Kind::send, .ends = true, .has_immediate = true};
    case Opcode::send_last_with_invalidate:
      return {.kind = Kind::send, .ends = true, .has_invalidate = true};
    case Opcode::send_only:
      return {.kind = Kind::send, .starts = true, .ends = true};
    case Opcode::send_only_with_immediate:
      return {.kind = Kind::send, .starts = true, .ends = true, .has_immediate = true};
    case Opcode::send_only_with_invalidate:
      return {.kind = Kind::send, .starts = true, .ends = true, .has_invalidate = true};
    case Opcode::write_first:
      return {.kind = Kind::write, .starts = true};
    case Opcode::write_middle:
      return {.kind = Kind::write};
    case Opcode::write_last:
      return {.kind = Kind::write, .ends = true};
    case Opcode::write_last_with_immediate:
      return {.kind = Kind::write, .ends = true, .has_immediate = true};
    case Opcode::write_only:
      return {.kind = Kind::write, .starts = true, .ends = true};
    case Opcode::write_only_with_immediate:
      return {.kind = Kind::write, .starts = true, .ends = true, .has_immediate = true};
    case Opcode::read_request:
      return {.kind = Kind::read, .starts = true, .ends = true};
    case Opcode::compare_swap:
    case Opcode::fetch_add:
      return {.kind = Kind::atomic, .starts = true, .ends = true};
    case Opcode::atomic_write:
      return {.kind = Kind::atomic_write, .starts = true, .ends = true};
    default:
      return {};
  }
}

}  // namespace sidelatch::softnic::nic

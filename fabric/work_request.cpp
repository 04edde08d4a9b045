#include <sidelatch/fabric/work_request.h>

#include <fmt/format.h>

#include <stdexcept>

namespace sidelatch::fabric {

std::string_view name(Opcode opcode) {
  switch (opcode) {
    case Opcode::write:
      return "WRITE";
    case Opcode::read:
      return "READ";
    case Opcode::compare_swap:
      return "CAS";
    case Opcode::fetch_add:
      return "FETCH-ADD";
    case Opcode::send:
      return "SEND";
    case Opcode::recv:
      return "RECV";
    case Opcode::send_with_immediate:
      return "SEND with immediate";
    case Opcode::write_with_immediate:
      return "WRITE with immediate";
  }
  return "unknown opcode";
}

void detail::throw_no_room(Opcode opcode, std::uint64_t bytes, const RemoteSpan& remote) {
  throw std::out_of_range(
      fmt::format("{} of {} bytes at {:#x}: the remote span has only {} bytes; pass a longer span "
                  "or a shorter buffer",
                  name(opcode), bytes, remote.address.value, remote.length));
}

WorkRequest send(LocalSpan from) {
  WorkRequest wr;
  wr.opcode = Opcode::send;
  wr.local = from;
  return wr;
}

WorkRequest send_with_immediate(LocalSpan from, std::uint32_t immediate) {
  WorkRequest wr;
  wr.opcode = Opcode::send_with_immediate;
  wr.immediate = immediate;
  wr.local = from;
  return wr;
}

WorkRequest write_with_immediate(LocalSpan from, const RemoteSpan& to, std::uint32_t immediate) {
  WorkRequest wr = detail::one_sided(Opcode::write_with_immediate, from.length, to);
  wr.immediate = immediate;
  wr.local = from;
  return wr;
}

WorkRequest recv(LocalSpan into) {
  WorkRequest wr;
  wr.opcode = Opcode::recv;
  wr.local = into;
  return wr;
}

}  // namespace sidelatch::fabric

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
  }
  return "unknown opcode";
}

namespace {

void require_room(Opcode opcode, std::uint64_t bytes, const RemoteSpan& remote) {
  if (remote.length < bytes) {
    throw std::out_of_range(
        fmt::format("{} of {} bytes at {:#x}: the remote span has only {} bytes; pass a longer span "
                    "or a shorter buffer",
                    name(opcode), bytes, remote.address.value, remote.length));
  }
}

WorkRequest transfer(Opcode opcode, LocalSpan local, const RemoteSpan& remote) {
  require_room(opcode, local.length, remote);
  WorkRequest wr;
  wr.opcode = opcode;
  wr.local = local;
  wr.remote = remote.address;
  wr.rkey = remote.rkey;
  return wr;
}

WorkRequest atomic(Opcode opcode, const RemoteSpan& word, std::uint64_t compare, std::uint64_t swap_or_add) {
  require_room(opcode, 8, word);
  WorkRequest wr;
  wr.opcode = opcode;
  wr.remote = word.address;
  wr.rkey = word.rkey;
  wr.compare = compare;
  wr.swap_or_add = swap_or_add;
  return wr;
}

}  // namespace

WorkRequest write(LocalSpan from, RemoteSpan to) { return transfer(Opcode::write, from, to); }
WorkRequest read(LocalSpan into, RemoteSpan from) { return transfer(Opcode::read, into, from); }

WorkRequest compare_swap(RemoteSpan word, std::uint64_t expected, std::uint64_t desired) {
  return atomic(Opcode::compare_swap, word, expected, desired);
}

WorkRequest fetch_add(RemoteSpan word, std::uint64_t addend) { return atomic(Opcode::fetch_add, word, 0, addend); }

WorkRequest send(LocalSpan from) {
  WorkRequest wr;
  wr.opcode = Opcode::send;
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

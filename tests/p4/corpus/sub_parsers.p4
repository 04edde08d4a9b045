// What a sub-parser has done stays done if it ends with an error: the packet's bytes are gone from the packet.
#include "pipeline.p4"
header op_t { bit<8> op; }
header b_t { bit<8> x; }
header w_t { bit<16> x; }
header r_t { bit<8> seen; bit<8> error_number; }
struct H { op_t op; r_t r; b_t first; w_t second; b_t[2] s; }
struct M { bit<8> seen; }
parser Inner(packet_in b, inout H h, out bit<8> seen) {
  state start {
    b.extract(h.first);
    seen = h.first.x;
    verify(h.first.x != 0xee, error.NoMatch);
    transition select(h.first.x) { 0xdd: reject; default: more; }
  }
  state more { b.extract(h.second); transition accept; }
}
parser Outer(packet_in b, inout H h, inout M m) {
  Inner() inner;
  state start { inner.apply(b, h, m.seen); transition accept; }
}
parser Stack(packet_in b, inout b_t[2] s) {
  state start { b.extract(s.next); b.extract(s.next); b.extract(s.next); transition accept; }
}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  Outer() outer;
  Stack() stack;
  state start {
    b.extract(h.op);
    transition select(h.op.op) { 1: nested; 2: elements; default: accept; }
  }
  state nested { outer.apply(b, h, m); transition accept; }
  state elements { stack.apply(b, h.s); transition accept; }
}
NO_CHECKSUMS(H, M)
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    h.r.setValid();
    h.r.seen = m.seen;
    h.r.error_number = standard.parser_error == error.NoError           ? 8w0
                       : standard.parser_error == error.PacketTooShort   ? 8w1
                       : standard.parser_error == error.NoMatch          ? 8w2
                       : standard.parser_error == error.StackOutOfBounds ? 8w3
                                                                         : 8w4;
    if (h.first.isValid()) { h.first.x = h.first.x + 1; }
  }
}
NO_EGRESS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// select with several keys, masks, ranges and order; lookahead, advance, verify; errors of the parser.
#include "pipeline.p4"
error { Mine }
header first_t { bit<8> kind; bit<8> more; }
header tail_t { bit<16> value; }
header out_t { bit<8> path; bit<8> error_number; }
struct H { out_t o; first_t f; tail_t t; }
struct M { bit<8> path; bit<8> peeked; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.f);
    transition select(h.f.kind, h.f.more) {
      (0x10, 0x01): a;
      (0x10 &&& 0xf0, 0x02): masked;
      (0x10, 0x02): never;              // the one before matches first
      (0x20 .. 0x2f, _): ranged;
      (0x30, 0x80 &&& 0x80): skip;
      (0x40, default): check;
      (0x50, _): far;
      (0x60, _): reject;
      (0x70, _): nothing;
      (0x80, _): lists;
    }
  }
  state a { m.path = 1; transition accept; }
  state masked { m.path = 2; transition accept; }
  state never { m.path = 99; transition accept; }
  state ranged { m.path = 3; bit<16> x = b.lookahead<bit<16>>(); m.peeked = x[7:0]; transition select(x) { 0xabcd: tail; _: accept; } }
  state skip { m.path = 4; b.advance(8); b.extract(h.t); transition accept; }
  state check { m.path = 5; verify(h.f.more == 7, error.Mine); m.path = 6; transition accept; }
  state far { m.path = 7; b.extract(h.t); transition accept; }
  state nothing { m.path = 8; transition select() { default: tail; } }
  state lists {
    transition select(h.f.more, {h.f.kind, h.f.more}) {
      (1, {0x80, 1}): a;
      (2, default): masked;
      (3, {0x81, _}): never;
      (3, {0x80, _}): far;
    }
  }
  state tail { b.extract(h.t); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    h.o.setValid();
    h.o.path = m.path;
    if (standard.parser_error == error.NoError) { h.o.error_number = 0; }
    else if (standard.parser_error == error.PacketTooShort) { h.o.error_number = 1; }
    else if (standard.parser_error == error.NoMatch) { h.o.error_number = 2; }
    else if (standard.parser_error == error.Mine) { h.o.error_number = 3; }
    else { h.o.error_number = 9; }
    if (h.t.isValid()) { h.t.value = h.t.value + 1; }
    standard.egress_spec = 2;
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// lookahead of structures: in structures, with tuples, enumerations, signed and wide numbers, of more than 128 bits.
#include "pipeline.p4"
enum bit<8> colour_t { red = 1, blue = 2 }
struct inner_t { bit<4> low; int<12> number; bool flag; bit<7> rest; }
struct outer_t { bit<8> first; inner_t inner; tuple<bit<16>, colour_t> pair; bit<136> wide; bit<8> last; }
header out_t {
  bit<8> first; bit<4> low; int<12> half; bit<1> flag; bit<7> rest; bit<16> left; bit<8> right; bit<136> wide; bit<8> last;
  bit<8> too_short;
}
header skipped_t { bit<8> x; }
struct H { out_t o; skipped_t s; }
struct M { outer_t seen; bit<8> next; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.s);
    m.seen = b.lookahead<outer_t>();
    m.next = b.lookahead<outer_t>().inner.rest ++ 1w1;  // nothing has moved
    transition select(b.lookahead<tuple<bit<4>, inner_t>>()[0]) { 1: accept; default: never; }
  }
  state never { m.next = 0; transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    h.s.x = m.next;
    h.o.setValid();
    h.o.first = m.seen.first;
    h.o.low = m.seen.inner.low;
    h.o.half = m.seen.inner.number >> 1;
    h.o.flag = (bit<1>)m.seen.inner.flag;
    h.o.rest = m.seen.inner.rest;
    h.o.left = m.seen.pair[0];
    h.o.right = m.seen.pair[1] == colour_t.blue ? 8w0xbb : 8w0;
    h.o.wide = m.seen.wide;
    h.o.last = m.seen.last;
    h.o.too_short = standard.parser_error == error.PacketTooShort ? 8w1 : 8w0;
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.s); b.emit(h.o); } }
MAIN

// select and switch of more than 128 bits.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> r; }
header wide_t { bit<136> v; }
struct H { op_t o; wide_t w; }
struct M { bit<8> way; }
const bit<136> HIGH = 136w1 << 128;
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  value_set<bit<8>>(2) members;
  state start {
    b.extract(h.o);
    b.extract(h.w);
    transition select(h.w.v, h.o.op) {
      (HIGH, 0): one;
      (5 &&& 0xff, 1): two;
      (HIGH << 7 &&& 0xf0 << 128, _): three;
      (_, members): four;
      (_, 2): five;
      default: accept;
    }
  }
  state one { m.way = 1; transition accept; }
  state two { m.way = 2; transition accept; }
  state three { m.way = 3; transition accept; }
  state four { m.way = 4; transition accept; }
  state five { m.way = 5; transition select(h.w.v ++ h.o.op) { 2: six; _: accept; } }
  state six { m.way = 6; transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    h.o.r = m.way;
    switch (h.w.v) {
      0: { h.o.r = h.o.r + 0x10; }
      HIGH: 1: { h.o.r = h.o.r + 0x20; }
      HIGH + 5: { h.o.r = h.o.r + 0x30; }
      default: { h.o.r = h.o.r + 0x40; }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

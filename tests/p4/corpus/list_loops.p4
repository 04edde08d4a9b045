// Loops over lists: all elements are evaluated before the first round.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> n; bit<8> r; }
struct pair_t { bit<8> x; bit<8> y; }
struct H { op_t o; }
struct M {}
bit<8> counted(inout bit<8> n) { n = n + 1; return n; }
bit<8> place_of(in bit<8> x) {
  bit<8> place = 0;
  for (bit<8> one in (list<bit<8>>){ 7, x + 1, 9 }) {
    if (one == 9) { return place; }
    place = place + 1;
  }
  return place;
}
parser Parse(packet_in b, out H h, inout M m, STANDARD) { state start { b.extract(h.o); transition accept; } }
control In(inout H h, inout M m, STANDARD) {
  action add(bit<8> by) { for (bit<8> one in { by, h.o.n }) { h.o.r = h.o.r + one; } }
  apply {
    standard.egress_spec = 2;
    bit<8> list = 3;
    switch (h.o.op) {
      0: { for (bit<8> one in (list<bit<8>>){ 1, 2, 3, }) { h.o.r = h.o.r << 2 | one; } }
      1: { for (pair_t one in (list<pair_t>){ { 1, 2 }, { y = h.o.n, x = 3 } }) { h.o.r = h.o.r * 16 + one.x + one.y; } }
      2: { for (bit<8> one in { counted(h.o.n), counted(h.o.n) }) { h.o.r = h.o.r * 16 + one; one = 0; h.o.n = 9; } }
      3: { h.o.r = place_of(h.o.n); }
      4: { for (bit<8> one in (list<bit<8>>){}) { h.o.r = 0xff; } }
      5: { add(5); }
      6: { for (bit<8> a in { 1, 2, 3 }) { for (bit<8> b in { a, 2 }) { if (a == 2) { continue; } if (b == 3) { break; } h.o.r = h.o.r + b; } } }
      7: { for (op_t one in { h.o, (op_t){#}, { 1, 2, 3 } }) { if (one.isValid()) { h.o.r = h.o.r + one.r; } } }
      8: { for (tuple<bit<8>, bit<200>> one in { { 1, 5 }, { 2, 6 } }) { h.o.r = h.o.r * 16 + one[0] + one[1][7:0]; } }
      9: { for (int<8> one in (list<int<8>>){ -1, -2 }) { h.o.r = h.o.r + (bit<8>)one; } }
      10: { if ((list < h.o.n)) { h.o.r = (list); } }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

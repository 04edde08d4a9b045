// '*', '|+|' and '|-|' of more than 128 bits.
#include "pipeline.p4"
header op_t { bit<8> op; }
header wide_t { bit<200> a; bit<200> b; }
header long_t { bit<1024> a; bit<1024> b; }
struct H { op_t o; wide_t w; long_t l; }
struct M { }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.o);
    transition select(h.o.op) { 128 .. 255: long; default: wide; }
  }
  state wide { b.extract(h.w); transition accept; }
  state long { b.extract(h.l); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { h.w.a = h.w.a * h.w.b; }
      1: { h.w.a = h.w.a |+| h.w.b; }
      2: { h.w.a = h.w.a |-| h.w.b; }
      3: { h.w.a = h.w.a * 10; h.w.b = 3 * h.w.b; }
      4: { h.w.a *= h.w.a; }
      5: { h.w.a |+|= 1; h.w.b |-|= 1; }
      6: { h.w.a = (bit<200>)(h.w.a[128:0] * h.w.b[128:0]); }
      7: { h.w.a = (bit<200>)(h.w.a[128:0] |+| h.w.b[128:0]); }
      128: { h.l.a = h.l.a * h.l.b; }
      129: { h.l.a = h.l.a |+| h.l.b; }
      130: { h.l.a = h.l.a |-| h.l.b; }
      131: { h.l.a = (h.l.a + 1) * (h.l.b - 1); }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.o); b.emit(h.w); b.emit(h.l); } }
MAIN

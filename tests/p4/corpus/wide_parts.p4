// Of values of more than 128 bits: casts, and slices in two parts that are assigned to.
#include "pipeline.p4"
header op_t { bit<8> op; bit<16> x; }
header wide_t { bit<160> a; }
struct H { op_t o; wide_t w; }
struct M { bit<160> seen; }
void mark(out bit<8> x) { x = 0xcd; }
void next(inout bit<8> x) { x = x + 1; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.o); m.seen = b.lookahead<bit<160>>(); b.extract(h.w); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { h.w.a[135:120] = 0xabcd; }
      1: { h.w.a[131:124] = h.w.a[130:123]; }  // what is stored is read before
      2: { mark(h.w.a[131:124]); h.w.a[131:124] += 1; next(h.w.a[131:124]); }
      3: { h.w.a = (bit<160>)h.o.x; }
      4: { h.o.x = (bit<16>)h.w.a; }
      5: { bit<304> y = (bit<304>)h.w.a; h.o.x = y[159:144] + y[303:288] + y[175:160]; h.w.a = (bit<160>)y; }
      6: { bit<130> z = (bit<130>)h.w.a; h.o.x = z[129:114]; }
      7: { if (m.seen == h.w.a) { h.o.x = 1; } }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

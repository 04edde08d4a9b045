// Lists are compared by the names of their fields, in whatever order they are written.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> a; bit<8> b; bit<8> r; }
struct pair_t { bit<8> x; bit<8> y; }
struct outer_t { pair_t p; bit<8> z; }
const pair_t PAIR = { x = 1, y = 2 };
struct H { op_t o; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) { state start { b.extract(h.o); transition accept; } }
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    pair_t p = { h.o.a, h.o.b };
    bool same = false;
    switch (h.o.op) {
      0: { same = PAIR == { y = h.o.b, x = h.o.a }; }
      1: { same = { y = h.o.b, x = h.o.a } == (pair_t){ x = 1, y = 2 }; }
      2: { same = p == { y = 2, x = 1 }; }
      3: { same = { y = h.o.b, x = h.o.a } == { x = 8w1, y = 8w2 }; }
      4: { same = (outer_t){ p, 3 } == { z = 3, p = { y = 2, x = 1 } }; }
      5: { same = (pair_t){ h.o.a, 0 } == { x = 1, ... }; }
      6: { same = { h.o.a, h.o.b } == PAIR; }
    }
    h.o.r = same ? 8w1 : 2;
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

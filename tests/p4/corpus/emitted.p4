// Headers that a deparser emits without a variable: constants, and what is written where it is emitted.
#include "pipeline.p4"
header c_t { bit<8> op; }
header x_t { bit<8> v; bit<8> w; }
struct Two { x_t first; x_t second; }
const x_t SAME = { 0xa0, 0xa1 };
struct H { c_t c; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.c); transition accept; }
}
control In(inout H h, inout M m, STANDARD) { apply { standard.egress_spec = 2; } }
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) {
  apply {
    b.emit(h.c);
    if (h.c.op == 1) { b.emit(SAME); }
    if (h.c.op == 2) { b.emit((x_t){ h.c.op, 7 }); b.emit((x_t){#}); }
    if (h.c.op == 3) { b.emit((Two){ { 1, h.c.op }, {#} }); }
    if (h.c.op == 4) { b.emit({ SAME, h.c }); }
  }
}
MAIN

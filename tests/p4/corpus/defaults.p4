// What `...` stands for, of types that no literal has.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> r; }
header v_t { bit<8> l; varbit<32> v; bit<8> z; }
struct part_t { varbit<8> v; bit<8> z; }
struct H { op_t o; v_t v; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.o); transition select(h.o.op) { 2: has_varbit; default: accept; } }
  state has_varbit { b.extract(h.v, 16); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { h.v = { 7, ... }; }
      1: { v_t v = { z = 7, ... }; part_t p = ...; h.o.r = v == { 0, ..., } ? 8w1 : p.z; h.v = v; }
      2: { h.o.r = h.v == { h.v.l, ... } ? 8w1 : 2; h.v = { l = h.v.l, z = h.v.z, ... }; }
      3: { v_t v = { 7, ... }; h.o.r = v == { l = 7, ... } && v != { 8, ... } ? 8w1 : 2; }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

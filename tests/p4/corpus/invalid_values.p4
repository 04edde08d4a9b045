// {#}, compared to headers, header unions, lists and {#}.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> r; }
header y_t { bit<16> v; }
header_union either_t { op_t x; y_t y; }
struct H { op_t o; either_t u; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) { state start { b.extract(h.o); transition accept; } }
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    op_t local;
    switch (h.o.op) {
      0: { if (local == {#} && h.o != {#} && (op_t){#} != h.o) { h.o.r = 1; } }
      1: { if (h.u == {#}) { h.o.r = 1; } h.u.y.setValid(); if (h.u != {#} && (either_t){#} != h.u) { h.o.r = h.o.r + 2; } h.u.y.setInvalid(); }
      2: { if ((op_t){ 1, 2 } != {#} && {#} != (op_t){ 1, 2 }) { h.o.r = 1; } }
      3: { if ((op_t){#} == (op_t){#} && {#} == local) { h.o.r = 1; } }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// {#}, compared to headers, header unions, lists and {#}, and in constants.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> r; }
header y_t { bit<16> v; }
header_union either_t { op_t x; y_t y; }
struct pair_t { op_t x; bit<8> y; op_t[2] more; either_t u; }
const op_t NOTHING = {#};
const pair_t PAIR = { y = 5, ... };
const pair_t OTHER = { {#}, 6, { { 1, 2 }, {#} }, ... };
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
      4: { op_t x = NOTHING; if (x == {#} && !NOTHING.isValid() && !PAIR.x.isValid()) { h.o.r = PAIR.y; } }
      5: { pair_t p = OTHER; if (!p.x.isValid() && !p.more[1].isValid() && !p.u.isValid()) { h.o.r = p.more[0].r + p.y; } }
      6: { if (PAIR == OTHER) { h.o.r = 1; } if (PAIR == { y = 5, ... }) { h.o.r = h.o.r + 2; } }
      3: { if ((op_t){#} == (op_t){#} && {#} == local) { h.o.r = 1; } }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

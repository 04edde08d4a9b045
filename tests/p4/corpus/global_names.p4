// Names that begin with a dot: those of the whole program, as values and as types.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> r; }
struct H { op_t o; }
struct M {}
const bit<8> THREE = 3;
typedef bit<8> byte_t;
struct part_t { bit<8> x; }
struct pair_t<T> { T x; bit<8> y; }
bit<8> next(in bit<8> x) { return x + 1; }
T same<T>(in T x) { return x; }
void fill(in .part_t p, out .pair_t<bit<8>> made) { made = { p.x, 4 }; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) { state start { b.extract(h.o); transition accept; } }
control In(inout H h, inout M m, STANDARD) {
  .register<bit<8>>(2) memory;
  apply {
    standard.egress_spec = 2;
    bit<8> byte_t = 5;
    bit<8> part_t = 6;
    bit<8> pair_t = 7;
    bit<8> THREE = 8;
    switch (h.o.op) {
      0: { h.o.r = (.THREE) - 1; }
      1: { h.o.r = (.byte_t) - 254 + (byte_t); }
      2: { .pair_t<bit<8>> p = { 1, 2 }; h.o.r = p.x + p.y + (pair_t); }
      3: { h.o.r = ((.pair_t<.part_t>){ { 1 }, 2 }).x.x + (.THREE) + THREE; }
      4: { .pair_t<.byte_t> p; .fill({ part_t }, p); h.o.r = p.x; }
      5: { h.o.r = .same<.byte_t>(.next(byte_t)); }
      6: { memory.write(0, 9); memory.read(h.o.r, 0); }
      7: { h.o.r = (.THREE) < (byte_t) && .THREE < (THREE) ? 8w1 : 2; }
      8: { for (.part_t p in (list<.part_t>){ { 1 }, { part_t } }) { h.o.r = h.o.r + p.x; } }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// Validity, copies, comparison, initialization of headers; header unions; structures, tuples, lists; enumerations.
#include "pipeline.p4"
const bit<8> BASE = 0x10;
typedef bit<8> byte_t;
type bit<8> new_byte_t;
enum bit<8> Colour { red = 1, green = BASE + 1, blue = 0x30 }
enum Plain { one, two }
header c_t { bit<8> op; bit<8> r; }
header x_t { bit<8> v; bit<8> w; }
header y_t { bit<16> v; }
header_union U { x_t x; y_t y; }
struct Pair { bit<8> first; bit<8> second; }
struct H { c_t c; x_t x; x_t x2; U u; }
struct M { Pair pair; tuple<bit<8>, bool> t; Plain plain; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.c); b.extract(h.x); transition select(h.c.op) { 20: ux; 21: uy; 22: uy_then_x; default: accept; } }
  state ux { b.extract(h.u.x); transition accept; }
  state uy { b.extract(h.u.y); transition accept; }
  state uy_then_x { b.extract(h.u.y); transition ux; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    x_t local;
    Pair p = { h.x.v, h.x.w };
    switch (h.c.op) {
      0: { h.x2 = h.x; }
      1: { h.x.setInvalid(); }
      2: { h.x.setInvalid(); h.x.setValid(); h.x.v = 1; }
      3: { h.x2.setValid(); h.x2 = h.x; h.c.r = h.x == h.x2 ? 8w1 : 8w0; }
      4: { h.c.r = h.x == h.x2 ? 8w1 : 8w0; }
      5: { h.x2 = { 3, 4 }; }
      6: { h.x2 = { w = 3, v = 4 }; }
      7: { h.x = local; }
      8: { p = { p.second, p.first }; h.x.v = p.first; h.x.w = p.second; }
      9: { m.pair = { second = 1, first = 2 }; h.c.r = m.pair == p ? 8w1 : 8w2; }
      10: { m.t = { h.x.v, true }; h.c.r = m.t[1] ? m.t[0] : 0; }
      11: { h.c.r = (bit<8>)Colour.green; }
      12: { Colour k = (Colour)h.x.v; h.c.r = k == Colour.blue ? 8w1 : 8w2; }
      13: { m.plain = Plain.two; if (m.plain != Plain.one) { h.c.r = 7; } }
      14: { h.c.r = Colour.red + 1; }
      15: { byte_t z = (byte_t)(new_byte_t)h.x.v; h.c.r = z; }
      16: { h.x2.setValid(); h.x2.setValid(); h.x2.w = 9; }
      17: { h.x.setValid(); }
      18: { if (local.isValid()) { h.c.r = 1; } local.setValid(); if (local.isValid()) { h.c.r = h.c.r + 2; } }
      19: { h.x = {#}; }
      23: { h.u.x.setValid(); h.u.x.v = 1; h.u.y.setValid(); h.u.y.v = 0x0203; }
      25: { if (((x_t){ 1, 2 }).isValid()) { h.c.r = 1; } if (((x_t){#}).isValid()) { h.c.r = h.c.r + 2; } }
      24: { h.u.y.setValid(); h.u.x = h.x; }
    }
    if (h.u.isValid()) { h.c.r = 0x99; }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// packet_length in egress: what arrived, and the headers that became valid or invalid by setValid() and setInvalid(), as
// the reference switch counts (behavioral-model, add_header and remove_header). It is the same for equal packets.
#include "pipeline.p4"
header k_t { bit<8> op; bit<8> length; }
header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header n_t { bit<8> x; }
header_union U { h_t wide; n_t narrow; }
struct H { k_t k; h_t h; U u; n_t n; }
struct M { bit<8> x; }
bit<8> second(in h_t given) { return given.b; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.k);
    transition select(h.k.op) { 0x20: looked; 0x21: chosen; 0x40: member; default: four; }
  }
  state four { b.extract(h.h); transition accept; }
  state looked { h_t seen = b.lookahead<h_t>(); m.x = seen.d; transition four; }
  state chosen { transition select(b.lookahead<h_t>().a) { 1: four; default: accept; } }
  state member { b.extract(h.u.wide); transition accept; }
}
NO_CHECKSUMS(H, M)
control In(inout H h, inout M m, STANDARD) {
  action with_header(in h_t given) { h.h.a = given.b; }
  apply {
    standard.egress_spec = 2;
    switch (h.k.op) {
      1: { h_t z = { 1, 2, 3, 4 }; h.h.a = z.d; }
      2: { h.h.a = second({ 1, 2, 3, 4 }); }
      3: { with_header({ h.h.d, h.h.c, 3, 4 }); }
      4: { h_t z = h.h; h.h.a = z.d; }
      5: { h.n.setValid(); h.n.x = 9; }
      6: { h.h.setInvalid(); }
      0x10: { if (h.h == { 1, 2, 3, 4 }) { h.h.a = 7; } }
      0x11: { if (h.h != (h_t){ 1, 2, 3, 4 }) { h.h.a = 8; } }
      0x40: { h.u.narrow.setValid(); h.u.narrow.x = 5; }
    }
  }
}
control Out(inout H h, inout M m, STANDARD) { apply { h.k.length = (bit<8>)standard.packet_length; } }
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

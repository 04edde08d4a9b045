// Stacks of header unions with an index from the packet: what is read, written, made valid and copied; beyond the end.
#include "pipeline.p4"
header one_t { bit<8> x; }
header two_t { bit<16> y; }
header_union option_t { one_t one; two_t two; }
header head_t { bit<8> op; bit<8> i; bit<8> j; bit<8> seen; }
struct H { head_t head; option_t[3] options; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.head);
    b.extract(h.options[0].one);
    b.extract(h.options[1].two);
    transition accept;
  }
}
control In(inout H h, inout M m, STANDARD) {
  action make(inout option_t o) { o.two.setValid(); o.two.y = 0xabcd; }
  apply {
    standard.egress_spec = 2;
    option_t[2] own;
    switch (h.head.op) {
      0: { if (h.options[h.head.i].isValid()) { h.head.seen = 1; } if (h.options[h.head.i].one.isValid()) { h.head.seen = 2; } }
      1: { h.options[h.head.i].one.setValid(); h.options[h.head.i].one.x = 0x99; }
      2: { h.options[h.head.i].two = { 0x7777 }; }
      3: { h.options[h.head.i] = h.options[h.head.j]; }
      4: { h.options[h.head.i].one = h.options[h.head.j].one; }
      5: { make(h.options[h.head.i]); }
      6: { h.options[h.head.i].one.setInvalid(); }
      7: { own[1].one = { 0x31 }; own[h.head.i] = own[h.head.j]; h.options[2] = own[0]; h.options[0] = own[1]; }
      8: { h.options[h.head.i] = (option_t){#}; }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// Loops over stacks: each element in order, valid or not; the variable is a copy.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> n; bit<8> r; }
header item_t { bit<8> x; }
header_union either_t { item_t one; op_t other; }
struct H { op_t o; item_t[4] items; either_t[2] either; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.o); transition select(h.o.n) { 0: accept; default: item; } }
  state item { b.extract(h.items.next); h.o.n = h.o.n - 1; transition select(h.o.n) { 0: accept; default: item; } }
}
bit<8> largest(in item_t[4] items) {
  bit<8> most = 0;
  for (item_t one in items) { if (one.isValid() && one.x > most) { most = one.x; } }
  return most;
}
item_t[4] doubled(in item_t[4] items) {
  item_t[4] made = items;
  made[0].x = items[0].x << 1;
  return made;
}
control In(inout H h, inout M m, STANDARD) {
  action search(bit<8> x) {
    for (item_t one in h.items) {
      h.o.r = h.o.r + 1;
      if (one.isValid() && one.x == x) { return; }
    }
    h.o.r = 0xff;
  }
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { for (item_t one in h.items) { if (!one.isValid()) { continue; } h.o.r = h.o.r + one.x; } }
      1: { for (item_t one in h.items) { if (!one.isValid()) { break; } h.o.r = h.o.r << 4 | 1; one.x = 0; one.setInvalid(); } }
      2: { h.o.r = largest(h.items); }
      3: { search(7); }
      4: { bit<2> i = 0; for (item_t one in h.items) { i = i + 1; h.items[i].setValid(); h.items[i].x = one.x + 1; } }
      5: { for (item_t one in doubled(h.items)) { h.o.r = h.o.r + one.x; } }
      6: { for (item_t a in h.items) { for (item_t b in h.items) { if (a.x == b.x) { h.o.r = h.o.r + 1; } } } }
      7: { h.either[1].one = { 5 }; for (either_t e in h.either) { h.o.r = h.o.r << 1; if (e.one.isValid()) { h.o.r = h.o.r + e.one.x; } } h.either[1] = (either_t){#}; }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

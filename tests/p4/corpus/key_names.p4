// Keys that are no plain fields, and how packet tests name them.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> a; bit<48> mac; bit<8> result; }
header item_t { @name("value") bit<8> v; }
struct H { op_t o; item_t[2] items; }
struct M { }
const bit<8> MASK = 0xF0;
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.o);
    transition select(h.o.op) { 4 .. 5: items; default: accept; }
  }
  state items { b.extract(h.items.next); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  action found(bit<8> x) { h.o.result = x; }
  table masked { key = { h.o.a & 0x0F : exact; } actions = { found; } }
  table named_mask { key = { h.o.a & MASK : exact; } actions = { found; } }
  table sliced { key = { h.o.a[7:4] : exact; h.o.mac[47:0] : exact; } actions = { found; } }
  table indexed { key = { h.o.a[1 +: 3] : exact; } actions = { found; } }
  table element { key = { h.items[0].v : exact; h.items[1].isValid() : exact; } actions = { found; } }
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { masked.apply(); }
      1: { named_mask.apply(); }
      2: { sliced.apply(); }
      3: { indexed.apply(); }
      4: { element.apply(); }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

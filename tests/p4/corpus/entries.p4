// The order of entries and of keys, names within TYPE.apply(), labels before default, an index with a sign.
#include "pipeline.p4"
header k_t { bit<8> op; bit<8> a; int<8> i; }
header e_t { bit<8> x; }
struct H { k_t k; e_t[2] s; }
struct M {}
bit<8> change(inout bit<8> v) { v = 5; return 2; }
control Sub(inout H h) {
  action f(bit<8> x) { h.k.a = x; }
  table t { key = { h.k.a : exact; } actions = { f; NoAction; } }
  apply { t.apply(); }
}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.k); b.extract(h.s.next); b.extract(h.s.next); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  action set(bit<8> x) { h.k.a = x; }
  action also(bit<8> x) { h.k.a = x; }
  table in_order {
    key = { h.k.a : exact; change(h.k.a) : exact @name("changed"); }
    actions = { set; }
    const entries = { (1, 2) : set(0x11); (5, 2) : set(0x55); }
  }
  table mixed { key = { h.k.a : ternary; } actions = { set; } entries = { 0x10 &&& 0xf0 : set(1); 0 &&& 0 : set(2); } }
  table by_priority {
    key = { h.k.a : ternary; }
    actions = { set; }
    const entries = {
      0x01 &&& 0x0f : set(1) @priority(3);
      0x81 : set(2);
      0x10 &&& 0xf0 : set(3) @priority(1);
    }
  }
  table chosen { key = { h.k.a : exact; } actions = { set; also; NoAction; } const entries = { 1 : set(1); 2 : also(2); } }
  // A list may be one set, too.
  table listed { key = { h.k.a : exact; } actions = { set; } const entries = { {4w2 ++ 4w1} : set(0x81); { 3 } : set(0x82); } }
  apply {
    standard.egress_spec = 2;
    switch (h.k.op) {
      0: { in_order.apply(); }
      1: { mixed.apply(); }
      2: { by_priority.apply(); }
      3: { Sub.apply(h); }
      4: { switch (chosen.apply().action_run) { set: { h.k.a = 0x61; } also: default: { h.k.a = 0x62; } } }
      5: { switch (h.k.a) { 1: @here { h.k.a = 0x71; } 2: 3: default: { h.k.a = 0x72; } } }
      6: { h.s[h.k.i].x = 9; }
      7: { listed.apply(); }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.k); b.emit(h.s); } }
MAIN

// Keys of all kinds, constant entries, defaults with arguments, hit, miss and action_run, actions with directions.
#include "pipeline.p4"
header k_t { bit<8> table_number; bit<8> a; bit<16> b; bit<8> r; bit<8> t; }
struct H { k_t k; }
struct M { bit<8> scratch; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.k); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  action set(bit<8> v) { h.k.r = v; }
  action also(bit<8> v) { h.k.r = v; }
  action add_to(inout bit<8> x, in bit<8> y, bit<8> v) { x = x + y + v; }
  table exact2 { key = { h.k.a : exact; h.k.b : exact; } actions = { set; also; } default_action = set(0xdd); }
  table prefix { key = { h.k.b : lpm; } actions = { set; } default_action = set(0xdd); }
  table ternary3 { key = { h.k.a : ternary; h.k.b : ternary; } actions = { set; } default_action = set(0xdd); }
  table ranged { key = { h.k.a : range; h.k.b : exact; } actions = { set; } default_action = set(0xdd); }
  table opt { key = { h.k.a : optional; } actions = { set; } default_action = set(0xdd); }
  table constant_ternary {
    key = { h.k.a : ternary; }
    actions = { set; }
    const entries = {
      0x10 &&& 0xf0 : set(1);
      0x11 : set(2);        // the one before matches first
      0x20 : set(3);
      _ : set(4);
    }
  }
  table constant_lpm {
    key = { h.k.b : lpm; }
    actions = { set; }
    default_action = set(9);
    const entries = {
      0x1000 &&& 0xf000 : set(1);
      0x1200 &&& 0xff00 : set(2);   // longer, so it counts
      0x1234 : set(3);
    }
  }
  table constant_range {
    key = { h.k.a : range; }
    actions = { set; }
    default_action = set(9);
    const entries = { 1 .. 8 : set(1); 6 .. 12 : set(2); 17 : set(3); }
  }
  table constant_exact { key = { h.k.a : exact; } actions = { set; also; NoAction; } const entries = { 5 : set(5); 6 : also(6); } }
  table bound { key = { h.k.a : exact; } actions = { add_to(h.k.t, h.k.a); NoAction; } default_action = NoAction(); }
  table valid { key = { h.k.isValid() : exact; } actions = { set; } }
  @name("else" ++ "_" ++ "where") table renamed { key = { h.k.a : exact @name("a" ++ "1"); } actions = { set; NoAction; } }
  table none { actions = { set; } default_action = set(0x42); }
  apply {
    standard.egress_spec = 2;
    bit<8> n = h.k.table_number;
    if (n == 0) { if (exact2.apply().hit) { h.k.t = 1; } else { h.k.t = 2; } }
    else if (n == 1) { if (!prefix.apply().miss) { h.k.t = 1; } }
    else if (n == 2) { ternary3.apply(); }
    else if (n == 3) { ranged.apply(); }
    else if (n == 4) { opt.apply(); }
    else if (n == 5) { constant_ternary.apply(); }
    else if (n == 6) { constant_lpm.apply(); }
    else if (n == 7) { constant_range.apply(); }
    else if (n == 8) {
      switch (constant_exact.apply().action_run) {
        set: { h.k.t = 1; }
        also: { h.k.t = 2; }
        default: { h.k.t = 3; }
      }
    }
    else if (n == 9) { bound.apply(); }
    else if (n == 10) { valid.apply(); }
    else if (n == 11) { none.apply(); }
    else if (n == 14) { renamed.apply(); }
    else if (n == 12) { add_to(h.k.r, 3, 4); }
    else if (n == 13) { switch (constant_exact.apply().action_run) { set: also: { h.k.t = 7; } } }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.k); } }
MAIN

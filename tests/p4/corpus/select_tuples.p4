// A select of tuples: its cases have sets for the parts, in braces, or in parentheses if the tuple is all there is.
#include "pipeline.p4"
header k_t { bit<8> way; bit<8> a; bit<8> b; bit<8> seen; }
struct H { k_t k; }
struct M { bit<8> seen; }
typedef tuple<bit<8>, bit<8>> pair_t;
const pair_t kOrigin = { 0, 0 };
pair_t swapped(in pair_t p) { return { p[1], p[0] }; }
parser Parse(packet_in packet, out H h, inout M m, STANDARD) {
  pair_t pair;
  state start {
    packet.extract(h.k);
    pair = { h.k.a, 0 };
    pair[1] = h.k.b;  // the reference compiler has that, P4_16 has not
    transition select(h.k.way) { 0 : whole; 1 : beside; 2 : nested; 3 : wide; 4 : constant; default : accept; }
  }
  state whole {
    transition select(pair) {
      (1, 2) : one;
      {1, 3} : two;
      (4 .. 5, _) : three;
      (_, 8 &&& 0xf8) : four;
      default : accept;
    }
  }
  state beside {
    transition select(swapped(pair), h.k.b == 9) {
      ({1, 2}, false) : one;
      (_, true) : two;
      ({3, 4}, _) : three;
      (_, _) : four;
    }
  }
  state nested {
    tuple<bit<8>, tuple<bool, pair_t>> all = { 7, { h.k.a > h.k.b, pair } };
    transition select(all, {h.k.a, pair}) {
      ({7, {true, {2, 1}}}, _) : one;
      ({7, {false, {1, 2}}}, {1, {1, 2}}) : two;
      (_, {3, _}) : three;
      _ : four;
    }
  }
  state wide {
    tuple<bit<200>, bit<8>> t = { 200w1 << (bit<8>)h.k.a, h.k.b };
    transition select(t) {
      (200w1 << 199, 1) : one;
      (_, 2) : two;
      {1, _} : three;
      _ : four;
    }
  }
  state constant {
    transition select(kOrigin, pair) { ({0, 0}, {6, 6}) : one; ({0, 1}, _) : two; default : accept; }
  }
  state one { m.seen = 1; transition accept; }
  state two { m.seen = 2; transition accept; }
  state three { m.seen = 3; transition accept; }
  state four { m.seen = 4; transition accept; }
}
control In(inout H h, inout M m, STANDARD) { apply { standard.egress_spec = 2; h.k.seen = m.seen; } }
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out packet, in H h) { apply { packet.emit(h.k); } }
MAIN

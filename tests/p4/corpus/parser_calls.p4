// A parser that calls too much ends, and with it the packet.
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> v; }
struct H { byte_t first; byte_t second; }
struct M { bit<32> calls; }

#define TWICE(f, g) void f(inout bit<32> v) { g(v); g(v); }
void f0(inout bit<32> v) { v = v + 1; }
TWICE(f1, f0) TWICE(f2, f1) TWICE(f3, f2) TWICE(f4, f3) TWICE(f5, f4) TWICE(f6, f5) TWICE(f7, f6)
TWICE(f8, f7) TWICE(f9, f8) TWICE(f10, f9) TWICE(f11, f10) TWICE(f12, f11) TWICE(f13, f12) TWICE(f14, f13)
TWICE(f15, f14) TWICE(f16, f15) TWICE(f17, f16) TWICE(f18, f17) TWICE(f19, f18) TWICE(f20, f19) TWICE(f21, f20)

parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
  state start {
    b.extract(h.first);
    transition select(h.first.v) { 0: many; default: more; }
  }
  state many { f21(m.calls); transition more; }
  state more { b.extract(h.second); transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  register<bit<8>>(1) seen;
  apply {
    bit<8> found = 0;
    if (h.second.isValid()) { found = h.second.v; }
    seen.write(0, 5 + found);
    s.egress_spec = 1;
  }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;

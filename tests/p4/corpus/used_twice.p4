// One control in two places of the pipeline: each has its own table and its own register.
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> v; }
struct H { byte_t b; }
struct M {}

parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
  state start { b.extract(h.b); transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  register<bit<8>>(1) last;
  action set(bit<8> v) { h.b.v = v; }
  table t { key = { h.b.v : exact; } actions = { set; NoAction; } default_action = NoAction(); }
  apply {
    last.write(0, h.b.v);
    t.apply();
    s.egress_spec = 1;
  }
}
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), I(), V(), D()) main;

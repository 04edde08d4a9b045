// truncate(), as the reference switch has it, and the priority.
#include "pipeline.p4"
header c_t { bit<8> op; bit<8> seen; }
struct H { c_t c; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.c); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    if (standard.instance_type == 4) { h.c.op = 0; h.c.seen = standard.packet_length[7:0]; }
    switch (h.c.op) {
      1: { truncate(6); truncate(3); }
      2: { truncate(3); truncate(6); }
      3: { truncate(3); standard.mcast_grp = 7; }
      4: { truncate(6); }
      6: { standard.priority = 1; }
      7: { standard.mcast_grp = 7; }
      8: { truncate(6); truncate(0); }
    }
  }
}
control Out(inout H h, inout M m, STANDARD) {
  apply {
    if (h.c.op == 4 || h.c.op == 5 || h.c.op == 7) { truncate(3); }
    if (h.c.op == 5) { recirculate_preserving_field_list(0); }
  }
}
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.c); } }
MAIN

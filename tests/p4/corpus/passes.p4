// What becomes of a packet: clones, resubmission, recirculation, multicast, drop, truncation; standard metadata.
#include "pipeline.p4"
header c_t { bit<8> op; bit<8> note; bit<8> kept; bit<8> lost; bit<8> length; }
struct H { c_t c; c_t extra; }
struct Inner { bit<8> deep; }
struct M {
  @field_list(1, 2) bit<8> kept;
  @field_list(2) Inner inner;
  bit<8> lost;
}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.c); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    if (standard.instance_type == 6) { h.c.note = 0x60; h.c.kept = m.kept; h.c.lost = m.lost; return; }
    if (standard.instance_type == 4) { h.c.note = h.c.note + 0x40; h.c.kept = m.kept; h.c.lost = m.inner.deep; standard.egress_spec = 3; return; }
    m.kept = 0xaa; m.lost = 0xbb; m.inner.deep = 0xcc;
    switch (h.c.op) {
      1: { clone(CloneType.I2E, 5); h.c.note = 1; }
      2: { clone_preserving_field_list(CloneType.I2E, 5, 1); h.c.note = 1; m.kept = 0xad; }
      3: { h.c.note = 1; resubmit_preserving_field_list(1); mark_to_drop(standard); }
      4: { standard.mcast_grp = 7; }
      5: { mark_to_drop(standard); }
      6: { mark_to_drop(standard); standard.egress_spec = 3; }
      7: { standard.mcast_grp = 7; mark_to_drop(standard); }
      8: { mark_to_drop(standard); standard.mcast_grp = 7; }
      9: { mark_to_drop(standard); clone(CloneType.I2E, 5); }
      10: { truncate(6); }
      11: { standard.egress_spec = 511; }
      12: { standard.mcast_grp = 9; }
      13: { h.extra.setValid(); }
      14: { h.c.setInvalid(); h.extra.setValid(); h.extra.op = 0xee; }
      15: { clone(CloneType.I2E, 6); mark_to_drop(standard); }
      16: { clone(CloneType.I2E, 77); }
    }
  }
}
control Out(inout H h, inout M m, STANDARD) {
  apply {
    if (standard.instance_type == 1) { h.c.note = 0x10; h.c.kept = m.kept; h.c.lost = m.lost; }
    else if (standard.instance_type == 2) { h.c.kept = m.kept; h.c.lost = m.inner.deep; h.c.op = 0xe2; }
    else if (standard.instance_type == 5) { h.c.note = standard.egress_rid[7:0]; h.c.kept = (bit<8>)standard.egress_port[7:0]; }
    else if (h.c.op == 0x20 && standard.egress_port == 2) { h.c.note = 2; recirculate_preserving_field_list(2); }
    else if (h.c.op == 0x21) { h.c.note = 3; clone_preserving_field_list(CloneType.E2E, 5, 2); h.c.note = 4; }
    else if (h.c.op == 0x22) { mark_to_drop(standard); clone(CloneType.E2E, 5); }
    else if (h.c.op == 0x23) { mark_to_drop(standard); }
    else if (h.c.op == 0x24) { standard.egress_spec = 9; }
    else if (h.c.op == 0x25) { truncate(7); }
    h.c.length = standard.packet_length[7:0];
  }
}
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.extra); b.emit(h.c); } }
MAIN

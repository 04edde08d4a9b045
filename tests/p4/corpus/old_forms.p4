// What v1model has given up: mark_to_drop() without metadata, clone3(), resubmit() and recirculate() with a list of what
// is kept.
#include "pipeline.p4"
header c_t { bit<8> op; bit<8> kept; bit<8> lost; bit<8> port; }
struct H { c_t c; }
struct Inner { bit<8> deep; bit<8> flat; }
struct M { @field_list(1) bit<8> kept; Inner inner; bit<8> lost; }
action drop() { mark_to_drop(); }
parser Parse(packet_in b, out H h, inout M m, STANDARD) { state start { b.extract(h.c); transition accept; } }
control Within(inout H h, inout M m, inout standard_metadata_t s) {
  apply {
    if (h.c.op == 5) { mark_to_drop(); }
    if (h.c.op == 6) { m.kept = 1; resubmit({ m.kept, s.ingress_port }); m.kept = 0x66; }
  }
}
control OnlyReads(in standard_metadata_t s) { apply { if (s.ingress_port == 3) { mark_to_drop(); } } }
// Without metadata of its own, within controls that have a copy
control Deep(inout H h) { apply { if (h.c.op == 9 || h.c.op == 12) { mark_to_drop(); } } }
control Takes(inout H h, inout standard_metadata_t s)(Deep deep) { apply { if (h.c.op == 12) { deep.apply(h); } } }
control Between(inout H h, inout standard_metadata_t s) {
  Deep() deep;
  apply {
    if (h.c.op == 9) { deep.apply(h); }
    if (h.c.op == 10) { drop(); }
  }
}
action drop_within(inout standard_metadata_t s) { mark_to_drop(); }
control In(inout H h, inout M m, STANDARD) {
  Within() within;
  Between() between;
  Deep() shared;
  Takes(shared) takes;
  apply {
    standard.egress_spec = 2;
    if (standard.instance_type == 6 || standard.instance_type == 4) {
      h.c.kept = m.kept + m.inner.deep;
      h.c.lost = m.lost + m.inner.flat;
      h.c.port = standard.ingress_port[7:0];
      h.c.op = h.c.op + 0x80;
      return;
    }
    m.kept = 0xa0;
    m.inner = { 0x0b, 0x0c };
    m.lost = 0xd0;
    switch (h.c.op) {
      0: { resubmit({ m.kept, m.inner.deep }); }
      1: { resubmit({}); }
      2: { resubmit(m); }
      3: { clone3(CloneType.I2E, 5, { m.inner, standard }); m.inner.deep = 0x1b; }
      4: { drop(); }
      11: { drop_within(standard); }
      7: { clone3<M>(CloneType.I2E, 32w5, m); mark_to_drop(); }
    }
    within.apply(h, m, standard);
    OnlyReads.apply(standard);
    between.apply(h, standard);
    takes.apply(h, standard);
  }
}
control Out(inout H h, inout M m, STANDARD) {
  apply {
    if (standard.instance_type == 1) { h.c.kept = m.kept + m.inner.deep; h.c.lost = m.lost + m.inner.flat; h.c.port = standard.ingress_port[7:0]; }
    else if (h.c.op == 0x10) { recirculate({ m.kept, standard.ingress_port }); }
    else if (h.c.op == 0x11) { drop(); }
    else if (h.c.op == 0x12) { clone3(CloneType.E2E, 5, { m.lost }); h.c.op = 0x13; }
    else if (standard.instance_type == 2) { h.c.kept = m.kept; h.c.lost = m.lost; }
  }
}
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.c); } }
MAIN

// Default values, sizes, new types, ranges of signed enumerations, keys that apply tables.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> a; bit<8> b; bit<8> c; }
header x_t { bit<8> v; bit<8> w; }
header y_t { bit<24> v; }
header z_t { bit<8> n; varbit<64> rest; }
header_union U { x_t x; y_t y; }
enum bit<4> Nibble { low = 1, high = 15 }
enum int<8> Signed { least = -2, none = 0, most = 3 }
type bit<8> port_id_t;
type port_id_t inner_id_t;
type bool flag_t;
header id_t { port_id_t port; }
struct Inside { x_t[3] stack; U either; bool yes; Nibble half; tuple<bit<3>, int<8>> pair; }
const int STACK = Inside.minSizeInBits();
struct H { op_t o; x_t x; U u; id_t id; x_t[2] s; }
struct M { Signed sign; bit<8> way; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.o);
    m.sign = (Signed)(int<8>)h.o.a;
    transition select(h.o.op, m.sign) {
      (0x10, Signed.least .. Signed.most): within;
      (0x10, Signed.most): never;
      (0x10, _): outside;
      (0x11, Signed.none &&& -4): masked;
      (0x12, _): id;
      default: accept;
    }
  }
  state within { m.way = 1; transition accept; }
  state never { m.way = 2; transition accept; }
  state outside { m.way = 3; transition accept; }
  state masked { m.way = 4; transition accept; }
  state id {
    b.extract(h.id);
    transition select(h.id.port) { (port_id_t)9: within; default: outside; }
  }
}
bit<8> count(in bool hit) { return hit ? 8w2 : 3; }
control In(inout H h, inout M m, STANDARD) {
  action leave() { h.o.b = 1; exit; }
  action stay() {}
  action reach() { h.o.c = 2; }
  table first { key = { h.o.a : exact; } actions = { leave; stay; } const entries = { 1 : leave(); } default_action = stay(); }
  table second { key = { first.apply().hit : exact @name("hit"); } actions = { reach; } default_action = reach(); }
  table ports { key = { h.id.port : exact; } actions = { reach; stay; } const entries = { (port_id_t)9 : reach(); } const default_action = stay(); }
  apply {
    standard.egress_spec = 2;
    Inside inside;
    z_t z;
    switch (h.o.op) {
      0: { h.x = ...; }
      1: { h.x = { ... }; }
      2: { h.x = { 5, ... }; }
      3: { h.s = { { 1, 2 }, ... }; }
      4: { h.s = { ... }; }
      5: { h.u.x = { ... }; }
      6: { h.o.a = (bit<8>)STACK; h.o.b = inside.maxSizeInBytes(); h.o.c = inside.stack.minSizeInBits(); }
      7: { h.o.a = z.minSizeInBits(); h.o.b = z.maxSizeInBits(); h.o.c = h.u.maxSizeInBits(); }
      8: { h.o.a = Nibble.low.minSizeInBits(); h.o.b = inside.yes.minSizeInBits(); h.o.c = inside.pair.minSizeInBytes(); }
      9: { second.apply(); h.o.c = h.o.c + 0x10; }
      10: { h.o.c = h.o.c + count(first.apply().hit) + 0x10; }
      11: {
        inner_id_t inner = (inner_id_t)(port_id_t)h.o.a;
        flag_t flag = (flag_t)(h.o.b == 3);
        if (inner == (inner_id_t)(port_id_t)7) { h.o.a = (bit<8>)(port_id_t)inner + 1; }
        if ((bool)flag) { h.o.c = 1; }
      }
      0x10: { h.o.b = m.way; }
      0x11: { h.o.b = m.way; }
      0x12: { h.o.b = m.way; ports.apply(); h.id.port = (port_id_t)((bit<8>)h.id.port + 1); }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// Arguments of externs are read from left to right, before the call; a register has an end; names are where they were
// declared last.
#include "pipeline.p4"
header k_t { bit<8> op; bit<8> a; bit<8> b; bit<8> c; }
struct H { k_t k; k_t[3] s; }
enum bit<8> Place { first = 0, second = 1, third = (bit<8>)second + 1 }
const int LARGE = 0x1234;
struct M {}
const bit<8> D2 = 3;
control Generic<D2, T>(in D2 first, in T second);
bit<8> one_and_five(inout bit<8> x) { x = 5; return 1; }
bit<8> seven_and_five(inout bit<8> x) { x = 5; return 7; }
bit<8> pick(in bool p, in bool q) { return (p ? 8w0x10 : 0) + (q ? 8w1 : 0); }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.k); transition select(h.k.op) { 9: elements; default: accept; } }
  state elements { b.extract(h.s.next); b.extract(h.s.next); b.extract(h.s.next); transition accept; }
}
NO_CHECKSUMS(H, M)
control In(inout H h, inout M m, STANDARD) {
  register<bit<8>>(4) r;
  register<bit<100>>(2) wide;
  register<Place>(2) places;
  action nothing() {}
  table counted {
    key = { h.k.a : exact; }
    actions = { nothing; }
    const entries = { 1 : nothing(); }
    counters = direct_counter(CounterType.packets);
  }
  apply {
    standard.egress_spec = 2;
    counted.apply();
    switch (h.k.op) {
      1: { hash(h.k.c, HashAlgorithm.identity, h.k.a, { seven_and_five(h.k.a) }, 16w256); }
      2: { random(h.k.c, h.k.a, one_and_five(h.k.a)); }
      3: { h.k.c = 0x55; r.write((bit<32>)h.k.a, h.k.b); r.read(h.k.c, (bit<32>)h.k.a); }
      4: { bit<100> x = 6; wide.read(x, (bit<32>)h.k.a); h.k.c = (bit<8>)x; }
      5: { bit<8> T = 3; h.k.c = (T) + 1; }
      6: { h.k.c = (D2) - 1; }
      7: { bit<8> x = 1; bit<8> y = 2; bit<8> z = 3; h.k.c = pick(x < y, z > (h.k.a)); }
      9: {
        Place at = (Place)h.k.a;
        h.s[Place.third].c = h.s[at].b;
        h.s[0] = (k_t){#};
        places.write(1, at);
        places.read(at, 1);
        h.s[2].op = (bit<8>)at;
      }
      10: { h.k.c = LARGE[11:4]; }
      11: { h.k.c = h.k.a / h.k.b; h.k.a = h.k.a % h.k.b; }
      8: { bit<8> apply = h.k.a; h.k.c = apply; }
    }
  }
}
NO_EGRESS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

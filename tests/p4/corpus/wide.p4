// Fields and variables of more than 128 bits: extracted, emitted, copied, compared, cut into slices, summed up.
#include "pipeline.p4"
typedef bit<264> digest_t;
header op_t { bit<8> op; bit<16> x; }
header wide_t { bit<4> before; digest_t digest; bit<4> after; }
header exact_t { bit<256> value; }
struct H { op_t o; wide_t a; wide_t b; exact_t e; }
struct M { digest_t kept; }
digest_t chosen(in bool first, in digest_t a, in digest_t b) { if (first) { return a; } return b; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.o); b.extract(h.a); m.kept = h.a.digest; transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    digest_t zero = 0;
    switch (h.o.op) {
      0: { h.b = h.a; h.b.before = 0xf; }
      1: { h.o.x = h.a.digest[263:248]; }
      2: { h.o.x = h.a.digest[15:0]; }
      3: { h.o.x = h.a.digest[135:120]; }      // in two parts
      4: { h.o.x = h.a.digest[259:252] ++ h.a.digest[128+:4] ++ h.a.digest[127:124]; }
      5: { h.a.digest[255:248] = 0x5a; h.a.digest[7:0] = 0xa5; }
      6: { h.a.digest = 0x1234; }
      7: { h.a.digest = -2; }
      8: { if (h.a.digest == m.kept && h.a.digest != zero) { h.o.x = 1; } m.kept[130:130] = ~m.kept[130:130]; if (h.a.digest == m.kept) { h.o.x = 2; } }
      9: { h.b = { 1, 7, 2 }; h.e = { 0xff }; }
      10: { h.b.setValid(); h.b.digest = chosen(h.o.x == 1, zero, h.a.digest); }
      11: { h.e.setValid(); h.e.value = 0x42; h.a.setInvalid(); if (h.e.value == 0x42) { h.o.x = 3; } }
      13: { h.a.digest = (digest_t)0x4321; if ((bit<256>)7 == (bit<256>)(bit<8>)7) { h.o.x = 4; } }
    }
  }
}
NO_EGRESS(H, M)
control Verify(inout H h, inout M m) { apply {} }
control Compute(inout H h, inout M m) {
  apply { update_checksum(h.o.op == 12, { h.a, 8w0 }, h.o.x, HashAlgorithm.csum16); }
}
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

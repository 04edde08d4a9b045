// Calculations with more than 128 bits.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> n; bit<300> a; bit<300> b; bit<300> r; bit<4> rest; }
struct H { op_t o; }
struct M {}
const bit<256> SUM = 256w0xfedcba98_76543210_01234567_89abcdef_0f1e2d3c_4b5a6978_8796a5b4_c3d2e1f0 + 256w7;
const bit<384> WIDER = (bit<384>)SUM;
const bit<384> JOINED = SUM ++ 128w3;
const bit<128> LOWEST = (bit<128>)SUM;
const bit<8> PART = SUM[10:3];
const bit<16> ACROSS = SUM[135:120];
const bit<300> REST = SUM[255:100] ++ 144w0xabc;
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.o); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { h.o.r = h.o.a + h.o.b; }
      1: { h.o.r = h.o.a - h.o.b; }
      2: { h.o.r = (h.o.a & h.o.b) ^ (h.o.a | 0xff); }
      3: { h.o.r = ~h.o.a; }
      4: { h.o.r = -h.o.a; }
      5: { h.o.r = h.o.a << h.o.n; }
      6: { h.o.r = h.o.a >> h.o.n; }
      7: { h.o.r = (h.o.a << 130) | (h.o.b >> 3); }
      8: { h.o.r = h.o.a[279:20] ++ h.o.b[39:0]; }
      9: { if (h.o.a < h.o.b) { h.o.r = 1; } if (h.o.a >= h.o.b) { h.o.r[1:1] = 1; } if (h.o.a > h.o.b) { h.o.r[2:2] = 1; } if (h.o.a <= h.o.b) { h.o.r[3:3] = 1; } }
      10: { h.o.r = h.o.a; h.o.r += h.o.b; h.o.r ^= h.o.a; h.o.r <<= h.o.n; h.o.r -= 1; }
      11: { h.o.r = ((1 << 100) + (bit<300>)h.o.n) << ((h.o.n & 1) + 199); }
      12: { const bit<300> k = ((bit<300>)1 << 299) - 1; h.o.r = k ^ (h.o.n == 1 ? h.o.a : h.o.b); }
      13: { h.o.r = 300w0xfedcba9876543210_fedcba9876543210_fedcba9876543210_fedcba9876543210_abc; }
      14: { h.o.r = 300w1234567890123456789012345678901234567890123456789012345678901234567890 ^ 300w0b1; }
      15: { h.o.r = 300w0xffff_fedcba9876543210_fedcba9876543210_fedcba9876543210_fedcba9876543210_abc; }
      16: { h.o.r = h.o.n == 1 ? 300w3 : 4; }
      17: { h.o.r = (h.o.a << h.o.b) + (bit<300>)(h.o.n << h.o.b); }
      18: { h.o.r = WIDER[299:0]; }
      19: { h.o.r = JOINED[299:0]; }
      20: { h.o.r = (bit<300>)(LOWEST ++ PART ++ ACROSS); }
      21: { h.o.r = REST; }
    }
    h.o.a = 0;
    h.o.b = 0;
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.o); } }
MAIN

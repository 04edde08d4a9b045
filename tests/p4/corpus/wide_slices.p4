// Slices of more than 128 bits, slices of slices, and slices whose place the packet gives.
#include "pipeline.p4"
header op_t { bit<8> op; bit<16> at; int<8> signed_at; bit<32> narrow; }
header wide_t { bit<400> a; }
struct H { op_t o; wide_t w; }
struct M { }
void flip(inout bit<200> x) { x = ~x; }
void flip4(inout bit<4> x) { x = ~x; }
bit<8> shifted(inout bit<32> x) { x = 0; return 8; }
bit<16> moved(inout bit<16> x) { x = x + 8; return x; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.o);
    b.extract(h.w);
    transition select(h.o.narrow[h.o.at[4:0] +: 8], h.o.op) {
      (0x5a, 20): changed;
      default: accept;
    }
  }
  state changed { h.w.a[h.o.at +: 16] = 0; transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { h.w.a[300:101] = 200w0x123; }
      1: { h.w.a[349:50] = h.w.a[399:100]; }        // what is stored is read before
      2: { h.w.a[300:50][210:20] = h.w.a[190:0]; }
      3: { h.w.a[260:100][39:20] = 0xabcde; }       // in two parts of 128 bits
      4: { flip(h.w.a[250:51]); }
      5: { h.o.narrow[19:4][11:4] = 0; }
      6: { h.o.narrow[7:0] = h.w.a[300:100][h.o.at +: 8]; }
      7: { h.o.narrow[7:0] = h.o.narrow[h.o.at +: 8]; }
      8: { h.o.narrow[h.o.at +: 8] = 0xe7; }
      9: { h.w.a[h.o.at +: 8] = 0xe7; }
      10: { h.w.a[h.o.at +: 150] = h.w.a[149:0]; }
      11: { h.w.a = (bit<400>)h.w.a[h.o.at +: 150]; }
      12: { h.o.narrow = h.o.narrow[h.o.signed_at +: 32]; }
      13: { flip4(h.o.narrow[h.o.at +: 4]); }
      14: { h.o.signed_at[h.o.at +: 3] = 0; }
      15: { h.w.a[350:150][h.o.at +: 8] = 0xe7; }
      16: { h.o.narrow[h.o.at +: 8] += 3; }
      17: { h.o.narrow[h.o.at +: 8] = (bit<8>)moved(h.o.at); }  // the place is that of before
      18: { h.w.a[300:101] = 0x77; }
      19: { bit<8> x; x[h.o.at +: 8] = 0xab; h.o.narrow = (bit<32>)x; }
      22: { h.o.narrow[moved(h.o.at)[7:0] +: 4] = 0xd; }
      23: { h.o.narrow = (bit<32>)h.o.narrow[shifted(h.o.narrow) +: 16]; }  // the value is that of before
      24: { h.o.narrow[h.o.at +: 8][6:3] = 0xd; }     // a slice of one whose place the packet gives
      25: { h.w.a[h.o.at +: 200][150:10] = h.w.a[140:0]; }
      26: { h.o.narrow[h.o.at +: 16][11:2][h.o.signed_at +: 4][2:1] += 3; }
      27: { flip4(h.w.a[h.o.at +: 300][131:128]); }
      28: { h.o.narrow[7:0] = h.w.a[h.o.signed_at +: 8]; h.w.a[h.o.signed_at +: 8] = 0x96; }  // -1 is not 255
      29: { h.o.narrow[7:0] = h.o.narrow[h.w.a[399:200] +: 8]; h.w.a[h.w.a[399:200] +: 8] = 0x96; }
      21: { h.w.a[139:100] = 0; h.w.a[8 +: 200] = h.w.a[200 +: 200]; }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// Numbers without a width, of more than 128 bits, and constants of more: all is computed at compile time.
#include "pipeline.p4"
header op_t { bit<8> op; }
header wide_t { bit<320> a; }
struct H { op_t o; wide_t w; }
struct M { }
const int POWER = 1 << 300;
const int DECIMAL = 100_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_003;  // 10^50 + 3
const int HEX = 0xfedc_ba98_7654_3210_0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
const bit<200> SQUARE = 200w0x1_0000_0000_0000_0000_0000_0001 * 200w0x1_0000_0000_0000_0000_0000_0001;
const bit<160> FULL = 160w0xffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff_fff0;
const bit<16384> ALL = ~(bit<16384>)0;
const bit<9000> NINES = (bit<9000>)DECIMAL << 8900;
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.o); b.extract(h.w); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { h.w.a = POWER + 7; }
      1: { h.w.a = POWER / 3; }
      2: { h.w.a = POWER % DECIMAL; }
      3: { h.w.a = DECIMAL * DECIMAL - HEX; }
      4: { h.w.a = (HEX & (POWER - 1)) ^ (DECIMAL | HEX); }
      5: { h.w.a = (bit<320>)((-HEX) >> 64); }                          // rounds down
      6: { h.w.a[7:0] = (bit<8>)(HEX >> 180); h.w.a[15:8] = HEX[91:84]; }
      7: { h.w.a[159:0] = HEX[170:11]; }
      8: { if (-POWER < DECIMAL && POWER == 2 * (1 << 299) && HEX > DECIMAL) { h.w.a = 1; } }
      9: { h.w.a = (bit<320>)SQUARE; }
      10: { h.w.a[159:0] = FULL |+| 100; h.w.a[319:160] = 160w99 |-| 160w100; }
      11: { h.w.a[159:0] = FULL / 1000; h.w.a[319:160] = FULL % 1000; }
      12: { h.w.a = (bit<320>)((int)FULL << 17); }
      13: { h.w.a = (-HEX & DECIMAL) | 1; }
      15: { h.w.a = (bit<304>)(ALL + 8) ++ (ALL * ALL)[7:0] ++ (ALL |+| 1)[16383:16376]; }  // cut, not too large
      16: { h.w.a = (NINES * (ALL[8999:0] - 1))[8999:8680]; }
      14: { h.w.a = h.w.a << (POWER >> 297); }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

// Operators on bit<8>: the packet has the operation and two operands; the result is sent back.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> a; bit<8> b; bit<8> r; }
struct H { op_t o; }
struct M {}
enum bit<8> Low { one = 1, two = 2, five = 5 }
enum bit<8> High { ten = 10, eleven = 11 }
enum bit<8> kind { LOW = 3, HIGH = 0xf0, SAME = LOW }
enum bit<4> half { ONE = 1, FOUR = 4 }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.o); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    int<8> sa = (int<8>)h.o.a;
    int<8> sb = (int<8>)h.o.b;
    switch (h.o.op) {
      0x00: { h.o.r = h.o.a + h.o.b; }
      0x01: { h.o.r = h.o.a - h.o.b; }
      0x02: { h.o.r = h.o.a * h.o.b; }
      0x03: { h.o.r = h.o.a |+| h.o.b; }
      0x04: { h.o.r = h.o.a |-| h.o.b; }
      0x05: { h.o.r = (bit<8>)(sa |+| sb); }
      0x06: { h.o.r = (bit<8>)(sa |-| sb); }
      0x07: { h.o.r = h.o.a << h.o.b; }
      0x08: { h.o.r = h.o.a >> h.o.b; }
      0x09: { h.o.r = (bit<8>)(sa >> h.o.b); }
      0x0a: { h.o.r = h.o.a & h.o.b; }
      0x0b: { h.o.r = h.o.a | h.o.b; }
      0x0c: { h.o.r = h.o.a ^ h.o.b; }
      0x0d: { h.o.r = ~h.o.a; }
      0x0e: { h.o.r = -h.o.a; }
      0x0f: { h.o.r = h.o.a[3:0] ++ h.o.b[7:4]; }
      0x10: { if (h.o.a < h.o.b) { h.o.r = 1; } }
      0x11: { if (sa < sb) { h.o.r = 1; } }
      0x12: { if (sa >= sb) { h.o.r = 1; } }
      0x13: { h.o.r = (bit<8>)((int<8>)(int<4>)h.o.a[3:0]); }
      0x14: { h.o.r = h.o.a & h.o.b == 0 ? 8w1 : 8w2; }
      0x15: { h.o.r[5:2] = h.o.a[3:0]; }
      0x16: { h.o.r = (bit<8>)(bit<4>)(h.o.a / 16) | (bit<8>)(h.o.b % 16) << 4; }
      0x17: { h.o.r = 8w255 + 1 + h.o.a; }
      0x18: { h.o.r = (bit<8>)(4s7 + 1 == -8 ? 1w1 : 1w0) + (bit<8>)(bit<1>)(5 - 7 * 2 == -9); }
      // Numbers of unknown width have bits, too: -6 ends with ...11111010.
      0x19: { h.o.r = (0x0c | 0x21) + h.o.a; }
      0x1a: { h.o.r = (0x3c & 0x0f) + (0x3c ^ 0x0f) + h.o.a; }
      0x1b: { h.o.r = (-6 & 0x1f) + h.o.a; }
      0x1c: { if ((-6 | 3) == -5 && (-6 ^ -1) == 5) { h.o.r = 1; } }
      0x1d: { Low l = (Low)High.eleven; h.o.r = l; }
      0x1e: { h.o.r = Low.five + Low.two; if ((Low)(Low.one + Low.one) == Low.two) { h.o.r = h.o.r + h.o.a; } }
      0x29: { h.o.r = kind.LOW + kind.HIGH; }
      0x2a: { h.o.r = half.ONE ++ half.FOUR; }
      0x2b: { h.o.r = (kind)h.o.a & kind.HIGH; }
      0x2c: { h.o.r = ~(kind)h.o.a; }
      0x2d: { if ((kind)h.o.a < (kind)h.o.b) { h.o.r = 1; } }
      0x2e: { h.o.r = (kind)h.o.a |-| (kind)h.o.b; }
      // A signed number, if it is known and not negative.
      0x30: { const int<8> by = 3; h.o.r = (h.o.a << 2s1) + (h.o.b >> by); h.o.r <<= 4s1; }
      0x2f: { if (kind.SAME == kind.LOW && kind.LOW != kind.HIGH) { h.o.r = (bit<8>)(half.ONE + half.FOUR); } }
      default: { h.o.r = 0xee; }
    }
    standard.egress_spec = standard.ingress_port;
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.o); } }
MAIN

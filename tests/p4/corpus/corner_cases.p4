// Corners of the language, one an operation.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> a; bit<8> b; int<8> s; bit<16> w; int<16> sw; }
header item_t { bit<8> v; }
struct H { op_t o; item_t[3] items; }
struct pair_t { bit<8> x; bit<8> y; }
struct M { bit<8> trace; }
const int<8> MOST = 127;
const bit<8> WRAPPED = 8w5 - 8w10;
const int<8> WRAPPED_SIGNED = MOST + 8s1;
bit<8> traced(inout bit<8> trace, in bit<8> x) { trace = trace * 16 + x; return x; }
bool truth(inout bit<8> trace, in bool x) { trace = trace + 1; return x; }
void both(inout bit<8> x, inout bit<8> y) { x = 1; y = 2; }
void give(out bit<8> x, in bit<8> y) { x = y + 1; x = x + y; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.o);
    transition select(h.o.op) { 40 .. 49: items; default: accept; }
  }
  state items {
    b.extract(h.items.next);
    transition select(h.items.last.v) { 0xff: accept; default: items; }
  }
}
control Inner(inout H h, inout M m) {
  apply {
    h.o.a = 1;
    if (h.o.b == 1) { return; }
    h.o.a = 2;
    if (h.o.b == 2) { exit; }
    h.o.a = 3;
  }
}
control In(inout H h, inout M m, STANDARD) {
  Inner() inner;
  action leave() { h.o.w = 0x1111; exit; }
  action stay() { h.o.w = 0x2222; }
  table t {
    key = { h.o.a : exact; }
    actions = { leave; stay; }
    default_action = stay();
    const entries = { 1 : leave(); }
  }
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { h.o.w = h.o.w << h.o.a; h.o.sw = h.o.sw >> h.o.b; }
      1: { h.o.w = (bit<16>)(h.o.s ++ h.o.b); }
      2: { h.o.sw = (int<16>)h.o.s; h.o.w = (bit<16>)(bit<8>)h.o.s; }
      3: { h.o.a = WRAPPED; h.o.s = WRAPPED_SIGNED; h.o.b = (bit<8>)(-5 >> 1); h.o.w = 7 / 2 * 10 + 7 % 4; }
      4: { h.o.s = h.o.s |+| 100; h.o.a = h.o.a |-| 100; h.o.sw = h.o.sw |-| 32767; }
      5: { h.o.s = -h.o.s; h.o.a = -h.o.a; h.o.b = ~h.o.b; }
      6: { h.o.w = traced(h.o.b, 1) ++ traced(h.o.b, 2); }
      7: { if (truth(h.o.b, h.o.a == 1) && truth(h.o.b, true)) { h.o.w = 1; } else { h.o.w = 2; } }
      8: { if (truth(h.o.b, h.o.a == 1) || truth(h.o.b, true)) { h.o.w = 1; } else { h.o.w = 2; } }
      9: { both(h.o.a, h.o.a); }
      10: { both(h.o.w[7:0], h.o.w[15:8]); }
      11: { give(h.o.a, h.o.a); }
      12: { h.o.a[7:4] = h.o.a[3:0]; h.o.b[3:0] = h.o.b[7:4]; }
      13: { pair_t p = { h.o.a, h.o.b }; p = { p.y, p.x }; h.o.a = p.x; h.o.b = p.y; }
      14: { pair_t p = { y = h.o.a, x = h.o.b }; h.o.w = p == { h.o.b, h.o.a } ? 16w1 : 2; }
      15: { h.o.w = h.o.s < -1 ? 16w1 : 0; h.o.sw = h.o.a < 255 ? 16s1 : -1; }
      16: { h.o.a = (bit<8>)(h.o.s >> 1); h.o.b = h.o.b >> 1; }
      17: { inner.apply(h, m); h.o.w = 0xaaaa; }
      18: { t.apply(); h.o.sw = 0x3333; }
      19: { if (t.apply().hit) { h.o.b = 1; } else { h.o.b = 2; } }
      20: { h.o.a = h.o.a == 0 ? h.o.b : h.o.b == 0 ? 8w7 : 9; }
      21: { bit<8> x = 8; { bit<8> x = 9; h.o.a = x; } h.o.b = x; }
      22: { h.o.w = h.o.w ^ (h.o.w & 0x0ff0 | 0xf000) ; }
      23: { h.o.w[7:0] = h.o.w[15:8] + 1; h.o.w[15:8] += 255; }
      24: { h.o.a = (bit<8>)(bit<1>)(h.o.b > 3) << 7; }
      25: { h.o.w = 16w0xffff + (bit<16>)h.o.a * 2 - 1 << 1; }
      26: { h.o.s = (int<8>)h.o.a - 1; h.o.sw = h.o.sw * (int<16>)h.o.s; }
      40: { h.items.push_front(1); h.items[0].setValid(); h.items[0].v = 0x77; }
      41: { h.items.push_front(2); }
      42: { h.items.pop_front(1); }
      43: { h.items.pop_front(5); }
      44: { h.items.push_front(3); h.items[2] = { 9 }; }
      45: { h.items[1] = h.items[0]; h.items[0].setInvalid(); }
      46: { h.o.a = (bit<8>)h.items.size; h.o.b = h.items[0].isValid() && !h.items[2].isValid() ? 8w1 : 0; }
      47: { h.items[h.o.a].v = 0x55; }
      48: { h.o.w = h.items[0] == h.items[1] ? 16w1 : 0; h.o.b = h.items[1] == h.items[2] ? 8w1 : 0; }
    }
    m.trace = h.o.b;
  }
}
control Out(inout H h, inout M m, STANDARD) { apply { if (standard.parser_error == error.StackOutOfBounds) { h.o.a = 0xee; } } }
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

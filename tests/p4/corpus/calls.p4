// Functions, actions, nested controls: copy-in and copy-out, order of evaluation, return, exit.
#include "pipeline.p4"
header d_t { bit<8> op; bit<8> a; bit<8> b; bit<8> c; }
struct H { d_t d; }
struct M { bit<8> seen; }
bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
bit<8> early(in bit<8> x) { if (x == 0) { return 0xaa; } return x - 1; }
void both(out bit<8> x, out bit<8> y) { x = 1; y = 2; }
void second_sees_old(inout bit<8> x, in bit<8> y) { x = 9; x = x + y; }
void only_if(in bool set, out bit<8> x) { if (set) { x = 5; } }
T same<T>(in T x) { return x; }
bit<8> nested(in bit<8> x) { return early(early(x)); }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.d); transition accept; }
}
control Inner(inout bit<8> x, in bit<8> y)(bit<8> constant) {
  bit<8> local = 1;
  apply {
    local = local + y;
    if (y == 0xff) { return; }
    x = x + local + constant;
  }
}
control In(inout H h, inout M m, STANDARD) {
  Inner(0x10) one;
  Inner(0x20) two;
  action leave_after(inout bit<8> x) { x = 0x77; exit; }
  action back_early(inout bit<8> x) { x = 1; if (h.d.b == 0) { return; } x = 2; }
  action calls_another(inout bit<8> x) { leave_after(x); x = 0; }
  apply {
    standard.egress_spec = 2;
    if (h.d.op == 0) { h.d.c = h.d.a + bump(h.d.a) + h.d.a; }
    else if (h.d.op == 1) { h.d.c = early(h.d.a); }
    else if (h.d.op == 2) { both(h.d.a, h.d.b); }
    else if (h.d.op == 3) { second_sees_old(h.d.a, h.d.a); }
    else if (h.d.op == 4) { only_if(false, h.d.a); }
    else if (h.d.op == 5) { h.d.c = same<bit<8>>(h.d.a) + nested(h.d.b); }
    else if (h.d.op == 6) { one.apply(h.d.a, h.d.b); two.apply(h.d.a, h.d.b); one.apply(h.d.c, 0); }
    else if (h.d.op == 7) { leave_after(h.d.a); h.d.b = 0; }
    else if (h.d.op == 8) { back_early(h.d.a); h.d.c = 0xcc; }
    else if (h.d.op == 9) { calls_another(h.d.a); h.d.b = 0; }
    else if (h.d.op == 10) { both(h.d.a, h.d.a); }
    else if (h.d.op == 11) { if (h.d.a == 1 && bump(h.d.b) == 5) { h.d.c = 1; } }
    else if (h.d.op == 12) { if (h.d.a == 1 || bump(h.d.b) == 5) { h.d.c = 1; } }
    else if (h.d.op == 13) { h.d.c = h.d.a == 1 ? bump(h.d.b) : 0x55; }
    else if (h.d.op == 14) { h.d.c = bump(h.d.a) - bump(h.d.a); }
    else if (h.d.op == 15) { second_sees_old(h.d.a, bump(h.d.a)); }
    else if (h.d.op == 16) { h.d.c = bump(h.d.a) + early(bump(h.d.a)); }
    h.d.op = 0xff;
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.d); } }
MAIN

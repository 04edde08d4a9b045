// The last label of a switch may have no block: nothing is done for it.
#include "pipeline.p4"
header op_t { bit<8> op; bit<8> x; bit<8> y; }
struct H { op_t o; }
struct M { }
parser Parse(packet_in b, out H h, inout M m, STANDARD) { state start { b.extract(h.o); transition accept; } }
control In(inout H h, inout M m, STANDARD) {
  action one() { h.o.y = 1; }
  action two() { h.o.y = 2; }
  action three() { h.o.y = 3; }
  table t {
    key = { h.o.x : exact; }
    actions = { one; two; three; }
    default_action = three();
    const entries = { 1 : one(); 2 : two(); }
  }
  apply {
    standard.egress_spec = 2;
    switch (h.o.op) {
      0: { switch (h.o.x) { 1: { h.o.y = 0x11; } 2: 3: { h.o.y = 0x23; } 4: 5: } }
      1: { switch (h.o.x) { 1: { h.o.y = 0x11; } 2: default: } }
      2: { switch (t.apply().action_run) { one: { h.o.y = 0x11; } two: } }
      3: { switch (t.apply().action_run) { two: one: { h.o.y = 0x21; } default: } }
      4: { switch (h.o.x) { default: } }
      5:
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

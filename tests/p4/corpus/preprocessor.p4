// What the preprocessor and the two standard files define, and what is left out without being read.
#define V1MODEL_VERSION 20200408
#include "pipeline.p4"
#if 0
It isn't P4: $ ` "and this does not end
#endif
#define __UNUSED don't
#if (1 << 3) == 8 && (0xf0 >> 4 & ~1 | 1) == 0xf && (6 ^ 3) == 5 && (2 > 1 ? 3 : 4) == 3 && 1 + 1 << 2 == 8
#define SHIFTS 1
#else
#define SHIFTS 0
#endif
#ifdef __TARGET_BMV2__
#define TARGET 2
#else
#define TARGET 0
#endif
#ifdef _CORE_P4_
#define CORE 4
#else
#define CORE 0
#endif
#ifdef _V1_MODEL_P4_
#define MODEL 8
#else
#define MODEL 0
#endif
const bool checked = static_assert(V1MODEL_VERSION >= 20160101, "an older v1model");
const bool also_checked = static_assert(SHIFTS == 1);
header h_t { bit<8> a; bit<8> b; }
@pragma some_tool 1 "two" three, that's all
// Any tokens, in balanced parentheses; expressions in brackets
@note(It's free: (is it?) $5 \ 6 `x` [) @also[that = "is (", it = 1 + 2] @length((bit<8>)1)
struct H { h_t h; }
struct M { PortId_t port; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.h); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  register<bit<8>, PortId_t>(16) by_port;
  apply @noted("before a block") {
    m.port = standard.ingress_port;
    standard.egress_spec = 2;
    h.h.a = SHIFTS + TARGET + CORE + MODEL;
    h.h.b = 1;  // the next line is part of this comment \
    h.h.b = 2;
    by_port.write(m.port, h.h.a);
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

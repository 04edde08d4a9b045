// Stacks of header unions: extracting into STACK.next.MEMBER moves the stack on, as packet_in.extract says.
#include "pipeline.p4"
header one_t { bit<8> tag; bit<8> x; }
header two_t { bit<8> tag; bit<16> y; }
header_union option_t { one_t one; two_t two; }
header head_t { bit<8> flags; }
struct H { head_t head; option_t[2] options; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.head); transition options; }
  state options { transition select(b.lookahead<bit<8>>()) { 1: one; 2: two; default: accept; } }
  state one { b.extract(h.options.next.one); transition options; }
  state two { b.extract(h.options.next.two); transition options; }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    if (h.options[0].one.isValid()) { h.head.flags[0:0] = 1; }
    if (h.options[1].two.isValid()) { h.head.flags[1:1] = 1; }
    if (h.options[0].two.isValid()) { h.head.flags[2:2] = 1; }
    if (h.options[1].one.isValid()) { h.head.flags[3:3] = 1; }
    if (standard.parser_error == error.StackOutOfBounds) { h.head.flags[7:4] = 0xe; }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

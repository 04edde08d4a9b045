// Header stacks: next, last, lastIndex, loops, overflow, push_front, pop_front, an index of run time.
#include "pipeline.p4"
header cmd_t { bit<8> op; bit<8> index; }
header label_t { bit<7> label; bit<1> bottom; }
struct H { cmd_t c; label_t[3] s; }
struct M { bit<8> last; bit<8> sum; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.c); transition labels; }
  state labels {
    b.extract(h.s.next);
    m.sum = m.sum + (bit<8>)h.s.last.label;
    m.last = (bit<8>)h.s.lastIndex;
    transition select(h.s.last.bottom) { 1: accept; 0: labels; }
  }
}
control In(inout H h, inout M m, STANDARD) {
  apply {
    standard.egress_spec = 2;
    if (standard.parser_error == error.StackOutOfBounds) { h.c.op = 0xee; exit; }
    switch (h.c.op) {
      1: { h.s.push_front(1); h.s[0].setValid(); h.s[0].label = 0x7f; }
      2: { h.s.pop_front(1); }
      3: { h.s[h.c.index].label = 1; }
      4: { h.c.index = (bit<8>)h.s[h.c.index].label; }
      5: { h.s[2] = h.s[0]; }
      6: { h.c.index = m.last ++ 4w0 == 12w0x010 ? m.sum : 0; }
      7: { h.s.push_front(2); }
      8: { h.s.pop_front(7); }
      9: { h.c.index = (bit<8>)h.s.size; }
      10: { h.s[1].setInvalid(); }
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.c); b.emit(h.s); } }
MAIN

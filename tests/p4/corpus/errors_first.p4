// An error before those of core.p4. And what the reference compiler takes, too: numbers for new types, literals of many
// bits, advance() by any number, signed keys, a table of size 0; named arguments in another order than the parameters.
error { Mine }
#include "pipeline.p4"
type bit<8> id_t;
const id_t kFirst = 7;
header first_t { bit<8> kind; bit<8> x; }
header out_t { bit<8> error_number; bit<8> difference; bit<8> last; bit<8> id; bit<8> hit; bit<8> wide; }
struct H { out_t o; first_t f; }
struct M { int<8> key; }
bit<8> bump(inout bit<8> v) { v = v + 1; return v; }
bit<8> minus(in bit<8> a, in bit<8> b) { return a - b; }
void both(out bit<8> a, out bit<8> b) { a = 1; b = 2; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.f);
    transition select(h.f.kind) { 1: checks; 2: odd; default: accept; }
  }
  state checks { verify(false, error.Mine); transition accept; }
  state odd { b.advance(3); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  action yes() { h.o.hit = 1; }
  table by_key {
    key = { m.key : ternary; }
    actions = { yes; NoAction; }
    const entries = { -1 : yes(); }
    default_action = NoAction;
    size = 0;
  }
  apply {
    h.o.setValid();
    if (standard.parser_error == error.NoError) { h.o.error_number = 0; }
    else if (standard.parser_error == error.PacketTooShort) { h.o.error_number = 1; }
    else if (standard.parser_error == error.Mine) { h.o.error_number = 2; }
    else if (standard.parser_error == error.ParserInvalidArgument) { h.o.error_number = 3; }
    else { h.o.error_number = 9; }
    m.key = (int<8>)h.f.kind;
    h.o.difference = minus(b = bump(h.f.x), a = h.f.x);
    both(b = h.o.last, a = h.o.last);
    id_t i = (id_t)(h.f.kind == 1 ? 8w4 : 5);
    h.o.id = (bit<8>)i + (bit<8>)kFirst;
    h.o.hit = 0;
    by_key.apply();
    bit<256> w = 256w5;
    h.o.wide = 0;
    if (w == 256w5 && (bit<8>)256w5 == 5 && 256w0x300[15:8] == 3 && (bit<512>)256w5 != 0) { h.o.wide = 1; }
    standard.egress_spec = 2;
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h); } }
MAIN

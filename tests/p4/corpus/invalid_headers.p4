// Fields of headers that are not valid: what the reference switch does where the language leaves it open.
#include "pipeline.p4"
header k_t { bit<8> op; bit<8> a; }
header v_t { bit<16> x; bit<16> csum; }
header text_t { bit<32> first; bit<40> rest; }
header r_t { bit<32> hash; }
struct H { k_t k; r_t r; v_t v; text_t t; k_t[2] s; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.k);
    transition select(h.k.op) { 0x80 &&& 0x80: value; 0x10 &&& 0x10: digits; 3: elements; 5: elements; default: accept; }
  }
  state value { b.extract(h.v); transition accept; }
  state digits { b.extract(h.t); transition accept; }
  state elements { b.extract(h.s.next); b.extract(h.s.next); transition accept; }
}
control Verify(inout H h, inout M m) {
  apply { verify_checksum(true, { h.v.x }, h.v.csum, HashAlgorithm.csum16); }
}
control In(inout H h, inout M m, STANDARD) {
  action set(bit<8> a) { h.k.a = a; }
  table whole { key = { h.v.x : exact; } actions = { set; } const entries = { 0 : set(7); 0x1234 : set(8); } }
  table masked { key = { h.v.x & 0xff00 : ternary @name("masked"); } actions = { set; } const entries = { 0 : set(7); _ : set(8); } }
  table part { key = { h.v.x[7:0] : ternary @name("part"); } actions = { set; } const entries = { 0 : set(7); _ : set(8); } }
  // Of the element that the packet names.
  table element { key = { h.s[h.k.a].a & 0x0f : exact @name("element"); } actions = { set; } const entries = { 0 : set(7); 2 : set(8); } }
  apply {
    standard.egress_spec = 2;
    if (standard.checksum_error == 1) { mark_to_drop(standard); return; }
    if (h.k.op[4:4] == 1) {
      h.r.setValid();
      switch (h.k.a) {
        0: { hash(h.r.hash, HashAlgorithm.crc32, 32w0, { h.t.first, h.t.rest, h.v.x }, 64w0x100000000); }
        1: { hash(h.r.hash, HashAlgorithm.crc32, 32w0, { h.v.x, h.t.first, h.v, h.t.rest }, 64w0x100000000); }
        2: { hash(h.r.hash, HashAlgorithm.crc16, 32w0, { h.t, h.v }, 64w0x100000000); }
        3: { hash(h.r.hash, HashAlgorithm.crc32, 32w0, { h.v }, 64w0x100000000); }
        4: { hash(h.r.hash, HashAlgorithm.crc32, 32w0, { h.t.first, h.t.rest[39:4] }, 64w0x100000000); }
        5: { hash(h.r.hash, HashAlgorithm.crc32, 32w0, { h.t.first, h.v.x, h.t.rest[39:4] }, 64w0x100000000); }
        6: { hash(h.r.hash, HashAlgorithm.csum16, 32w0, { 8w1 }, 64w0x100000000); }
      }
    } else if (h.k.op == 0x82) { h.v.setInvalid(); whole.apply(); }
    else if (h.k.op == 0x84) { h.v.setInvalid(); part.apply(); }
    else if (h.k.op == 0x86) { h.v.setInvalid(); masked.apply(); }
    else if (h.k.op == 0x88) { whole.apply(); }
    else if (h.k.op == 5) { h.s[0].setInvalid(); element.apply(); }
  }
}
NO_EGRESS(H, M)
control Compute(inout H h, inout M m) { apply {} }
// An index of the packet: an element that does not exist is not emitted.
control Deparse(packet_out b, in H h) { apply { b.emit(h.k); b.emit(h.r); b.emit(h.v); b.emit(h.s[h.k.a]); } }
MAIN

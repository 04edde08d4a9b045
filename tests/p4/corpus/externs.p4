// Registers, counters, meters, hashes, random numbers.
#include "pipeline.p4"
header c_t { bit<8> op; bit<8> index; bit<32> v; }
header text_t { bit<72> text; }
struct H { c_t c; text_t t; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.c); transition select(h.c.op) { 0x10 &&& 0xf0: text; default: accept; } }
  state text { b.extract(h.t); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  register<bit<32>>(4) cells;
  register<bit<128>>(2) wide;
  counter(4, CounterType.packets_and_bytes) counted;
  meter(4, MeterType.bytes) metered;
  direct_counter(CounterType.packets) direct;
  direct_meter<bit<2>>(MeterType.packets) direct_colour;
  action nothing() { direct.count(); }
  action colour() { bit<2> c = 3; direct_colour.read(c); h.c.v = (bit<32>)c; }
  table with_counter { key = { h.c.op : exact; } actions = { nothing; NoAction; } counters = direct; default_action = NoAction(); }
  table with_meter { key = { h.c.op : exact; } actions = { colour; NoAction; } meters = direct_colour; default_action = NoAction(); }
  apply {
    standard.egress_spec = 2;
    bit<32> index = (bit<32>)h.c.index;
    with_counter.apply();
    if (h.c.op == 0) { cells.write(index, h.c.v); }
    else if (h.c.op == 1) { cells.read(h.c.v, index); }
    else if (h.c.op == 2) { bit<32> old; cells.read(old, index); cells.write(index, old + h.c.v); h.c.v = old; }
    else if (h.c.op == 3) { counted.count(index); }
    else if (h.c.op == 4) { bit<8> c = 7; metered.execute_meter(index, c); h.c.v = (bit<32>)c; }
    else if (h.c.op == 5) { wide.write(index, 96w0xabcdef0123456789abcdef01 ++ h.c.v); bit<128> r; wide.read(r, index); h.c.v = r[127:96]; }
    else if (h.c.op == 6) { random(h.c.v, 7, 9); h.c.v = h.c.v >= 7 && h.c.v <= 9 ? 32w1 : 32w0; }
    else if (h.c.op == 7) { random(h.c.v, 5, 5); }
    else if (h.c.op == 8) { with_meter.apply(); }
    else if (h.c.op == 0x10) { hash(h.c.v, HashAlgorithm.crc32, 32w0, { h.t.text }, 64w0x100000000); }
    else if (h.c.op == 0x11) { hash(h.c.v, HashAlgorithm.crc16, 16w0, { h.t.text[71:40], h.t.text[39:0] }, 32w0x10000); }
    else if (h.c.op == 0x12) { hash(h.c.v, HashAlgorithm.crc16, 8w5, { h.t.text }, 8w10); }
    else if (h.c.op == 0x13) { hash(h.c.v, HashAlgorithm.crc16, 8w5, { h.t.text }, 8w0); }
    else if (h.c.op == 0x14) { hash(h.c.v, HashAlgorithm.csum16, 32w0, { h.t.text[71:8] }, 32w0x10000); }
    else if (h.c.op == 0x15) { hash(h.c.v, HashAlgorithm.identity, 32w1, { h.t.text[71:56] }, 32w0x10000); }
    else if (h.c.op == 0x16) { hash(h.c.v, HashAlgorithm.xor16, 32w0, { h.t.text[71:40] }, 32w0x10000); }
    else if (h.c.op == 0x17) { hash(h.c.v, HashAlgorithm.crc32_custom, 32w0, { h.t.text }, 64w0x100000000); }
    else if (h.c.op == 0x18) { hash(h.c.v, HashAlgorithm.crc16_custom, 32w0, { h.t.text }, 32w0x10000); }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.c); b.emit(h.t); } }
MAIN

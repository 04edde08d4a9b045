// verify_checksum and update_checksum, with and without payload.
#include "pipeline.p4"
header c_t { bit<16> a; bit<16> b; bit<16> sum; bit<8> options; bit<8> error_seen; }
header data_t { bit<16> first; bit<16> second; }
struct H { c_t c; }
struct M {}
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start { b.extract(h.c); transition accept; }
}
control Verify(inout H h, inout M m) {
  apply {
    verify_checksum(h.c.options[0:0] == 1, { h.c.a, h.c.b }, h.c.sum, HashAlgorithm.csum16);
    verify_checksum_with_payload(h.c.options[1:1] == 1, { h.c.a, h.c.b }, h.c.sum, HashAlgorithm.csum16);
    verify_checksum(h.c.options[4:4] == 1, { h.c.a, h.c.b }, h.c.sum, HashAlgorithm.crc16);
  }
}
control In(inout H h, inout M m, STANDARD) {
  apply { standard.egress_spec = 2; h.c.error_seen = (bit<8>)standard.checksum_error; }
}
NO_EGRESS(H, M)
control Compute(inout H h, inout M m) {
  Checksum16() old;  // of earlier versions: a value that the program uses as it likes
  data_t both = { h.c.a, h.c.b };
  apply {
    if (h.c.options[5:5] == 1) { h.c.sum = old.get(both); }
    if (h.c.options[6:6] == 1 && h.c.sum != old.get({ h.c.a, (data_t){ h.c.b, 16w0 } })) { h.c.error_seen = 9; }
    update_checksum(h.c.options[2:2] == 1, { h.c.a, h.c.b }, h.c.sum, HashAlgorithm.csum16);
    update_checksum_with_payload(h.c.options[3:3] == 1, { h.c.a, h.c.b }, h.c.sum, HashAlgorithm.csum16);
  }
}
control Deparse(packet_out b, in H h) { apply { b.emit(h.c); } }
MAIN

// Calls of v1model's generic functions that write their types: NAME<TYPE>(...). A number among the data then needs no
// width of its own, and fields may have names. `_` leaves a type to the arguments. Also strings that are joined from constants.
#include "pipeline.p4"
header k_t { bit<8> way; bit<8> a; bit<8> b; bit<16> result; bit<16> sum; }
header absent_t { bit<8> x; }
struct H { k_t k; absent_t absent; }
struct M { bit<8> x; }
struct pair_t { bit<8> x; bit<8> y; }
typedef tuple<bit<8>, bit<8>> two_t;
const string kGreeting = "good ";
const string kText = kGreeting ++ "morning" ++ kGreeting;
// Externs that nothing uses may be anything.
extern Worker {
  Worker();
  abstract bit<8> work(in bit<8> x);
  @optional_here abstract void rest();
}
parser Parse(packet_in packet, out H h, inout M m, STANDARD) {
  state start { packet.extract<_>(h.k); transition accept; }
}
control Verify(inout H h, inout M m) {
  apply { verify_checksum<tuple<bit<8>, bit<8>, bit<16>>, bit<16>>(h.k.way == 5, { h.k.a, 2, 0x100 }, h.k.sum, HashAlgorithm.csum16); }
}
control In(inout H h, inout M m, STANDARD) {
  Checksum16() sum;
  apply {
    standard.egress_spec = 2;
    log_msg(kText);
    log_msg(kGreeting ++ "{}", { h.k.a });
    static_assert(true, kGreeting ++ kText);
    if (h.k.way == 0) {
      hash<bit<16>, bit<16>, two_t, bit<32>>(h.k.result, HashAlgorithm.identity, 0, { h.k.a, 3 }, 65536);
    } else if (h.k.way == 1) {
      hash<bit<16>, bit<16>, pair_t, bit<32>>(h.k.result, HashAlgorithm.identity, 0, { y = 4, x = h.k.b }, 65536);
    } else if (h.k.way == 2) {
      hash<bit<16>, bit<16>, pair_t, bit<32>>(h.k.result, HashAlgorithm.identity, 1, { x = h.k.a, ... }, 65536);
    } else if (h.k.way == 3) {
      // A field of a header that is not valid is left out here, too.
      hash<bit<16>, bit<16>, two_t, bit<32>>(h.k.result, HashAlgorithm.identity, 0, { h.absent.x, 3 }, 65536);
    } else if (h.k.way == 6) {
      h.k.result = sum.get<two_t>({ h.k.a, 3 });
    } else if (h.k.way == 5) {
      h.k.result = (bit<16>)standard.checksum_error;
    }
    digest<pair_t>(1, { h.k.a, 3 });
    digest<_>(2, { h.k.a });
  }
}
NO_EGRESS(H, M)
control Compute(inout H h, inout M m) {
  apply { update_checksum<two_t, _>(h.k.way == 4, { h.k.a, 5 }, h.k.sum, HashAlgorithm.csum16); }
}
control Deparse(packet_out packet, in H h) { apply { packet.emit<_>(h.k); } }
V1Switch<_, _>(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;

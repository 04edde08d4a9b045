// Lists that have a name: constants, parameters of constructors, and `typedef` of their type.
#include "pipeline.p4"
header k_t { bit<8> way; bit<8> a; bit<8> count; bit<16> sum; }
struct H { k_t k; }
struct M { bit<8> x; }
struct pair_t { bit<8> x; bit<8> y; }
typedef list<pair_t> pairs_t;
const bit<8> kThree = 3;
const list<bit<8>> kPrimes = { 2, kThree, 5, kThree + 4 };
const list<bit<8>> kNone = {};
const pairs_t kPairs = (pairs_t){ { 1, 2 }, (pair_t){ y = 4, x = 3 }, { y = 6, x = 5 } };
control Sum(inout bit<16> sum)(list<bit<8>> values, bit<8> factor) {
  apply {
    for (bit<8> v in values) { sum = sum + (bit<16>)(v * factor); }
  }
}
parser Parse(packet_in packet, out H h, inout M m, STANDARD) {
  state start { packet.extract(h.k); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  Sum(kPrimes, 1) primes;
  Sum({ 10, 20 }, 2) tens;
  Sum(factor = 1, values = (list<bit<8>>){ 7 }) seven;
  apply {
    const list<bit<8>> local = { 9, 8 };
    standard.egress_spec = 2;
    switch (h.k.way) {
      0: { for (bit<8> p in kPrimes) { if (p == h.k.a) { break; } h.k.count = h.k.count + 1; h.k.sum = h.k.sum + (bit<16>)p; } }
      1: { for (bit<8> p in kNone) { h.k.count = h.k.count + 1; } }
      2: { for (pair_t p in kPairs) { h.k.count = h.k.count + p.x; h.k.sum = h.k.sum + (p.x ++ p.y); p.x = 9; } }
      3: { primes.apply(h.k.sum); tens.apply(h.k.sum); seven.apply(h.k.sum); }
      4: { for (bit<8> p in local) { for (bit<8> q in local) { h.k.sum = h.k.sum + (p ++ q); } } }
      // The list is what it was when the loop began.
      5: { for (pair_t p in (pairs_t){ { h.k.a, 1 }, { h.k.a + 1, 2 } }) { h.k.a = 0; h.k.sum = h.k.sum + (p.x ++ p.y); } }
      default: {}
    }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out packet, in H h) { apply { packet.emit(h.k); } }
MAIN

// action_selector: a hash of the selector's keys chooses one of an entry's actions.
#include "pipeline.p4"
header k_t { bit<8> table_number; bit<8> a; bit<4> x; bit<12> y; bit<8> r; bit<8> t; }
header text_t { bit<72> digits; }
struct H { k_t k; text_t text; text_t absent; }
enum bit<2> Colour { GREEN = 0, YELLOW = 1, RED = 2 }
struct M { Colour colour; }
parser Parse(packet_in b, out H h, inout M m, STANDARD) {
  state start {
    b.extract(h.k);
    transition select(h.k.table_number) { 2 &&& 0xfe : parse_text; default : accept; }
  }
  state parse_text { b.extract(h.text); transition accept; }
}
control In(inout H h, inout M m, STANDARD) {
  action set(bit<8> v) { h.k.r = v; }
  action also(bit<8> v, bit<8> w) { h.k.r = v; h.k.t = w; }
  action none() { h.k.r = 0xdd; }
  @max_group_size(8) action_selector(HashAlgorithm.identity, 16, 32w4) shared;
  direct_meter<Colour>(MeterType.packets) metered;
  action coloured(bit<8> v) { m.colour = Colour.RED; metered.read(m.colour); h.k.r = v; h.k.t = (bit<8>)(bit<2>)m.colour; }
  // The keys that select come one after the other: 16 bits.
  table by_identity {
    key = { h.k.x : selector; h.k.a : exact; h.k.y : selector; }
    actions = { set; also; none; }
    default_action = none();
    implementation = shared;
  }
  table by_the_same {
    key = { h.k.a : ternary; h.k.x ++ h.k.y : selector @name("both"); }
    actions = { set; none; }
    default_action = none();
    implementation = shared;
  }
  table by_crc16 {
    key = { h.k.a : exact; h.text.digits : selector; }
    actions = { set; none; }
    default_action = none();
    @name("crcs") implementation = action_selector(HashAlgorithm.crc16, 32w16, 32w14);
  }
  table by_crc32 {
    key = { h.k.a : lpm; h.text.digits : selector; }
    actions = { set; none; }
    default_action = none();
    implementation = action_selector(HashAlgorithm.crc32, 16, 8);
  }
  // A header that is not valid adds nothing to the hash.
  table by_nothing {
    key = { h.absent.digits : selector; h.k.a : exact; }
    actions = { set; none; }
    default_action = none();
    implementation = action_selector(HashAlgorithm.identity, 16, 8);
  }
  // Without entries, as no key decides which one matches.
  table only_selecting {
    key = { h.k.y : selector; }
    actions = { set; none; }
    default_action = none();
    implementation = shared;
  }
  @note("a text may have
         several lines: 'one' // two") table colours {
    key = { h.k.a : exact; }
    actions = { coloured; none; }
    default_action = none();
    meters = metered;
  }
  apply {
    standard.egress_spec = 2;
    bit<8> n = h.k.table_number;
    if (n == 0) {
      switch (by_identity.apply().action_run) { also : { h.k.a = 0xaa; } none : { h.k.a = 0xbb; } }
    } else if (n == 1) { if (by_the_same.apply().hit) { h.k.t = 1; } }
    else if (n == 2) { by_crc16.apply(); }
    else if (n == 3) { by_crc32.apply(); }
    else if (n == 4) { by_nothing.apply(); }
    else if (n == 5) { only_selecting.apply(); }
    else { colours.apply(); }
  }
}
NO_EGRESS(H, M)
NO_CHECKSUMS(H, M)
control Deparse(packet_out b, in H h) { apply { b.emit(h.k); b.emit(h.text); } }
MAIN

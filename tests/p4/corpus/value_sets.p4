// Sets that the control plane fills, alone and beside constants, twice in one select, and of all keys together; and a
// table whose actions are members of an action_profile.
#include <core.p4>
#include <v1model.p4>

header test_t {
    bit<8> kind;
    bit<16> wide;
    bit<8> took;
    bit<8> result;
}

struct headers_t {
    test_t test;
}

struct pair_t {
    bit<8> kind;
    bit<16> wide;
}

struct wide_t {
    bit<16> wide;
}

struct nested_t {
    bit<8> kind;
    wide_t inner;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    value_set<bit<8>>(4) kinds;
    value_set<bit<16>>(4) wides;
    @name("pairs") value_set<pair_t>(4) both;
    value_set<tuple<bit<8>, bit<16>>>(4) tuples;
    value_set<nested_t>(4) nested;
    state start {
        packet.extract(h.test);
        h.test.took = 0;
        transition select(h.test.kind) {
            1: one;
            kinds: two;
            2: three;
            default: next;
        }
    }
    state one {
        h.test.took = 1;
        transition accept;
    }
    state two {
        h.test.took = 2;
        transition select(h.test.kind, h.test.took) {
            (kinds, kinds): four;
            (_, _): accept;
        }
    }
    state three {
        h.test.took = 3;
        transition accept;
    }
    state four {
        h.test.took = 4;
        transition accept;
    }
    state next {
        h.test.took = 9;
        transition select(h.test.kind, h.test.wide) {
            both: five;
            tuples: six;
            (_, wides): seven;
            (0xf0 &&& 0xf0, _): eight;
            nested: ten;
        }
    }
    state five {
        h.test.took = 5;
        transition accept;
    }
    state six {
        h.test.took = 6;
        transition accept;
    }
    state seven {
        h.test.took = 7;
        transition accept;
    }
    state eight {
        h.test.took = 8;
        transition accept;
    }
    state ten {
        h.test.took = 10;
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply {}
}

control Serve(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    action_profile(4) shared;
    action set(bit<8> v) {
        h.test.result = v;
    }
    table first {
        key = { h.test.took: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
        implementation = shared;
    }
    table second {
        key = { h.test.kind: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
        implementation = action_profile(32w2);
    }
    apply {
        standard.egress_spec = 1;
        first.apply();
        second.apply();
    }
}

control Leave(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {}
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply {}
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.test);
    }
}

V1Switch(Parse(), Verify(), Serve(), Leave(), Compute(), Deparse()) main;

// Priorities that the entries of a program have: by their order, by `priority =`, and by @priority.
#include <core.p4>
#include <v1model.p4>

header test_t {
    bit<8> key;
    bit<8> by_order;
    bit<8> largest;
    bit<8> smallest;
    bit<8> stepped;
}

struct headers_t {
    test_t test;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        packet.extract(h.test);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply {}
}

control Serve(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    action order(bit<8> x) { h.test.by_order = x; }
    action large(bit<8> x) { h.test.largest = x; }
    action small(bit<8> x) { h.test.smallest = x; }
    action step(bit<8> x) { h.test.stepped = x; }

    // The first one that matches.
    table by_order {
        key = { h.test.key : ternary; }
        actions = { order; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x10 &&& 0xf0 : order(1);
            0x11 : order(2);
            _ : order(3);
        }
    }
    // Without more, the largest one wins; those without one have one less than the entry before.
    table largest {
        key = { h.test.key : ternary; }
        actions = { large; NoAction; }
        const default_action = NoAction();
        entries = {
            priority = 10 : 0x10 &&& 0xf0 : large(1);
            0x20 &&& 0xf0 : large(2);               // 9
            const priority = 11 : 0x11 : large(3);
            0x10 &&& 0xfe : large(4);               // 10 again: the older one counts
            priority = 0 : _ : large(5);
        }
    }
    table smallest {
        key = { h.test.key : ternary; }
        actions = { small; NoAction; }
        const default_action = NoAction();
        largest_priority_wins = false;
        entries = {
            priority = 1 : 0 &&& 0 : small(1);
            priority = 0 : 0x11 : small(2);
            0x10 &&& 0xf0 : small(3);               // 1 again
        }
    }
    // With a step of 100.
    table stepped {
        key = { h.test.key : ternary; }
        actions = { step; NoAction; }
        const default_action = NoAction();
        priority_delta = 100;
        support_timeout = true;
        entries = {
            priority = 301 : 0x21 : step(1);
            0x20 &&& 0xf0 : step(2);                 // 201
            priority = 102 : 0x22 : step(3);
            0x23 : step(4);                          // 2
        }
    }

    apply {
        standard.egress_spec = 1;
        by_order.apply();
        largest.apply();
        smallest.apply();
        stepped.apply();
    }
}

control Finish(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
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

V1Switch(Parse(), Verify(), Serve(), Finish(), Compute(), Deparse()) main;

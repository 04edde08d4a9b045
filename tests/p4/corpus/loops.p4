// Loops: what ends them, what each round sees, and what they may be in.
#include <core.p4>
#include <v1model.p4>

header test_t {
    bit<8> number;
    bit<8> input;
    bit<16> result;
}

struct headers_t {
    test_t test;
    test_t after;
}

struct metadata_t {
    bit<16> calls;
}

// Each calls the one before twice: the last one calls the first one 2^35 times.
#define TWICE(name, other) void name(inout bit<16> calls) { other(calls); other(calls); }
void f0(inout bit<16> calls) {
    calls = calls + 1;
}
TWICE(f1, f0)
TWICE(f2, f1)
TWICE(f3, f2)
TWICE(f4, f3)
TWICE(f5, f4)
TWICE(f6, f5)
TWICE(f7, f6)
TWICE(f8, f7)
TWICE(f9, f8)
TWICE(f10, f9)
TWICE(f11, f10)
TWICE(f12, f11)
TWICE(f13, f12)
TWICE(f14, f13)
TWICE(f15, f14)
TWICE(f16, f15)
TWICE(f17, f16)
TWICE(f18, f17)
TWICE(f19, f18)
TWICE(f20, f19)
TWICE(f21, f20)
TWICE(f22, f21)
TWICE(f23, f22)
TWICE(f24, f23)
TWICE(f25, f24)
TWICE(f26, f25)
TWICE(f27, f26)
TWICE(f28, f27)
TWICE(f29, f28)
TWICE(f30, f29)
TWICE(f31, f30)
TWICE(f32, f31)
TWICE(f33, f32)
TWICE(f34, f33)
TWICE(f35, f34)

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        packet.extract(h.test);
        transition select(h.test.number) {
            15: many_calls;
            default: accept;
        }
    }
    state many_calls {
        f35(m.calls);
        transition after_them;
    }
    state after_them {
        packet.extract(h.after);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply {}
}

bool below(inout bit<16> calls, in bit<8> a, in bit<8> b) {
    calls = calls + 1;
    return a < b;
}

bit<16> first_multiple(in bit<16> of, in bit<16> from) {
    for (bit<16> i = from; i < 1000; i += 1) {
        if (i % of == 0) {
            return i;
        }
    }
    return 0;
}

control Serve(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    bit<16> r = 0;
    register<bit<8>>(1) read_after_calls;

    action sum() {
        for (bit<8> i = 1; i <= h.test.input; i = i + 1) {
            r = r + (bit<16>)i;
        }
    }
    action nested() {
        for (bit<8> i = 0; i < h.test.input; i = i + 1) {
            for (bit<8> j = 0; true; j = j + 1) {
                if (j == i) {
                    break;
                }
                r = r + 1;
            }
        }
    }
    action odd_ones() {
        for (bit<8> i = 0; i < h.test.input; i = i + 1) {
            if (i[0:0] == 0) {
                continue;
            }
            r = r + 1;
        }
    }
    action leaves(inout bit<16> x) {
        for (bit<8> i = 0; i < 10; i = i + 1) {
            x = x + 1;
            if (i == h.test.input) {
                exit;
            }
        }
    }
    table tests {
        key = { h.test.number : exact; }
        actions = { sum; nested; odd_ones; leaves(h.test.result); NoAction; }
        const entries = {
            1 : sum();
            2 : nested();
            3 : odd_ones();
            4 : leaves(h.test.result);
        }
        default_action = NoAction();
    }

    apply {
        standard.egress_spec = 1;
        tests.apply();
        if (h.test.number == 5) {
            // The condition is computed anew each time, with what it does besides.
            bit<8> i = 0;
            for (; below(r, i, h.test.input); ) {
                i = i + 1;
            }
        } else if (h.test.number == 6) {
            r = first_multiple(7, (bit<16>)h.test.input);
        } else if (h.test.number == 7) {
            for (bit<8> i in h.test.input .. 255) {
                bit<16> fresh = 0;
                fresh = fresh + 1;
                r = r + fresh;
                i = 0;  // of this round only
            }
        } else if (h.test.number == 8) {
            for (int<8> i in -2 .. (int<8>)h.test.input) {
                if (i < 0) {
                    continue;
                }
                r = r + 0x100;
            }
        } else if (h.test.number == 9) {
            for (bit<8> i = 0; i != h.test.input; i = i + 2) {
                r = r + 1;
            }
        } else if (h.test.number == 10) {
            for (bit<8> i = 0, bit<8> j = 8; i < j; i += 1, j -= 1) {
                switch (i) {
                    2: { continue; }
                    3: { break; }
                    default: { r = r + 1; }
                }
                r = r + 0x10;
            }
        } else if (h.test.number == 13) {
            f35(r);
        } else if (h.test.number == 14) {
            f8(r);
        } else if (h.test.number == 15) {
            read_after_calls.write(0, h.after.isValid() ? 8w2 : 1);
        }
        h.test.result = r;
    }
}

control Finish(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {}
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply {
        if (h.test.number == 11) {
            for (bit<8> i in 1 .. 3) {
                h.test.result = h.test.result + 1;
            }
        }
    }
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        for (bit<8> i in 0 .. h.test.number / 12) {
            packet.emit(h.test);
        }
    }
}

V1Switch(Parse(), Verify(), Serve(), Finish(), Compute(), Deparse()) main;

// Headers with a varbit: its size is known when the packet is there.
#include <core.p4>
#include <v1model.p4>

header test_t {
    bit<8> number;
    bit<8> size;
    bit<16> result;
}

typedef varbit<136> data_t;  // more than one word of the compiler's

header option_t {
    bit<4> kind;
    data_t data;
    bit<4> after;
}

struct headers_t {
    test_t test;
    option_t first;
    option_t second;
    option_t[2] others;
}

struct metadata_t {
    data_t data;
}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        packet.extract(h.test);
        transition select(h.test.number) {
            4: two;
            7: bits;
            9: stack;
            default: one;
        }
    }
    state one {
        packet.extract(h.first, (bit<32>)h.test.size << 3);
        transition accept;
    }
    state two {
        packet.extract(h.first, (bit<32>)h.test.size << 3);
        packet.extract(h.second, (bit<32>)h.test.size << 3);
        transition accept;
    }
    state bits {
        packet.extract(h.first, (bit<32>)h.test.size);
        transition accept;
    }
    state stack {
        packet.extract(h.others.next, 16);
        packet.extract(h.others.next, 0);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply {}
}

void exchange(inout data_t a, inout data_t b) {
    data_t c = a;
    a = b;
    b = c;
}

control Serve(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (h.test.number == 2) {
            h.second = h.first;
            h.second.kind = 0xf;
        } else if (h.test.number == 3) {
            h.first.setInvalid();
        } else if (h.test.number == 4) {
            h.test.result = h.first.data == h.second.data ? 16w1 : 2;
            exchange(h.first.data, h.second.data);
        } else if (h.test.number == 5) {
            h.first.setInvalid();
            h.first.setValid();
            m.data = h.second.data;
            h.test.result = h.first.data == m.data ? 16w1 : 2;
        } else if (h.test.number == 7) {
            if (standard.parser_error == error.HeaderTooShort) {
                h.test.result = 1;
            } else if (standard.parser_error == error.ParserInvalidArgument) {
                h.test.result = 2;
            } else if (standard.parser_error == error.PacketTooShort) {
                h.test.result = 3;
            }
        } else if (h.test.number == 8) {
            data_t shorter = h.second.data;
            h.first = { 1, shorter, 2 };
        } else if (h.test.number == 9) {
            h.others.push_front(1);
        } else if (h.test.number == 10) {
            hash(h.test.result, HashAlgorithm.xor16, 16w0, { h.first.data, h.first.kind }, 32w0x10000);
        }
    }
}

control Finish(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        if (h.test.number == 3) {
            h.test.result = (bit<16>)standard.packet_length;
        }
    }
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.test.number == 6,
                        { h.first.kind, h.first.after, h.first.data, h.second.data, h.test.number },
                        h.test.result, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h);
    }
}

V1Switch(Parse(), Verify(), Serve(), Finish(), Compute(), Deparse()) main;

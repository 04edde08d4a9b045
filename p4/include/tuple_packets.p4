// What the programs that keep the versions of tuples have in common (switch_optimistic.p4, switch_tuples.p4): their
// packets. Include it behind `metadata_t`, which has `bool is_answer`: the packet is the switch's own answer.
#ifndef TUPLE_PACKETS_P4
#define TUPLE_PACKETS_P4
#include "roce_headers.p4"

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
    reth_t reth;
    atomic_eth_t atomic_eth;
    aeth_t aeth;
    word_t word;  // the first bytes of a payload, or what the switch answers
}

// Memory of the clients' CPUs has a number's lowest byte first.
bit<64> turned(in bit<64> n) {
    return n[7:0] ++ n[15:8] ++ n[23:16] ++ n[31:24] ++ n[39:32] ++ n[47:40] ++ n[55:48] ++ n[63:56];
}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        m.is_answer = false;
        packet.extract(h.ethernet);
        transition select(h.ethernet.type) {
            TYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(h.ipv4);
        transition select(h.ipv4.version, h.ipv4.words, h.ipv4.fragment, h.ipv4.flags[0:0], h.ipv4.protocol) {
            (4, 5, 0, 0, PROTOCOL_UDP): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(h.udp);
        transition select(h.udp.destination) {
            PORT_ROCE: bth;
            default: accept;
        }
    }
    state bth {
        packet.extract(h.bth);
        transition select(h.bth.opcode) {
            RC_READ_REQUEST: reth;
            RC_WRITE_ONLY: reth;
            RC_COMPARE_SWAP: atomic_eth;
            RC_FETCH_ADD: atomic_eth;
            RC_READ_RESPONSE_ONLY: aeth;
            RC_ACKNOWLEDGE: aeth;
            RC_ATOMIC_ACKNOWLEDGE: aeth;
            default: accept;
        }
    }
    state reth {
        packet.extract(h.reth);
        transition select(h.bth.opcode, h.reth.bytes) {
            (RC_WRITE_ONLY, 8 .. 0xffffffff): word;
            default: accept;
        }
    }
    state atomic_eth {
        packet.extract(h.atomic_eth);
        transition accept;
    }
    // A READ's answer has a word if it is long enough: IPv4's 20 bytes, UDP's 8, BTH's 12, AETH's 4, the ICRC's 4, and 8.
    state aeth {
        packet.extract(h.aeth);
        transition select(h.bth.opcode, h.ipv4.total_bytes) {
            (RC_READ_RESPONSE_ONLY, 56 .. 0xffff): word;
            default: accept;
        }
    }
    state word {
        packet.extract(h.word);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.ipv4.isValid() && h.ipv4.words == 5,
                        { h.ipv4.version, h.ipv4.words, h.ipv4.service, h.ipv4.total_bytes, h.ipv4.id, h.ipv4.flags,
                          h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.source, h.ipv4.destination },
                        h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Finish(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        // A flooded packet does not go back to where it came from.
        if (standard.instance_type == 5 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
        // An answer has other headers than its request: UDP's 8 bytes, BTH's 12, AETH's 4, a word's 8, the ICRC's 4.
        if (m.is_answer) {
            h.udp.bytes = 28;
            if (h.word.isValid()) {
                h.udp.bytes = 36;
            }
            h.ipv4.total_bytes = h.udp.bytes + 20;
        }
    }
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(m.is_answer,
                        { h.ipv4.version, h.ipv4.words, h.ipv4.service, h.ipv4.total_bytes, h.ipv4.id, h.ipv4.flags,
                          h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.source, h.ipv4.destination },
                        h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.ipv4);
        packet.emit(h.udp);
        packet.emit(h.bth);
        packet.emit(h.reth);
        packet.emit(h.atomic_eth);
        packet.emit(h.aeth);
        packet.emit(h.word);
    }
}

#endif

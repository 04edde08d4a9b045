// What goes over the wire in a zero-sided flow: headers, parser and deparser, and copies to several consumers. Include it
// behind `metadata_t` of zero_sided.p4.
#ifndef FLOW_PACKETS_P4
#define FLOW_PACKETS_P4
#include "roce_headers.p4"

const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;

const bit<32> CLONED = 1;  // an instance_type

// Of an answer: IPv4's 20 bytes, UDP's 8, BTH's 12, the ICRC's 4.
const bit<32> AROUND_PAYLOAD = 44;

header counter_t {
    bit<32> value;
}

// Behind a consumer's head: whose items the last ones are, and that producer's tail with them; and the same of an
// earlier one that has not acknowledged its tail. A switch that takes over reads it.
header journal_t {
    bit<32> producer;  // its name
    bit<32> tail;
    bit<32> silent;    // a name; 0: none
    bit<32> silent_tail;
}

struct headers_t {
    ethernet_t ethernet;
    arp_t arp;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
    reth_t reth;
    aeth_t aeth;
    counter_t counter;  // a payload of 4 bytes
    journal_t journal;
}

// From a unit's order of bytes, or to it.
bit<32> turned(in bit<32> n, in bit<1> is_little) {
    bit<32> value = n;
    if (is_little == 1) {
        value = n[7:0] ++ n[15:8] ++ n[23:16] ++ n[31:24];
    }
    return value;
}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        m.is_rewritten = false;
        m.is_copied = false;
        m.left_out = 0;
        m.generation = 0;
        packet.extract(h.ethernet);
        transition select(h.ethernet.type) {
            TYPE_IPV4: ipv4;
            TYPE_ARP: arp;
            default: accept;
        }
    }
    state arp {
        packet.extract(h.arp);
        transition accept;
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
            RC_READ_RESPONSE_FIRST: aeth;
            RC_READ_RESPONSE_LAST: aeth;
            RC_READ_RESPONSE_ONLY: aeth;
            RC_ACKNOWLEDGE: aeth;
            default: accept;
        }
    }
    state reth {
        packet.extract(h.reth);
        transition accept;
    }
    // 52: with AETH's 4 bytes and a payload of 4.
    state aeth {
        packet.extract(h.aeth);
        transition select(h.bth.opcode, h.ipv4.total_bytes) {
            (RC_READ_RESPONSE_ONLY, 52): counter;
            default: accept;
        }
    }
    state counter {
        packet.extract(h.counter);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.ipv4.isValid(),
                        { h.ipv4.version, h.ipv4.words, h.ipv4.service, h.ipv4.total_bytes, h.ipv4.id, h.ipv4.flags,
                          h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.source, h.ipv4.destination },
                        h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Finish(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    action drop() { mark_to_drop(standard); }
    bit<32> own_bit = 0;
    // `further`: from the first consumer's ring to this one.
    action is_copy(bit<48> mac, bit<32> ip, bit<24> queue_pair, bit<32> key, bit<64> further, bit<32> own) {
        own_bit = own;
        h.ethernet.destination = mac;
        h.ipv4.destination = ip;
        h.bth.queue_pair = queue_pair;
        h.reth.key = key;
        h.reth.address = h.reth.address + further;
    }
    table consumers_of_copies {
        key = { standard.egress_rid : exact; m.generation : exact; }
        actions = { is_copy; drop; }
        default_action = drop();
        size = 2048;
    }
    apply {
        if (standard.instance_type == CLONED) {
            // A bell, as it came: it becomes its acknowledgement.
            bit<48> mac = h.ethernet.destination;
            h.ethernet.destination = h.ethernet.source;
            h.ethernet.source = mac;
            bit<32> ip = h.ipv4.destination;
            h.ipv4.destination = h.ipv4.source;
            h.ipv4.source = ip;
            h.ipv4.ttl = 64;
            h.ipv4.total_bytes = 48;
            h.udp.bytes = 28;
            h.udp.checksum = 0;
            h.bth.opcode = RC_ACKNOWLEDGE;
            h.bth.solicited = 0;
            h.bth.ack_request = 0;
            h.bth.queue_pair = m.ringer;
            h.reth.setInvalid();
            h.aeth.setValid();
            h.aeth.syndrome = 0x1f;  // no limit of credits
            h.aeth.msn = h.bth.psn + 1;
            m.is_rewritten = true;
            exit;
        }
        if (m.is_copied) {
            consumers_of_copies.apply();
            if (m.left_out & own_bit != 0) {
                drop();
            }
            exit;
        }
        // A flooded packet does not go back to where it came from.
        if (standard.instance_type == 5 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(m.is_rewritten,
                        { h.ipv4.version, h.ipv4.words, h.ipv4.service, h.ipv4.total_bytes, h.ipv4.id, h.ipv4.flags,
                          h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.source, h.ipv4.destination },
                        h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.arp);
        packet.emit(h.ipv4);
        packet.emit(h.udp);
        packet.emit(h.bth);
        packet.emit(h.reth);
        packet.emit(h.aeth);
        packet.emit(h.counter);
        packet.emit(h.journal);
    }
}

#endif

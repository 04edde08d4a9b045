// Atomics at the switch: the far end of reliable connections (RoCEv2, IPv4) whose memory is an array of 64-bit words in
// the switch. Clients use CAS, FETCH-ADD, and READ and WRITE of 8 bytes, and need nothing special: to them the switch is
// a NIC. All other packets are forwarded. (TODS 2025, section 5.4.)
//
// READ and WRITE carry a word as it lies in the memory of the clients' CPUs, lowest byte first; an atomic carries numbers.
//
// A queue pair may have 16 requests in flight: so many results of atomics are kept for requests that are repeated. A
// client's max_rd_atomic must be at most 16, and its send queue, too: WRITEs count.
//
// Set-up, per queue pair: an entry of `queue_pairs`, and the first PSN in next_psn at its index; at a second use of an
// index, also 0 in msn, and in kept_psn at index * 16 to index * 16 + 15.
//
// Where InfiniBand leaves a choice (IBTA volume 1, 9.7): a repeated READ reads again; a repeated atomic whose result is
// no longer kept is dropped; after a NAK other than that for a PSN the queue pair takes nothing more. A payload that the
// parser does not know (SEND, a WRITE of another length) is dropped without a NAK: the switch could not give such an
// answer a right ICRC. The client's retries end with an error then. A packet is dropped, too, if its lengths are not those of
// its opcode, or if it is of another partition than the default one.
//
// The 64-bit CAS does not fit a Tofino's stateful ALU. switch_latches.p4 is this program with LATCHES_OF_32_BITS: CAS and
// READ of words whose upper half is 0, and NAKs for all else.
#include <core.p4>
#include <v1model.p4>
#include "include/roce_headers.p4"

const bit<32> QUEUE_PAIRS = 2048;
const bit<32> KEPT = 32768;  // 16 results per queue pair
const bit<32> WORDS = 65536;

// An element of next_psn.
const bit<32> BROKEN = 0x80000000;    // takes nothing more
const bit<32> NAK_SENT = 0x40000000;  // for a PSN that was too high; no second one until the next right PSN
const bit<32> KEPT_VALID = 0x80000000;

struct headers_t {
    ethernet_t ethernet;
    arp_t arp;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
    reth_t reth;
    atomic_eth_t atomic_eth;
    aeth_t aeth;
    word_t word;  // the payload of a WRITE, a READ's response, or an atomic's old value
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.type) {
            TYPE_ARP: arp;
            TYPE_IPV4: ipv4;
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
            RC_COMPARE_SWAP: atomic_eth;
            RC_FETCH_ADD: atomic_eth;
            default: accept;
        }
    }
    state reth {
        packet.extract(h.reth);
        transition select(h.bth.opcode, h.reth.bytes) {
            (RC_WRITE_ONLY, 8): word;
            default: accept;
        }
    }
    state word {
        packet.extract(h.word);
        transition accept;
    }
    state atomic_eth {
        packet.extract(h.atomic_eth);
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

control Serve(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
#ifdef LATCHES_OF_32_BITS
    register<bit<32>>(WORDS) words;
#else
    register<bit<64>>(WORDS) words;
#endif
    register<bit<32>>(QUEUE_PAIRS) next_psn;
    register<bit<32>>(QUEUE_PAIRS) msn;
    register<bit<32>>(KEPT) kept_psn;
#ifdef LATCHES_OF_32_BITS
    register<bit<32>>(KEPT) kept_value;
#else
    register<bit<64>>(KEPT) kept_value;
#endif

    bit<48> own_mac = 0;
    bit<32> pair = 0;
    bit<24> peer_pair = 0;
    bit<32> peer_ip = 0;
    bit<64> region_address = 0;
    bit<64> region_bytes = 0;
    bit<32> region_word = 0;
    bool may_read = false;
    bool may_write = false;
    bool may_atomic = false;

    // ---- Packets that are not for the switch.

    action drop() { mark_to_drop(standard); }
    action forward(bit<9> port) { standard.egress_spec = port; }
    action flood(bit<16> group) { standard.mcast_grp = group; }
    table stations {
        key = { h.ethernet.destination : exact; }
        actions = { forward; flood; drop; }
        default_action = drop();
        size = 1024;
    }

    // ---- Packets that are.

    // The switch has this address.
    action is_here(bit<48> mac) { own_mac = mac; }
    table own_addresses {
        key = { h.ipv4.destination : exact; }
        actions = { is_here; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    table own_arp_addresses {
        key = { h.arp.target_ip : exact; }
        actions = { is_here; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    action connection(bit<32> index, bit<32> ip, bit<24> queue_pair) {
        pair = index;
        peer_ip = ip;
        peer_pair = queue_pair;
    }
    table queue_pairs {
        key = { h.ipv4.destination : exact; h.bth.queue_pair : exact; }
        actions = { connection; NoAction; }
        default_action = NoAction();
        size = 2048;
    }

    // `bytes` from `address` on are words from `word` on; rights: 1 READ, 2 WRITE, 4 atomics.
    action region(bit<64> address, bit<64> bytes, bit<32> word, bit<3> rights) {
        region_address = address;
        region_bytes = bytes;
        region_word = word;
        may_read = rights[0:0] == 1;
        may_write = rights[1:1] == 1;
        may_atomic = rights[2:2] == 1;
    }
    bit<32> key = 0;
    table regions {
        key = { key : exact; }
        actions = { region; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action answer(bit<8> opcode, bit<8> syndrome, bit<24> count, bit<24> psn) {
        h.ethernet.destination = h.ethernet.source;
        h.ethernet.source = own_mac;
        bit<32> self = h.ipv4.destination;
        h.ipv4.destination = h.ipv4.source;
        h.ipv4.source = self;
        h.ipv4.service = h.ipv4.service & 0xfc | 2;  // its ECN: capable
        h.ipv4.ttl = 64;
        h.udp.checksum = 0;
        h.bth.opcode = opcode;
        h.bth.solicited = 0;
        h.bth.reserved8a = 0;
        h.bth.queue_pair = peer_pair;
        h.bth.ack_request = 0;
        h.bth.psn = psn;
        h.reth.setInvalid();
        h.atomic_eth.setInvalid();
        h.aeth.setValid();
        h.aeth.syndrome = syndrome;
        h.aeth.msn = count;
        standard.egress_spec = standard.ingress_port;
    }

    action answer_arp() {
        h.ethernet.destination = h.arp.sender_mac;
        h.ethernet.source = own_mac;
        bit<32> self = h.arp.target_ip;
        h.arp.operation = 2;
        h.arp.target_mac = h.arp.sender_mac;
        h.arp.target_ip = h.arp.sender_ip;
        h.arp.sender_mac = own_mac;
        h.arp.sender_ip = self;
        standard.egress_spec = standard.ingress_port;
    }

    apply {
        if (standard.parser_error != error.NoError || standard.checksum_error == 1) {
            drop();
            exit;
        }
        bool is_arp_request = h.arp.isValid() && h.arp.hardware_type == 1 && h.arp.protocol_type == TYPE_IPV4
            && h.arp.hardware_bytes == 6 && h.arp.protocol_bytes == 4 && h.arp.operation == 1;
        // Tables that do not need each other share a stage of a Tofino.
        bool is_own_arp = own_arp_addresses.apply().hit;
        bool is_own = own_addresses.apply().hit;
        bool is_connected = queue_pairs.apply().hit;
        if (h.reth.isValid()) {
            key = h.reth.key;
        } else if (h.atomic_eth.isValid()) {
            key = h.atomic_eth.key;
        }
        bool is_known = regions.apply().hit;
        if (is_arp_request && is_own_arp) {
            answer_arp();
            exit;
        }
        if (!h.ipv4.isValid() || !is_own || h.ethernet.destination != own_mac) {
            stations.apply();
            exit;
        }
        bool is_atomic = h.atomic_eth.isValid();
        bool is_read = h.reth.isValid() && h.bth.opcode == RC_READ_REQUEST;
        bool is_write = h.reth.isValid() && h.bth.opcode == RC_WRITE_ONLY;
        bool has_known_payload = is_atomic || is_read || is_write && (h.word.isValid() || h.reth.bytes == 0);
        // IPv4's 20 bytes, UDP's 8, BTH's 12, RETH's 16 or an atomic's 28, the ICRC's 4.
        bit<16> bytes = 60;
        if (is_atomic) {
            bytes = 72;
        } else if (h.word.isValid()) {
            bytes = 68;
        }
        bit<16> udp_bytes = bytes - 20;
        if (!has_known_payload || h.ipv4.total_bytes != bytes || h.udp.bytes != udp_bytes || h.bth.pad != 0
            || h.bth.version != 0 || h.bth.pkey[14:0] != DEFAULT_PARTITION || !is_connected
            || h.ipv4.source != peer_ip) {
            drop();
            exit;
        }

        // Is it allowed?
        bit<64> address = 0;
        bit<8> fault = ACK;
        bool touches = true;
        if (is_atomic) {
            address = h.atomic_eth.address;
        } else {
            address = h.reth.address;
            touches = h.reth.bytes != 0;
            if (h.reth.bytes != 0 && h.reth.bytes != 8) {
                fault = NAK_INVALID_REQUEST;
            }
        }
#ifdef LATCHES_OF_32_BITS
        bool is_swap = h.bth.opcode == RC_COMPARE_SWAP && h.atomic_eth.compare[63:32] == 0
            && h.atomic_eth.swap_or_add[63:32] == 0;
        if (!is_swap && !is_read && touches) {
            fault = NAK_INVALID_REQUEST;
        }
#endif
        bit<64> offset = address - region_address;
        bit<64> room = region_bytes - offset;
        bool may = is_known && (is_atomic && may_atomic || is_read && may_read || is_write && may_write);
        bit<32> word = region_word + offset[34:3];
        if (fault == ACK && touches) {
            if (!may || address < region_address || offset >= region_bytes || room < 8 || word >= WORDS) {
                fault = NAK_REMOTE_ACCESS;
            } else if (offset[2:0] != 0) {
                fault = NAK_INVALID_REQUEST;
            }
        }

        // Is it its turn?
        bit<32> next;
        next_psn.read(next, pair);
        bit<24> expected = next[23:0];
        bit<24> ahead = h.bth.psn - expected;
        bool is_new = ahead == 0;
        bool is_repeated = ahead >= 0x800000;
        bool is_broken = next[31:31] == 1;
        bool has_sent_nak = next[30:30] == 1;
        bool is_second_nak = !is_new && !is_repeated && has_sent_nak;
        if (is_new && fault == ACK) {
            next = (bit<32>)(expected + 1);
        } else if (is_new) {
            next = next | BROKEN;
        } else if (!is_repeated) {
            next = next | NAK_SENT;
        }
        if (is_broken || is_second_nak || is_repeated && fault != ACK) {  // its region is gone
            drop();
            exit;
        }
        next_psn.write(pair, next);
        bool executes = is_new && fault == ACK;

        bit<32> count;
        msn.read(count, pair);
        if (executes) {
            count = count + 1;
            msn.write(pair, count);
        }

        if (!is_new && !is_repeated) {
            h.word.setInvalid();
            answer(RC_ACKNOWLEDGE, NAK_PSN, count[23:0], expected);
            exit;
        }
        if (is_new && fault != ACK) {
            h.word.setInvalid();
            answer(RC_ACKNOWLEDGE, fault, count[23:0], h.bth.psn);
            exit;
        }

        // Executes it, or answers again.
        bit<64> old = 0;
#ifdef LATCHES_OF_32_BITS
        bit<32> compare = 0;  // what does not swap is a CAS of 0 to 0: it changes nothing, and the ALU needs no other input
        bit<32> swap = 0;
        if (is_atomic && executes) {
            compare = h.atomic_eth.compare[31:0];
            swap = h.atomic_eth.swap_or_add[31:0];
        }
        if (!touches) {
            word = 0;
        }
        bit<32> latch;
        words.read(latch, word);
        if (latch == compare) {
            words.write(word, swap);
        }
#else
        if (touches && (executes || is_read)) {
            words.read(old, word);
            bit<64> new = old;
            if (h.bth.opcode == RC_FETCH_ADD) {
                new = old + h.atomic_eth.swap_or_add;
            } else if (is_write) {
                new = h.word.value[7:0] ++ h.word.value[15:8] ++ h.word.value[23:16] ++ h.word.value[31:24]
                    ++ h.word.value[39:32] ++ h.word.value[47:40] ++ h.word.value[55:48] ++ h.word.value[63:56];
            } else if (is_atomic && old == h.atomic_eth.compare) {
                new = h.atomic_eth.swap_or_add;
            }
            if (!is_read) {
                words.write(word, new);
            }
        }
#endif
        if (is_atomic) {
            bit<32> place = pair << 4 | (bit<32>)h.bth.psn[3:0];
            bit<32> mark = KEPT_VALID | (bit<32>)h.bth.psn;
            bit<32> kept;
            kept_psn.read(kept, place);
            if (executes) {
                kept_psn.write(place, mark);
#ifdef LATCHES_OF_32_BITS
                kept_value.write(place, latch);
#else
                kept_value.write(place, old);
#endif
            } else {
                if (kept != mark) {
                    drop();
                    exit;
                }
#ifdef LATCHES_OF_32_BITS
                kept_value.read(latch, place);
#else
                kept_value.read(old, place);
#endif
            }
        }
#ifdef LATCHES_OF_32_BITS
        old = (bit<64>)latch;
#endif

        if (is_write) {
            h.word.setInvalid();
            if (h.bth.ack_request == 0) {
                drop();
                exit;
            }
            answer(RC_ACKNOWLEDGE, ACK, count[23:0], h.bth.psn);
        } else {
            if (touches) {
                h.word.setValid();
                h.word.value = old;
            }
            if (is_read) {
                h.word.value = old[7:0] ++ old[15:8] ++ old[23:16] ++ old[31:24] ++ old[39:32] ++ old[47:40]
                    ++ old[55:48] ++ old[63:56];
                answer(RC_READ_RESPONSE_ONLY, ACK, count[23:0], h.bth.psn);
            } else {
                answer(RC_ATOMIC_ACKNOWLEDGE, ACK, count[23:0], h.bth.psn);
            }
        }
    }
}

control Finish(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        // A flooded packet does not go back to where it came from.
        if (standard.instance_type == 5 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
        // An answer has other headers than its request: UDP's 8 bytes, BTH's 12, AETH's 4, a word's 8, the ICRC's 4.
        if (h.aeth.isValid()) {
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
        update_checksum(h.aeth.isValid(),
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
        packet.emit(h.atomic_eth);
        packet.emit(h.aeth);
        packet.emit(h.word);
    }
}

V1Switch(Parse(), Verify(), Serve(), Finish(), Compute(), Deparse()) main;

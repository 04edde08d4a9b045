// switch_optimistic.p4 with versions of 32 bits, in a form for a Tofino: a packet meets each register once per pass, and
// its stateful ALU gets at most two operands of 32 bits. Clients and the control plane are the same, and so is what the
// head of switch_optimistic.p4 says; here is what differs.
//
// `sidelatch p4 check --fit tofino2` accepts it; it was not compiled by the vendor's tool, and not run on hardware.
//
// Versions. Clients see 64 bits. The upper 32 are the epoch of recovery, which the row of tuples has in the table
// `regions`. No version leaves its epoch: a latch of the last even one is refused. So a tuple takes 2^31 - 1 new versions
// between two recoveries.
//
// A register's element is a pair of 32 bits wherever both halves must change at once: version and holder; what the
// client sends next and what the memory node expects next. The upper half of `ends` is in the place of a lag.
//
// A new request is known by one comparison: no flag is set, and the PSN is the next one. Then the packet's operand
// takes the element's place. So what a request is must be known before; but whether a WRITE is its holder's is known
// after that, from the tuple. A WRITE that may not happen thus stands in `ends` as if it had passed. Its NAK does not
// unlatch, and neither does an acknowledgement if it is not the holder's. A WRITE that is repeated before its
// acknowledgement is judged again. Afterwards it passes: the memory node knows its PSN, and does not write again.
//
// Some packets take a second pass, by resubmission. The first pass of these has read registers; other packets come
// between the two. So the second one compares again, and changes what is still so:
//   a latch                 pass 1 looks whether it is new, and has read its tuple in the version that it compares
//                           with. READs write `seen` behind `latches`, so a latch cannot read it before `latches` in one
//                           pass. Pass 2 takes it if it is new. That it has read the tuple cannot become untrue if the
//                           version is the same.
//   a PSN that is too high  pass 2 notes that a NAK is sent, if the connection is as it was in pass 1
//   an unlatch by who does  pass 1 has noted in `kept` that there is no answer; pass 2 breaks the connection and sends the
//   not hold the latch      NAK, if it is as it was. Else the packet is lost; if it is repeated, it finds the note.
#define VERSIONS_OF_32_BITS
#include <core.p4>
#include <v1model.p4>
#include "include/roce_headers.p4"

const bit<32> CONNECTIONS = 4096;
const bit<32> TUPLES = 65536;  // a register is in one stage of the chip

// The lower half of an element of `ends`: the PSN that the client sends next, and
const bit<32> BROKEN = 0x80000000;    // takes nothing more
const bit<32> NAK_SENT = 0x40000000;  // for a PSN that was too high; no second one until the next right PSN
const bit<32> WAITING = 0x20000000;   // the latest request was passed on, and no answer has come yet
// and what the latest request is. A bit for each answer of the memory node that it takes; a NAK, if it was passed on.
const bit<8> ANSWERED = 0x01;  // by the switch
const bit<8> READ = 0x15;
const bit<8> WRITE = 0x19;         // of a tuple: also one that its holder has not sent
const bit<8> OTHER_READ = 0x14;    // of memory that is no tuple
const bit<8> OTHER_WRITE = 0x18;
const bit<8> OTHER_ATOMIC = 0x12;
const bit<8> REFUSED = 0x10;       // a WRITE that nobody may send

const bit<64> IS_NOT_WAITING = 0xffffffffdfffffff;

// The upper half of an element of `latches`: connection + 1, and
const bit<32> MUST_WRITE = 0x80000000;  // the tuple may be torn; only a WRITE unlatches it
const bit<32> HAS_READ = 0x40000000;    // the holder has read the tuple as it is
const bit<32> HOLDER = 0x0000ffff;

const bit<32> NOT_READ = 0xffffffff;

// What the second pass is for.
const bit<8> LATCHES = 1;
const bit<8> SENDS_NAK = 2;
const bit<8> ENDS = 3;

struct metadata_t {
    bool is_answer;  // of the switch
    // From the first pass to the second one.
    @field_list(1)
    bit<8> second;
    @field_list(1)
    bit<32> noted;  // the lower half of `ends`
    @field_list(1)
    bool has_read;
    @field_list(1)
    bit<9> port;  // where it came from: v1model forgets it
}

#include "include/tuple_packets.p4"

control Serve(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    // By connection.
    // The upper half of each pair is named first.
    register<bit<64>>(CONNECTIONS) ends;    // the next PSN at the memory node; that of the client, with flags
    register<bit<64>>(CONNECTIONS) wanted;  // of the latest READ or WRITE: the upper half of its version; the tuple
    register<bit<32>>(CONNECTIONS) seen;    // its version when that READ passed first; NOT_READ after a WRITE
    register<bit<64>>(CONNECTIONS) kept;    // the latest answer; highest bit: there is none, for lack of the latch
    // By tuple.
    register<bit<64>>(TUPLES) latches;  // holder; version

#include "include/tuple_tables.p4"

    apply {
        if (standard.parser_error != error.NoError || standard.checksum_error == 1) {
            drop();
            exit;
        }
        bool is_plain = h.ipv4.isValid() && h.ipv4.version == 4 && h.ipv4.words == 5 && h.ipv4.fragment == 0
            && h.ipv4.flags[0:0] == 0;
        if (!is_plain && h.ethernet.type != TYPE_ARP) {
            drop();
            exit;
        }
        if (m.second != 0) {
            from = m.port;
        }
        // Tables that do not need each other share a stage.
        stations.apply();
        if (h.reth.isValid()) {
            key = h.reth.key;
        } else if (h.atomic_eth.isValid()) {
            key = h.atomic_eth.key;
        }
        node_ip = h.ipv4.destination;
        regions.apply();
        bool is_known = connections.apply().hit;
        bool is_of_node = memory_nodes.apply().hit;
        if (!h.bth.isValid() || h.bth.opcode == CNP || h.bth.opcode[7:5] == 3) {  // 3: datagrams
            exit;
        }
        if (!is_known && is_of_node || h.bth.opcode >= FIRST_NOT_RC && is_known) {
            drop();
            exit;
        }
        if (!is_known || is_direct) {
            exit;
        }
        // IPv4's 20 bytes are no part of UDP's length.
        bit<16> ip_bytes = h.udp.bytes + 20;
        if (is_fenced || h.ipv4.source != peer_ip || h.bth.version != 0 || h.bth.pkey[14:0] != DEFAULT_PARTITION
            || h.ipv4.total_bytes != ip_bytes) {
            drop();
            exit;
        }

        // What is it?
        bool is_atomic = h.atomic_eth.isValid();
        bool is_read = h.reth.isValid() && h.bth.opcode == RC_READ_REQUEST;
        bool is_write = h.reth.isValid() && h.bth.opcode == RC_WRITE_ONLY;
        // IPv4's 20 bytes, UDP's 8, BTH's 12, RETH's 16 or an atomic's 28, the ICRC's 4.
        bool is_bare = h.bth.pad == 0 && (is_atomic && h.ipv4.total_bytes == 72 || is_read && h.ipv4.total_bytes == 60);
        bool is_ack = h.aeth.isValid() && h.bth.opcode == RC_ACKNOWLEDGE && h.aeth.syndrome[6:5] == 0;
        bool is_nak = h.aeth.isValid() && h.bth.opcode == RC_ACKNOWLEDGE && h.aeth.syndrome[6:5] != 0;
        bool is_data = h.aeth.isValid() && h.bth.opcode == RC_READ_RESPONSE_ONLY;
        bool is_atomic_ack = h.aeth.isValid() && h.bth.opcode == RC_ATOMIC_ACKNOWLEDGE;
        if (is_request && !is_bare && !is_write || !is_request && !is_ack && !is_nak && !is_data && !is_atomic_ack) {
            drop();  // SEND, a WRITE of several packets, bytes where none belong
            exit;
        }
        bit<24> after = h.bth.psn + 1;

        // What does a request want?
        bit<64> address = 0;
        bit<32> bytes = 8;
        if (h.reth.isValid()) {
            address = h.reth.address;
            bytes = h.reth.bytes;
        } else if (h.atomic_eth.isValid()) {
            address = h.atomic_eth.address;
        }
        bit<64> offset = address - region_address;
        bit<64> room = region_bytes - offset;
        bit<64> before = region_address - address;
        bit<64> slot = offset >> slot_shift;
        bit<64> in_slot = offset & slot_mask;
        bool begins_inside = address >= region_address && offset < region_bytes;
        bool is_inside = begins_inside && room >= (bit<64>)bytes;
        bool is_beside = address >= region_address && offset >= region_bytes
            || address < region_address && before >= (bit<64>)bytes;
        bool is_slot = in_slot == 0;
        bool is_word = bytes == 8 && !is_write;
        bool is_whole_tuple = (bit<64>)bytes == tuple_bytes && !is_atomic;
        bool is_at_word = is_inside && is_slot && is_word;
        bool is_tuple = is_inside && is_slot && is_whole_tuple;
        bit<32> whole_bytes = bytes + 60;
        bool is_whole = h.bth.pad == 0 && (bit<32>)h.ipv4.total_bytes == whole_bytes;
        bit<32> number = first_tuple + slot[31:0];
        bit<32> compare = h.atomic_eth.compare[31:0];
        bit<64> change = h.atomic_eth.swap_or_add - h.atomic_eth.compare;
        bool is_up = change == 1;
        bool is_down = change == 0xffffffffffffffff && compare[0:0] == 1;
        bool is_last = h.atomic_eth.compare[31:1] == 0x7fffffff && is_up;
        bool is_of_epoch = h.atomic_eth.compare[63:32] == epoch;
        bool is_even = compare[0:0] == 0;
        bool is_first_pass = m.second == 0;

        bit<8> fault = ACK;
        bit<8> asks = OTHER_READ;
        if (is_atomic) {
            asks = OTHER_ATOMIC;
        } else if (is_write) {
            asks = OTHER_WRITE;
        }
        if (is_read && bytes > mtu) {
            fault = NAK_INVALID_REQUEST;
        } else if (has_tuples && bytes != 0 && !is_beside) {
            if (is_at_word && h.bth.opcode != RC_FETCH_ADD) {
                asks = ANSWERED;
                if (is_atomic && (!is_up && !is_down || is_last)) {
                    fault = NAK_INVALID_REQUEST;
                }
            } else if (is_tuple && is_read) {
                asks = READ;
            } else if (is_tuple && is_whole) {
                asks = WRITE;
            } else if (is_write) {
                asks = REFUSED;
            } else {
                fault = NAK_INVALID_REQUEST;
            }
        }
        bool is_allowed = fault == ACK;
        bool is_swap = is_atomic && asks == ANSWERED && is_allowed && is_of_epoch;
        bool is_latch = is_swap && is_even;
        bool is_unlatch = is_swap && !is_even;
        bool is_first_look = is_latch && is_first_pass;
        bool passes = asks[4:4] == 1;

        // What becomes of the connection if it is new.
        bit<26> psn = 2w0 ++ h.bth.psn;  // neither BROKEN nor WAITING
        bit<32> taken = ANSWERED ++ after;
        if (fault != ACK) {
            taken = BROKEN[31:24] ++ h.bth.psn;
        } else if (asks[4:4] == 1) {
            taken = WAITING[31:29] ++ asks[4:0] ++ after;
        }

        bool may_be_new = is_request && m.second <= LATCHES;
        bool may_be_early = is_request && is_first_pass && !is_write;
        bool is_of_tuple = asks == READ || asks == WRITE;
        bit<32> own = connection + 1;
        bit<32> own_read = own | HAS_READ;
        bit<32> marked = m.noted | NAK_SENT;
        if (m.second == ENDS) {
            marked = m.noted | BROKEN;
        }
        // What an answer of the memory node answers, if the connection is not BROKEN.
        bit<5> answers = 5w0x1f;
        if (is_ack) {
            answers = OTHER_WRITE[5:1];
        } else if (is_data) {
            answers = OTHER_READ[5:1];
        } else if (is_atomic_ack) {
            answers = OTHER_ATOMIC[5:1];
        }

        // ---- `ends`
        bit<64> end;
        ends.read(end, connection);
        bit<64> new_end = end;
        if (!is_request) {
            new_end = end[55:32] == after && end[31:31] ++ end[28:25] == answers ? end & IS_NOT_WAITING : end;
        } else if (m.second > LATCHES) {
            new_end = end[31:0] == m.noted ? end[63:32] ++ marked : end;
        } else if (passes && is_allowed) {
            new_end = end[31:31] ++ end[29:29] ++ end[23:0] == psn ? (end[63:32] + 1) ++ taken : end;
        } else if (!is_first_look) {
            new_end = end[31:31] ++ end[29:29] ++ end[23:0] == psn ? end[63:32] ++ taken : end;
        }
        ends.write(connection, new_end);

        bit<24> expected = end[23:0];
        bit<24> at_memory = end[55:32];
        bool is_waiting = end[29:29] == 1;
        bit<8> kind = 3w0 ++ end[28:24];
        bit<24> ahead = h.bth.psn - expected;
        bool is_as_noted = end[31:0] == m.noted;
        bool is_new = may_be_new && end[31:31] ++ end[29:29] ++ end[23:0] == psn;
        bool is_repeated = may_be_new && is_allowed && end[31:31] ++ end[28:0] == 1w0 ++ asks[4:0] ++ after;
        bool is_early = may_be_early && end[31:29] == 0 && ahead != 0 && ahead[23:23] == 0;
        bool is_reply = !is_request && at_memory == after
            && (end[31:31] ++ end[28:25] == answers || is_nak && end[31:31] ++ end[28:28] == 2w1);
        bool takes = is_new && is_allowed && !is_first_look;

        // ---- `wanted`
        bit<64> place;
        wanted.read(place, connection);
        if (takes && is_of_tuple) {
            wanted.write(connection, epoch ++ number);
        }
        bool is_elsewhere = is_repeated && is_of_tuple && place[31:0] != number;

        // ---- `latches`
        bit<32> new_holder = own;
        if (m.has_read) {
            new_holder = own_read;
        }
        if (!is_request) {
            number = place[31:0];
        }
        bool has_read_it = is_reply && is_data && kind == READ && is_waiting;
        bool has_written = is_reply && is_ack && kind == WRITE && is_waiting;
        bit<64> latch;
        latches.read(latch, number);
        bit<64> new_latch = latch;
        if (has_read_it) {
            new_latch = latch[63:32] & HOLDER == own ? latch | HAS_READ ++ 32w0 : latch;
        } else if (has_written) {
            new_latch = latch[63:32] & ~MUST_WRITE == own_read ? 32w0 ++ (latch[31:0] + 1) : latch;
        } else if (takes && is_latch) {
            new_latch = latch[31:0] == compare ? new_holder ++ (latch[31:0] + 1) : latch;
        } else if (takes && is_unlatch && is_up) {
            new_latch = latch[31:0] == compare && latch[63:32] & ~HAS_READ == own ? 32w0 ++ (latch[31:0] + 1) : latch;
        } else if (takes && is_unlatch) {
            new_latch = latch[31:0] == compare && latch[63:32] & ~HAS_READ == own ? 32w0 ++ (latch[31:0] - 1) : latch;
        }
        latches.write(number, new_latch);

        bit<32> version = latch[31:0];
        bool is_own = latch[63:32] & HOLDER == own;
        bool may_write = latch[63:32] & ~MUST_WRITE == own_read;
        bool is_others = takes && is_unlatch && version == compare && latch[63:32] & ~HAS_READ != own;

        // ---- `seen`
        bit<32> read_version;
        seen.read(read_version, connection);
        if (takes && asks == READ) {
            seen.write(connection, version);
        } else if (takes && asks == WRITE) {
            seen.write(connection, NOT_READ);
        }

        // ---- `kept`
        bit<64> old;
        kept.read(old, connection);
        if (takes && asks == ANSWERED) {
            if (is_others) {
                kept.write(connection, 1w1 ++ 31w0 ++ version);
            } else {
                kept.write(connection, 32w0 ++ version);
            }
        }
        bool has_no_answer = is_others || is_repeated && asks == ANSWERED && old[63:63] == 1;

        // ---- What leaves.
        if (is_reply) {
            if (kind == READ && is_data) {
                bit<64> verdict = 1;
                if (version == read_version && (version[0:0] == 0 || is_own)) {
                    verdict = place[63:32] ++ version;
                }
                h.word.value = turned(verdict);
            }
            if (has_written && !may_write) {
                drop();  // of a WRITE that may not happen
            }
            h.udp.checksum = 0;
            h.bth.psn = expected - 1;
            h.aeth.msn = h.aeth.msn + (expected - at_memory);  // requests that the switch has answered
        } else if (m.second == SENDS_NAK && is_as_noted) {
            answer(RC_ACKNOWLEDGE, NAK_PSN, expected, expected);
        } else if (m.second == ENDS && is_as_noted) {
            answer(RC_ACKNOWLEDGE, NAK_REMOTE_ACCESS, h.bth.psn, h.bth.psn);
        } else if (is_new && !is_allowed) {
            h.word.setInvalid();
            answer(RC_ACKNOWLEDGE, fault, h.bth.psn, h.bth.psn);
        } else if (is_new && is_first_look) {
            m.second = LATCHES;
            m.has_read = place[31:0] == number && read_version == compare;
            m.port = from;
            resubmit_preserving_field_list(1);
        } else if (is_early) {
            m.second = SENDS_NAK;
            m.noted = end[31:0];
            m.port = from;
            resubmit_preserving_field_list(1);
        } else if (!is_new && !is_repeated || is_elsewhere) {
            drop();
        } else if (has_no_answer && m.second != 0) {
            drop();
        } else if (has_no_answer) {
            m.second = ENDS;
            m.noted = is_new ? taken : end[31:0];
            m.port = from;
            resubmit_preserving_field_list(1);
        } else if (asks == ANSWERED) {
            if (is_repeated) {
                version = old[31:0];
            }
            h.word.setValid();
            bit<64> whole = epoch ++ version;
            if (is_atomic) {
                h.word.value = whole;
                answer(RC_ATOMIC_ACKNOWLEDGE, ACK, after, h.bth.psn);
            } else {
                h.word.value = turned(whole);
                answer(RC_READ_RESPONSE_ONLY, ACK, after, h.bth.psn);
            }
        } else {
            if (asks == REFUSED || asks == WRITE && !may_write && (is_new || is_waiting)) {
                h.reth.bytes = 0xffffffff;
                h.reth.address = 0xffffffffffff0000;
            } else if (asks == WRITE) {
                bit<32> next = version + 1;
                h.word.value = turned(epoch ++ next);
            }
            h.bth.psn = at_memory;
            if (is_repeated) {
                h.bth.psn = at_memory - 1;
            }
            h.bth.ack_request = 1;  // the switch waits for the answer, too
            h.udp.checksum = 0;
        }
    }
}

V1Switch(Parse(), Verify(), Serve(), Finish(), Compute(), Deparse()) main;

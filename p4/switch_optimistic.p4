// Optimistic latches at the switch: it sits before a memory node, and keeps the version of each tuple there. Clients
// talk to the memory node; to them all is RDMA with it. (TODS 2025, section 5.5; what is different here, and why:
// docs/switch.md.)
//
// A tuple lies on a slot of 2^n bytes, and begins with a word of 8 bytes, lowest byte first. A client may
//   CAS the word, v -> v + 1, v even        latch; the switch answers. The old value tells whether it was v
//   CAS the word, v -> v + 1 or v - 1, v odd  unlatch without a WRITE, by the holder: with a new version, or as it was
//   READ the word                           version, odd while latched; the switch answers
//   READ the tuple                          its word is the version if nobody else had a latch meanwhile, else it is 1
//   WRITE the tuple                         by the holder; its word becomes the new version; its answer unlatches
// and nothing else within a region of tuples. READs, WRITEs and atomics of one packet to other memory pass.
//
// The holder must have read the tuple before it writes: right before its latch, in the version that it latched, or under
// its latch. That READ waited until the WRITE before was placed, which the latch at the switch did not. WRITEs of two
// queue pairs are placed in any order. A client may hold several latches.
//
// Each request is one packet, and so is each answer: no READ or WRITE is longer than the path MTU. A queue pair has one
// request in flight; a second one is dropped. So the offset between the PSNs of client and memory node cannot move
// under a request that is repeated, and an answer is that to the latest request or is stale. A client must post a
// request when the one before has completed: the switch sees that an answer has passed, and not whether the client has
// it. If a second request overtakes a lost answer, its queue pair ends with an error.
//
// What is not of IPv4 without options, or has a VLAN tag, does not pass: the switch could not look into it. To a memory
// node passes reliable traffic of known connections only, and datagrams.
//
// The control plane is switchsync/optimistic_switch.cpp: set-up, clients that end with a latch, recovery.
//
// What the switch refuses: READs and atomics by a NAK of its own. A refused WRITE goes on with an address and a length
// that no NIC takes, and the memory node's NIC refuses it: its payload is not the switch's to cut off.
#include <core.p4>
#include <v1model.p4>
#include "include/roce_headers.p4"

const bit<32> CONNECTIONS = 4096;
const bit<32> TUPLES = 262144;

// An element of `state`: the PSN that the client sends next, and
const bit<32> BROKEN = 0x80000000;    // takes nothing more
const bit<32> NAK_SENT = 0x40000000;  // for a PSN that was too high; no second one until the next right PSN
const bit<32> WAITING = 0x20000000;   // the latest request was passed on, and no answer has come yet
const bit<32> KIND = 0x07000000;      // of the latest request:
const bit<32> NONE = 0x00000000;
const bit<32> ANSWERED = 0x01000000;  // by the switch
const bit<32> READ = 0x02000000;
const bit<32> WRITE = 0x03000000;
const bit<32> OTHER = 0x04000000;       // a WRITE to memory that is no tuple
const bit<32> REFUSED = 0x05000000;     // a WRITE that may not happen
const bit<32> OTHER_DATA = 0x06000000;  // a READ or atomic there: an acknowledgement alone is no answer
#ifdef CACHED_TUPLES
const bit<32> COLD = 0x07000000;  // a READ of a cold tuple, or of its word
const bit<32> GROUPS = 4096;      // of tuples, by the lowest bits of their places
#endif

const bit<64> NOT_READ = 0xffffffffffffffff;
#ifdef AS_PUBLISHED
const bit<64> TRY_LATCH = 0xfffffffffffffffe;
#endif

// An element of `holders`: connection + 1, and
const bit<32> MUST_WRITE = 0x80000000;  // the tuple may be torn; only a WRITE unlatches it
const bit<32> HAS_READ = 0x40000000;    // the holder has read the tuple as it is
const bit<32> HOLDER = 0x0000ffff;

struct metadata_t {
    bool is_answer;  // of the switch
}

#include "include/tuple_packets.p4"

control Serve(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    // By connection.
    register<bit<32>>(CONNECTIONS) state;
    register<bit<32>>(CONNECTIONS) wanted;    // tuple of the latest READ or WRITE
    register<bit<64>>(CONNECTIONS) seen;      // its version when that READ passed first; NOT_READ after a WRITE
    register<bit<32>>(CONNECTIONS) answered;  // requests that the switch has answered: what the memory node's PSN lags
    register<bit<64>>(CONNECTIONS) kept;      // the latest answer
    // By tuple.
    register<bit<64>>(TUPLES) versions;
    register<bit<32>>(TUPLES) holders;  // connection + 1
#ifdef CACHED_TUPLES
    // A tuple's place is its number among all tuples; `wanted`, versions and holders are by the number that it has while
    // it is hot.
    register<bit<32>>(CONNECTIONS) places;  // of the latest READ or WRITE
    register<bit<64>>(GROUPS) moves;        // how many tuples of the group have become hot
    register<bit<32>>(CONNECTIONS) asked;   // place + 1 of the tuple that it found cold and would latch, for the control plane
#endif

#include "include/tuple_tables.p4"

#ifdef CACHED_TUPLES
    bit<32> place = 0;
    bit<32> hot_number = 0;
    action hot(bit<32> number) { hot_number = number; }
    table hot_tuples {
        key = { place : exact; }
        actions = { hot; NoAction; }
        default_action = NoAction();
        size = 262144;
    }
#endif

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
        if (!h.bth.isValid() || h.bth.opcode == CNP || h.bth.opcode[7:5] == 3) {  // 3: datagrams
            stations.apply();
            exit;
        }
        bool is_known = connections.apply().hit;
        if (!is_known && memory_nodes.apply().hit || h.bth.opcode >= FIRST_NOT_RC && is_known) {
            drop();
            exit;
        }
        if (!is_known || is_direct) {
            stations.apply();
            exit;
        }
        bit<32> latest;
        state.read(latest, connection);
        // IPv4's 20 bytes are no part of UDP's length.
        bool is_sound = h.bth.version == 0 && h.bth.pkey[14:0] == DEFAULT_PARTITION
            && h.ipv4.total_bytes == h.udp.bytes + 20;
        if (is_fenced || h.ipv4.source != peer_ip || latest & BROKEN != 0 || !is_sound) {
            drop();
            exit;
        }
        bit<32> lag;
        answered.read(lag, connection);
        bit<32> number;
        wanted.read(number, connection);

        if (!is_request) {
            // An answer of the memory node. Each request has a PSN of its own there, so a stale one is known by it.
            bit<24> asked = latest[23:0] - 1;
            bit<24> psn = h.bth.psn + lag[23:0];
            bit<32> kind = latest & KIND;
            if (!h.aeth.isValid() || psn != asked || kind == NONE || kind == ANSWERED) {
                drop();
                exit;
            }
            bool is_ack = h.bth.opcode == RC_ACKNOWLEDGE && h.aeth.syndrome[6:5] == 0;
            bool is_nak = h.bth.opcode == RC_ACKNOWLEDGE && h.aeth.syndrome[6:5] != 0;
            bool is_data = h.bth.opcode == RC_READ_RESPONSE_ONLY;
            bool is_atomic_ack = h.bth.opcode == RC_ATOMIC_ACKNOWLEDGE;
            bool is_answer = is_ack && (kind == WRITE || kind == OTHER)
                || is_data && (kind == READ || kind == OTHER_DATA) || is_atomic_ack && kind == OTHER_DATA;
#ifdef CACHED_TUPLES
            is_answer = is_answer || is_data && kind == COLD;
#endif
            if (!is_answer && !is_nak) {
                drop();
                exit;
            }
            bool is_first = latest & WAITING != 0;
            bit<64> version;
            versions.read(version, number);
            bit<32> holder;
            holders.read(holder, number);
            bool is_own = version[0:0] == 1 && holder & HOLDER == connection + 1;
            if (kind == READ && is_data) {
                bit<64> before;
                seen.read(before, connection);
                bit<64> verdict = 1;
                if (version == before && (version[0:0] == 0 || is_own)) {
                    verdict = version;
                }
                h.word.value = turned(verdict);
                if (is_own && is_first) {
                    holders.write(number, holder | HAS_READ);
                }
            }
#ifdef CACHED_TUPLES
            if (kind == COLD && is_data) {
                bit<64> before;
                seen.read(before, connection);
                bit<32> at;
                places.read(at, connection);
                bit<64> moved;
                moves.read(moved, at & (GROUPS - 1));
                bit<64> is = turned(h.word.value);
                if (before != (moved << 1 | 1)) {
                    h.word.value = turned(1);
                } else if (is_first && is[0:0] == 0) {
                    seen.write(connection, is);  // for who latches this version; a repeated answer is not good any more
                }
            }
#endif
            if (kind == WRITE && is_ack && is_first) {
                versions.write(number, version + 1);
                holders.write(number, 0);
            }
            if (is_answer) {
                state.write(connection, latest & ~WAITING);
            }
            h.udp.checksum = 0;
            h.bth.psn = psn;
            h.aeth.msn = h.aeth.msn + lag[23:0];
            stations.apply();
            exit;
        }

        // Is it its turn?
        bit<24> expected = latest[23:0];
        bit<24> ahead = h.bth.psn - expected;
        bool is_new = ahead == 0;
        bool is_repeated = ahead == 0xffffff && latest & KIND != NONE;
        bool is_waiting = latest & WAITING != 0;
        bool is_atomic = h.atomic_eth.isValid();
        bool is_read = h.reth.isValid() && h.bth.opcode == RC_READ_REQUEST;
        bool is_write = h.reth.isValid() && h.bth.opcode == RC_WRITE_ONLY;
        bool has_payload = !is_atomic && !is_read;
        if (!is_new && !is_repeated) {
            // Too early, or too old to be asked for by a client that waits for each answer.
            if (ahead >= 0x800000 || has_payload || is_waiting || latest & NAK_SENT != 0) {
                drop();
                exit;
            }
            state.write(connection, latest | NAK_SENT);
            answer(RC_ACKNOWLEDGE, NAK_PSN, expected, expected);
            exit;
        }
        if (is_new && is_waiting) {
            drop();  // as if it were lost, until the latest one is answered
            exit;
        }
        // IPv4's 20 bytes, UDP's 8, BTH's 12, RETH's 16 or an atomic's 28, the ICRC's 4.
        bool is_bare = h.bth.pad == 0 && (is_atomic && h.ipv4.total_bytes == 72 || is_read && h.ipv4.total_bytes == 60);
        if (!is_bare && !is_write) {
            drop();  // SEND, a WRITE of several packets, bytes where none belong
            exit;
        }

        // What does it want?
        bit<64> address = h.atomic_eth.address;
        bit<64> bytes = 8;
        key = h.atomic_eth.key;
        if (h.reth.isValid()) {
            address = h.reth.address;
            bytes = (bit<64>)h.reth.bytes;
            key = h.reth.key;
        }
        node_ip = h.ipv4.destination;
        regions.apply();
        bit<64> offset = address - region_address;
        bit<64> slot = offset >> slot_shift;
        bool is_slot = slot << slot_shift == offset;
        bool is_inside = address >= region_address && offset < region_bytes && region_bytes - offset >= bytes;
        bool is_beside = address >= region_address && offset >= region_bytes
            || address < region_address && region_address - address >= bytes;
        bool is_at_word = is_slot && is_inside && bytes == 8 && !is_write;
        bool is_tuple = is_slot && is_inside && bytes == tuple_bytes && !is_atomic;
        bool has_payload_of_tuple = h.bth.pad == 0 && (bit<64>)h.ipv4.total_bytes == 60 + bytes;
        bit<32> asked_for = first_tuple + (bit<32>)slot;
#ifdef CACHED_TUPLES
        place = asked_for;
        bit<32> place_before;
        places.read(place_before, connection);
        bool is_hot = false;
        if (has_tuples && (is_at_word || is_tuple)) {
            is_hot = hot_tuples.apply().hit;
        }
        if (is_repeated) {
            is_hot = latest & KIND != COLD;  // it is what it was; the tuple may have moved
        }
#endif
        bit<8> fault = ACK;
        bit<32> asks = OTHER_DATA;
        if (is_write) {
            asks = OTHER;
        }
        if (is_read && bytes > (bit<64>)mtu) {
            fault = NAK_INVALID_REQUEST;
        }
        if (has_tuples && bytes != 0 && !is_beside) {
            if (is_at_word && h.bth.opcode != RC_FETCH_ADD) {
                asks = ANSWERED;
#ifdef CACHED_TUPLES
                if (is_read && !is_hot) {
                    asks = COLD;
                }
            } else if (is_tuple && is_read && !is_hot) {
                asks = COLD;
            } else if (is_tuple && has_payload_of_tuple && !is_hot) {
                asks = REFUSED;
#endif
            } else if (is_tuple && is_read) {
                asks = READ;
            } else if (is_tuple && has_payload_of_tuple) {
                asks = WRITE;
            } else if (is_write) {
                asks = REFUSED;
            } else {
                fault = NAK_INVALID_REQUEST;
            }
        }
#ifdef CACHED_TUPLES
        asked_for = hot_number;
#endif
        bool needs_number = asks != OTHER && asks != OTHER_DATA && asks != REFUSED;
        if (needs_number && asked_for >= TUPLES && fault == ACK) {
            fault = NAK_REMOTE_ACCESS;
        }
        bit<32> kind = latest & KIND;
        bit<32> read_before = number;
        if (is_new) {
            kind = asks;
            number = asked_for;
        } else {
            // A NIC repeats what it has sent. What only has the PSN would pass unlatched, or unjudged.
            bool is_same = asks == kind || kind == REFUSED && asks == WRITE;
#ifdef CACHED_TUPLES
            bool is_elsewhere = (kind == READ || kind == WRITE || kind == COLD) && place != place_before;
#else
            bool is_elsewhere = (kind == READ || kind == WRITE) && asked_for != number;
#endif
            if (fault != ACK || !is_same || is_elsewhere) {
                drop();
                exit;
            }
        }

        // The tuple.
        bit<64> version = 0;
        bit<32> holder = 0;
        if (fault == ACK && (kind == READ || kind == WRITE || is_new && kind == ANSWERED)) {
            versions.read(version, number);
            holders.read(holder, number);
        }
        bit<64> read_version;
        seen.read(read_version, connection);
#ifdef CACHED_TUPLES
        // Of a READ that was cold and has no answer, `seen` is odd.
        bool has_read = place_before == place && read_version == version;
        if (kind == ANSWERED && !is_hot) {
            version = NOT_READ;
            holder = 0;
            if (is_new && is_atomic) {
                asked.write(connection, place + 1);
            }
        }
#else
        bool has_read = read_before == number && read_version == version;
#endif
        bool is_latched = version[0:0] == 1;
        bool is_mine = is_latched && holder & HOLDER == connection + 1;
        bit<64> old = version;
        if (is_new && kind == ANSWERED && is_atomic && fault == ACK) {
            bit<64> compare = h.atomic_eth.compare;
            bit<64> swap = h.atomic_eth.swap_or_add;
#ifdef AS_PUBLISHED  // broken/switch_as_published.p4
            if (compare == TRY_LATCH && swap == TRY_LATCH + 1 && !is_latched) {
                compare = version;
                swap = version + 1;
            }
#endif
            bool begins_epoch = compare[0:0] == 1 && swap == compare + 1 && swap[31:0] == 0;  // only a WRITE may
            if (!(swap == compare + 1 || compare[0:0] == 1 && swap == compare - 1) || begins_epoch) {
                fault = NAK_INVALID_REQUEST;
            } else if (compare == version && is_latched && (!is_mine || holder & MUST_WRITE != 0)) {
                fault = NAK_REMOTE_ACCESS;
            } else if (compare == version) {
                versions.write(number, swap);
                if (is_latched) {
                    holders.write(number, 0);
                } else if (has_read) {
                    holders.write(number, connection + 1 | HAS_READ);
                } else {
                    holders.write(number, connection + 1);
                }
            }
        }
#ifdef AS_PUBLISHED
        if (is_new && kind == WRITE && !is_mine) {
            kind = REFUSED;
        }
#else
        if (is_new && kind == WRITE && (!is_mine || holder & HAS_READ == 0)) {
            kind = REFUSED;
        }
#endif

        if (fault != ACK) {
            state.write(connection, latest | BROKEN);
            h.word.setInvalid();
            answer(RC_ACKNOWLEDGE, fault, expected, h.bth.psn);
            exit;
        }
        if (is_new) {
            bit<32> next = (bit<32>)(expected + 1) | kind;
            if (kind != ANSWERED) {
                next = next | WAITING;
            }
            state.write(connection, next);
            if (kind == READ) {
                wanted.write(connection, number);
                seen.write(connection, version);
            } else if (kind == WRITE) {
                wanted.write(connection, number);
                seen.write(connection, NOT_READ);
            }
#ifdef CACHED_TUPLES
            if (kind == READ || kind == WRITE || kind == COLD) {
                places.write(connection, place);
            }
            if (kind == COLD) {
                bit<64> moved;
                moves.read(moved, place & (GROUPS - 1));
                seen.write(connection, moved << 1 | 1);
            }
#endif
        }

        if (kind == ANSWERED) {
            if (is_new) {
                answered.write(connection, lag + 1);
                kept.write(connection, old);
            } else {
                kept.read(old, connection);
            }
            h.word.setValid();
            if (is_atomic) {
                h.word.value = old;
                answer(RC_ATOMIC_ACKNOWLEDGE, ACK, h.bth.psn + 1, h.bth.psn);
            } else {
                h.word.value = turned(old);
                answer(RC_READ_RESPONSE_ONLY, ACK, h.bth.psn + 1, h.bth.psn);
            }
            exit;
        }
        if (kind == WRITE) {
            h.word.value = turned(version + 1);
        } else if (kind == REFUSED) {
            h.reth.bytes = 0xffffffff;
            h.reth.address = 0xffffffffffff0000;
        }
        h.bth.psn = h.bth.psn - lag[23:0];
        h.bth.ack_request = 1;  // the switch waits for the answer, too
        h.udp.checksum = 0;
        stations.apply();
    }
}

V1Switch(Parse(), Verify(), Serve(), Finish(), Compute(), Deparse()) main;

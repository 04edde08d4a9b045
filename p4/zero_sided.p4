// Zero-sided flows: the switch moves items from rings in producers' memory to rings in consumers' memory. To the units'
// NICs it is the other end of a reliable connection, one for each ring, and the only one that requests anything.
// (Jasny, Thostrup, Tamimi, Koch, Istvan, Binnig, "Zero-sided RDMA", SIGMOD 2024; what is different, and the sequence of
// packets: docs/flows.md.)
//
// One thread for each consumer's ring, or for all consumers of a replicated flow; a thread is a row of registers, and one
// packet that goes round. It has a list of producers' rings and visits them in turn:
//   SEEK  take the lock of the next producer
//   HEAD  READ its head: are there items?
//   TAIL  READ the consumer's tail, unless it is known that there is room
//   DATA  READ the items; each packet of the answer becomes a WRITE of its own to the consumer
//   PUSH  WRITE the consumer's head, when all of the data has been acknowledged
//   FREE  WRITE the producer's tail, unlock
// A thread waits for one answer at a time; the packet that brings it is turned into the next request. If nothing is to be
// done the thread is IDLE. A packet generator, at a port that leads nowhere, wakes it; and if an answer does not come, the
// generator's packet becomes the same request, with the same PSN.
//
// A thread that finds all of its producers locked asks for the last one. Who gives that one back wakes it, and waits.
//
// The packets of a batch have PSNs in a row on both sides, so a packet's place follows from its PSN, in whatever order
// packets come. The data goes as WRITE Only, each packet with its address: no message at the consumer is ever half done.
// When the consumer says which packet it lacks, the READ is repeated from there on, not from the beginning.
//
// A thread may have several consumers: then each gets all items, in one order. They have the same PSNs. What goes to them
// is copied, and the thread goes on when all have answered: no head moves before all have the data.
//
// A thread that has several producers does not wait for one that is silent: it is put aside. What it was asked for is
// repeated, with the same PSN, when the thread comes by and the time is out; the thread goes on with others meanwhile.
// An answer only says that it lives, and that the next PSN is due; then it is asked for its head again. If it was its
// tail that it did not acknowledge, the thread remembers that beside the journal. Of a balanced flow a thread whose
// consumer does not acknowledge data gives the producer back, and fills the PSNs.
//
// A unit that can send may ring: an empty SEND or WRITE wakes a thread that is IDLE. A consumer's NIC may tell of
// congestion (CNP): then batches shrink, and pauses follow them. The control plane may add producers to a flow that is
// open, and consumers to one that balances, and may let a consumer leave.
//
// The mark ENDED of a producer's head ends the producer; a consumer's head gets it when all producers of its thread have
// ended. A unit that refuses or does not answer is given up: the thread goes on with other producers, and the consumer's
// head has the mark BROKEN at the end. When a consumer is given up, other consumers go on. When nobody is left who
// empties a producer's ring, the ring's tail gets the mark BROKEN.
//
// Of Move's actions each one is what happens when one thing comes: head_came(), data_acknowledged(), time_is_out(). The
// apply block at its end says when. A thread that has one producer and one consumer, which nobody else has, is alone:
// it needs fewer registers.
//
// The control plane is flows/flow_switch.cpp.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> PORT_ROCE = 4791;

const bit<8> RC_SEND_ONLY = 0x04;
const bit<8> RC_WRITE_ONLY = 0x0a;
const bit<8> RC_READ_REQUEST = 0x0c;
const bit<8> RC_READ_RESPONSE_FIRST = 0x0d;
const bit<8> RC_READ_RESPONSE_MIDDLE = 0x0e;
const bit<8> RC_READ_RESPONSE_LAST = 0x0f;
const bit<8> RC_READ_RESPONSE_ONLY = 0x10;
const bit<8> RC_ACKNOWLEDGE = 0x11;
const bit<8> CONGESTION = 0x81;  // RoCEv2's notification packet, CNP

const bit<9> GENERATOR = 510;  // the port of the packet generator
const bit<32> CLONED = 1;
const bit<32> RESUBMITTED = 6;

const bit<32> THREADS = 2048;
const bit<32> PRODUCERS = 2048;
const bit<32> SHARED = 1024; // of threads and of producers each, those of flows that are not 1:1

const bit<32> WOKEN = 0x8000;  // the thread that asks was told that the lock is free: others wait for it no more

// Of a counter of a ring.
const bit<32> ENDED = 0x80000000;
const bit<32> BROKEN = 0x40000000;
const bit<32> COUNT = 0x3fffffff;

// An element of `phases`. From SEEK on a thread is at work.
const bit<32> IDLE = 1;
const bit<32> DONE = 2;
const bit<32> DEAD = 3;
const bit<32> SEEK = 4;
const bit<32> HEAD = 5;
const bit<32> FREE = 6;
const bit<32> TELL = 7;   // WRITE the mark BROKEN to the producers
const bit<32> DATA = 8;
const bit<32> TAIL = 9;
const bit<32> PUSH = 10;
const bit<32> FILL = 11;  // the producer is lost amidst a batch: empty WRITEs for the PSNs that the consumer may lack
const bit<32> DRAIN = 12; // the consumer is lost amidst a batch: the producer's NIC still answers, perhaps one READ at a time

// An element of `marks`.
const bit<32> LOST = 1;    // a producer
const bit<32> ENDING = 2;  // PUSH is the last one
const bit<32> CAME = 4;    // data, since it was asked for last
const bit<32> AGAIN = 8;   // the batch was asked for more than once
const bit<32> RUNG = 16;   // a unit has rung since the thread began to look around
const bit<32> SLOWED = 32; // a consumer has told of congestion in this batch
const bit<32> PROBES = 64; // one packet of the batch was asked for, to see whether a consumer lives
const bit<32> MISSED = 128; // of a thread that is alone: `misses` is 1

// An element of `slownesses`, in quarters: what moves is as fast as a link, and 2^level - 1 times as long a pause
// follows. A batch with congestion adds 4, one without takes 1.
const bit<32> SLOWEST = 28;
const bit<32> LONGEST_BATCH = 0x800000;  // in microseconds, as far as pauses follow from it

// An element of `paces`. 0: the next batch may begin at once.
const bit<32> PACED = 1; // it waits for a packet of the generator, which sets the rate
const bit<32> PAID = 2;  // the control plane says that the present batch is paid for: the next one may begin after it

// A request is repeated after its time-out, and then after longer times, up to 2^3 time-outs.
const bit<32> LONGEST_WAIT = 3;

// An element of `pendings`: what a producer that is put aside has been asked for. 0: its head; else a number of items,
// or one of these.
const bit<32> TAIL_WRITTEN = 0x40000000;
const bit<32> END_WRITTEN = 0x80000000;  // its tail with the mark ENDED
const bit<32> MOST_WAITS = 0x10000;      // that count

// An element of `gone`.
const bit<32> PRODUCER_ENDED = 1;
const bit<32> PRODUCER_LOST = 2;

// Of an answer: IPv4's 20 bytes, UDP's 8, BTH's 12, the ICRC's 4.
const bit<32> AROUND_PAYLOAD = 44;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header arp_t {
    bit<16> hardware;
    bit<16> protocol;
    bit<16> sizes;
    bit<16> operation;
    bit<48> sender_mac;
    bit<32> sender_ip;
    bit<48> target_mac;
    bit<32> target_ip;
}

header ipv4_t {
    bit<4> version;
    bit<4> words;
    bit<8> service;
    bit<16> total_bytes;
    bit<16> id;
    bit<3> flags;
    bit<13> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header udp_t {
    bit<16> source;
    bit<16> destination;
    bit<16> bytes;
    bit<16> checksum;
}

header bth_t {
    bit<8> opcode;
    bit<1> solicited;
    bit<1> migrated;
    bit<2> pad;
    bit<4> version;
    bit<16> pkey;
    bit<8> reserved8a;
    bit<24> queue_pair;
    bit<1> ack_request;
    bit<7> reserved7;
    bit<24> psn;
}

header reth_t {
    bit<64> address;
    bit<32> key;
    bit<32> bytes;
}

header aeth_t {
    bit<8> syndrome;
    bit<24> msn;
}

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

struct metadata_t {
    @field_list(1)
    bit<16> thread;
    @field_list(1)
    bit<32> time;  // a packet that comes back has no time stamp of its own
    @field_list(1)
    bit<2> rings;   // 1: a bell that goes from thread to thread, until one has time; 2: a tick
    @field_list(1)
    bit<16> first;  // of these threads
    @field_list(2)
    bit<24> ringer; // the queue pair that gets the acknowledgement of a bell
    bool is_rewritten;
    bool is_copied;     // to several consumers: each copy gets its consumer's addresses
    bit<32> left_out;   // bits of consumers that get no copy
    bit<32> generation; // of the thread: a copy may leave when another flow has its consumer's number
}

// From a unit's order of bytes, or to it.
bit<32> turned(in bit<32> n, in bit<1> is_little) {
    bit<32> value = n;
    if (is_little == 1) {
        value = n[7:0] ++ n[15:8] ++ n[23:16] ++ n[31:24];
    }
    return value;
}

bit<32> smaller(in bit<32> a, in bit<32> b) {
    bit<32> value = a;
    if (b < a) {
        value = b;
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

control Move(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    // What every flow needs: so a flow 1:1 takes 54 bytes. Times are in microseconds, and wrap around after 71 minutes.
    // By thread.
    register<bit<8>>(THREADS) phases;
    register<bit<16>>(THREADS) retries;       // of the present request
    register<bit<16>>(THREADS) silences;      // of a READ of data, although data came: the consumers'
    register<bit<32>>(THREADS) sent;          // when it left
    register<bit<24>>(THREADS) consumer_psns; // the first one that is not acknowledged, of a batch the first one of it
    register<bit<32>>(THREADS) heads;         // of the consumer's ring
    register<bit<32>>(THREADS) tails;         // of the consumer's ring, as last read
    register<bit<32>>(THREADS) items;         // of the batch; of FILL its packets
    register<bit<24>>(THREADS) starts;        // the packet of the batch from which on it is asked for; of FILL, the present one
    register<bit<24>>(THREADS) passed;        // packets of the batch up to the last one that was sent to the consumer
    register<bit<8>>(THREADS) marks;
    register<bit<8>>(THREADS) shrinks;        // how often the limit of a batch is halved
    register<bit<8>>(THREADS) paces;
    register<bit<8>>(THREADS) slownesses;     // because of congestion
    register<bit<32>>(THREADS) begun;         // when the batch began; afterwards when the next one may begin
    // By consumer.
    register<bit<24>>(THREADS) reached;       // the PSN up to which it has acknowledged
    // By producer.
    register<bit<24>>(PRODUCERS) producer_psns; // as consumer_psns
    register<bit<32>>(PRODUCERS) known;         // head, as last read
    register<bit<32>>(PRODUCERS) taken;         // tail: items that have been delivered
    register<bit<8>>(PRODUCERS) gone;
    register<bit<8>>(PRODUCERS) owed;           // 1: its tail was not written, because the consumer died

    // What only a thread with several producers or consumers needs, or one that shares its producers or whose flow is
    // open. It has a number of its own for these, and so have its producers. Else the thread is alone: it holds its
    // producer always, waits for it when it is silent, and an answer is the answer of all.
    // By the thread's own number.
    register<bit<16>>(SHARED) positions;      // in the thread's list of producers
    register<bit<16>>(SHARED) misses;         // producers in a row that had nothing; in TELL those that were told
    register<bit<16>>(SHARED) ends;           // of these, ended
    register<bit<32>>(SHARED) answers;        // consumers that have answered the present request
    register<bit<32>>(SHARED) lost;           // consumers that were given up
    register<bit<32>>(SHARED) fullest;        // items in the fullest ring, of those that have answered in TAIL
    register<bit<16>>(SHARED) owing;          // own number + 1 of a producer that was put aside before it acknowledged its tail
    register<bit<32>>(SHARED) owing_names;    // its name
    register<bit<32>>(SHARED) owing_tails;    // that tail
    register<bit<16>>(SHARED) living;         // threads that have not been given up; of the flow's first thread
    // By the producer's own number.
    register<bit<32>>(SHARED) locks;          // thread + 1; in the upper half, who asks for it, and WOKEN
    register<bit<24>>(SHARED) waits;          // how often it was asked in vain; from 1 on it is put aside
    register<bit<32>>(SHARED) asked;          // then: when
    register<bit<32>>(SHARED) pendings;       // then: for what

    bit<16> thread = 0;
    bit<32> producer = 0;
    bool is_of_producer = false;
    bit<16> shared_producer = 0; // its own number + 1; 0: its thread is alone
    bit<32> peer_ip = 0;
    bit<32> consumer_number = 0;
    bit<32> consumer_bit = 0;

    action drop() { mark_to_drop(standard); }
    action forward(bit<9> port) { standard.egress_spec = port; }
    action flood(bit<16> group) { standard.mcast_grp = group; }
    table stations {
        key = { h.ethernet.destination : exact; }
        actions = { forward; flood; drop; }
        default_action = drop();
        size = 1024;
    }

    // The switch's own address, for who asks for it.
    action is_own(bit<48> mac) {
        bit<32> asked = h.arp.target_ip;
        h.ethernet.destination = h.arp.sender_mac;
        h.ethernet.source = mac;
        h.arp.operation = ARP_REPLY;
        h.arp.target_mac = h.arp.sender_mac;
        h.arp.target_ip = h.arp.sender_ip;
        h.arp.sender_mac = mac;
        h.arp.sender_ip = asked;
        standard.egress_spec = standard.ingress_port;
    }
    table own_addresses {
        key = { h.arp.target_ip : exact; }
        actions = { is_own; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    // Answers to the switch, by the switch's address and queue pair. `ip`: of the unit.
    // `consumer`: its register; `bit_of_it`: one bit, that of the consumer among those of its thread. `pair`: the
    // unit's. `first`: the thread for which a producer rings. `own`: see shared_producer.
    action of_consumer(bit<16> index, bit<32> ip, bit<24> pair, bit<32> consumer, bit<32> bit_of_it) {
        thread = index;
        peer_ip = ip;
        m.ringer = pair;
        consumer_number = consumer;
        consumer_bit = bit_of_it;
    }
    action of_producer(bit<32> index, bit<32> ip, bit<24> pair, bit<16> first, bit<16> own) {
        producer = index;
        shared_producer = own;
        is_of_producer = true;
        peer_ip = ip;
        m.ringer = pair;
        m.first = first;
    }
    table ends_of_switch {
        key = { h.ipv4.destination : exact; h.bth.queue_pair : exact; }
        actions = { of_consumer; of_producer; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    bit<48> own_mac = 0;
    bit<32> own_ip = 0;
    bit<16> shared_thread = 0; // its own number + 1; 0: it is alone
    bit<16> shared_flow = 0;   // of the flow's first thread
    bit<32> producers_of_thread = 0;
    bit<32> most_items = 0;
    bit<32> stride = 0;
    bit<8> mtu_shift = 0;
    bit<32> time_out = 0;
    bit<32> most_retries = 0;
    bit<32> all_bits = 0;
    bit<32> first_consumer = 0;
    bit<16> copies = 0;
    bit<1> is_open = 0;
    bit<1> leaves = 0;
    bit<16> next_thread = 0;
    // `open`: 1: it does not end when all its producers have. `leaving`: 1: its consumer gets no more. `next`: of the
    // threads that have the same producers, in a circle. `own`, `flow`: see shared_thread and shared_flow.
    // `age`: the generation. `producers`: how many there are in its list. `limit`: items of a batch. `each`: bytes from an item to the next.
    // `shift`: the path MTU is 2^shift. `wait`: microseconds until a request is repeated. `often`: how often it is; 0: for
    // ever. `bits`: of all consumers; `consumer`: the register of the first one; `group`: if there are several, the
    // multicast group of them.
    action is_thread(bit<48> mac, bit<32> ip, bit<16> flow, bit<32> producers, bit<32> limit, bit<32> each,
                     bit<8> shift, bit<32> wait, bit<32> often, bit<32> bits, bit<32> consumer, bit<16> group,
                     bit<32> age, bit<1> open, bit<1> leaving, bit<16> next, bit<16> own) {
        is_open = open;
        leaves = leaving;
        next_thread = next;
        m.generation = age;
        own_mac = mac;
        own_ip = ip;
        shared_flow = flow;
        shared_thread = own;
        producers_of_thread = producers;
        most_items = limit;
        stride = each;
        mtu_shift = shift;
        time_out = wait;
        most_retries = often;
        all_bits = bits;
        first_consumer = consumer;
        copies = group;
    }
    table threads {
        key = { thread : exact; }
        actions = { is_thread; NoAction; }
        default_action = NoAction();
        size = 2048;
    }

    bit<48> c_mac = 0;
    bit<32> c_ip = 0;
    bit<9> c_port = 0;
    bit<24> c_pair = 0;
    bit<32> c_key = 0;
    bit<64> c_head_address = 0;
    bit<64> c_tail_address = 0;
    bit<64> c_items_address = 0;
    bit<32> c_slots = 0;
    bit<1> c_little = 0;
    action is_consumer(bit<48> mac, bit<32> ip, bit<9> port, bit<24> queue_pair, bit<32> key, bit<64> head, bit<64> tail,
                       bit<64> first, bit<32> slots, bit<1> is_little) {
        c_mac = mac;
        c_ip = ip;
        c_port = port;
        c_pair = queue_pair;
        c_key = key;
        c_head_address = head;
        c_tail_address = tail;
        c_items_address = first;
        c_slots = slots;
        c_little = is_little;
    }
    table consumers {
        key = { thread : exact; }
        actions = { is_consumer; NoAction; }
        default_action = NoAction();
        size = 2048;
    }

    bit<32> position = 0;
    action is_member(bit<32> index, bit<16> own) {
        producer = index;
        shared_producer = own;
    }
    table members {
        key = { thread : exact; position : exact; }
        actions = { is_member; NoAction; }
        default_action = NoAction();
        size = 16384;
    }

    bit<48> p_mac = 0;
    bit<32> p_ip = 0;
    bit<9> p_port = 0;
    bit<24> p_pair = 0;
    bit<32> p_key = 0;
    bit<64> p_head_address = 0;
    bit<64> p_tail_address = 0;
    bit<64> p_items_address = 0;
    bit<32> p_slots = 0;
    bit<1> p_little = 0;
    bit<32> p_name = 0;
    action is_producer(bit<48> mac, bit<32> ip, bit<9> port, bit<24> queue_pair, bit<32> key, bit<64> head, bit<64> tail,
                       bit<64> first, bit<32> slots, bit<1> is_little, bit<32> name) {
        p_name = name;
        p_mac = mac;
        p_ip = ip;
        p_port = port;
        p_pair = queue_pair;
        p_key = key;
        p_head_address = head;
        p_tail_address = tail;
        p_items_address = first;
        p_slots = slots;
        p_little = is_little;
    }
    table producers {
        key = { producer : exact; }
        actions = { is_producer; NoAction; }
        default_action = NoAction();
        size = 2048;
    }

    action to_producer() {
        h.ethernet.destination = p_mac;
        h.ipv4.destination = p_ip;
        h.bth.queue_pair = p_pair;
        standard.egress_spec = p_port;
    }
    action to_consumer() {
        h.ethernet.destination = c_mac;
        h.ipv4.destination = c_ip;
        h.bth.queue_pair = c_pair;
        standard.egress_spec = c_port;
        standard.mcast_grp = copies;
        m.is_copied = copies != 0;
    }
    action from_switch() {
        h.ethernet.source = own_mac;
        h.ipv4.source = own_ip;
        h.ipv4.ttl = 64;
        h.udp.checksum = 0;
        h.aeth.setInvalid();
        h.reth.setValid();
        m.is_rewritten = true;
    }
    // A request with no payload, or with `counter`.
    action request(bit<8> opcode, bit<24> psn, bit<64> address, bit<32> key, bit<32> bytes, bit<16> udp_bytes) {
        h.ipv4.service = 2;  // ECN: capable
        h.ipv4.total_bytes = udp_bytes + 20;
        h.udp.bytes = udp_bytes;
        h.bth.opcode = opcode;
        h.bth.solicited = 0;
        h.bth.pad = 0;
        h.bth.ack_request = 1;
        h.bth.psn = psn;
        h.reth.address = address;
        h.reth.key = key;
        h.reth.bytes = bytes;
    }

    // ---- What a packet finds and changes: what it is, the registers of its thread and of the thread's present producer,
    // and what is to be done. The actions below share it; the apply block says when each of them runs.
    bool is_back = false;
    bool is_control = false;
    bool is_bell = false;
    bool is_tick = false;
    bit<32> t = 0;
    bool is_thread_there = false;
    bool is_shared = false;
    bit<32> own = 0;
    bool is_consumer_there = false;
    bool is_member_there = false;
    bool is_producer_there = false;
    bit<32> phase = 0;
    bit<32> tried = 0;
    bit<32> silent = 0;
    bit<32> sent_at = 0;
    bit<32> c_psn = 0;
    bit<32> c_head = 0;
    bit<32> c_tail = 0;
    bit<32> batch = 0;
    bit<32> batch_packets = 0;
    bit<32> start = 0;
    bit<32> reached_psn = 0;
    bit<32> upto = 0;
    bit<32> mark = 0;
    bit<32> shrink = 0;
    bit<32> pace = 0;
    bit<32> slowness = 0;
    bit<32> began = 0;
    bit<32> first_time_out = 0;
    bit<32> p_psn = 0;
    bit<32> p_head = 0;
    bit<32> p_tail = 0;
    bit<32> out_of_use = 0;
    bit<32> owes = 0;
    bit<32> missed = 0;
    bit<32> ended = 0;
    bit<32> answered = 0;
    bit<32> given_up = 0;
    bit<32> most_full = 0;
    bit<32> lock = 0;
    bit<32> asks = 0;  // thread + 1, WOKEN
    bit<32> waited = 0;
    bit<32> asked_at = 0;
    bit<32> pending = 0;
    bit<32> own_producer = 0;
    bit<32> owing_one = 0;
    bit<32> owing_name = 0;
    bit<32> owing_tail = 0;
    bool is_owing = false;
    bit<32> pending_packets = 0;
    bool is_pending_tail = false;
    bit<32> have = 0;
    bit<32> now = 0;
    bool is_rested = false;
    bit<24> from_c = 0;
    bit<24> from_p = 0;
    bool is_ack = false;
    bool is_nak = false;
    bool is_gap = false;
    bool is_refusal = false;
    bool is_counter = false;
    bool is_congested = false;
    bool is_data = false;
    // To do.
    bool goes_round = false;        // the packet comes back, and is turned into the next request
    bool requests = false;          // it is the request
    bool forwards = false;          // it is data
    bool moves_on = false;          // to the next producer
    bool plans = false;             // a batch
    bool producer_fails = false;
    bool consumer_fails = false;
    bool drained = false;           // of DRAIN
    bool rings_further = false;     // the bell goes to the next thread
    bool has_left = false;          // the consumer, as it was told to
    bool shrinks_batch = false;
    bool gives = false;             // what it could lock, to a thread that has asked for it
    bool puts_aside = false;        // the producer, which is silent
    bool asks_again = false;        // one that is put aside
    bool lets_go = false;           // of the producer: the consumer is silent

    // Once around the list of producers.
    action look_around() {
        phase = SEEK;
        missed = 0;
        ended = 0;
        goes_round = true;
    }

    // ---- Before it is known what to do.

    // The registers of the thread and of its present producer.
    action read_state() {
        bit<8> phase_read;
        phases.read(phase_read, t);
        phase = (bit<32>)phase_read;
        bit<16> tried_read;
        retries.read(tried_read, t);
        tried = (bit<32>)tried_read;
        bit<16> silent_read;
        silences.read(silent_read, t);
        silent = (bit<32>)silent_read;
        sent.read(sent_at, t);
        bit<24> c_psn_read;
        consumer_psns.read(c_psn_read, t);
        c_psn = (bit<32>)c_psn_read;
        heads.read(c_head, t);
        tails.read(c_tail, t);
        items.read(batch, t);
        batch_packets = (batch * stride + (32w1 << mtu_shift) - 1) >> mtu_shift;
        if (phase == FILL) {
            batch_packets = batch;
        }
        bit<24> start_read;
        starts.read(start_read, t);
        start = (bit<32>)start_read;
        if (consumer_bit == 0) {
            consumer_number = first_consumer;
        }
        bit<24> reached_psn_read;
        reached.read(reached_psn_read, consumer_number);
        reached_psn = (bit<32>)reached_psn_read;
        bit<24> upto_read;
        passed.read(upto_read, t);
        upto = (bit<32>)upto_read;
        bit<8> mark_read;
        marks.read(mark_read, t);
        mark = (bit<32>)mark_read;
        bit<8> shrink_read;
        shrinks.read(shrink_read, t);
        shrink = (bit<32>)shrink_read;
        bit<8> pace_read;
        paces.read(pace_read, t);
        pace = (bit<32>)pace_read;
        bit<8> slowness_read;
        slownesses.read(slowness_read, t);
        slowness = (bit<32>)slowness_read;
        begun.read(began, t);
        most_items = most_items >> (bit<8>)shrink;
        first_time_out = time_out;
        time_out = time_out << (bit<8>)smaller(tried + silent, LONGEST_WAIT);
        bit<24> p_psn_read;
        producer_psns.read(p_psn_read, producer);
        p_psn = (bit<32>)p_psn_read;
        known.read(p_head, producer);
        taken.read(p_tail, producer);
        bit<8> out_of_use_read;
        gone.read(out_of_use_read, producer);
        out_of_use = (bit<32>)out_of_use_read;
        bit<8> owes_read;
        owed.read(owes_read, producer);
        owes = (bit<32>)owes_read;
        // Of a thread that is alone, as long as nothing else was read.
        if (mark & MISSED != 0) {
            missed = 1;
            if (out_of_use != 0) {
                ended = 1;
            }
        }
        if (phase == DRAIN || phase == TELL || phase == DEAD) {
            given_up = all_bits;
        }
        lock = t + 1;
        own_producer = (bit<32>)(shared_producer - 1);
        if (is_shared) {
            bit<16> missed_read;
            misses.read(missed_read, own);
            missed = (bit<32>)missed_read;
            bit<16> ended_read;
            ends.read(ended_read, own);
            ended = (bit<32>)ended_read;
            answers.read(answered, own);
            lost.read(given_up, own);
            fullest.read(most_full, own);
            bit<32> lock_read;
            locks.read(lock_read, own_producer);
            lock = lock_read & 0xffff;
            asks = lock_read >> 16;
            bit<24> waits_read;
            waits.read(waits_read, own_producer);
            waited = (bit<32>)waits_read;
            asked.read(asked_at, own_producer);
            pendings.read(pending, own_producer);
            bit<16> owing_read;
            owing.read(owing_read, own);
            owing_one = (bit<32>)owing_read;
            owing_names.read(owing_name, own);
            owing_tails.read(owing_tail, own);
            if (owing_one != 0) {
                bit<32> owing_pending;
                pendings.read(owing_pending, owing_one - 1);
                is_owing = owing_pending & (TAIL_WRITTEN | END_WRITTEN) != 0;
            }
        }
        pending_packets = (pending * stride + (32w1 << mtu_shift) - 1) >> mtu_shift;
        is_pending_tail = pending & (TAIL_WRITTEN | END_WRITTEN) != 0;
    }

    // What the packet says, and to which PSN.
    action read_packet() {
        // Packets of the batch that this consumer has.
        have = (bit<32>)(reached_psn[23:0] - c_psn[23:0]);
        if (have > batch_packets) {
            have = 0;  // it has not acknowledged anything of this batch
        }
        now = standard.ingress_global_timestamp[31:0];
        if (is_back) {
            now = m.time;
        }
        is_rested = (now - began)[31:31] == 0;  // the next batch may begin
        from_c = h.bth.psn - c_psn[23:0];
        from_p = h.bth.psn - p_psn[23:0];
        is_ack = h.bth.opcode == RC_ACKNOWLEDGE && h.aeth.syndrome[6:5] == 0;
        is_nak = h.bth.opcode == RC_ACKNOWLEDGE && h.aeth.syndrome[6:5] == 3;
        is_gap = is_nak && h.aeth.syndrome[4:0] == 0;
        is_refusal = is_nak && h.aeth.syndrome[4:0] != 0;
        is_counter = h.bth.opcode == RC_READ_RESPONSE_ONLY && h.counter.isValid();
        is_congested = h.bth.opcode == CONGESTION;
        is_data = h.bth.opcode >= RC_READ_RESPONSE_FIRST && h.bth.opcode <= RC_READ_RESPONSE_ONLY;
    }

    // ---- The generator's packet, or one that comes back.

    // Nobody has answered in time: the request is repeated, or who is silent is put aside or given up.
    action time_is_out() {
        if (phase == TAIL && lock == t + 1) {
            lock = 0;  // other consumers need not wait for this one
        }
        // In DATA it is the producer that is silent, unless data came and was not acknowledged.
        bool is_unheard = phase == DATA && mark & CAME != 0;
        // The tail of one alone can be remembered.
        puts_aside = producers_of_thread > 1
                     && (phase == HEAD || phase == DATA && !is_unheard && tried != 0
                         || phase == FREE && (!is_owing || batch == 0 && owes == 0));
        lets_go = is_unheard && silent != 0 && next_thread != thread && upto > have;
        if (phase == DATA && !puts_aside && !lets_go) {
            shrinks_batch = true;
            start = 0;  // with several consumers nobody knows what all have
            if (copies == 0) {
                start = have;
            }
            mark = mark & ~PROBES;
            if (is_unheard) {
                mark = mark | PROBES;
            }
        }
        bit<32> before = tried;
        if (is_unheard) {
            before = silent;
        }
        if (puts_aside || lets_go) {
            goes_round = true;
        } else if (most_retries == 0 || before < most_retries) {
            goes_round = true;
            tried = tried + 1;
            if (is_unheard) {
                silent = silent + 1;
                tried = 0;
            }
        } else if (phase <= TELL || phase == DATA && !is_unheard) {
            producer_fails = true;
        } else {
            consumer_fails = true;
        }
    }

    // The next producer of the list: is it free, and may it be asked? Or has the thread been around?
    action seek() {
        bool is_over = ended >= producers_of_thread && is_open == 0;
        if (leaves == 0 && !is_over && missed >= producers_of_thread && mark & RUNG != 0) {
            mark = mark & ~RUNG;
            missed = 0;
            ended = 0;
            goes_round = true;
        } else if (leaves == 1 || missed >= producers_of_thread) {
            phase = IDLE;
            began = now;  // nothing holds the next one back, however long this thread is idle
            if (leaves == 1 || is_over) {
                phase = PUSH;
                mark = mark | ENDING;
                batch = 0;
                tried = 0;
                answered = 0;
                requests = true;
            }
        } else if (out_of_use != 0) {
            if (out_of_use == PRODUCER_LOST) {
                mark = mark | LOST;
            }
            missed = missed + 1;
            ended = ended + 1;
            moves_on = true;
            goes_round = true;
        } else if (waited != 0) {
            missed = missed + 1;
            moves_on = true;
            if (now - asked_at < first_time_out << (bit<8>)smaller(waited - 1, LONGEST_WAIT)) {
                goes_round = true;
            } else if (most_retries != 0 && waited > most_retries) {
                producer_fails = true;
            } else {
                asks_again = true;
                waited = smaller(waited + 1, MOST_WAITS);
                asked_at = now;
            }
        } else if (lock != 0 && lock != t + 1) {
            missed = missed + 1;
            moves_on = true;
            goes_round = true;
            // Of those who ask, the next one after the holder gets it.
            if (missed >= producers_of_thread
                && (asks == 0 || (t + 1 - lock) & 0xffff < (asks - lock) & 0xffff)) {
                asks = t + 1;
            }
        } else if (asks != 0 && asks & WOKEN == 0 && asks != t + 1) {
            gives = true;
        } else {
            lock = t + 1;
            asks = 0;
            phase = HEAD;
            tried = 0;
            requests = true;
        }
    }

    // The consumers are lost: the next producer that does not know gets the mark BROKEN.
    action tell_next() {
        if (missed >= producers_of_thread) {
            phase = DEAD;
        } else if (out_of_use != 0) {
            missed = missed + 1;
            moves_on = true;
            goes_round = true;
        } else {
            lock = t + 1;
            requests = true;
        }
    }

    // ---- Answers of producers.

    // A producer that was put aside lives. Its answer only says so: the next PSN is due.
    action silent_producer_answers() {
        bool has_answered = false;
        bool is_item = is_data && pending != 0;
        bool is_its_refusal = is_refusal && from_p == 0;
        if (is_pending_tail) {
            has_answered = is_ack && from_p == 0;
        } else if (pending == 0) {
            has_answered = is_counter && from_p == 0;
        } else if ((bit<32>)from_p < pending_packets) {
            is_its_refusal = is_refusal;
            if (is_data) {
                // It is not asked for anything else before it has said all: perhaps it answers one READ at a time.
                waited = 1;
                asked_at = now;
                has_answered = (bit<32>)from_p == pending_packets - 1;
            }
        }
        if (has_answered) {
            p_psn = (bit<32>)(p_psn[23:0] + from_p + 1);
            if (is_pending_tail) {
                owes = 0;
            }
            if (pending & END_WRITTEN != 0) {
                out_of_use = PRODUCER_ENDED;
            }
        } else if (is_its_refusal) {
            out_of_use = PRODUCER_LOST;
        }
        if (has_answered || is_its_refusal) {
            waited = 0;
            pending = 0;
            // A packet of items is too long to be turned into a request: then the generator's goes on.
            if (phase == TELL) {
                tried = 0;
                goes_round = lock == t + 1 && !is_item;
            } else if (phase == IDLE && pace == 0 && is_rested && !is_item) {
                look_around();
            }
        }
    }

    // The producer's head: is there something to move, and is there room for it as far as the thread knows?
    action head_came() {
        p_psn = (bit<32>)(p_psn[23:0] + 1);
        tried = 0;
        bit<32> head = turned(h.counter.value, p_little);
        bit<32> present = (head - p_tail) & COUNT;
        p_head = head;
        if (present > p_slots || head & BROKEN != 0) {
            producer_fails = true;
        } else if (present == 0 && head & ENDED == 0 && owes == 0) {
            lock = 0;
            missed = missed + 1;
            moves_on = true;
            phase = SEEK;
            goes_round = true;
        } else if (present == 0) {
            phase = FREE;
            batch = 0;
            goes_round = true;
        } else {
            missed = 0;
            ended = 0;
            bit<32> room = c_slots - ((c_head - c_tail) & COUNT);
            plans = room >= smaller(present, most_items);
            if (!plans) {
                phase = TAIL;
                answered = 0;
                most_full = 0;
                goes_round = true;
            }
        }
    }

    // The producer knows its tail: its slots are free, and the thread goes on to the next producer. After congestion a pause
    // comes first.
    action tail_acknowledged() {
        p_psn = (bit<32>)(p_psn[23:0] + 1);
        tried = 0;
        p_tail = (p_tail + batch) & COUNT;
        owes = 0;
        lock = 0;
        moves_on = true;
        if (phase == TELL) {
            out_of_use = PRODUCER_LOST;
            missed = missed + 1;
        } else {
            if (batch == 0 && p_head & ENDED != 0) {
                out_of_use = PRODUCER_ENDED;
            }
            phase = SEEK;
            if (batch != 0) {
                gives = true;
                bit<32> took = smaller(now - began, LONGEST_BATCH);
                began = now + (took << (bit<8>)(slowness >> 2)) - took;
                if (pace == PACED || began != now) {
                    phase = IDLE;
                }
                pace = smaller(pace, PACED);
            }
            missed = 0;
            ended = 0;
        }
        batch = 0;
        goes_round = phase != IDLE;
    }

    // ---- Answers of consumers.

    // The consumer's NIC has got marked packets: once in a batch the thread becomes slower.
    action congestion_came() {
        if (mark & SLOWED == 0) {
            slowness = smaller(slowness + 4, SLOWEST);
            mark = mark | SLOWED;
            shrinks_batch = true;
        }
    }

    // A consumer's tail: how many items are in its ring. When all have answered, the fullest ring counts.
    action tail_came() {
        bit<32> tail = turned(h.counter.value, c_little);
        bit<32> full = (c_head - tail) & COUNT;
        if (full > c_slots || tail & ~COUNT != 0) {
            consumer_fails = true;
        } else {
            answered = answered | consumer_bit;
            reached_psn = (bit<32>)(c_psn[23:0] + 1);
            if (full > most_full) {
                most_full = full;
            }
            if (answered | given_up == all_bits) {
                c_psn = (bit<32>)(c_psn[23:0] + 1);
                tried = 0;
                c_tail = (c_head - most_full) & COUNT;
                plans = most_full != c_slots && lock == t + 1;
                if (!plans) {
                    if (lock == t + 1) {
                        lock = 0;
                        gives = true;
                    }
                    phase = IDLE;
                    began = now;
                    if (mark & RUNG != 0) {
                        mark = mark & ~RUNG;
                        look_around();
                    }
                }
            }
        }
    }

    // A consumer's NIC has the batch up to here, or says which packet it lacks. When all have all of it, the heads may move.
    action data_acknowledged() {
        bit<24> arrived = from_c;
        if (is_ack) {
            arrived = from_c + 1;
        }
        if ((bit<32>)arrived <= batch_packets) {
            if ((bit<32>)arrived > have) {
                have = (bit<32>)arrived;
                reached_psn = (bit<32>)(c_psn[23:0] + arrived);
                tried = 0;
                silent = 0;
                sent_at = now;
            }
            if (have == batch_packets) {
                answered = answered | consumer_bit;
                if (answered | given_up == all_bits) {
                    c_psn = (bit<32>)(c_psn[23:0] + batch_packets[23:0]);
                    p_psn = (bit<32>)(p_psn[23:0] + batch_packets[23:0]);
                    if (mark & AGAIN == 0 && shrink != 0) {
                        shrink = shrink - 1;
                    }
                    phase = PUSH;
                    answered = 0;
                    goes_round = true;
                }
            } else if (mark & PROBES != 0) {
                mark = mark & ~PROBES;  // it lives
                if (copies == 0) {
                    start = have;
                }
                goes_round = true;
            } else if (is_gap && (bit<32>)arrived == have && (start != have || mark & AGAIN == 0)) {
                shrinks_batch = true;
                start = have;
                goes_round = true;
            }
        }
    }

    // One more PSN of a batch that nobody goes on with is used up.
    action filling_acknowledged() {
        if (answered & consumer_bit == 0) {
            tried = 0;  // not by the answers to a repeated request, which another one leaves unanswered
        }
        answered = answered | consumer_bit;
        if (answered | given_up == all_bits) {
            answered = 0;
            start = start + 1;
            if (start == batch_packets) {
                c_psn = (bit<32>)(c_psn[23:0] + batch_packets[23:0]);
                phase = SEEK;
                batch = 0;
            }
            goes_round = true;
        }
    }

    // A consumer's head has moved. When all have: the producer's tail follows, or it was the end.
    action head_acknowledged() {
        answered = answered | consumer_bit;
        reached_psn = (bit<32>)(c_psn[23:0] + 1);
        if (answered | given_up == all_bits) {
            c_psn = (bit<32>)(c_psn[23:0] + 1);
            tried = 0;
            c_head = (c_head + batch) & COUNT;
            phase = FREE;
            if (mark & ENDING != 0) {
                phase = DONE;
                has_left = leaves == 1;
            } else {
                goes_round = true;
            }
        }
    }

    // ---- What follows.

    // A packet was lost, or there was congestion: the next batches are half as long.
    action shrink_batch() {
        mark = mark | AGAIN;
        if (most_items > 1) {
            shrink = shrink + 1;
        }
    }

    // The next batch: what there is, fits, and lies in a row in both rings.
    action plan_batch() {
        if (mark & SLOWED == 0 && slowness != 0) {
            slowness = slowness - 1;
        }
        mark = mark & ~(AGAIN | SLOWED | PROBES);
        began = now;
        bit<32> room = c_slots - ((c_head - c_tail) & COUNT);
        bit<32> first_p = p_tail & (p_slots - 1);
        bit<32> first_c = c_head & (c_slots - 1);
        batch = smaller(smaller(smaller((p_head - p_tail) & COUNT, most_items), room),
                        smaller(p_slots - first_p, c_slots - first_c));
        start = 0;
        upto = 0;
        silent = 0;
        answered = 0;
        phase = DATA;
        goes_round = true;
    }

    // The consumer of a balanced flow is silent: others may have the items, and its PSNs are filled.
    action let_go() {
        // Nobody has seen these items: others may have them. The NIC has answered the READ, so its PSNs are used.
        p_psn = (bit<32>)(p_psn[23:0] + batch_packets[23:0]);
        lock = 0;
        moves_on = true;
        start = have;
        answered = 0;
        phase = FILL;
        batch = upto;  // packets
        tried = silent;
    }

    // The producer is silent: what it was asked for is remembered, and the thread goes on with others.
    action put_aside() {
        waited = 1;
        asked_at = sent_at;
        pending = 0;
        missed = missed + 1;
        if (phase != HEAD) {
            missed = 0;
            ended = 0;
        }
        if (phase == FREE) {
            if (batch != 0 || owes != 0) {
                owing_one = (bit<32>)shared_producer;
                owing_name = p_name;
                owing_tail = (p_tail + batch) & COUNT;
            }
            pending = TAIL_WRITTEN;
            if (batch == 0 && p_head & ENDED != 0) {
                pending = END_WRITTEN;
            }
            p_tail = (p_tail + batch) & COUNT;
        }
        if (copies != 0) {
            have = 0;
        }
        if (phase == DATA && upto == 0) {
            pending = batch;
            phase = SEEK;
        } else if (phase == DATA) {
            p_psn = (bit<32>)(p_psn[23:0] + batch_packets[23:0]);  // it has begun to answer: it knows the READ
            if (upto > have) {
                start = have;
                answered = 0;
                phase = FILL;
            } else {
                c_psn = (bit<32>)(c_psn[23:0] + have[23:0]);
                phase = SEEK;
            }
        } else {
            phase = SEEK;
        }
        lock = 0;
        moves_on = true;
        batch = 0;
        if (phase == FILL) {
            batch = upto;
        }
        tried = 0;
    }

    // The producer refuses or is silent for too long. If all that it had was delivered, it has left; else it is lost.
    action give_up_producer() {
        out_of_use = PRODUCER_LOST;
        waited = 0;
        pending = 0;
        if (phase == FREE) {
            p_tail = (p_tail + batch) & COUNT;
        }
        if (phase <= FREE && p_head & (ENDED | BROKEN) == ENDED && (p_head - p_tail) & COUNT == 0) {
            out_of_use = PRODUCER_ENDED;  // all that it had was delivered: it may leave without a word
        } else {
            mark = mark | LOST;
        }
        lock = 0;
        moves_on = true;
        if (phase == TELL) {
            missed = missed + 1;
        } else {
            if (copies != 0) {
                have = 0;
            }
            if (phase == DATA && upto > have) {
                start = have;
                answered = 0;
                phase = FILL;
            } else {
                if (phase == DATA) {
                    c_psn = (bit<32>)(c_psn[23:0] + have[23:0]);
                }
                phase = SEEK;
            }
            missed = 0;
            ended = 0;
        }
        batch = 0;
        if (phase == FILL) {
            batch = upto;
        }
        tried = 0;
        goes_round = true;
    }

    // A consumer refuses or is silent for too long: the others go on. When nobody is left, or it has left as it was told to, the
    // thread ends; the last one of the flow tells the producers.
    action give_up_consumer() {
        if (consumer_fails && consumer_bit == 0 && mark & ENDING != 0) {
            phase = DONE;  // who has seen the end may leave without a word
            has_left = leaves == 1;
            goes_round = false;
        } else if (consumer_fails) {
            if (consumer_bit == 0) {
                given_up = given_up | (all_bits & ~answered);  // those who have not answered
            } else {
                given_up = given_up | consumer_bit;
            }
            // The others go on: what they have answered, they will answer again.
            goes_round = given_up != all_bits;
            tried = 0;
            silent = 0;
        }
        bool is_lost = consumer_fails && given_up == all_bits && phase != DONE;
        if (is_lost || has_left) {
            if (is_lost && phase == DATA) {
                p_psn = (bit<32>)(p_psn[23:0] + batch_packets[23:0]);
            } else if (is_lost && phase == PUSH) {
                p_tail = (p_tail + batch) & COUNT;  // its head may have moved: they are its items
                owes = 1;
            }
            drained = is_lost && phase != DATA;
            sent_at = now;
            bit<16> alive = 1;
            if (is_shared) {
                living.read(alive, (bit<32>)(shared_flow - 1));
            }
            alive = alive - 1;
            if (is_shared) {
                living.write((bit<32>)(shared_flow - 1), alive);
            }
            if (is_lost) {
                phase = DRAIN;
            }
            if (alive == 0 && !(has_left && is_open == 1)) {
                phase = TELL;
                missed = 0;
                goes_round = true;
            }
            batch = 0;
            tried = 0;
        }
    }

    // ---- What leaves.

    // A packet of the items: it becomes a WRITE of its own to the consumer.
    action forward_data() {
        bit<32> number = (bit<32>)from_p;
        bit<32> at = number << mtu_shift;
        bit<32> bytes = 32w1 << mtu_shift;
        if (number == batch_packets - 1) {
            bytes = batch * stride - at;
        }
        bit<32> around = AROUND_PAYLOAD + (bit<32>)h.bth.pad;
        bit<16> more = 16;
        if (h.aeth.isValid()) {
            around = around + 4;
            more = 12;
        }
        if ((bit<32>)h.ipv4.total_bytes != bytes + around) {
            drop();
            exit;
        }
        sent_at = now;  // while the answer comes, also one that is of no use, another request would only wait behind it
        if (copies == 0 && number < have) {
            sent.write(t, sent_at);
            drop();
            exit;
        }
        if (number >= upto) {
            upto = number + 1;
        }
        mark = mark | CAME;
        from_switch();
        to_consumer();
        if (h.ipv4.service[1:0] == 0) {
            h.ipv4.service = h.ipv4.service | 2;  // ECN: capable
        }
        h.ipv4.total_bytes = h.ipv4.total_bytes + more;
        h.udp.bytes = h.udp.bytes + more;
        h.bth.opcode = RC_WRITE_ONLY;
        h.bth.solicited = 0;
        h.bth.ack_request = 0;
        if (number == batch_packets - 1 || number[3:0] == 15 || mark & PROBES != 0) {
            h.bth.ack_request = 1;
        }
        h.bth.psn = c_psn[23:0] + from_p;
        h.reth.address = c_items_address + (bit<64>)(c_head & (c_slots - 1)) * (bit<64>)stride + (bit<64>)at;
        h.reth.key = c_key;
        h.reth.bytes = bytes;
    }

    // The packet becomes the request of the present phase, or once more that of a producer which was put aside.
    action send_request() {
        if (requests) {
            sent_at = now;
        }
        from_switch();
        h.counter.setInvalid();
        if (phase <= DATA) {
            to_producer();
        } else {
            to_consumer();
        }
        if (asks_again || phase == TELL && waited != 0) {
            // The same request again.
            if (is_pending_tail) {
                h.counter.setValid();
                h.counter.value = turned(p_tail | pending & ENDED, p_little);
                request(RC_WRITE_ONLY, p_psn[23:0], p_tail_address, p_key, 4, 44);
            } else if (pending == 0) {
                request(RC_READ_REQUEST, p_psn[23:0], p_head_address, p_key, 4, 40);
            } else {
                request(RC_READ_REQUEST, p_psn[23:0],
                        p_items_address + (bit<64>)(p_tail & (p_slots - 1)) * (bit<64>)stride, p_key,
                        pending * stride, 40);
            }
        } else if (phase == HEAD) {
            request(RC_READ_REQUEST, p_psn[23:0], p_head_address, p_key, 4, 40);
        } else if (phase == FREE || phase == TELL) {
            bit<32> tail = (p_tail + batch) & COUNT;
            if (phase == TELL) {
                tail = tail | BROKEN;
            } else if (batch == 0 && p_head & ENDED != 0) {
                tail = tail | ENDED;
            }
            h.counter.setValid();
            h.counter.value = turned(tail, p_little);
            request(RC_WRITE_ONLY, p_psn[23:0], p_tail_address, p_key, 4, 44);
        } else if (phase == DATA) {
            mark = mark & ~CAME;
            bit<32> at = start << mtu_shift;
            bit<32> wanted = batch * stride - at;
            if (mark & PROBES != 0) {
                wanted = smaller(wanted, 32w1 << mtu_shift);
            }
            request(RC_READ_REQUEST, p_psn[23:0] + start[23:0],
                    p_items_address + (bit<64>)(p_tail & (p_slots - 1)) * (bit<64>)stride + (bit<64>)at, p_key,
                    wanted, 40);
        } else if (phase == TAIL) {
            request(RC_READ_REQUEST, c_psn[23:0], c_tail_address, c_key, 4, 40);
        } else if (phase == PUSH) {
            bit<32> head = (c_head + batch) & COUNT;
            if (mark & ENDING != 0) {
                head = head | ENDED;
                if (mark & LOST != 0) {
                    head = head | BROKEN;
                }
            }
            h.counter.setValid();
            h.counter.value = turned(head, c_little);
            h.journal.setValid();
            h.journal.producer = p_name;
            h.journal.tail = (p_tail + batch) & COUNT;
            h.journal.silent = 0;
            h.journal.silent_tail = 0;
            if (is_owing) {
                h.journal.silent = owing_name;
                h.journal.silent_tail = owing_tail;
            }
            request(RC_WRITE_ONLY, c_psn[23:0], c_head_address, c_key, 20, 60);
        } else {
            request(RC_WRITE_ONLY, c_psn[23:0] + start[23:0], c_items_address, c_key, 0, 40);
        }
    }

    // The packet comes back: to this thread, to one that waits for the producer, or as a bell to the next one.
    action go_round() {
        m.thread = thread;
        m.rings = 0;
        if (gives) {
            m.thread = (bit<16>)(asks - 1);
            m.rings = 2;
            asks = asks | WOKEN;
            if (phase == SEEK) {
                phase = IDLE;
            }
        }
        if (rings_further) {
            m.thread = next_thread;
            m.rings = 1;
        }
        m.time = now;
        resubmit_preserving_field_list(1);
    }

    action write_state() {
        mark = mark & ~MISSED;
        if (is_shared) {
            positions.write(own, (bit<16>)position);
            misses.write(own, (bit<16>)missed);
            ends.write(own, (bit<16>)ended);
            answers.write(own, answered);
            lost.write(own, given_up);
            fullest.write(own, most_full);
            owing.write(own, (bit<16>)owing_one);
            owing_names.write(own, owing_name);
            owing_tails.write(own, owing_tail);
            locks.write(own_producer, asks << 16 | lock);
            waits.write(own_producer, (bit<24>)waited);
            asked.write(own_producer, asked_at);
            pendings.write(own_producer, pending);
        } else if (missed != 0) {
            mark = mark | MISSED;
        }
        phases.write(t, (bit<8>)phase);
        retries.write(t, (bit<16>)tried);
        silences.write(t, (bit<16>)silent);
        sent.write(t, sent_at);
        consumer_psns.write(t, (bit<24>)c_psn);
        heads.write(t, c_head);
        tails.write(t, c_tail);
        items.write(t, batch);
        starts.write(t, (bit<24>)start);
        reached.write(consumer_number, (bit<24>)reached_psn);
        passed.write(t, (bit<24>)upto);
        marks.write(t, (bit<8>)mark);
        shrinks.write(t, (bit<8>)shrink);
        paces.write(t, (bit<8>)pace);
        slownesses.write(t, (bit<8>)slowness);
        begun.write(t, began);
        producer_psns.write(producer, (bit<24>)p_psn);
        known.write(producer, p_head);
        taken.write(producer, p_tail);
        gone.write(producer, (bit<8>)out_of_use);
        owed.write(producer, (bit<8>)owes);
    }

    apply {
        if (standard.parser_error != error.NoError || standard.checksum_error == 1) {
            drop();
            exit;
        }
        is_back = standard.instance_type == RESUBMITTED;
        is_control = is_back && m.rings == 0;
        is_bell = is_back && m.rings == 1;
        is_tick = !is_back && standard.ingress_port == GENERATOR || is_back && m.rings == 2;
        if (is_back) {
            thread = m.thread;
        } else if (is_tick) {
            thread = h.bth.queue_pair[15:0];
        } else {
            bool is_known = h.bth.isValid() && ends_of_switch.apply().hit;
            bool is_for_switch = h.arp.isValid() && h.arp.operation == ARP_REQUEST && own_addresses.apply().hit;
            if (is_for_switch) {
                exit;
            }
            if (!is_known) {
                stations.apply();
                exit;
            }
            if (h.ipv4.source != peer_ip) {
                drop();
                exit;
            }
            // An empty message is a bell. It says nothing but that the thread shall look, so it may get lost or come twice.
            is_bell = h.bth.opcode == RC_SEND_ONLY && h.ipv4.total_bytes == AROUND_PAYLOAD[15:0]
                      || h.bth.opcode == RC_WRITE_ONLY && h.reth.bytes == 0 && h.ipv4.total_bytes == AROUND_PAYLOAD[15:0] + 16;
            if (is_bell) {
                clone_preserving_field_list(CloneType.I2E, (bit<32>)standard.ingress_port + 1, 2);
                if (is_of_producer) {
                    thread = m.first;
                }
                m.first = thread;
                is_of_producer = false;
            } else if (is_of_producer) {
                thread = m.first;
                if (shared_producer != 0) {
                    bit<32> locker_read;
                    locks.read(locker_read, (bit<32>)(shared_producer - 1));
                    bit<32> locker = locker_read & 0xffff;
                    bit<24> waits_first;
                    waits.read(waits_first, (bit<32>)(shared_producer - 1));
                    if (locker == 0 && waits_first == 0) {
                        drop();  // nobody waits for it
                        exit;
                    }
                    if (locker != 0) {
                        thread = (bit<16>)(locker - 1);
                    }
                }
            }
        }
        t = (bit<32>)thread;
        is_thread_there = threads.apply().hit;
        is_shared = shared_thread != 0;
        own = (bit<32>)(shared_thread - 1);
        if (is_shared) {
            bit<16> position_read;
            positions.read(position_read, own);
            position = (bit<32>)position_read;
        }
        is_consumer_there = consumers.apply().hit;
        is_member_there = is_of_producer || members.apply().hit;
        is_producer_there = producers.apply().hit;
        if (!is_thread_there || !is_consumer_there || !is_member_there || !is_producer_there) {
            drop();
            exit;
        }
        read_state();
        read_packet();
        // What has come: a bell, the generator's packet, one of the thread that goes round, an answer.
        if (is_bell) {
            if (phase == IDLE && pace == 0 && is_rested) {
                look_around();
            } else {
                if (phase >= SEEK) {
                    mark = mark | RUNG;
                }
                rings_further = next_thread != m.first;
            }
        } else if (is_tick) {
            if (phase == IDLE) {
                if (is_rested) {
                    look_around();
                    pace = smaller(pace, PACED);
                }
            } else if (phase == SEEK) {
                goes_round = true;
            } else if (phase == DRAIN && now - sent_at >= time_out) {
                drained = true;
            } else if (phase > SEEK && now - sent_at >= time_out && !is_back) {
                time_is_out();
            }
        } else if (is_control) {
            if (phase == SEEK) {
                seek();
            } else if (phase == TELL) {
                tell_next();
            } else if (phase > SEEK) {
                requests = true;
            }
        } else if (is_of_producer) {
            if (waited != 0) {
                silent_producer_answers();
            } else if (phase == HEAD && is_counter && from_p == 0) {
                head_came();
            } else if (phase == DATA && is_data && (bit<32>)from_p < batch_packets) {
                forwards = true;
            } else if (phase == DRAIN && is_data) {
                sent_at = now;
                drained = from_p == 0xffffff;  // the last packet before those of the next request
            } else if ((phase == FREE || phase == TELL) && is_ack && from_p == 0) {
                tail_acknowledged();
            } else if (is_refusal && phase >= HEAD && phase <= DATA
                       && (from_p == 0 || phase == DATA && (bit<32>)from_p < batch_packets)) {
                producer_fails = true;
            }
        } else if (given_up & consumer_bit == 0) {
            if (is_congested) {
                congestion_came();
            } else if (phase == TAIL && is_counter && from_c == 0) {
                tail_came();
            } else if (phase == DATA && (is_ack || is_gap)) {
                data_acknowledged();
            } else if (phase == FILL && is_ack && (bit<32>)from_c >= start && (bit<32>)from_c < batch_packets) {
                filling_acknowledged();
            } else if (phase == PUSH && is_ack && from_c == 0) {
                head_acknowledged();
            } else if (is_refusal && phase >= DATA
                       && (from_c == 0 || phase != TAIL && phase != PUSH && (bit<32>)from_c < batch_packets)) {
                consumer_fails = true;
            }
        }

        // What follows for the thread.
        if (shrinks_batch) {
            shrink_batch();
        }
        if (plans) {
            plan_batch();
        }
        if (lets_go) {
            let_go();
        }
        if (puts_aside) {
            put_aside();
        }
        if (producer_fails) {
            give_up_producer();
        }
        give_up_consumer();
        if (drained && lock == t + 1) {
            lock = 0;
        }
        if (drained && phase == DRAIN) {
            phase = DEAD;
        }

        if (moves_on) {
            position = position + 1;
            if (position >= producers_of_thread) {
                position = 0;
            }
        }

        gives = gives && lock == 0 && asks != 0 && asks & WOKEN == 0 && asks != t + 1 && !requests
                && !producer_fails && !consumer_fails;

        // What leaves. A consumer that was given up may live: its unread items must not be overwritten.
        m.left_out = given_up;
        if (forwards) {
            forward_data();
        } else if (requests || asks_again) {
            send_request();
        } else if (goes_round || rings_further || gives) {
            go_round();
        } else {
            drop();
        }

        write_state();
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
        if (standard.egress_rid != 0 && standard.egress_port == standard.ingress_port) {
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

V1Switch(Parse(), Verify(), Move(), Finish(), Compute(), Deparse()) main;

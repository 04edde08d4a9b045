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
// Where polls are rare, a thread that cannot go on, because its consumer is full, it pauses, or it has come to its end,
// calls another one, which may. (A call passes all threads that cannot go on either: where polls come soon, they are
// cheaper.) So does one that has let a producer go, because its consumer is silent or has died. If its packet is needed
// for a request then, or cannot be turned into one, the next tick is the call. And at each tick while a producer is put
// aside: others are to ask it.
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
// An answer only says that it lives, and that the next PSN is due; then it is asked for its head again, and waited for
// longer. If it was its tail that it did not acknowledge, the thread remembers that beside the journal. Of a balanced flow
// a thread whose consumer does not acknowledge data gives the producer back, and fills the PSNs.
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
// apply block at its end says when. Here are the thread's decisions; p4/include has the rest in parts: flow_packets.p4,
// flow_tables.p4, flow_state.p4, flow_answers.p4, flow_requests.p4. A thread that has one producer and one consumer, which
// nobody else has, is alone: it needs fewer registers.
//
// The control plane is flows/flow_switch.cpp.
#include <core.p4>
#include <v1model.p4>
#include "include/roce_headers.p4"

const bit<9> GENERATOR = 510;  // the port of the packet generator
const bit<32> RESUBMITTED = 6;  // an instance_type

const bit<32> THREADS = 2048;
const bit<32> PRODUCERS = 2048;
const bit<32> SHARED = 1024; // of threads and of producers each, those of flows that are not 1:1

const bit<32> WOKEN = 0x8000;  // the thread that asks was told that the lock is free: others wait for it no more

// Of a counter of a ring.
const bit<32> ENDED = 0x80000000;
const bit<32> BROKEN = 0x40000000;
const bit<32> COUNT = 0x3fffffff;

// Of metadata_t::rings: the bell of a thread that cannot go on, to one whose consumer is not known to be full.
const bit<2> CALL = 3;

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
const bit<32> STRANDED = 128; // of one that shares: a producer that it had is free, and nobody was called

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
// or one of these, and below it the thread + 1 that has put it aside.
const bit<32> TAIL_WRITTEN = 0x40000000;
const bit<32> END_WRITTEN = 0x80000000;  // its tail with the mark ENDED

// An element of `tails`, above the counter: the ring was full when it was read, and the thread has not looked around
// since. Of a thread that shares its producers.
const bit<32> FULL = 0x80000000;

// An element of `waits`: how often the producer was asked in vain, from 1 on it is put aside; and above that, how many
// requests more it gets before it is, because its last answers came too late.
const bit<32> MOST_WAITS = 0x10000;
const bit<24> WAITS = 0xfffff;
const bit<32> PATIENCE_AT = 20;
const bit<32> MOST_PATIENCE = 3;

// An element of `gone`.
const bit<32> PRODUCER_ENDED = 1;
const bit<32> PRODUCER_LOST = 2;

struct metadata_t {
    @field_list(1)
    bit<16> thread;
    @field_list(1)
    bit<32> time;  // a packet that comes back has no time stamp of its own
    @field_list(1)
    bit<2> rings;   // 1: a bell that goes from thread to thread, until one has time; 2: a tick; 3: CALL
    @field_list(1)
    bit<16> first;  // of these threads
    @field_list(1)
    bit<32> flow;   // of the thread to which it comes back: that number may be another flow's by then
    @field_list(2)
    bit<24> ringer; // the queue pair that gets the acknowledgement of a bell
    bool is_rewritten;
    bool is_copied;     // to several consumers: each copy gets its consumer's addresses
    bit<32> left_out;   // bits of consumers that get no copy
    bit<32> generation; // of the thread: a copy may leave when another flow has its consumer's number
}

#include "include/flow_packets.p4"

bit<32> smaller(in bit<32> a, in bit<32> b) {
    bit<32> value = a;
    if (b < a) {
        value = b;
    }
    return value;
}

// A packet that comes back has an old time: one that came after it may have been here before. Then no time has passed.
bit<32> passed_since(in bit<32> then, in bit<32> now) {
    bit<32> value = now - then;
    if (value[31:28] == 0xf) {
        value = 0;
    }
    return value;
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
    register<bit<16>>(SHARED) vain_batches;   // batches in a row that others got, because its consumer was silent
    register<bit<16>>(SHARED) living;         // threads that have not been given up; of the flow's first thread
    // By the producer's own number.
    register<bit<32>>(SHARED) locks;          // thread + 1; in the upper half, who asks for it, and WOKEN
    register<bit<24>>(SHARED) waits;
    register<bit<32>>(SHARED) asked;          // then: when
    register<bit<32>>(SHARED) pendings;       // then: for what

    // Of the control plane, which comes and goes: the number of the latest flow.
    register<bit<32>>(1) latest_flow;

#include "include/flow_tables.p4"
#include "include/flow_state.p4"

    // Once around the list of producers.
    action look_around() {
        phase = SEEK;
        missed = 0;
        ended = 0;
        c_tail = c_tail & ~FULL;
        goes_round = true;
    }

    // ---- The generator's packet, or one that comes back.

    // Nobody has answered in time: the request is repeated, or who is silent is put aside or given up.
    action time_is_out() {
        if (phase == TAIL && lock == t + 1) {
            lock = 0;  // other consumers need not wait for this one
            strands = true;
        }
        // In DATA it is the producer that is silent, unless data came and was not acknowledged.
        bool is_unheard = phase == DATA && mark & CAME != 0;
        bit<32> tries = patience;
        if (most_retries != 0) {
            tries = smaller(patience, most_retries - 1);
        }
        // The tail of one alone can be remembered.
        puts_aside = producers_of_thread > 1
                     && (phase == HEAD && tried >= tries || phase == DATA && !is_unheard && tried > tries
                         || phase == FREE && tried >= tries && (!is_owing || batch == 0 && owes == 0));
        // The consumer may acknowledge all that is short, and no data: that often, and no more.
        bool is_in_vain = is_unheard && silent != 0 && next_thread != thread && upto > have;
        lets_go = is_in_vain && (most_retries == 0 || vain < most_retries);
        if (phase == DATA && !puts_aside && !is_in_vain) {
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
        } else if (!is_in_vain && (most_retries == 0 || before < most_retries)) {
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
            if (leaves == 0) {
                mark = mark & ~STRANDED;  // it has come by
            }
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
            if (passed_since(asked_at, now) < first_time_out << (bit<8>)smaller(waited - 1, LONGEST_WAIT)) {
                goes_round = true;
            } else if (most_retries != 0 && waited > most_retries) {
                producer_fails = true;
            } else {
                asks_again = true;
                waited = smaller(waited + 1, MOST_WAITS);
                asked_at = now;
                if (are_polls_rare == 1 && next_thread != thread) {
                    phase = IDLE;  // its packet leaves: a call brings another one before its own timer does
                    began = now;
                }
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

#include "include/flow_answers.p4"

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
        strands = true;
        moves_on = true;
        vain = smaller(vain + 1, most_retries);
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
            pending = pending | t + 1;
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
            calls = true;
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
                mark = mark & ~STRANDED;  // of this producer all is to come first
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

#include "include/flow_requests.p4"

    apply {
        if (standard.parser_error != error.NoError || standard.checksum_error == 1) {
            drop();
            exit;
        }
        is_back = standard.instance_type == RESUBMITTED;
        is_control = is_back && m.rings == 0;
        is_bell = is_back && (m.rings == 1 || m.rings == CALL);
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
                    if (locker == 0 && waits_first & WAITS == 0) {
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
        // What goes round, and a tick that has waited, may be of a flow that was stopped meanwhile.
        bool is_of_another = is_back && m.flow != m.generation
                             || is_tick && !is_back && h.bth.psn != m.generation[23:0];
        if (!is_thread_there || !is_consumer_there || !is_member_there || !is_producer_there || is_of_another) {
            drop();
            exit;
        }
        read_state();
        read_packet();
        // What has come: a bell, the generator's packet, one of the thread that goes round, an answer.
        if (is_bell) {
            if (phase == IDLE && pace == 0 && is_rested && (m.rings != CALL || c_tail & FULL == 0)) {
                look_around();
            } else {
                if (phase >= SEEK) {
                    mark = mark | RUNG;
                }
                rings_further = next_thread != m.first;
                is_call = m.rings == CALL;
            }
        } else if (is_tick) {
            if (is_back && phase >= SEEK) {
                mark = mark | RUNG;  // it was given a producer, and may be past it in its round
            }
            if (phase == DONE || phase == DEAD || is_back && phase > SEEK || phase == IDLE && !is_rested) {
                // It was given a producer, and cannot take it, or not yet. Or one is put aside: it may have answered.
                calls = true;
            } else if (phase == IDLE) {
                if (is_rested) {
                    look_around();
                    pace = smaller(pace, PACED);
                }
            } else if (phase == SEEK) {
                goes_round = true;
            } else if (phase == DRAIN && (is_stranded || passed_since(sent_at, now) >= time_out)) {
                drained = true;
            } else if (phase > SEEK && is_stranded) {
                mark = mark & ~STRANDED;  // what was asked for is repeated at the next tick
                calls = true;
            } else if (phase > SEEK && passed_since(sent_at, now) >= time_out) {
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
        if (drained) {
            strands = is_long && lock == t + 1;
        }
        if (drained && lock == t + 1) {
            lock = 0;
        }
        strands = strands && next_thread != thread && are_polls_rare == 1;
        if (drained && phase == DRAIN && !strands) {
            phase = DEAD;
            mark = mark & ~STRANDED;
            calls = !is_long;
        }
        if (strands) {
            mark = mark | STRANDED;
        }

        if (moves_on) {
            position = position + 1;
            if (position >= producers_of_thread) {
                position = 0;
            }
        }

        gives = gives && lock == 0 && asks != 0 && asks & WOKEN == 0 && asks != t + 1 && !requests
                && !producer_fails && !consumer_fails;
        if (calls && are_polls_rare == 1 && !gives && !goes_round && !requests && !asks_again) {
            m.first = thread;
            rings_further = next_thread != thread;
            is_call = true;
        }

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

V1Switch(Parse(), Verify(), Move(), Finish(), Compute(), Deparse()) main;

    // What a packet of zero_sided.p4 finds and changes: what it is, the registers of its thread and of the thread's present
    // producer, and what is to be done. All actions share it. This is a part of the control `Move`.

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
    bit<32> patience = 0;
    bit<32> asked_at = 0;
    bit<32> pending = 0;
    bit<32> own_producer = 0;
    bit<32> vain = 0;
    bit<32> owing_one = 0;
    bit<32> owing_name = 0;
    bit<32> owing_tail = 0;
    bool is_owing = false;
    bool is_stranded = false;
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
    bool is_long = false;  // items: too long to be turned into a request
    // To do.
    bool goes_round = false;        // the packet comes back, and is turned into the next request
    bool requests = false;          // it is the request
    bool forwards = false;          // it is data
    bool moves_on = false;          // to the next producer
    bool plans = false;             // a batch
    bool producer_fails = false;
    bool consumer_fails = false;
    bool drained = false;           // of DRAIN
    bool strands = false;           // a producer, which is free: somebody is to be called, and not by this packet
    bool rings_further = false;     // the bell goes to the next thread
    bool is_call = false;           // it is a CALL
    bool calls = false;             // others: this thread cannot go on
    bool has_left = false;          // the consumer, as it was told to
    bool shrinks_batch = false;
    bool gives = false;             // what it could lock, to a thread that has asked for it
    bool puts_aside = false;        // the producer, which is silent
    bool asks_again = false;        // one that is put aside
    bool lets_go = false;           // of the producer: the consumer is silent

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
        // Of a thread that is alone: of another one it is read below.
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
        is_stranded = is_shared && mark & STRANDED != 0;
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
            waited = (bit<32>)(waits_read & WAITS);
            patience = (bit<32>)waits_read >> (bit<8>)PATIENCE_AT;
            asked.read(asked_at, own_producer);
            pendings.read(pending, own_producer);
            bit<16> vain_read;
            vain_batches.read(vain_read, own);
            vain = (bit<32>)vain_read;
            bit<16> owing_read;
            owing.read(owing_read, own);
            owing_one = (bit<32>)owing_read;
            owing_names.read(owing_name, own);
            owing_tails.read(owing_tail, own);
            if (owing_one != 0) {
                bit<32> owing_pending;
                pendings.read(owing_pending, owing_one - 1);
                // Another thread may have put it aside since, or another ring that has its number now.
                is_owing = owing_pending & (TAIL_WRITTEN | END_WRITTEN) != 0 && owing_pending & 0xffff == t + 1;
                if (!is_owing) {
                    owing_one = 0;
                }
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
        is_congested = h.bth.opcode == CNP;
        is_data = h.bth.opcode >= RC_READ_RESPONSE_FIRST && h.bth.opcode <= RC_READ_RESPONSE_ONLY;
        is_long = is_data && !h.counter.isValid();
    }

    action write_state() {
        if (is_shared) {
            positions.write(own, (bit<16>)position);
            misses.write(own, (bit<16>)missed);
            ends.write(own, (bit<16>)ended);
            answers.write(own, answered);
            lost.write(own, given_up);
            fullest.write(own, most_full);
            vain_batches.write(own, (bit<16>)vain);
            owing.write(own, (bit<16>)owing_one);
            owing_names.write(own, owing_name);
            owing_tails.write(own, owing_tail);
            locks.write(own_producer, asks << 16 | lock);
            waits.write(own_producer, (bit<24>)(patience << (bit<8>)PATIENCE_AT | waited));
            asked.write(own_producer, asked_at);
            pendings.write(own_producer, pending);
        } else {
            mark = mark & ~MISSED;
            if (missed != 0) {
                mark = mark | MISSED;
            }
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

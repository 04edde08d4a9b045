    // What leaves the switch in zero_sided.p4: data, a request, a packet that goes round. This is a part of the control
    // `Move`.

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
                began = now;  // as in seek(): the batch before may have begun long ago
            }
        }
        if (rings_further) {
            m.thread = next_thread;
            m.rings = 1;
            if (is_call) {
                m.rings = CALL;
            }
        }
        m.time = now;
        m.flow = m.generation;
        resubmit_preserving_field_list(1);
    }

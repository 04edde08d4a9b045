    // The answers of units in zero_sided.p4: each action is what happens when one of them comes. This is a part of the
    // control `Move`.

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
            patience = smaller(patience + 1, MOST_PATIENCE);
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
                if (patience != 0) {
                    patience = patience - 1;
                }
                bit<32> took = smaller(passed_since(began, now), LONGEST_BATCH);
                began = now + (took << (bit<8>)(slowness >> 2)) - took;
                if (pace == PACED || began != now) {
                    calls = began != now;  // others may go on while this one pauses
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
                    mark = mark & ~STRANDED;  // if there is room, the next tick comes soon, as one that waits for an answer
                    if (mark & RUNG != 0) {
                        mark = mark & ~RUNG;
                        look_around();
                    } else if (most_full == c_slots && next_thread != thread) {
                        c_tail = c_tail | FULL;
                        calls = true;  // others may have room for what waits
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
                vain = 0;
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
        reached_psn = (bit<32>)(c_psn[23:0] + from_c + 1);  // else PSNs come around to where it has had data
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
                calls = true;
                has_left = leaves == 1;
            } else {
                goes_round = true;
            }
        }
    }

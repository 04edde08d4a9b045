    // The tables of zero_sided.p4, and what they give. This is a part of its control `Move`.

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
    bit<1> are_polls_rare = 0;
    bit<16> next_thread = 0;
    // `open`: 1: it does not end when all its producers have. `leaving`: 1: its consumer gets no more. `next`: of the
    // threads that have the same producers, in a circle. `own`, `flow`: see shared_thread and shared_flow.
    // `age`: the flow's number. `producers`: how many there are in its list. `limit`: items of a batch. `each`: bytes from an item to the next.
    // `shift`: the path MTU is 2^shift. `wait`: microseconds until a request is repeated. `often`: how often it is; 0: for
    // ever. `bits`: of all consumers; `consumer`: the register of the first one; `group`: if there are several, the
    // multicast group of them.
    action is_thread(bit<48> mac, bit<32> ip, bit<16> flow, bit<32> producers, bit<32> limit, bit<32> each,
                     bit<8> shift, bit<32> wait, bit<32> often, bit<32> bits, bit<32> consumer, bit<16> group,
                     bit<32> age, bit<1> open, bit<1> leaving, bit<16> next, bit<16> own, bit<1> rare) {
        is_open = open;
        leaves = leaving;
        next_thread = next;
        m.generation = age;
        own_mac = mac;
        own_ip = ip;
        shared_flow = flow;
        shared_thread = own;
        are_polls_rare = rare;
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

    // What the programs that keep the versions of tuples have in common: their tables, and the switch's own answers.
    // This is a part of their control `Serve`. With VERSIONS_OF_32_BITS the upper half of a row's versions is here.

    bit<9> from = standard.ingress_port;
    bit<32> connection = 0;
    bit<24> client_pair = 0;
    bit<32> peer_ip = 0;
    bit<32> mtu = 0;
    bit<24> first_psn = 0;
    bool is_request = false;
    bool is_fenced = false;
    bool is_direct = false;
    bool has_tuples = false;
    bit<64> region_address = 0;
    bit<64> region_bytes = 0;
    bit<64> tuple_bytes = 0;
    bit<8> slot_shift = 0;
    bit<32> first_tuple = 0;
#ifdef VERSIONS_OF_32_BITS
    bit<32> epoch = 0;
    bit<64> slot_mask = 0;
#endif

    action drop() { mark_to_drop(standard); }
    action forward(bit<9> port) { standard.egress_spec = port; }
    action flood(bit<16> group) { standard.mcast_grp = group; }
    table stations {
        key = { h.ethernet.destination : exact; }
        actions = { forward; flood; drop; }
        default_action = drop();
        size = 1024;
    }

    // `ip`, `queue_pair`, `psn`: of the client; `psn` is its first one. `path_mtu`: bytes of payload in a packet.
    action to_memory(bit<32> index, bit<32> ip, bit<24> queue_pair, bit<24> psn, bit<32> path_mtu) {
        connection = index;
        peer_ip = ip;
        client_pair = queue_pair;
        first_psn = psn;
        mtu = path_mtu;
        is_request = true;
    }
    // `ip`: of the memory node.
    action to_client(bit<32> index, bit<32> ip) {
        connection = index;
        peer_ip = ip;
    }
    // The control plane's own, for recovery.
    action direct() { is_direct = true; }
    // Of a client that has been ended: nothing passes, until what it has latched is unlatched.
    action fenced() { is_fenced = true; }
    table connections {
        key = { h.ipv4.destination : exact; h.bth.queue_pair : exact; }
        actions = { to_memory; to_client; direct; fenced; NoAction; }
        default_action = NoAction();
        size = 8192;
    }

    // `bytes` from `address` on, by the memory node's key, are slots of 2^`shift` bytes. Each of them begins with a tuple
    // of `each` bytes, at least 16; the first one is number `first`.
#ifdef VERSIONS_OF_32_BITS
    // `upper`: the upper 32 bits of their versions.
    action tuples(bit<64> address, bit<64> bytes, bit<64> each, bit<8> shift, bit<32> first, bit<32> upper) {
        epoch = upper;
        slot_mask = (64w1 << shift) - 1;
#else
    action tuples(bit<64> address, bit<64> bytes, bit<64> each, bit<8> shift, bit<32> first) {
#endif
        has_tuples = true;
        region_address = address;
        region_bytes = bytes;
        tuple_bytes = each;
        slot_shift = shift;
        first_tuple = first;
    }
    table memory_nodes {
        key = { h.ipv4.destination : exact; }
        actions = { NoAction; }
        default_action = NoAction();
        size = 64;
    }
    bit<32> key = 0;
    bit<32> node_ip = 0;
    table regions {
        key = { node_ip : exact; key : exact; }
        actions = { tuples; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    // `done`: the first PSN that is not done.
    action answer(bit<8> opcode, bit<8> syndrome, bit<24> done, bit<24> psn) {
        m.is_answer = true;
        bit<48> node_mac = h.ethernet.destination;
        h.ethernet.destination = h.ethernet.source;
        h.ethernet.source = node_mac;
        bit<32> node = h.ipv4.destination;
        h.ipv4.destination = h.ipv4.source;
        h.ipv4.source = node;
        h.ipv4.service = h.ipv4.service & 0xfc | 2;  // its ECN: capable
        h.ipv4.ttl = 64;
        h.udp.checksum = 0;
        h.bth.opcode = opcode;
        h.bth.solicited = 0;
        h.bth.reserved8a = 0;
        h.bth.queue_pair = client_pair;
        h.bth.ack_request = 0;
        h.bth.psn = psn;
        h.reth.setInvalid();
        h.atomic_eth.setInvalid();
        h.aeth.setValid();
        h.aeth.syndrome = syndrome;
        h.aeth.msn = done - first_psn;  // each request has one PSN
        standard.egress_spec = from;
        standard.mcast_grp = 0;
    }

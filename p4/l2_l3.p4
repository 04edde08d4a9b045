// Forwarding on layers 2 and 3: switching by MAC, and routing by IPv4's longest prefix.
//
// A frame to the router's own MAC that holds IPv4 is routed. It gets the MACs of the next hop and a TTL less by one.
// Any other frame is switched: to the port of its destination, or to all ports (multicast group `flood`), or dropped.
// A question by ARP for an address behind the router is answered with the router's MAC. RoCEv2 passes both ways: what
// routing changes is not part of its invariant CRC.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> destination; bit<48> source; bit<16> type; }
header ipv4_t {
  bit<4> version; bit<4> words; bit<8> service; bit<16> length;
  bit<16> identification; bit<3> flags; bit<13> fragment;
  bit<8> ttl; bit<8> protocol; bit<16> checksum;
  bit<32> source; bit<32> destination;
}
header arp_t {
  bit<16> hardware; bit<16> protocol; bit<8> hardware_bytes; bit<8> protocol_bytes; bit<16> operation;
  bit<48> sender_mac; bit<32> sender; bit<48> target_mac; bit<32> target;
}

struct headers_t { ethernet_t ethernet; arp_t arp; ipv4_t ipv4; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
  state start {
    packet.extract(h.ethernet);
    transition select(h.ethernet.type) { 0x0800: ipv4; 0x0806: arp; default: accept; }
  }
  state ipv4 { packet.extract(h.ipv4); transition accept; }
  state arp { packet.extract(h.arp); transition accept; }
}

// Options would be part of the checksum, so a packet with options is switched but not routed.
control Verify(inout headers_t h, inout metadata_t m) {
  apply {
    verify_checksum(h.ipv4.isValid() && h.ipv4.words == 5,
                    { h.ipv4.version, h.ipv4.words, h.ipv4.service, h.ipv4.length, h.ipv4.identification, h.ipv4.flags,
                      h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.source, h.ipv4.destination },
                    h.ipv4.checksum, HashAlgorithm.csum16);
  }
}

control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
  counter(512, CounterType.packets_and_bytes) received;

  action drop() { mark_to_drop(standard); }
  action forward(bit<9> port) { standard.egress_spec = port; }
  action flood(bit<16> group) { standard.mcast_grp = group; }
  table switching {
    key = { h.ethernet.destination: exact; }
    actions = { forward; flood; drop; }
    default_action = drop();
    size = 4096;
  }

  table router_macs {
    key = { h.ethernet.destination: exact; }
    actions = { NoAction; }
    size = 64;
  }
  action route(bit<9> port, bit<48> source, bit<48> destination) {
    standard.egress_spec = port;
    h.ethernet.source = source;
    h.ethernet.destination = destination;
    h.ipv4.ttl = h.ipv4.ttl - 1;
  }
  table routing {
    key = { h.ipv4.destination: lpm; }
    actions = { route; drop; }
    default_action = drop();
    size = 4096;
  }

  // The question goes back where it came from, as the answer.
  action answer(bit<48> mac) {
    bit<32> asked = h.arp.target;
    h.arp.operation = 2;
    h.arp.target_mac = h.arp.sender_mac;
    h.arp.target = h.arp.sender;
    h.arp.sender_mac = mac;
    h.arp.sender = asked;
    h.ethernet.destination = h.ethernet.source;
    h.ethernet.source = mac;
    standard.egress_spec = standard.ingress_port;
  }
  table gateway {
    key = { standard.ingress_port: exact; h.arp.target: lpm; }
    actions = { answer; NoAction; }
    default_action = NoAction();
    size = 1024;
  }

  apply {
    received.count((bit<32>)standard.ingress_port);
    if (standard.parser_error != error.NoError || standard.checksum_error == 1) {
      drop();
    } else if (h.arp.isValid() && h.arp.operation == 1 && gateway.apply().hit) {
      return;  // answered
    } else if (router_macs.apply().hit) {
      if (h.ipv4.isValid() && h.ipv4.words == 5 && h.ipv4.ttl > 1) { routing.apply(); } else { drop(); }
    } else {
      switching.apply();
    }
  }
}

// A flooded frame does not go back where it came from.
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
  apply {
    if (standard.instance_type == 5 && standard.egress_port == standard.ingress_port) { mark_to_drop(standard); }
  }
}

control Compute(inout headers_t h, inout metadata_t m) {
  apply {
    update_checksum(h.ipv4.isValid() && h.ipv4.words == 5,
                    { h.ipv4.version, h.ipv4.words, h.ipv4.service, h.ipv4.length, h.ipv4.identification, h.ipv4.flags,
                      h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.source, h.ipv4.destination },
                    h.ipv4.checksum, HashAlgorithm.csum16);
  }
}

control Deparse(packet_out packet, in headers_t h) {
  apply { packet.emit(h.ethernet); packet.emit(h.arp); packet.emit(h.ipv4); }
}

V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;

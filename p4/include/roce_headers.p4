// What the switch programs for reliable connections over RoCEv2 have in common: numbers of InfiniBand's packets and their
// headers (IBTA volume 1, chapter 9; annex A17 for RoCEv2). Include it behind <core.p4>.
#ifndef ROCE_HEADERS_P4
#define ROCE_HEADERS_P4

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> PORT_ROCE = 4791;

const bit<8> RC_SEND_ONLY = 0x04;
const bit<8> RC_WRITE_ONLY = 0x0a;
const bit<8> RC_READ_REQUEST = 0x0c;
const bit<8> RC_READ_RESPONSE_FIRST = 0x0d;
const bit<8> RC_READ_RESPONSE_LAST = 0x0f;
const bit<8> RC_READ_RESPONSE_ONLY = 0x10;
const bit<8> RC_ACKNOWLEDGE = 0x11;
const bit<8> RC_ATOMIC_ACKNOWLEDGE = 0x12;
const bit<8> RC_COMPARE_SWAP = 0x13;
const bit<8> RC_FETCH_ADD = 0x14;

const bit<8> ACK = 0x1f;  // without a limit on what the client may send
const bit<8> NAK_PSN = 0x60;
const bit<8> NAK_INVALID_REQUEST = 0x61;
const bit<8> NAK_REMOTE_ACCESS = 0x62;

const bit<15> DEFAULT_PARTITION = 0x7fff;  // of a full member or of a limited one

const bit<8> FIRST_NOT_RC = 0x20;
const bit<8> CNP = 0x81;  // a congestion notification packet

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header arp_t {
    bit<16> hardware_type;
    bit<16> protocol_type;
    bit<8> hardware_bytes;
    bit<8> protocol_bytes;
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

header atomic_eth_t {
    bit<64> address;
    bit<32> key;
    bit<64> swap_or_add;
    bit<64> compare;
}

header aeth_t {
    bit<8> syndrome;
    bit<24> msn;
}

header word_t {
    bit<64> value;
}

#endif

#!/usr/bin/env python3
"""Prints vectors.txt: packets of every opcode, made by scapy, one a line: IP version, opcode, bytes of payload, the frame.

    /usr/bin/python3 tests/data/roce/make_vectors.py >tests/data/roce/vectors.txt     (apt-get install python3-scapy)

The codec's test builds the same packets (tests/roce/samples.cpp) and compares. Scapy knows Ethernet, IP, UDP, BTH
and the ICRC over IPv4; the extension headers are packed here by the tables of the specification, and the ICRC over IPv6
is zlib's CRC-32 over the bytes that Annex A17 masks.
"""
import logging
import struct
import sys
import zlib

logging.getLogger("scapy").setLevel(logging.ERROR)
# pylint: disable=wrong-import-position
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

RETH = struct.pack(">QII", 0x1122334455667788, 0x99AABBCC, 0x00012345)
ATOMIC = struct.pack(">QIQQ", 0x0102030405060708, 0x090A0B0C, 0x1112131415161718, 0x2122232425262728)
AETH = struct.pack(">I", 0x2D314159)
ATOMIC_ACK = struct.pack(">Q", 0xA1A2A3A4A5A6A7A8)
IMMEDIATE = struct.pack(">I", 0xC0FFEE01)
IETH = struct.pack(">I", 0xDEADBE0F)
DETH = struct.pack(">II", 0x80010203, 0x070A0B0C)

# Opcode: extension headers, lengths of the payload.
PACKETS = {
    0x00: (b"", [256]),
    0x01: (b"", [512]),
    0x02: (b"", [1, 4]),
    0x03: (IMMEDIATE, [2]),
    0x04: (b"", [0, 3]),
    0x05: (IMMEDIATE, [0, 7]),
    0x06: (RETH, [256]),
    0x07: (b"", [256]),
    0x08: (b"", [33]),
    0x09: (IMMEDIATE, [62]),
    0x0A: (RETH, [0, 5]),
    0x0B: (RETH + IMMEDIATE, [8]),
    0x0C: (RETH, [0]),
    0x0D: (AETH, [256]),
    0x0E: (b"", [256]),
    0x0F: (AETH, [255]),
    0x10: (AETH, [0, 17]),
    0x11: (AETH, [0]),
    0x12: (AETH + ATOMIC_ACK, [0]),
    0x13: (ATOMIC, [0]),
    0x14: (ATOMIC, [0]),
    0x16: (IETH, [9]),
    0x17: (IETH, [0, 10]),
    0x1D: (RETH, [8]),
    0x64: (DETH, [0, 31]),
    0x65: (DETH + IMMEDIATE, [64]),
    0x81: (b"", [16]),
}

# UC has RC's operations up to the last WRITE, XRC all of them; an XRC request begins with the number of a queue.
XRCETH = struct.pack(">I", 0x05616263)
ANSWERS = range(0x0D, 0x13)
for operation, (headers, sizes) in [item for item in PACKETS.items() if item[0] < 0x20]:
    if operation < 0x0C:
        PACKETS[0x20 | operation] = (headers, sizes)
    PACKETS[0xA0 | operation] = (headers if operation in ANSWERS else XRCETH + headers, sizes)


def masked_icrc(ip6, udp, transport):
    """Over IPv6: traffic class, flow label, hop limit, UDP checksum and resv8a count as ones."""
    head, ports, rest = bytearray(ip6), bytearray(udp), bytearray(transport)
    head[0] |= 0x0F
    head[1] = head[2] = head[3] = head[7] = 0xFF
    ports[6] = ports[7] = 0xFF
    rest[4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + head + ports + rest))


def frame(version, opcode, extensions, length):
    payload = bytes((i * 7 + 3) & 0xFF for i in range(length))
    pad = -length % 4
    bth = BTH(opcode=opcode, solicited=1, migreq=0, padcount=pad, version=0, pkey=0x8765, fecn=1, becn=0, resv6=0x15,
              dqpn=0x123456, ackreq=1, resv7=0x2A, psn=0xFEDCBA)
    ether = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    udp = UDP(sport=0xC123, dport=4791, chksum=0)
    body = Raw(extensions + payload + bytes(pad))
    if version == 4:
        ip = IP(tos=0x29, id=0x1234, flags="DF", ttl=63, src="10.1.2.3", dst="10.4.5.6")
        return bytes(ether / ip / udp / bth / body)
    ip = IPv6(tc=0x5A, fl=0xABCDE, hlim=61, src="fd00::1:2", dst="fd00::3:4")
    whole = bytearray(bytes(ether / ip / udp / bth / body))
    whole[-4:] = masked_icrc(whole[14:54], whole[54:62], whole[62:-4])
    return bytes(whole)


def main():
    for version in (4, 6):
        for opcode, (extensions, lengths) in PACKETS.items():
            for length in lengths:
                print(version, f"{opcode:02x}", length, frame(version, opcode, extensions, length).hex())


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the corpus of the fuzz target roce-packet, one packet a file: frames over IPv4, datagrams over IPv6.

    python3 tests/data/roce/make_corpus.py

The first packet of each opcode in vectors.txt. From these, packets of the opcodes that scapy does not know: UC has the
headers of RC; XRC has an XRCETH behind the BTH of its requests; ATOMIC WRITE is a WRITE of 8 bytes; a congestion
notification has 16 bytes of zeros.
"""
import pathlib
import struct
import zlib

ETHERNET, UDP, BTH, RETH, ICRC = 14, 8, 12, 16, 4
IP = {"4": 20, "6": 40}
SEND_ONLY, WRITE_ONLY, ATOMIC_WRITE, NOTIFICATION = 0x04, 0x0A, 0x1D, 0x81
UC, XRC = 0x20, 0xA0
ANSWERS = range(0x0D, 0x13)


def icrc(version, packet):
    """Of a packet from its IP header on, without its ICRC (RoCEv2, A17.3.3): what may change on the way counts as ones."""
    masked = bytearray(packet)
    size = IP[version]
    if version == "4":
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
    else:
        masked[0] |= 0x0F
        masked[1] = masked[2] = masked[3] = masked[7] = 0xFF
    masked[size + 6] = masked[size + 7] = 0xFF  # UDP's checksum
    masked[size + UDP + 4] = 0xFF  # reserved, and the bits of congestion
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def packet(version, frame, transport):
    """The frame with another transport packet (BTH to payload) in it."""
    size = IP[version]
    head = bytearray(frame[: ETHERNET + size + UDP])
    transport = transport + bytes(-len(transport) % 4)
    length = UDP + len(transport) + ICRC
    ip = memoryview(head)[ETHERNET:]
    struct.pack_into("!H", ip, size + 4, length)
    struct.pack_into("!H", ip, size + 6, 0)
    if version == "4":
        struct.pack_into("!H", ip, 2, size + length)
        struct.pack_into("!H", ip, 10, 0)
        total = sum(struct.unpack("!10H", ip[:20]))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        struct.pack_into("!H", ip, 10, ~total & 0xFFFF)
    else:
        struct.pack_into("!H", ip, 4, length)
    body = bytes(head[ETHERNET:]) + transport
    return bytes(head[:ETHERNET]) + body + icrc(version, body)


def main():
    here = pathlib.Path(__file__).parent
    folder = here / "corpus"
    folder.mkdir(exist_ok=True)

    def write(version, opcode, frame):
        (folder / f"ipv{version}_{opcode:02x}").write_bytes(frame if version == "4" else frame[ETHERNET:])

    seen = set()
    for line in (here / "vectors.txt").read_text(encoding="ascii").splitlines():
        version, text, _, frame = line.split()
        opcode, frame = int(text, 16), bytes.fromhex(frame)
        if (version, opcode) in seen:
            continue
        seen.add((version, opcode))
        write(version, opcode, frame)
        start = ETHERNET + IP[version] + UDP
        bth, rest = frame[start : start + BTH], frame[start + BTH : -ICRC]
        assert packet(version, frame, bth + rest)[-ICRC:] == frame[-ICRC:], "the ICRC of a known packet"
        operations = [(opcode, bth, rest)] if opcode < UC else []
        if opcode == WRITE_ONLY:
            word = rest[: RETH - 4] + struct.pack("!I", 8) + bytes(range(8))
            plain = bytes([ATOMIC_WRITE, bth[1] & 0xCF]) + bth[2:]  # without padding
            write(version, ATOMIC_WRITE, packet(version, frame, plain + word))
            operations.append((ATOMIC_WRITE, plain, word))
        if opcode == SEND_ONLY:
            notice = bytes([NOTIFICATION, bth[1] & 0xCF]) + bth[2:4] + b"\x40" + bth[5:8] + bytes(4)
            write(version, NOTIFICATION, packet(version, frame, notice + bytes(16)))
        for operation, header, behind in operations:
            if operation < 0x0C:
                write(version, UC | operation, packet(version, frame, bytes([UC | operation]) + header[1:] + behind))
            shared = b"" if operation in ANSWERS else struct.pack("!I", 0x123)
            xrc = bytes([XRC | operation]) + header[1:]
            write(version, XRC | operation, packet(version, frame, xrc + shared + behind))


main()

#!/usr/bin/env python3
"""Writes the initial inputs of the fuzz target roce-nic: programs in the format of tests/fuzz/roce_nic_fuzz.cpp, one
for each operation of a NIC, with memory that is accessed at once and later.

    python3 tests/data/roce/make_nic_corpus.py
"""

import pathlib
import struct

OPCODES = {
    name: number
    for number, name in enumerate(
        """send_first send_middle send_last send_last_imm send_only send_only_imm write_first write_middle write_last
        write_last_imm write_only write_only_imm read read_first read_middle read_last read_only ack atomic_ack
        compare_swap fetch_add send_last_inv send_only_inv ud_send ud_send_imm""".split()
    )
}
NO_PAYLOAD = {"read", "ack", "atomic_ack", "compare_swap", "fetch_add"}
OPEN, READABLE, BUFFERS, WRITABLE, FOREIGN = range(5)
OFFSETS = {OPEN: 512, READABLE: 1600, BUFFERS: 2112, WRITABLE: 2624, FOREIGN: 3136}
PAIR, SHARED_PAIR, DATAGRAMS = range(3)


def packet(opcode, pair=PAIR, psn=0, payload=0, area=OPEN, offset=0, flags=1, length=0, syndrome=None):
    number = OPCODES[opcode]
    flags |= 32 if syndrome is not None else 0
    out = bytes([2, pair, number, psn & 0xFF, flags])
    # Every opcode consumes the payload's length; only some use it.
    out += struct.pack("<H", payload) + b"\xaa"
    out += struct.pack("<H", OFFSETS[area] + offset + 32) + bytes([area])
    if opcode == "read" and not flags & 8:
        out += bytes([length // 3])
    elif flags & 8:
        out += struct.pack("<I", length) if flags & 4 else struct.pack("<H", length)
    out += b"\x01"  # of the atomic
    return out + (bytes([syndrome]) if syndrome is not None else b"")


def wait(units=1000):
    return b"\x05" + struct.pack("<H", units)


def pull(frames=15):
    return bytes([6, frames])


def post(kind, pair=PAIR, length=100, long=False, fence=False):
    out = bytes([7, pair, kind])
    out += b"" if kind >= 6 else bytes([length])
    out += bytes([0 if long else 1]) if kind == 5 else b""
    return out + bytes([0 if fence else 1])


def receive(choice, length=300):
    return bytes([8, choice]) + struct.pack("<H", length)


POLL = b"\x0b"
SEND, SEND_IMM, SEND_INV, WRITE, WRITE_IMM, READ, CAS, FADD = range(8)

PROGRAMS = {
    "write": packet("write_only", payload=99) + pull() + packet("write_first", payload=256, flags=9, length=300)
    + packet("write_last", payload=43) + pull(),
    "read": packet("read", length=600) + pull() + packet("read", psn=-3, length=600) + pull(),
    "atomics": packet("fetch_add", offset=64) + packet("compare_swap", offset=64) + pull() + packet("fetch_add", psn=-2, offset=64)
    + pull(),
    "send": receive(1) + packet("send_only", payload=90) + wait() + pull() + POLL,
    "send_shared": receive(0) + packet("send_only_imm", SHARED_PAIR, payload=90) + wait() + pull() + POLL,
    "write_imm": receive(1) + packet("write_only_imm", payload=90, flags=3) + wait() + pull() + POLL,
    "invalidate": receive(1) + packet("send_only_inv", payload=9, area=READABLE) + packet("read", area=READABLE, length=30)
    + pull(),
    "not_ready": packet("send_only", payload=90) + pull() + receive(1) + packet("send_only", payload=90) + pull(),
    "datagram": receive(5) + packet("ud_send", DATAGRAMS, payload=90) + POLL + post(SEND, DATAGRAMS) + pull() + POLL,
    "gap": packet("write_only", psn=3, payload=9) + pull() + packet("write_only", psn=-1, payload=9) + pull(),
    "no_right": packet("write_only", payload=9, area=READABLE) + pull() + wait(),
    "foreign": packet("read", area=FOREIGN, length=30) + pull() + wait(),
    "posted": post(WRITE) + post(SEND) + post(CAS) + pull() + packet("ack", psn=-1) + packet("atomic_ack") + POLL,
    "posted_read": post(READ, length=130) + pull() + packet("read_only", payload=129) + POLL,
    "posted_long_read": post(READ, long=True) + pull() + packet("read_first", psn=-2, payload=1) + packet("read_middle", psn=-1, payload=1)
    + packet("read_last", payload=87) + POLL,
    "told_to_wait": post(SEND) + pull() + packet("ack", syndrome=0x21) + wait() + pull() + packet("ack") + POLL,
    "told_of_gap": post(WRITE) + post(WRITE) + pull() + packet("ack", psn=-1, syndrome=0x60) + pull() + packet("ack") + POLL,
    "timeout": post(WRITE) + pull() + wait() + pull() + wait(60000) + pull() + POLL,
    "region_ends": packet("write_only", payload=200) + packet("read", length=600) + bytes([10, OPEN]) + wait(50) + pull(),
    "pair_ends": post(WRITE) + receive(1) + packet("write_only", payload=200) + bytes([9, 0, 2]) + POLL + bytes([9, 0, 3]),
    "drained": post(WRITE) + pull() + bytes([9, 0, 0]) + packet("ack") + bytes([9, 0, 1]) + POLL,
    "stray": packet("ack", psn=50) + packet("read_only", payload=9) + packet("ud_send", payload=9),
    "bytes": b"\x00" + struct.pack("<H", 40) + bytes(40),
    "mended": b"\x01\x00\x01" + struct.pack("<H", 30) + b"\x0a\x00\xff\xff\x00\x00\x00\x11\x80\x00\x01\x00" + bytes(30),
}


def main():
    folder = pathlib.Path(__file__).parent / "nic_corpus"
    folder.mkdir(exist_ok=True)
    for name, program in PROGRAMS.items():
        for access, kind in (("immediate", 0), ("strict", 1), ("relaxed", 4)):
            (folder / f"{name}_{access}").write_bytes(bytes([kind, 7]) + program)


main()

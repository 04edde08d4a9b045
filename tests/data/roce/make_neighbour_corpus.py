#!/usr/bin/env python3
"""Writes the initial inputs of the fuzz target roce-neighbours: frames of ARP and neighbour discovery, made by scapy, each
behind its length, for the station of tests/fuzz/roce_neighbours_fuzz.cpp.

    python3 tests/data/roce/make_neighbour_corpus.py
"""

import pathlib

from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether

OURS, OTHER = "02:00:00:00:00:02", "52:54:00:12:34:56"
FRAMES = {
    "arp_request": [Ether(src=OTHER, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=OTHER, psrc="10.9.0.1", pdst="10.9.0.2")],
    "arp_reply": [Ether(src=OTHER, dst=OURS) / ARP(op=2, hwsrc=OTHER, psrc="10.9.0.1", hwdst=OURS, pdst="10.9.0.2")],
    "solicitation": [
        Ether(src=OTHER, dst="33:33:ff:00:00:02")
        / IPv6(src="fd09::1", dst="ff02::1:ff00:2")
        / ICMPv6ND_NS(tgt="fd09::2")
        / ICMPv6NDOptSrcLLAddr(lladdr=OTHER)
    ],
    "advertisement": [
        Ether(src=OTHER, dst=OURS)
        / IPv6(src="fd09::1", dst="fd09::2")
        / ICMPv6ND_NA(tgt="fd09::1", R=0, S=1, O=1)
        / ICMPv6NDOptDstLLAddr(lladdr=OTHER)
    ],
    "unicast_solicitation": [
        Ether(src=OTHER, dst=OURS) / IPv6(src="fd09::1", dst="fd09::2") / ICMPv6ND_NS(tgt="fd09::2")
    ],
    "solicitation_of_a_group": [
        Ether(src="ff:ff:ff:ff:ff:ff", dst=OURS) / IPv6(src="fd09::1", dst="fd09::2") / ICMPv6ND_NS(tgt="fd09::2")
    ],
    "is_it_free": [
        Ether(src=OTHER, dst="33:33:ff:00:00:02") / IPv6(src="::", dst="ff02::1:ff00:2") / ICMPv6ND_NS(tgt="fd09::2")
    ],
}
FRAMES["all"] = [frame for frames in list(FRAMES.values()) for frame in frames]

folder = pathlib.Path(__file__).parent / "neighbour_corpus"
folder.mkdir(exist_ok=True)
for name, frames in FRAMES.items():
    packed = [bytes(frame) for frame in frames]
    (folder / name).write_bytes(b"".join(bytes([len(frame)]) + frame for frame in packed))

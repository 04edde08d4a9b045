#!/usr/bin/env python3
"""Writes the corpus of the fuzz target roce-packet, one packet a file: frames over IPv4, datagrams over IPv6.

    python3 tests/data/roce/make_corpus.py

It is the first packet of each opcode in vectors.txt.
"""
import pathlib

ETHERNET = 14


def main():
    here = pathlib.Path(__file__).parent
    folder = here / "corpus"
    folder.mkdir(exist_ok=True)
    seen = set()
    for line in (here / "vectors.txt").read_text(encoding="ascii").splitlines():
        version, opcode, _, text = line.split()
        if (version, opcode) not in seen:
            seen.add((version, opcode))
            frame = bytes.fromhex(text)
            (folder / f"ipv{version}_{opcode}").write_bytes(frame if version == "4" else frame[ETHERNET:])


main()

#!/usr/bin/env python3
"""Writes the first packet of each opcode in vectors.txt to corpus/, one a file: frames over IPv4, datagrams over IPv6.

    python3 tests/data/roce/make_corpus.py
"""
import pathlib

ETHERNET = 14


def main():
    here = pathlib.Path(__file__).parent
    (here / "corpus").mkdir(exist_ok=True)
    seen = set()
    for line in (here / "vectors.txt").read_text(encoding="ascii").splitlines():
        version, opcode, _, frame = line.split()
        if (version, opcode) not in seen:
            seen.add((version, opcode))
            data = bytes.fromhex(frame)
            (here / "corpus" / f"ipv{version}_{opcode}").write_bytes(data if version == "4" else data[ETHERNET:])


main()

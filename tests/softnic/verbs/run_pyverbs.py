#!/usr/bin/python3
"""Runs the tests of pyverbs, as packed by Debian, in FOLDER, on the present device.

Exit status 0: none failed, at least KNOWN_TO_PASS passed, and all skipped tests have a reason that docs/softnic.md
lists. 77: the tests are not installed (an image without /usr/share/doc).
"""

import gzip
import os
import pathlib
import re
import shutil
import sys
import unittest
from importlib.machinery import SourceFileLoader

PACKED = pathlib.Path("/usr/share/doc/rdma-core/tests")
# Tests of other devices.
LEFT_OUT = re.compile(r"test_(mlx5|efa|cuda).*")
KNOWN_TO_PASS = 127
HONEST = re.compile(
    "|".join(
        [
            "Device memory is not supported",
            "QP type 8 is not supported",  # raw packets
            "Create Raw Packet QP",
            "no huge pages",
            "Huge pages of size .* not supported",  # of this machine
            "All gid indices populated",
            "dmabuf",
            "Extended CQ is not supported",  # of tag matching
            "(Must be run|must be done) by root on Ethernet",  # said to every other user, before the device is asked
        ]
    )
)


def unpack(folder):
    folder.mkdir(parents=True)
    for packed in PACKED.iterdir():
        if LEFT_OUT.fullmatch(packed.name.split(".")[0]):
            continue
        if packed.suffix == ".gz":
            (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
        else:
            shutil.copy(packed, folder)


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def run(folder):
    sys.argv = [str(folder / "run_tests.py")]
    sys.path.insert(0, str(folder))
    from args_parser import parser

    tests = SourceFileLoader("tests", str(folder / "__init__.py")).load_module()
    import tests.base

    # The tests of librdmacm connect to the address of the device's interface. This device has none, and serves all
    # addresses of the machine.
    tests.base.RDMATestCase._get_ip_mac = lambda test, device, port, index: test.args.append(
        [device, port, index, "127.0.0.1", None]
    )
    parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    return unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)


def main():
    if not PACKED.is_dir():
        print(f"{PACKED} is not there: the package python3-pyverbs was installed without its documentation")
        return 77
    folder = pathlib.Path(sys.argv[1])
    unpack(folder)
    try:
        result = run(folder)
    finally:
        shutil.rmtree(folder)
    failed = len(result.failures) + len(result.errors)
    dishonest = [f"{test.id()}: {why}" for test, why in result.skipped if not HONEST.search(why)]
    print(f"{result.passed} passed, {len(result.skipped)} skipped, {failed} failed")
    for text in dishonest:
        print(f"skipped for no good reason: {text}")
    return 0 if failed == 0 and not dishonest and result.passed >= KNOWN_TO_PASS else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)

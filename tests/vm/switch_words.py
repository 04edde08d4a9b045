#!/usr/bin/python3
"""switch_words.py DEVICE GID_INDEX SWITCH_IP QUEUE_PAIR FOLDER   uses words that a P4 switch hosts (p4/switch_atomics.p4).

Writes its queue pair's number to FOLDER/words.QUEUE_PAIR, waits for FOLDER/words.ready, then does CAS, FETCH-ADD, READ and
WRITE, and checks each value; at last a FETCH-ADD beyond the region, which must be refused. The switch's end is that queue
pair, key 0x5eed, words 0 to 63 at address 0x10000000; the first PSN is 5. Queue pair N has the words 2 N and 2 N + 1 for
itself, N below 32.
"""

import ipaddress
import pathlib
import struct
import sys
import time

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import *
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

KEY, ADDRESS, FIRST_PSN = 0x5EED, 0x10000000, 5
SECONDS = 120  # a request that nobody answers fails much earlier
device, gid_index, switch_ip = sys.argv[1], int(sys.argv[2]), sys.argv[3]
switch_qp, folder = int(sys.argv[4]), pathlib.Path(sys.argv[5])
SUM, WORD = 2 * switch_qp, 2 * switch_qp + 1

context = Context(name=device)
domain = PD(context)
completions = CQ(context, 64)
memory = MR(domain, 4096, IBV_ACCESS_LOCAL_WRITE)
pair = QP(
    domain,
    QPInitAttr(qp_type=IBV_QPT_RC, scq=completions, rcq=completions, cap=QPCap(max_send_wr=32, max_recv_wr=1)),
)
attributes = QPAttr(qp_state=IBV_QPS_INIT, port_num=1)
pair.modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
(folder / f"words.{switch_qp}.new").write_text(str(pair.qp_num))
(folder / f"words.{switch_qp}.new").rename(folder / f"words.{switch_qp}")
while not (folder / "words.ready").exists():
    time.sleep(0.05)

mapped = ipaddress.IPv6Address(f"::ffff:{switch_ip}").exploded
route = GlobalRoute(dgid=GID(mapped), sgid_index=gid_index)
attributes = QPAttr(qp_state=IBV_QPS_RTR, path_mtu=IBV_MTU_1024)
attributes.dest_qp_num, attributes.rq_psn = switch_qp, 0
attributes.max_dest_rd_atomic, attributes.min_rnr_timer = 16, 12
attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
pair.modify(
    attributes,
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
)
attributes = QPAttr(qp_state=IBV_QPS_RTS)
attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 14, 7, 7
attributes.sq_psn, attributes.max_rd_atomic = FIRST_PSN, 16
pair.modify(
    attributes,
    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
)


def post(opcode, word, slot, compare_or_add=0, swap=0):
    request = SendWR(wr_id=slot, opcode=opcode, num_sge=1, sg=[SGE(memory.buf + 8 * slot, 8, memory.lkey)])
    if opcode in (IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD):
        request.set_wr_atomic(KEY, ADDRESS + 8 * word, compare_or_add, swap)
    else:
        request.set_wr_rdma(KEY, ADDRESS + 8 * word)
    pair.post_send(request)


def finish(count):
    """The statuses of so many requests, in order."""
    done = []
    end = time.monotonic() + SECONDS
    while len(done) < count:
        found, completed = completions.poll(count - len(done))
        done += [one.status for one in completed[:found]]
        if time.monotonic() > end:
            sys.exit(f"switch_words: {device}: {len(done)} of {count} requests have completed in {SECONDS} s: {done}")
    return done


def value(slot):
    return struct.unpack("<Q", memory.read(8, 8 * slot))[0]


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"switch_words: {what}: {got}, not {wanted}")


# Sixteen in flight: each FETCH-ADD gives what those before have left.
for repetition in range(20):
    for slot in range(16):
        post(IBV_WR_ATOMIC_FETCH_AND_ADD, SUM, slot, 7)
    expect("FETCH-ADD", finish(16), [IBV_WC_SUCCESS] * 16)
    expect("FETCH-ADD", [value(slot) for slot in range(16)], [7 * (16 * repetition + slot) for slot in range(16)])
memory.write(struct.pack("<Q", 0x0102030405060708), 8)
post(IBV_WR_RDMA_WRITE, WORD, 0)
post(IBV_WR_RDMA_READ, WORD, 1)
post(IBV_WR_ATOMIC_CMP_AND_SWP, WORD, 2, 0x0102030405060708, 42)
post(IBV_WR_ATOMIC_CMP_AND_SWP, WORD, 3, 0x0102030405060708, 43)
post(IBV_WR_RDMA_READ, WORD, 4)
post(IBV_WR_RDMA_READ, SUM, 5)
expect("WRITE, READ, CAS", finish(6), [IBV_WC_SUCCESS] * 6)
expect("READ after WRITE", value(1), 0x0102030405060708)
expect("CAS that fits", value(2), 0x0102030405060708)
expect("CAS that does not", value(3), 42)
expect("READ after CAS", value(4), 42)
expect("READ of the sum", value(5), 7 * 16 * 20)
post(IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 0, 1)
expect("FETCH-ADD beyond the region", finish(1), [IBV_WC_REM_ACCESS_ERR])
print(f"switch_words: 326 requests to words at the switch, all values as expected ({device})")

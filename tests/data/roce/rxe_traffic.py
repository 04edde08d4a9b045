"""Traffic of every kind between two soft-RoCE devices; run in the guest by tests/data/roce/capture.

rxe_traffic.py 4|6   over IPv4 or IPv6, from rxe0 to rxe1. Every completion is checked; tcpdump captures the packets.
"""
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ROOM = 16384
QKEY = 0x11223344
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ |
          e.IBV_ACCESS_REMOTE_ATOMIC)


class End:
    """One device with a queue pair and memory."""

    def __init__(self, device, version, kind):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        self.mr = MR(self.pd, ROOM, ACCESS)
        self.mr.write(bytes(i * 131 % 251 for i in range(ROOM)), ROOM)
        self.gid_index, self.gid = self.find_gid(device, version)
        self.qp = QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq,
                                         cap=QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=1, max_recv_sge=1)))

    def find_gid(self, device, version):
        start = "0000:0000:0000:0000:0000:ffff:" if version == 4 else "fd00:"
        for index in range(16):
            with open(f"/sys/class/infiniband/{device}/ports/1/gids/{index}", encoding="ascii") as file:
                if file.read().startswith(start):
                    return index, self.context.query_gid(1, index)
        raise RuntimeError(f"{device} has no GID of IPv{version}")

    def address_of(self, other):
        route = GlobalRoute(dgid=other.gid, sgid_index=self.gid_index, hop_limit=64)
        return AHAttr(port_num=1, is_global=1, gr=route)

    def connect(self, other, mtu, min_rnr_timer=12):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.dest_qp_num = other.qp.qp_num
        attr.path_mtu = mtu
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 4
        attr.min_rnr_timer = min_rnr_timer
        # Shortly before the end of the 24 bits, so that the numbers wrap around within the capture.
        attr.rq_psn = attr.sq_psn = 0xfffff8
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 19, 2, 6
        attr.ah_attr = self.address_of(other)
        self.qp.to_rts(attr)

    def post_receive(self, length):
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf, length, self.mr.lkey)]))

    def completion(self):
        for _ in range(3000):
            count, completions = self.cq.poll()
            if count:
                return completions[0].status
            time.sleep(0.01)
        raise RuntimeError("no completion")

    def send(self, opcode, length, remote=None, *, flags=0, immediate=0, atomic=None, key=None):
        wr = SendWR(opcode=opcode, num_sge=1, sg=[SGE(self.mr.buf, length, self.mr.lkey)], imm_data=immediate,
                    send_flags=e.IBV_SEND_SIGNALED | flags)
        if atomic:
            wr.set_wr_atomic(remote.mr.rkey, remote.mr.buf, *atomic)
        elif remote:
            wr.set_wr_rdma(remote.mr.rkey if key is None else key, remote.mr.buf)
        self.qp.post_send(wr)
        return self.completion()


def expect(found, wanted=e.IBV_WC_SUCCESS):
    if found != wanted:
        raise RuntimeError(f"completion status {found}, not {wanted}")


def pair(version, kind):
    return End("rxe0", version, kind), End("rxe1", version, kind)


def reliable(version, mtu, lengths):
    a, b = pair(version, e.IBV_QPT_RC)
    a.connect(b, mtu)
    b.connect(a, mtu)
    for length in lengths:
        expect(a.send(e.IBV_WR_RDMA_WRITE, length, b))
        expect(a.send(e.IBV_WR_RDMA_READ, length, b))
        b.post_receive(ROOM)
        expect(a.send(e.IBV_WR_RDMA_WRITE_WITH_IMM, length, b, immediate=0x01020304))
        expect(b.completion())
        b.post_receive(ROOM)
        expect(a.send(e.IBV_WR_SEND, length, flags=e.IBV_SEND_SOLICITED))
        expect(b.completion())
        b.post_receive(ROOM)
        expect(a.send(e.IBV_WR_SEND_WITH_IMM, length, immediate=0xa0b0c0d0))
        expect(b.completion())
    expect(a.send(e.IBV_WR_ATOMIC_CMP_AND_SWP, 8, b, atomic=(0x0102030405060708, 0x1112131415161718)))
    expect(a.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, 8, b, atomic=(3, 0)))


def refused(version):
    """A receiver that is not ready, and an invalid key."""
    a, b = pair(version, e.IBV_QPT_RC)
    a.connect(b, e.IBV_MTU_256)
    b.connect(a, e.IBV_MTU_256, min_rnr_timer=24)
    wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(a.mr.buf, 5, a.mr.lkey)], send_flags=e.IBV_SEND_SIGNALED)
    a.qp.post_send(wr)
    time.sleep(0.1)
    b.post_receive(ROOM)
    expect(a.completion())
    expect(b.completion())
    expect(a.send(e.IBV_WR_RDMA_WRITE, 16, b, key=0x7fffff00), e.IBV_WC_REM_ACCESS_ERR)


def datagrams(version):
    a, b = pair(version, e.IBV_QPT_UD)
    for end in (a, b):
        attr = QPAttr(port_num=1)
        attr.qkey = QKEY
        end.qp.to_rts(attr)
    handle = AH(a.pd, attr=a.address_of(b))
    for opcode, length in ((e.IBV_WR_SEND, 33), (e.IBV_WR_SEND_WITH_IMM, 62)):
        b.post_receive(ROOM)
        wr = SendWR(opcode=opcode, num_sge=1, sg=[SGE(a.mr.buf, length, a.mr.lkey)], imm_data=0x55667788,
                    send_flags=e.IBV_SEND_SIGNALED)
        wr.set_wr_ud(handle, b.qp.qp_num, QKEY)
        a.qp.post_send(wr)
        expect(a.completion())
        expect(b.completion())


def main():
    version = int(sys.argv[1])
    reliable(version, e.IBV_MTU_256, (0, 1, 2, 3, 256, 700))
    reliable(version, e.IBV_MTU_1024, (1500,))
    refused(version)
    datagrams(version)


main()

#!/usr/bin/python3
"""A program that makes mistakes and ignores every error: with SIDELATCH_SOFTNIC_EXPLAIN the NIC tells of each."""

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE

context = Context(name="sidelatch0")
domain = PD(context)
region = MR(domain, 4096, RIGHTS)


def make(queue):
    cap = QPCap(max_send_wr=4, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
    return QP(domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=queue, rcq=queue, cap=cap))


def connect(pair, number):
    route = GlobalRoute(dgid=context.query_gid(port_num=1, index=0), sgid_index=0)
    attributes = QPAttr(port_num=1)
    attributes.qp_access_flags = RIGHTS
    attributes.dest_qp_num = number
    attributes.path_mtu = e.IBV_MTU_1024
    attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    attributes.timeout = 14
    attributes.retry_cnt = attributes.rnr_retry = 7
    pair.to_rts(attributes)


def post(pair, opcode=e.IBV_WR_RDMA_WRITE, length=8, flags=e.IBV_SEND_SIGNALED, rkey=None):
    wr = SendWR(num_sge=1, sg=[SGE(region.buf, length, region.lkey)], opcode=opcode, send_flags=flags)
    wr.set_wr_rdma(region.rkey if rkey is None else rkey, region.buf)
    try:
        pair.post_send(wr)
    except PyverbsRDMAError:
        pass


def wait(queue):
    while queue.poll()[0] == 0:
        pass


queue = CQ(context, 16)
first, second = make(queue), make(queue)
post(first)  # in RESET
connect(first, second.qp_num)
connect(second, first.qp_num)
post(first, length=2000, flags=e.IBV_SEND_INLINE)
post(first, rkey=0xBAD)
wait(queue)

few = CQ(context, 1)
third, fourth = make(few), make(queue)
connect(third, fourth.qp_num)
connect(fourth, third.qp_num)
for _ in range(4):
    post(third)
while (event := context.get_async_event()).event_type != e.IBV_EVENT_CQ_ERR:
    event.ack()
event.ack()
print("all ignored")

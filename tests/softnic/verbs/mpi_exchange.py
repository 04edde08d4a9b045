"""mpi_exchange.py TURNS   A program for Open MPI's tests: alltoallv and allreduce of values that each rank can compute,
and one-sided operations on words of rank 0: fetch-and-adds, counting by compare-and-swap, put and get. Prints how many
results were wrong; the exit status is 1 if any was."""

import array
import sys

from mpi4py import MPI

ADDS = 25
SWAPS = 5
comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def value(sender, receiver, turn, place):
    return sender * 1000003 + receiver * 7919 + turn * 31 + place


def offsets(counts):
    return [sum(counts[:i]) for i in range(len(counts))]


wrong = 0
for turn in range(int(sys.argv[1])):
    # From nothing to 15 KB: short and long protocols.
    sent = [(rank + to + turn) % 7 * 311 for to in range(size)]
    expected = [(sender + rank + turn) % 7 * 311 for sender in range(size)]
    out = array.array("q", [value(rank, to, turn, i) for to in range(size) for i in range(sent[to])] or [0])
    into = array.array("q", [0] * max(1, sum(expected)))
    comm.Alltoallv([out, sent, offsets(sent), MPI.INT64_T], [into, expected, offsets(expected), MPI.INT64_T])
    right = array.array("q", [value(s, rank, turn, i) for s in range(size) for i in range(expected[s])] or [0])
    wrong += sum(a != b for a, b in zip(into, right))
    wrong += comm.allreduce(rank + turn) != size * (size - 1) // 2 + size * turn

words = array.array("q", [0] * (2 + size))
window = MPI.Win.Create(words if rank == 0 else None, 8, comm=comm)
one, before = array.array("q", [1]), array.array("q", [0])
seen = []
window.Lock_all()
for _ in range(ADDS):
    window.Fetch_and_op([one, MPI.INT64_T], [before, MPI.INT64_T], 0, 0, MPI.SUM)
    window.Flush(0)
    seen.append(before[0])
for _ in range(SWAPS):
    expected = array.array("q", [0])
    while True:
        wanted = array.array("q", [expected[0] + 1])
        window.Compare_and_swap([wanted, MPI.INT64_T], [expected, MPI.INT64_T], [before, MPI.INT64_T], 0, 1)
        window.Flush(0)
        if before[0] == expected[0]:
            break
        expected[0] = before[0]
own = array.array("q", [value(rank, 0, 0, 0)])
window.Put([own, MPI.INT64_T], 0, 2 + rank)
window.Flush(0)
comm.Barrier()
all_words = array.array("q", [0] * len(words))
window.Get([all_words, MPI.INT64_T], 0, 0)
window.Flush(0)
window.Unlock_all()
wrong += list(all_words) != [ADDS * size, SWAPS * size] + [value(r, 0, 0, 0) for r in range(size)]
of_all = comm.gather(seen)
if rank == 0:
    wrong += sorted(x for part in of_all for x in part) != list(range(ADDS * size))
window.Free()

total = comm.allreduce(wrong)
if rank == 0:
    print("ranks:", size, "wrong:", total)
sys.exit(1 if total else 0)

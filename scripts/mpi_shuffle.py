#!/usr/bin/python3
"""mpirun -np 2 scripts/mpi_shuffle.py ITEM_BYTES ITEMS   a shuffle by MPI_Alltoallv: rank 0 has items, rank 1 gets them.

The counterpart of `sidelatch flow 1:1`: rank 0 writes all bytes of a batch, rank 1 compares all of them. Rank 1 prints
items per second. Of scripts/measure-flows.
"""
import sys
import time

from mpi4py import MPI

BATCH = 1 << 20  # bytes in one call, or one item


def main():
    item, items = int(sys.argv[1]), int(sys.argv[2])
    world = MPI.COMM_WORLD
    rank = world.Get_rank()
    per_batch = max(1, BATCH // item)
    batches = max(1, items // per_batch)
    size = per_batch * item
    pattern = bytes(i * 31 & 0xff for i in range(4096)) * (size // 4096) + bytes(size % 4096)
    data = bytearray(size)
    nothing = bytearray(0)
    zeros = [0, 0]
    counts = [0, size]
    world.Barrier()
    begun = time.perf_counter()
    for number in range(batches):
        if rank == 0:
            data[:] = pattern
            data[0:8] = number.to_bytes(8, "little")
            world.Alltoallv([data, (counts, zeros), MPI.BYTE], [nothing, (zeros, zeros), MPI.BYTE])
        else:
            world.Alltoallv([nothing, (zeros, zeros), MPI.BYTE], [data, ([size, 0], zeros), MPI.BYTE])
            with memoryview(data) as view:
                is_right = view[8:] == memoryview(pattern)[8:]
            if not is_right or int.from_bytes(data[0:8], "little") != number:
                sys.exit("rank 1 got a wrong batch")
    world.Barrier()
    if rank == 1:
        print(batches * per_batch / (time.perf_counter() - begun))


main()

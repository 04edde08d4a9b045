#!/usr/bin/python3
"""mpirun -np 2 scripts/mpi_pingpong.py BYTES ROUNDS   a ping-pong by MPI_Send and MPI_Recv; rank 0 prints us one way.

Each rank checks the number of the round in what it gets. Of scripts/measure-softnic.
"""
import sys
import time

from mpi4py import MPI

WARM_UP = 100  # rounds before the time is taken: the first ones connect


def main():
    size, rounds = int(sys.argv[1]), int(sys.argv[2])
    world = MPI.COMM_WORLD
    rank = world.Get_rank()
    data = bytearray(size)
    begun = 0.0
    for number in range(WARM_UP + rounds):
        if number == WARM_UP:
            begun = time.perf_counter()
        if rank == 0:
            data[0:8] = number.to_bytes(8, "little")
            world.Send([data, MPI.BYTE], 1)
        world.Recv([data, MPI.BYTE], 1 - rank)
        if int.from_bytes(data[0:8], "little") != number:
            sys.exit(f"rank {rank} got another round")
        if rank == 1:
            world.Send([data, MPI.BYTE], 0)
    if rank == 0:
        print((time.perf_counter() - begun) / rounds / 2 * 1e6)


main()

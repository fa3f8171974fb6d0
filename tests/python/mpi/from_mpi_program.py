"""Groups of communicators, while the program's own messages are under way: run by an MPI.

Prints "GOOD" on each rank, and which MPI it was.
"""

from __future__ import annotations

import threading

import numpy as np
from mpi4py import MPI

import holdfast

world = MPI.COMM_WORLD
peer, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size


class Talker:
    """The program's own traffic: in another thread, all the time."""

    def __init__(self) -> None:
        self.rounds = 0
        self._comm = world.Dup()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._talk)
        self._thread.start()

    def _talk(self) -> None:
        data, taken = np.zeros(1000), np.zeros(1000)
        is_last = False
        while not is_last:
            data[:] = self.rounds * 100 + world.rank
            is_last = bool(self._comm.allreduce(int(self._stop.is_set()), op=MPI.MIN))
            self._comm.Sendrecv(data, peer, 3, taken, before, 3)
            assert (taken == self.rounds * 100 + before).all()
            self.rounds += 1

    def end(self) -> None:
        """End it on all ranks after the same round."""
        self._stop.set()
        self._thread.join(60)


def use(comm: MPI.Intracomm, name: str) -> None:
    """Make a group of it, and let its ops and MPI's take turns."""
    sent = world.isend({"from": world.rank}, peer, tag=7)
    with holdfast.from_mpi(comm, name=name) as group:
        assert (group.rank, group.size) == (comm.rank, comm.size)
        for step in range(5):
            data = np.array([world.rank + step], np.int64)
            group.all_reduce(data)
            assert data[0] == sum(r + step for r in comm.allgather(world.rank)), (name, data)
        large = np.full(1 << 18, float(comm.rank))
        group.all_reduce(large)
        assert (large == comm.size * (comm.size - 1) / 2).all()
    assert world.recv(source=before, tag=7) == {"from": before}
    sent.wait()


def refuse(wrong: object, text: str) -> None:
    """See that what is no communicator is refused with a reason."""
    try:
        holdfast.from_mpi(wrong)
    except holdfast.ConfigError as error:
        assert text in str(error), error
    else:
        raise AssertionError(wrong)


assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
talker = Talker()
use(world, "world")
use(world.Split(world.rank % 2, key=-world.rank), "half")
use(world.Dup(), "twin")
talker.end()
assert talker.rounds > 0
refuse(MPI.COMM_NULL, "COMM_NULL")
refuse(7, "intra-communicator")
if world.size > 1:
    low = world.Split(world.rank > 0)
    across = low.Create_intercomm(0, world, 1 if world.rank == 0 else 0)
    refuse(across, "inter-communicator")
print("GOOD", MPI.Get_library_version()[:16], flush=True)

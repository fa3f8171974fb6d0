"""What this machine allows: the fewest bytes of each collective, copied, added and sent by nobody.

A floor is measured as the contestants are, in turns with them. In shared memory, every byte that
moves is copied once and every operand is added once, each rank doing its part on memory of its own,
without a word to the others. Over TCP, the fewest bytes per rank pass between neighbours over
sockets, unframed and untouched.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.comm.bench.contestants import Prepared
from holdfast.comm.bench.plan import Case
from holdfast.comm.bench.routing import splits

# Elements that stay in the cache from one operand to the next.
_PIECE = 1 << 14
# Of a call to a socket; larger and smaller ones are slower.
_CHUNK = 1 << 20
_WAIT_S = 60.0
_OF_SIZE = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64, 16: np.complex128}
_BYTES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


def _dtype(name: str) -> np.dtype[Any]:
    """Return the one of the same size that NumPy adds fast."""
    return np.dtype(_OF_SIZE[_BYTES[name] if name in _BYTES else np.dtype(name).itemsize])


def memory_work(collective: str, rank: int, ranks: int, count: int) -> tuple[int, int, int]:
    """Return what a rank has to do at least where memory is shared.

    Parameters
    ----------
    collective : str
        Its name.
    rank, ranks : int
        Own number, and how many there are; the root is 0.
    count : int
        Elements: of the whole vector, or of all ranks' blocks together.

    Returns
    -------
    (int, int, int)
        Elements of a result, operands that are added to each, elements that are copied.
    """
    each = count // ranks
    is_root = rank == 0
    if collective == "all_reduce":
        return each, ranks - 1, count - each
    if collective == "reduce":
        return each, ranks - 1, count - each if is_root else 0
    if collective == "reduce_scatter":
        return each, ranks - 1, 0
    copied = {
        "all_gather": count,
        "all_to_all": count,
        "broadcast": 0 if is_root else count,
        "gather": count if is_root else 0,
        "scatter": each,
        "send_recv": count if rank < 2 else 0,
        "all_to_allv": sum(splits(rank, ranks, count)[1]),
    }
    return 0, 0, copied.get(collective, 0)


class MemoryFloor:
    """Copies and additions on one host.

    Parameters
    ----------
    rank, ranks : int
        Own number, and how many there are.
    """

    name = "floor/shm"

    def __init__(self, rank: int, ranks: int) -> None:
        self._rank, self._ranks = rank, ranks

    def prepare(self, case: Case) -> Prepared | None:
        """Return the call."""
        dtype = _dtype(case.dtype)
        count = max(1, case.size // dtype.itemsize)
        added, operands, copied = memory_work(case.collective, self._rank, self._ranks, count)
        result = np.zeros(max(added, copied), dtype)
        source = np.ones(max(added * operands, copied), dtype)

        def call() -> None:
            for at in range(0, added, _PIECE):
                piece = result[at : min(at + _PIECE, added)]
                for k in range(operands):
                    np.add(piece, source[k * added + at :][: len(piece)], out=piece)
            np.copyto(result[:copied], source[:copied])

        return Prepared(call, result, None)


def wire_bytes(collective: str, rank: int, ranks: int, size: int) -> tuple[int, int] | None:
    """Return what a rank has to send to its right neighbour, and take from its left one, at least.

    Parameters
    ----------
    collective : str
        Its name.
    rank, ranks, size : int
        As in :func:`memory_work`; `size` in bytes.

    Returns
    -------
    (int, int) or None
        Bytes; None where neighbours alone do not make the least.
    """
    most = size * (ranks - 1) // ranks
    if collective == "all_reduce":
        return 2 * most, 2 * most
    if collective in ("reduce_scatter", "all_gather", "all_to_all"):
        return most, most
    if collective == "broadcast":
        return (size if rank < ranks - 1 else 0), (size if rank > 0 else 0)
    if collective == "reduce":
        # Along the ring towards rank 0.
        return (size if rank > 0 else 0), (size if rank != 1 else 0)
    return None


class WireFloor:
    """Bytes between neighbours over loopback TCP.

    Parameters
    ----------
    rank, ranks : int
        Own number, and how many there are.
    share : callable
        Takes this rank's port, returns those of all ranks.
    """

    name = "floor/tcp"

    def __init__(self, rank: int, ranks: int, share: Callable[[int], list[int]]) -> None:
        self._rank, self._ranks = rank, ranks
        with socket.create_server(("127.0.0.1", 0)) as server:
            ports = share(server.getsockname()[1])
            server.settimeout(_WAIT_S)
            self._right = socket.create_connection(
                ("127.0.0.1", ports[(rank + 1) % ranks]), timeout=_WAIT_S
            )
            self._left = server.accept()[0]
        for link in (self._right, self._left):
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setblocking(False)

    def prepare(self, case: Case) -> Prepared | None:
        """Return the call, or None where neighbours alone do not make the least."""
        work = wire_bytes(case.collective, self._rank, self._ranks, case.size)
        if work is None:
            return None
        out, into = (memoryview(bytearray(max(1, amount))) for amount in work)
        return Prepared(lambda: self._pass(out[: work[0]], into[: work[1]]), np.zeros(1), None)

    def _pass(self, out: memoryview, into: memoryview) -> None:
        sent = taken = 0
        while sent < len(out) or taken < len(into):
            moved = False
            if sent < len(out):
                try:
                    sent += self._right.send(out[sent : sent + _CHUNK])
                    moved = True
                except BlockingIOError:
                    pass
            if taken < len(into):
                try:
                    part = self._left.recv_into(into[taken : taken + _CHUNK])
                except BlockingIOError:
                    part = 0
                else:
                    if part == 0:
                        raise ConnectionError("the left neighbour has gone")
                taken += part
                moved = moved or part > 0
            if not moved:
                reads = [self._left] if taken < len(into) else []
                writes = [self._right] if sent < len(out) else []
                if not any(select.select(reads, writes, [], _WAIT_S)):
                    raise TimeoutError(f"neighbours of rank {self._rank} do not move")

"""A keeper reads its trainer's memory, while the trainer goes on.

``process_vm_readv``: the bytes go straight from the trainer's tensors into the keeper's region, by
the keeper's processor time. Where the system forbids it, the trainer copies them into an inbox
itself.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import xxhash

from holdfast.errors import ProtocolError, SystemFailure

TILE = 1 << 20
# Read and hashed at a time: fits into a processor's cache, and bounds how long a call lasts.
_BATCH = 1 << 20
# Limit of the system (IOV_MAX).
_MOST_PARTS = 1024

Pieces = npt.NDArray[np.int64]
"""Rows of address in the trainer, bytes, and place in the body; by place, without overlaps."""
Hashes = npt.NDArray[np.uint64]
"""XXH3-64 of each tile."""

_system = ctypes.CDLL(None, use_errno=True)
_system.process_vm_readv.restype = ctypes.c_ssize_t
_system.process_vm_readv.argtypes = [
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_ulong,
]


def pieces_of(blob: bytes, nbytes: int) -> Pieces:
    """Return the rows that a trainer has sent.

    Parameters
    ----------
    blob : bytes
        Three 64-bit numbers to a row.
    nbytes : int
        Of the body.

    Raises
    ------
    ProtocolError
        They overlap, or go beyond the body.
    """
    if len(blob) % 24:
        raise ProtocolError(f"{len(blob)} bytes of pieces; accepted: 24 to each")
    rows = np.frombuffer(blob, "<i8").reshape(-1, 3)
    counts, places = rows[:, 1], rows[:, 2]
    # By differences, so that nothing overflows.
    fits = (
        bool((rows[:, 0] > 0).all() and (counts > 0).all() and (places >= 0).all())
        and bool((places <= nbytes).all() and (counts <= nbytes - places).all())
        and bool((places[:-1] + counts[:-1] <= places[1:]).all())
    )
    if not fits:
        raise ProtocolError(f"pieces that overlap, or go beyond a body of {nbytes} bytes")
    return rows


def _batches(pieces: Pieces) -> Iterator[Pieces]:
    """Cut pieces into batches of bounded size."""
    batch: list[tuple[int, int, int]] = []
    room = _BATCH
    for address, count, at in pieces.tolist():
        while count:
            part = min(count, room)
            batch.append((address, part, at))
            address, count, at, room = address + part, count - part, at + part, room - part
            if room == 0 or len(batch) == _MOST_PARTS:
                yield np.array(batch, np.int64)
                batch, room = [], _BATCH
    if batch:
        yield np.array(batch, np.int64)


def read(process: int, pieces: Pieces, body: memoryview) -> Iterator[int]:
    """Copy pieces of a process's memory into the body, and yield how far it is complete.

    Parameters
    ----------
    process : int
        Of this user, which lets this one read.
    pieces : numpy.ndarray
        Checked.
    body : memoryview
        Writable; what is between the pieces is left alone.

    Raises
    ------
    SystemFailure
        The process is gone, forbids it, or has nothing there.
    """
    base = np.frombuffer(body, np.uint8).ctypes.data
    for batch in _batches(pieces):
        local = np.stack([batch[:, 2] + base, batch[:, 1]], axis=1)
        remote = np.ascontiguousarray(batch[:, :2])
        wanted, parts = int(batch[:, 1].sum()), len(batch)
        got = _system.process_vm_readv(
            process, local.ctypes.data, parts, remote.ctypes.data, parts, 0
        )
        if got != wanted:
            why = os.strerror(ctypes.get_errno()) if got < 0 else f"{got} of {wanted} bytes"
            raise SystemFailure(f"memory of process {process} cannot be read: {why}")
        yield int(batch[-1, 2] + batch[-1, 1])


def may_read(process: int, address: int) -> bool:
    """Return whether this process may read another one's memory.

    Parameters
    ----------
    process : int
        The other one.
    address : int
        Of a byte there.
    """
    found = bytearray(1)
    try:
        for _ in read(process, np.array([[address, 1, 0]], np.int64), memoryview(found)):
            pass
    except SystemFailure:
        return False
    return True


class Tiles:
    """Hashes of a body's tiles, made as soon as they are complete.

    Parameters
    ----------
    body : memoryview
        The whole of it.
    """

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self.hashes: Hashes = np.zeros(-(-len(body) // TILE), np.uint64)
        self._done = 0

    def complete(self, upto: int) -> None:
        """Hash the tiles that end at a place or before it.

        Parameters
        ----------
        upto : int
            Bytes from the beginning that will not change any more.
        """
        last = len(self.hashes) if upto >= len(self._body) else upto // TILE
        for tile in range(self._done, last):
            part = self._body[tile * TILE : (tile + 1) * TILE]
            self.hashes[tile] = xxhash.xxh3_64_intdigest(part)
        self._done = max(self._done, last)

    def damaged(self, hashes: Hashes) -> list[int]:
        """Return the tiles whose hashes are others.

        Parameters
        ----------
        hashes : numpy.ndarray
            That the tiles should have.
        """
        self.complete(len(self._body))
        return [int(tile) for tile in np.flatnonzero(self.hashes != hashes)]

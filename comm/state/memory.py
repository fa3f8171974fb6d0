"""Where a state lies, and how its chunks are hashed and copied there: host memory, or a GPU's."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
import xxhash

from holdfast import _core
from holdfast.comm.buffers import Buffer
from holdfast.comm.dispatch import ordinal_of

# Hashing lets go of the interpreter, and four threads of it fill the memory bus.
_HASH_THREADS = 4
# Chunks that make a thread worth its start.
_WORTH = 32

# Address and bytes.
Span = tuple[int, int]


class Room(NamedTuple):
    """Host memory that a message is sent from, or received in."""

    address: int
    owner: object
    """What it lives as long as."""


class Memory(Protocol):
    """A kind of memory that states lie in."""

    def place(self, buffer: Buffer) -> int:
        """Return the address of a tensor's elements in one run."""

    def hashes(self, spans: Sequence[Span]) -> bytes:
        """Return the hashes of runs of bytes, one behind the other."""

    def lend(self, span: Span, owner: object) -> Room:
        """Return host memory with these bytes, which are `owner`'s."""

    def room(self, size: int) -> Room:
        """Return host memory of its own."""

    def write(self, address: int, room: Room, offset: int, size: int) -> None:
        """Copy bytes of a room of its own in."""

    def store(self) -> None:
        """Copy back where tensors have gaps."""


def hash_here(address: int, size: int) -> bytes:
    """Return the hash of a run of host memory."""
    view = (ctypes.c_char * size).from_address(address)
    return xxhash.xxh3_128_digest(memoryview(view))


class HostMemory:
    """Memory of this process."""

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []

    def place(self, buffer: Buffer) -> int:
        """Return the address of a tensor's elements in one run: its own, or a copy's."""
        self._buffers.append(buffer)
        return buffer.address

    def hashes(self, spans: Sequence[Span]) -> bytes:
        """Return the hashes of runs of bytes, one behind the other."""
        threads = min(_HASH_THREADS, len(os.sched_getaffinity(0)), len(spans) // _WORTH)
        if threads < 2:
            return self._some(spans)
        share = -(-len(spans) // threads)
        parts = [spans[i : i + share] for i in range(0, len(spans), share)]
        with ThreadPoolExecutor(threads) as pool:
            return b"".join(pool.map(self._some, parts))

    @staticmethod
    def _some(spans: Sequence[Span]) -> bytes:
        return b"".join(hash_here(address, size) for address, size in spans)

    def lend(self, span: Span, owner: object) -> Room:
        """Return the bytes where they lie."""
        return Room(span[0], owner)

    def room(self, size: int) -> Room:
        """Return host memory of its own."""
        bytes_ = np.empty(size, np.uint8)
        return Room(bytes_.ctypes.data, bytes_)

    def write(self, address: int, room: Room, offset: int, size: int) -> None:
        """Copy bytes of a room in."""
        ctypes.memmove(address, room.address + offset, size)

    def store(self) -> None:
        """Copy back where tensors have gaps."""
        for buffer in self._buffers:
            buffer.store()


class DeviceMemory:
    """A GPU's: hashed there, and copied through pinned memory.

    Parameters
    ----------
    staged : _core.Staged
        The GPU.
    """

    def __init__(self, staged: _core.Staged) -> None:
        self._staged = staged
        self._native = _core.DeviceState(staged)
        self._followed: set[int] = set()
        self._has_gaps = False
        self._buffers: list[Buffer] = []

    def place(self, buffer: Buffer) -> int:
        """Return the address of a tensor's elements in one run: its own, or a copy's."""
        for stream in buffer.streams:
            if stream not in self._followed:
                self._native.follow(stream)
                self._followed.add(stream)
        self._buffers.append(buffer)
        if buffer.strides is None:
            return buffer.address
        self._has_gaps = True
        return self._native.pack(buffer.address, buffer.item, buffer.shape, buffer.strides)

    def hashes(self, spans: Sequence[Span]) -> bytes:
        """Return the hashes of runs of bytes, one behind the other."""
        return self._native.hash(spans)

    def lend(self, span: Span, owner: object) -> Room:
        """Return pinned memory with these bytes."""
        address, size = span
        piece = _core.PinnedPiece(self._staged, size)
        self._native.down(piece, address, size)
        return Room(piece.address, piece)

    def room(self, size: int) -> Room:
        """Return pinned memory."""
        piece = _core.PinnedPiece(self._staged, size)
        return Room(piece.address, piece)

    def write(self, address: int, room: Room, offset: int, size: int) -> None:
        """Copy bytes of a room in."""
        assert isinstance(room.owner, _core.PinnedPiece)
        self._native.up(address, room.owner, offset, size)

    def store(self) -> None:
        """Copy back where tensors have gaps."""
        if self._has_gaps:
            self._native.unpack()
        for buffer in self._buffers:
            buffer.store()


class Memories:
    """The memories of one state, opened as its tensors need them.

    Parameters
    ----------
    node : _core.Node, optional
        Opens GPUs; default: only host memory is taken.
    """

    def __init__(self, node: _core.Node | None) -> None:
        self._node = node
        self._host = HostMemory()
        self._devices: dict[int, DeviceMemory] = {}

    def of(self, buffer: Buffer, where: str) -> Memory:
        """Return the memory that a tensor lies in.

        Parameters
        ----------
        buffer : Buffer
            The tensor.
        where : str
            Names it in errors.

        Raises
        ------
        ConfigError
            For an address that the driver does not know.
        Unsupported
            For a GPU's memory where there is no driver.
        """
        if buffer.device is None:
            return self._host
        ordinal = ordinal_of(self._node, [buffer], where)
        if ordinal not in self._devices:
            assert self._node is not None
            self._devices[ordinal] = DeviceMemory(self._node.staged(ordinal))
        return self._devices[ordinal]

    def store(self) -> None:
        """Copy back where tensors have gaps."""
        self._host.store()
        for device in self._devices.values():
            device.store()

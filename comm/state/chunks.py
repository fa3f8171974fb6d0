"""Chunks: a state dictionary as pieces of memory that are hashed, compared and fetched."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from holdfast import _core
from holdfast.comm.arrays import Buffer, Site, buffer
from holdfast.comm.state.memory import Memories, Memory, Room, Span, hash_here

CHUNK_BYTES = 1 << 20
HASH_BYTES = 16
# Chunks that travel together.
RUN_CHUNKS = 8
# Of a newcomer's chunks.
_SAMPLE = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of bytes of one tensor.

    Parameters
    ----------
    tensor : int
        Its number.
    offset : int
        First byte.
    size : int
        Bytes.
    """

    tensor: int
    offset: int
    size: int


def hash_of(hashes: bytes, number: int) -> bytes:
    """Return the hash of one chunk.

    Parameters
    ----------
    hashes : bytes
        Of all chunks.
    number : int
        Of the chunk.
    """
    return hashes[number * HASH_BYTES : (number + 1) * HASH_BYTES]


class State:
    """A state dictionary as chunks of memory.

    Parameters
    ----------
    state : mapping of str to array
        NumPy arrays, torch tensors, arrays in a GPU's memory.
    label : str
        Names the group in errors.
    node : _core.Node, optional
        Opens GPUs; default: only host memory is taken.
    """

    def __init__(
        self, state: Mapping[str, Any], label: str, node: _core.Node | None = None
    ) -> None:
        self.names = sorted(state)
        self.buffers: list[Buffer] = []
        self._memories = Memories(node)
        self._places: list[tuple[Memory, int]] = []  # of each tensor, and its address there
        for name in self.names:
            site = Site("sync", repr(name), label)
            taken = buffer(state[name], site, written=True)
            memory = self._memories.of(taken, str(site))
            self.buffers.append(taken)
            self._places.append((memory, memory.place(taken)))
        self.chunks = [
            Chunk(i, offset, min(CHUNK_BYTES, b.count * b.item - offset))
            for i, b in enumerate(self.buffers)
            for offset in range(0, b.count * b.item, CHUNK_BYTES)
        ]
        self.bytes = sum(chunk.size for chunk in self.chunks)

    @functools.cached_property
    def hashes(self) -> bytes:
        """Of all chunks, as they are at the first look."""
        return self._hash(list(range(len(self.chunks))))

    def looks_strange(self, right: bytes) -> bool:
        """Whether a sample of the chunks has nothing in common with these hashes.

        Parameters
        ----------
        right : bytes
            Of all chunks.
        """
        numbers = range(0, len(self.chunks), max(1, len(self.chunks) // _SAMPLE))
        return all(self._hash([n]) != hash_of(right, n) for n in numbers)

    def _hash(self, numbers: list[int]) -> bytes:
        """Hashes of chunks, by the memories that they are in."""
        of: dict[int, list[int]] = {}
        for number in numbers:
            of.setdefault(id(self.memory(number)), []).append(number)
        found: dict[int, bytes] = {}
        for some in of.values():
            hashes = self.memory(some[0]).hashes([self.span([number]) for number in some])
            found.update({number: hash_of(hashes, i) for i, number in enumerate(some)})
        return b"".join(found[number] for number in numbers)

    def memory(self, number: int) -> Memory:
        """Memory that a chunk is in."""
        return self._places[self.chunks[number].tensor][0]

    @property
    def on_device(self) -> bool:
        """Whether any of it is in a GPU's memory."""
        return any(b.device is not None for b in self.buffers)

    def manifest(self) -> list[list[Any]]:
        """Name, dtype and shape of every tensor."""
        return [
            [name, b.dtype, list(b.shape)] for name, b in zip(self.names, self.buffers, strict=True)
        ]

    def address(self, chunk: Chunk) -> int:
        """Address of a chunk's first byte."""
        return self._places[chunk.tensor][1] + chunk.offset

    def digest(self, hashes: bytes) -> bytes:
        """Hash of the hashes."""
        return xxhash.xxh3_128_digest(hashes)

    def runs(self, numbers: list[int]) -> list[list[int]]:
        """Put chunks that follow each other in one tensor together."""
        runs: list[list[int]] = []
        for number in numbers:
            last = runs[-1] if runs else []
            follows = (
                bool(last)
                and last[-1] + 1 == number
                and self.chunks[number].tensor == self.chunks[last[-1]].tensor
                and len(last) < RUN_CHUNKS
            )
            if follows:
                last.append(number)
            else:
                runs.append([number])
        return runs

    def span(self, run: list[int]) -> Span:
        """Address and bytes of a run."""
        return self.address(self.chunks[run[0]]), sum(self.chunks[n].size for n in run)

    def lend(self, run: list[int]) -> Room:
        """Host memory that has a run's bytes, to be sent from."""
        return self.memory(run[0]).lend(self.span(run), self)

    def room(self, run: list[int]) -> Room:
        """Host memory to receive a run like this one in, of any length."""
        return self.memory(run[0]).room(RUN_CHUNKS * CHUNK_BYTES)

    def accept(self, run: list[int], room: Room, right: bytes) -> list[int]:
        """Write the chunks of a run that are what they should be; return the others."""
        wrong = []
        at = 0
        memory = self.memory(run[0])
        for number in run:
            chunk = self.chunks[number]
            if hash_here(room.address + at, chunk.size) == hash_of(right, number):
                memory.write(self.address(chunk), room, at, chunk.size)
            else:
                wrong.append(number)
            at += chunk.size
        return wrong

    def store(self) -> None:
        """Copy back where tensors have gaps."""
        self._memories.store()

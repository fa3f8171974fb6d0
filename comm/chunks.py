"""Chunks: a state dictionary as pieces of memory that are hashed, compared and fetched."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash

from holdfast.comm.arrays import Buffer, Site, buffer

CHUNK_BYTES = 1 << 20
HASH_BYTES = 16
# Chunks that travel together.
RUN_CHUNKS = 8
# Hashing lets go of the interpreter, and four threads of it fill the memory bus.
_HASH_THREADS = 4
# Chunks that make a thread worth its start.
_WORTH = 32
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
    """A state dictionary as chunks of memory."""

    def __init__(self, state: Mapping[str, Any], label: str) -> None:
        self.names = sorted(state)
        self.buffers: list[Buffer] = []
        for name in self.names:
            site = Site("sync", repr(name), label)
            self.buffers.append(buffer(state[name], site, written=True))
        self.chunks = [
            Chunk(i, offset, min(CHUNK_BYTES, b.count * b.item - offset))
            for i, b in enumerate(self.buffers)
            for offset in range(0, b.count * b.item, CHUNK_BYTES)
        ]
        self.bytes = sum(chunk.size for chunk in self.chunks)

    @functools.cached_property
    def hashes(self) -> bytes:
        """Of all chunks, as they are at the first look."""
        threads = min(_HASH_THREADS, len(os.sched_getaffinity(0)), len(self.chunks) // _WORTH)
        if threads < 2:
            return self._hash_all(self.chunks)
        share = -(-len(self.chunks) // threads)
        parts = [self.chunks[i : i + share] for i in range(0, len(self.chunks), share)]
        with ThreadPoolExecutor(threads) as pool:
            return b"".join(pool.map(self._hash_all, parts))

    def looks_strange(self, right: bytes) -> bool:
        """Whether a sample of the chunks has nothing in common with these hashes.

        Parameters
        ----------
        right : bytes
            Of all chunks.
        """
        numbers = range(0, len(self.chunks), max(1, len(self.chunks) // _SAMPLE))
        return all(self._hash_all([self.chunks[n]]) != hash_of(right, n) for n in numbers)

    def _hash_all(self, chunks: list[Chunk]) -> bytes:
        return b"".join(self._hash(self.address(chunk), chunk.size) for chunk in chunks)

    @staticmethod
    def _hash(address: int, size: int) -> bytes:
        view = (ctypes.c_char * size).from_address(address)
        return xxhash.xxh3_128_digest(memoryview(view))

    def manifest(self) -> list[list[Any]]:
        """Name, dtype and shape of every tensor."""
        return [
            [name, b.dtype, list(b.array.shape)]
            for name, b in zip(self.names, self.buffers, strict=True)
        ]

    def address(self, chunk: Chunk) -> int:
        """Address of a chunk's first byte."""
        return self.buffers[chunk.tensor].address + chunk.offset

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

    def span(self, run: list[int]) -> tuple[int, int]:
        """Address and bytes of a run."""
        return self.address(self.chunks[run[0]]), sum(self.chunks[n].size for n in run)

    def accept(self, run: list[int], staged: np.ndarray[Any, Any], right: bytes) -> list[int]:
        """Write the chunks of a run that are what they should be; return the others."""
        wrong = []
        at = 0
        for number in run:
            chunk = self.chunks[number]
            address = staged.ctypes.data + at
            if self._hash(address, chunk.size) == hash_of(right, number):
                ctypes.memmove(self.address(chunk), address, chunk.size)
            else:
                wrong.append(number)
            at += chunk.size
        return wrong

    def store(self) -> None:
        """Copy back where tensors are not contiguous."""
        for b in self.buffers:
            b.store()

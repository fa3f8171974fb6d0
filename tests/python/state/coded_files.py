"""States of coded bodies in files, on a disk for each rank or on one; and trainers as threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import _core
from holdfast.ft.state.files import code, container, flush
from holdfast.ft.state.files.manifest import Manifest
from holdfast.ft.state.files.schemes import Place, place
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head, layout_digest
from holdfast.ft.state.places import TILE, Places, slice_tiles

# In tiles; of different lengths, so that what lies behind a body's end is part of the code.
TILES = (3.3, 1.0, 2.7, 0.2)


def body_of(rank: int, step: int) -> np.ndarray:
    nbytes = int(TILES[rank] * TILE) // 64 * 64
    return np.random.default_rng([rank, step]).integers(0, 256, nbytes, dtype=np.uint8)


def head_of(rank: int, step: int, world: int) -> Head:
    sizes = [len(body_of(each, step)) for each in range(world)]
    at, size = sum(sizes[:rank]), sizes[rank]
    entry = Entry("w", "uint8", (sum(sizes),), (at,), (size,), 0, size, 0)
    return Head("job", step, 1, rank, world, (entry,), (size, 0), size)


def parity_of(bodies: list[np.ndarray], k: int, m: int) -> list[np.ndarray]:
    """What each member holds, by the plain definition of the code."""
    places, n = Places(k, m), k + m
    tiles = slice_tiles(max(map(len, bodies)), k)
    padded = np.zeros((n, k, tiles, TILE), np.uint8)
    for one, body in zip(padded.reshape(n, -1), bodies, strict=True):
        one[: len(body)] = body
    matrix = _core.ErasureCode(k, m)
    found = np.zeros((n, m, tiles, TILE), np.uint8)
    product = np.zeros(TILE, np.uint8)
    for member in range(n):
        for row in range(m):
            codeword = places.codeword_of_row(member, row)
            for other in range(n):
                column = places.row(other, codeword)
                for tile in range(tiles if column < k else 0):
                    by = matrix.coefficient(row, column)
                    _core.multiply_tiles([product], [padded[other, column, tile]], [by])
                    found[member, row, tile] ^= product
    return [one.reshape(-1) for one in found]


def written(roots: list[Place], k: int, m: int, step: int = 5) -> Manifest:
    """Write a state; rank r's files to the place of rank r, the manifest to all."""
    world = k + m
    bodies = [body_of(rank, step) for rank in range(world)]
    heads = [head_of(rank, step, world) for rank in range(world)]
    tiles = [container.hashes(body.data) for body in bodies]
    guards = {str(r): code.guard(heads[r].to_bytes(), tiles[r]) for r in range(world)}
    files = []
    for rank, parity in enumerate(parity_of(bodies, k, m)):
        files.append(flush.write_body(roots[rank], heads[rank], bodies[rank].data))
        said: dict[str, object] = {code.GUARDED: guards}
        files.append(flush.write_parity(roots[rank], heads[rank], said, parity.data))
    files.sort(key=lambda file: file.name)
    group = code.Group(tuple(range(world)), m, max(map(len, bodies)))
    told: dict[str, object] = {code.GROUPS: [group.told()]}
    whole = Manifest("job", step, 1, world, layout_digest(heads), tuple(files), told)
    for root in {root.url: root for root in roots}.values():
        flush.commit(root, whole)
    return whole


def disks(here: Path, world: int) -> list[Place]:
    return [place(f"file://{here}/disk{rank}") for rank in range(world)]


class Thread:
    """A trainer among others, as `Members` says."""

    def __init__(self, rank: int, size: int, room: list[Any], gate: threading.Barrier) -> None:
        self.rank, self.size, self.store = rank, size, None
        self._room, self._gate = room, gate

    def tell(self, mine: Any) -> list[Any]:
        self._room[self.rank] = mine
        self._gate.wait()
        found = [*self._room]
        self._gate.wait()
        return found


def together(size: int, act: Callable[[Thread], Any]) -> list[Any]:
    """Do something as so many trainers; what each returned, or its exception."""
    room: list[Any] = [None] * size
    found: list[Any] = [None] * size
    gate = threading.Barrier(size, timeout=60.0)

    def run(rank: int) -> None:
        try:
            found[rank] = act(Thread(rank, size, room, gate))
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60.0)
    return found

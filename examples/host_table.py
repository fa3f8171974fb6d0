"""A table that is larger than a GPU's memory stays with the host; the GPU reads rows by number.

    holdfast run -n 2 examples/host_table.py
    HOLDFAST_CUDA_DRIVER=emulated holdfast run -n 2 examples/host_table.py

The table is pinned once. Of each batch only the rows whose numbers are given cross the bus, and
those of the next batch come while the current one is computed. Ranks share the batches and add up.
Without a GPU the host gathers the same rows; the second command has a device that only looks like
one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import Any

import numpy as np

import holdfast
from holdfast.comm import HostTensor
from holdfast.comm.host_tensor import Prefetch


class EmulatedArray:
    """An array on the emulated device; with a GPU it is torch's, CuPy's or Numba's instead."""

    def __init__(self, values: np.ndarray) -> None:
        from holdfast import _core, _process  # no interface for users: GPUs have frameworks

        self._values = values
        self._memory = _core.DeviceMemory(_process.node().staged(0), values.nbytes, False)
        self._memory.write(values.tobytes(), 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        where, kind = (self._memory.address, False), self._values.dtype.str
        shape = self._values.shape
        return {"shape": shape, "typestr": kind, "data": where, "version": 3, "stream": 1}

    def get(self) -> np.ndarray:
        raw = self._memory.read(0)
        return np.frombuffer(raw, self._values.dtype).reshape(self._values.shape)


def place() -> str:
    """Where rows are wanted."""
    if os.environ.get("HOLDFAST_CUDA_DRIVER") == "emulated":
        return "emulated"
    with contextlib.suppress(ImportError):
        import torch

        return "cuda" if torch.cuda.is_available() else "host"
    return "host"


def fetch(table: HostTensor, numbers: np.ndarray, where: str) -> Prefetch:
    """Begin to gather rows; they come beside what the device does."""
    if where == "emulated":
        room = EmulatedArray(np.zeros((len(numbers), *table.shape[1:]), np.float32))
        return table.prefetch(EmulatedArray(numbers), room)
    if where == "cuda":
        import torch

        return table.prefetch(torch.from_numpy(numbers).cuda())
    return table.prefetch(numbers)


def summed(ahead: Prefetch, where: str) -> np.ndarray:
    """Wait for rows, and add them up."""
    rows = ahead.wait()
    if where == "cuda":
        return rows.sum(0).cpu().numpy()
    return (rows.get() if where == "emulated" else rows).sum(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=8)
    arguments = parser.parse_args()
    where = place()
    with holdfast.init() as group:
        chance = np.random.default_rng(1)
        values = chance.integers(0, 100, (arguments.rows, 64)).astype(np.float32)
        batches = chance.integers(0, arguments.rows, (arguments.batches, 256))
        table = HostTensor(values)
        mine = batches[group.rank :: group.size]
        total = np.zeros(64, np.float32)
        ahead = fetch(table, mine[0], where)
        for number in range(len(mine)):
            here = ahead
            if number + 1 < len(mine):
                ahead = fetch(table, mine[number + 1], where)
            total += summed(here, where)
        group.all_reduce(total)
        table.check()
        np.testing.assert_array_equal(total, values[batches].sum((0, 1)))
        if group.rank == 0:
            device = "the host" if table.device is None else f"device {table.device}, {where}"
            print(
                f"{batches.size} rows of a table of {values.nbytes >> 20} MiB, gathered by "
                f"{device}: the sum over {group.size} ranks is right"
            )


if __name__ == "__main__":
    main()

"""Rows of a table in host memory to the GPU: read by its threads, or gathered by the processor.

    python tests/gpu/host_tensor_gather.py --rows 2000000 --columns 128 --numbers 262144

`gather_ms`: `HostTensor.gather` with the index on the GPU. `cpu_ms`: what one would do without,
`tensor[index]` by the processor's threads into pinned memory that is there already, and a copy of
that memory to the GPU. Both into device memory that is there already, in turns, until the rows are
there; medians of wall time. `ratio`: cpu_ms / gather_ms. The baseline is torch's where torch has
CUDA, else NumPy's, whose `take` has one thread. Both results are compared with the table.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import world

WARM_UP = 3


class Ways(Protocol):
    """Both ways to bring rows to the device; each waits until they are there."""

    baseline: str
    threads: int

    def gather(self) -> None:
        """Let the device read them."""

    def cpu(self) -> None:
        """Gather them here, and copy."""

    def results(self) -> tuple[Any, Any]:
        """Return what the last calls of `gather` and `cpu` have brought, as NumPy arrays."""


class TorchWays:
    """By torch's tensors."""

    baseline = "torch"

    def __init__(self, values: Any, index: Any) -> None:
        import torch

        from holdfast.comm import HostTensor

        self._torch = torch
        self.threads = torch.get_num_threads()
        self._values = torch.from_numpy(values)
        self._here = torch.from_numpy(index)
        self._there = self._here.cuda()
        shape = (len(index), values.shape[1])
        self._pinned = torch.empty(shape, pin_memory=True)
        self._copied = torch.empty(shape, device="cuda")
        self._gathered = torch.empty(shape, device="cuda")
        self._table = HostTensor(self._values)

    def gather(self) -> None:
        self._table.gather(self._there, self._gathered)
        self._torch.cuda.synchronize()

    def cpu(self) -> None:
        self._torch.index_select(self._values, 0, self._here, out=self._pinned)
        self._copied.copy_(self._pinned, non_blocking=True)
        self._torch.cuda.synchronize()

    def results(self) -> tuple[Any, Any]:
        return self._gathered.cpu().numpy(), self._copied.cpu().numpy()


class DriverWays:
    """By the driver's memory, where torch has no CUDA."""

    baseline = "numpy"
    threads = 1

    def __init__(self, values: Any, index: Any) -> None:
        from gpu_array import GpuArray, staged

        from holdfast import _core
        from holdfast.comm import HostTensor

        self._values, self._here = values, index
        self._stream = staged().make_stream()
        room = np.empty((len(index), values.shape[1]), values.dtype)
        self._there = GpuArray(index, self._stream)
        self._gathered = GpuArray(room, self._stream)
        self._copied = GpuArray(room, self._stream)
        # Whose copy waits for all that the stream has been given.
        self._last = [GpuArray(np.zeros(1), self._stream) for _ in range(2)]
        self._piece = _core.PinnedPiece(staged(), room.nbytes)
        memory = (ctypes.c_char * room.nbytes).from_address(self._piece.address)
        self._pinned = np.frombuffer(memory, values.dtype).reshape(room.shape)
        self._state = _core.DeviceState(staged())
        self._bytes = room.nbytes
        self._table = HostTensor(values)

    def gather(self) -> None:
        self._table.gather(self._there, self._gathered)
        self._last[0].copy_from(self._last[1])

    def cpu(self) -> None:
        # Other modes make a copy first; all numbers are in range.
        np.take(self._values, self._here, axis=0, out=self._pinned, mode="clip")
        address, _ = self._copied.__cuda_array_interface__["data"]
        self._state.up(address, self._piece, 0, self._bytes)

    def results(self) -> tuple[Any, Any]:
        return self._gathered.get(), self._copied.get()


def median_ms(times: list[float]) -> float:
    """Return the median of seconds, in ms."""
    return statistics.median(times) * 1e3


def measure(ways: Ways, rounds: int, right: Any) -> dict[str, float]:
    """Take turns, and see that the rows are right."""
    times: dict[str, list[float]] = {"gather": [], "cpu": []}
    calls: dict[str, Callable[[], None]] = {"gather": ways.gather, "cpu": ways.cpu}
    for turn in range(-WARM_UP, rounds):
        for way, call in calls.items():
            began = time.perf_counter()
            call()
            if turn >= 0:
                times[way].append(time.perf_counter() - began)
    for got in ways.results():
        assert got.tobytes() == right.tobytes(), "other rows than the table's"
    gather, cpu = median_ms(times["gather"]), median_ms(times["cpu"])
    return {
        "gather_ms": round(gather, 4),
        "cpu_ms": round(cpu, 4),
        "ratio": round(cpu / gather, 2),
        "gather_gb_s": round(right.nbytes / gather / 1e6, 2),
    }


def main() -> int:
    """Measure, and print a line."""
    parser = world.arguments_of(__doc__, 0)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the table (2000000)")
    parser.add_argument("--columns", type=int, default=128, help="float32 numbers in a row (128)")
    parser.add_argument("--numbers", type=int, default=1 << 18, help="rows a gather (262144)")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    if world.lacks(given.driver):
        return world.LACKS
    # Read when the first table is made; this process has one device, and no ranks.
    os.environ["HOLDFAST_CUDA_DRIVER"] = given.driver
    with_torch = given.driver == "" and world.torch_has_cuda()
    chance = np.random.default_rng(1)
    values = chance.random((given.rows, given.columns), np.float32)
    index = chance.integers(0, given.rows, given.numbers)
    ways: Ways = (TorchWays if with_torch else DriverWays)(values, index)
    row = {
        "name": "host tensor gather",
        "device": world.device_name(given.driver),
        "rows": given.rows,
        "columns": given.columns,
        "numbers": given.numbers,
        "baseline": ways.baseline,
        "threads": ways.threads,
    }
    print(json.dumps({**row, **measure(ways, given.rounds, values[index])}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How much of asynchronous all_reduces of CUDA tensors a computation on the same GPU hides.

    python tests/gpu/overlap.py --ranks 2

Three things take turns, each from an idle device to an idle device: the computation (products of
matrices, as many as take what the communication takes), the communication (asynchronous
all_reduces), and both at once. Of each the median over rounds of the slowest rank's time, in ms:

    hidden = (compute + comm - both) / min(compute, comm)

1 when both together take no longer than the longer one. By path: `auto`, from device to device, and
`off`, through the host. Ranks that share a GPU also share its time, in every part alike.
`--device cpu` takes the CPU for the GPU, which proves the program and nothing else.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import world

LIMIT_S = 120.0
MIB = 1 << 20
WARM_UP = 3
# A computation of more would only wait in the device's queue.
MOST_PRODUCTS = 2000


def hidden(compute: float, comm: float, both: float) -> float:
    """Return which part of the shorter of two times was hidden when both ran at once."""
    return (compute + comm - both) / min(compute, comm)


class Rank:
    """A rank: what it computes, and what it communicates."""

    def __init__(self, device: str, tensors: int, size: int, side: int) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist, self._device = torch, dist, device
        kind = torch.bfloat16 if device == "cuda" else torch.float32
        self._factor = torch.full((side, side), 1 / side, dtype=kind, device=device)
        self._product = torch.empty_like(self._factor)
        self.tensors = [torch.ones(size // 4, device=device) for _ in range(tensors)]
        self.products = 1

    def check(self) -> None:
        """See that sums are right, and leave zeros, which stay what they are."""
        self._communicate()()
        self._settle()
        for tensor in self.tensors:
            assert bool((tensor == self._dist.get_world_size()).all())
            tensor.zero_()

    def _communicate(self) -> Callable[[], None]:
        """Begin; what is returned waits."""
        works = [self._dist.all_reduce(tensor, async_op=True) for tensor in self.tensors]

        def wait() -> None:
            for work in works:
                work.wait()

        return wait

    def _compute(self) -> None:
        for _ in range(self.products):
            self._torch.mm(self._factor, self._factor, out=self._product)

    def _settle(self) -> None:
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    def timed(self, *, compute: bool, comm: bool) -> float:
        """Return the slowest rank's seconds."""
        self._settle()
        # Of host memory, so that nothing is given to the device.
        self._dist.all_reduce(self._torch.zeros(1))
        began = time.perf_counter()
        wait = self._communicate() if comm else None
        if compute:
            self._compute()
        if wait:
            wait()
        self._settle()
        slowest = self._torch.tensor([time.perf_counter() - began], dtype=self._torch.float64)
        self._dist.all_reduce(slowest, op=self._dist.ReduceOp.MAX)
        return float(slowest)

    def balance(self) -> None:
        """Choose the number of products that takes what the communication takes."""
        for _ in range(WARM_UP):
            self.timed(compute=True, comm=True)
        comm = statistics.median(self.timed(compute=False, comm=True) for _ in range(5))
        self.products = 10
        ten = statistics.median(self.timed(compute=True, comm=False) for _ in range(5))
        self.products = min(max(round(10 * comm / ten), 1), MOST_PRODUCTS)


def measure() -> None:
    """Take turns; a rank."""
    import torch
    import torch.distributed as dist

    world.join_torch()
    device = os.environ["DEVICE"]
    tensors, size = int(os.environ["TENSORS"]), int(os.environ["BYTES"])
    rank = Rank(device, tensors, size, int(os.environ["SIDE"]))
    # The first calls find out which path there is.
    for _ in range(5):
        rank.check()
        for tensor in rank.tensors:
            tensor.fill_(1)
    rank.check()
    rank.balance()
    parts = {"compute": (True, False), "comm": (False, True), "both": (True, True)}
    times: dict[str, list[float]] = {part: [] for part in parts}
    for _ in range(int(os.environ["ROUNDS"])):
        for part, (compute, comm) in parts.items():
            times[part].append(rank.timed(compute=compute, comm=comm))
    ms = {part: round(statistics.median(seen) * 1e3, 4) for part, seen in times.items()}
    row: dict[str, Any] = {
        "name": "overlap",
        "path": os.environ["HOLDFAST_CUDA_IPC"],
        "ranks": dist.get_world_size(),
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "bytes": tensors * size,
        "products": rank.products,
        **{f"{part}_ms": value for part, value in ms.items()},
        "hidden": round(hidden(ms["compute"], ms["comm"], ms["both"]), 3),
        "direct_ops": world.ops("direct"),
    }
    dist.destroy_process_group()
    if os.environ["RANK"] == "0":
        world.tell(row)


def main() -> int:
    """Run a world for each path, and print a line for each."""
    parser = world.arguments_of(__doc__, LIMIT_S)
    parser.add_argument("--ranks", type=int, default=2, help="ranks that share the GPU (2)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--paths", default="auto,off", help="values of the option cuda_ipc")
    parser.add_argument("--tensors", type=int, default=4, help="all_reduces at once (4)")
    parser.add_argument("--bytes", type=int, default=64 * MIB, help="of each tensor (64 MiB)")
    parser.add_argument("--side", type=int, default=2048, help="of the matrices (2048)")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    if given.device == "cuda" and world.lacks(given.driver, torch=True):
        return world.LACKS
    env = world.environment(
        given.driver,
        **{name.upper(): str(getattr(given, name)) for name in ("device", "tensors", "bytes")},
        SIDE=str(given.side),
        ROUNDS=str(given.rounds),
    )
    for path in given.paths.split(","):
        outcomes = world.run(
            "overlap", "measure", given.ranks, given.limit, **env, HOLDFAST_CUDA_IPC=path
        )
        for row in world.told(outcomes[0]):
            print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

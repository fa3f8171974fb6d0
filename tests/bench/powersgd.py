"""PowerSGD of one matrix beside torch's hook, over gloo: one JSON line, times of the slower rank.

``python powersgd.py --side 4096 --rank 4``. Both get the same gradients in turn; compare the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

from holdfast import compress

LIMIT_S = 600.0


class Bucket:
    """What both hooks ask of DDP's bucket."""

    def __init__(self, gradient: torch.Tensor, parameter: torch.Tensor) -> None:
        self._gradient = gradient
        self._parameter = parameter

    def buffer(self) -> torch.Tensor:
        return self._gradient.view(-1)

    def set_buffer(self, tensor: torch.Tensor) -> None:
        self._gradient = tensor.view_as(self._gradient)

    def gradients(self) -> list[torch.Tensor]:
        return [self._gradient]

    def parameters(self) -> list[torch.Tensor]:
        return [self._parameter]

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True


def measure(
    hooks: dict[str, Callable[[Any], Any]], gradient: torch.Tensor, repeats: int
) -> dict[str, float]:
    parameter = torch.zeros(1)
    times: dict[str, list[float]] = {name: [] for name in hooks}
    for _ in range(repeats):
        for name, hook in hooks.items():
            bucket = Bucket(gradient.clone(), parameter)
            dist.barrier()
            begin = time.perf_counter()
            hook(bucket).wait()
            taken = torch.tensor([time.perf_counter() - begin])
            dist.all_reduce(taken, op=dist.ReduceOp.MAX)
            times[name].append(float(taken))
    # The first steps allocate, and torch's begin without compression.
    return {name: statistics.median(found[3:]) for name, found in times.items()}


def be_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{options.meeting}/meeting",
        rank=options.number,
        world_size=options.ranks,
    )
    gradient = torch.randn(options.side, options.side)
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=options.rank, start_powerSGD_iter=2
    )
    reducer = compress.PowerSGD(options.rank)
    hooks = {
        "torch": lambda bucket: powerSGD_hook.powerSGD_hook(state, bucket),
        "holdfast": lambda bucket: compress.hook(reducer, bucket),
    }
    times = measure(hooks, gradient, options.repeats)
    if options.number == 0:
        sent = 2 * options.side * options.rank
        row = {
            "name": "powersgd",
            "ranks": options.ranks,
            "bytes": gradient.numel() * 4,
            "sent_ratio": gradient.numel() / sent,
            "time_us": round(times["holdfast"] * 1e6),
            "peer": "torch powerSGD_hook",
            "peer_time_us": round(times["torch"] * 1e6),
            "ratio": round(times["torch"] / times["holdfast"], 2),
        }
        print(json.dumps(row), flush=True)
    dist.barrier()
    # gloo's threads let go of tensors while the interpreter ends, which aborts one run in ten.
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--side", type=int, default=4096, help="rows and columns")
    parser.add_argument("--rank", type=int, default=4, help="of the factors")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meeting", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.number is not None:
        be_rank(options)
    with tempfile.TemporaryDirectory() as meeting:
        shared = [*(arguments or sys.argv[1:]), "--meeting", meeting]
        command = [sys.executable, str(Path(__file__).resolve()), *shared]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        ranks = [
            subprocess.Popen([*command, "--number", str(number)], env=env)
            for number in range(options.ranks)
        ]
        return max(rank.wait(LIMIT_S) != 0 for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())

"""What ranks do while some are killed and come back: steps that count when all are there."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from churn_ranks import check_reduced

import holdfast

# Elements of f32: by the flat exchange, through slices, and likewise in the lane for large ops.
COUNTS = (2, 16 * 1024, 1024 * 1024)
# Reduces the array in place over all ranks, by that op; says who is in the result.
Reduce = Callable[[np.ndarray, str], holdfast.Outcome]


def die_after(seconds: float) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()


def die_in_mid_arrival() -> None:
    """End a process that was started again at some moment of its arrival, the first few times."""
    deaths = int(os.environ.get("DEATHS_ON_ARRIVAL", "0")) if Path("begun").exists() else 0
    for death in range(deaths):
        try:
            Path(f"died-arriving-{death}").touch(exist_ok=False)
        except FileExistsError:
            continue
        die_after(random.Random(death).uniform(0.0, 0.1))
        break


def take_steps(rank: int, size: int, advance: Callable[[], object], reduce: Reduce) -> None:
    """STEPS steps of all ranks; the processes that KILLS names ("step:rank ...") die in mid-step.

    A step counts when all ranks are in it; the files `full-EPOCH-PID` say that they were. They end
    early when there is a file `stop`.
    """
    kills = os.environ.get("KILLS", "").split()
    step = 0
    while step < int(os.environ["STEPS"]):
        advance()
        counter = np.array([step, Path("stop").exists()], np.float32)
        reduce(counter, "max")
        if counter[1]:
            break
        step = int(counter[0])
        marker = Path(f"killed-{step}-{rank}")
        if f"{step}:{rank}" in kills and not marker.exists():
            marker.touch()
            die_after(0.01 * random.Random(step).random())
        for count in COUNTS:
            data = np.full(count, 1 << rank, np.float32)
            outcome = reduce(data, "sum")
            check_reduced(data, 0, outcome)
        if len(outcome.contributors) == size:
            Path("begun").touch()
            Path(f"full-{outcome.epoch}-{os.getpid()}").touch()
            step += 1
        time.sleep(0.01)
    print("END", flush=True)


def by_group() -> None:
    die_in_mid_arrival()
    with holdfast.init() as group:

        def reduce(data: np.ndarray, op: str) -> holdfast.Outcome:
            group.all_reduce(data, op=op)
            assert group.outcome is not None
            return group.outcome

        take_steps(group.rank, group.size, group.advance, reduce)


def by_torch() -> None:
    """In the world's own group, and in another one of all ranks, in turn."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    die_in_mid_arrival()
    dist.init_process_group("holdfast")
    groups = [None, dist.new_group(list(range(dist.get_world_size())))]
    ops = {"max": dist.ReduceOp.MAX, "sum": dist.ReduceOp.SUM}

    def reduce(data: np.ndarray, op: str) -> holdfast.Outcome:
        given = torch.from_numpy(data)
        again = given.clone()
        work = dist.all_reduce(given, op=ops[op], async_op=True)
        work.wait()
        other = dist.all_reduce(again, op=ops[op], group=groups[1], async_op=True)
        other.wait()
        check = holdfast.outcome(other)
        if op == "sum":
            check_reduced(again.numpy(), 0, check)
        return holdfast.outcome(work)

    take_steps(dist.get_rank(), dist.get_world_size(), holdfast.advance, reduce)
    dist.destroy_process_group()

"""Measures what a rank holds before and after many groups and ops."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch_world import join

# The allocator's and the interpreter's own growth, seen with no communication at all.
SLACK_KIB = 4096


def entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def held() -> dict[str, int]:
    """Count descriptors, threads, own shared memory, and resident KiB."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    own = f".{os.getpid()}."
    return {
        "descriptors": entries("/proc/self/fd"),
        "threads": entries("/proc/self/task"),
        "segments": sum(own in path.name for path in Path("/dev/shm").iterdir()),
        "resident": int(resident.split()[1]),
    }


def steady(what: str, once: Callable[[int], None], warm: int, times: int) -> None:
    for i in range(warm):
        once(i)
    before = held()
    for i in range(times):
        once(warm + i)
    # A thread that ran a callback stays for ten seconds, in case there is another one.
    deadline = time.monotonic() + 20
    while entries("/proc/self/task") > before["threads"] and time.monotonic() < deadline:
        time.sleep(0.1)
    after = held()
    for name in ("descriptors", "threads", "segments"):
        assert after[name] <= before[name], (what, name, before, after)
    assert after["resident"] - before["resident"] < SLACK_KIB, (what, before, after)


def subgroups() -> None:
    _, size = join()

    def once(_: int) -> None:
        group = dist.new_group(list(range(size)))
        dist.all_reduce(torch.ones(100), group=group)
        dist.destroy_process_group(group)

    steady("subgroups", once, 10, 100)
    dist.barrier()
    dist.destroy_process_group()


def worlds() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)

    def once(i: int) -> None:
        method = f"file://{os.environ['MEETING_FILE']}{i}"
        dist.init_process_group("holdfast", init_method=method, rank=rank, world_size=size)
        dist.all_reduce(torch.ones(100_000))
        dist.barrier()
        dist.destroy_process_group()

    steady("worlds", once, 10, 100)


def python_groups() -> None:
    import numpy as np

    import holdfast

    def once(i: int) -> None:
        with holdfast.init(name=f"group {i}") as group:
            group.all_reduce(np.ones(10))
            group.barrier()

    steady("python groups", once, 10, 100)


def small_ops() -> None:
    rank, size = join()
    t = torch.ones(8)
    right, left = (rank + 1) % size, (rank - 1) % size

    def once(i: int) -> None:
        t.fill_(1)
        dist.all_reduce(t)
        if i % 10 == 0:
            dist.barrier()
            work = dist.isend(t, right)
            dist.recv(t, left)
            work.wait()
            dist.all_reduce(torch.ones(8), async_op=True)  # nobody waits for it
            future = dist.all_reduce(torch.ones(8), async_op=True).get_future()
            future.then(lambda f: f.value()).wait()

    steady("small ops", once, 500, 10_000)
    dist.barrier()
    dist.destroy_process_group()

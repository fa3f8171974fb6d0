"""What ranks do in the tests of the doctor: a training loop, and the faults that befall it.

The loop runs until a file says stop. Once the file `fault` is there, the rank VICTIM does what it
says; faults from outside (signals, networks, hogs) need nothing here.
"""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from pathlib import Path

import numpy as np
from health_ranks import announce, await_file

import holdfast
from holdfast.comm.group import Group

COMPUTE_S = float(os.environ.get("COMPUTE_S", "0.004"))
ELEMENTS = int(os.environ.get("ELEMENTS", "50000"))


def burn(seconds: float) -> None:
    """Use a processor for so long, by this thread's own time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Training:
    """Steps of a job: compute, sum, exchange."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.rank = group.rank
        self.gradient = np.ones(ELEMENTS, np.float32)
        self.tokens = np.ones((group.size, max(1, ELEMENTS // group.size)), np.float32)
        self.received = np.empty_like(self.tokens)
        self.victims = [int(v) for v in os.environ.get("VICTIM", "-1").split(",")]
        self.random = random.Random(1000 * int(os.environ.get("SEED", "0")) + self.rank)
        self.steps = 0

    def fault(self) -> str:
        """What this rank has to suffer now."""
        if self.rank not in self.victims or not Path("fault").exists():
            return ""
        return Path("fault").read_text()

    def compute(self) -> None:
        """A little more or less each time, as real work."""
        burn(COMPUTE_S * self.random.uniform(0.7, 1.3))

    def step(self) -> None:
        self.compute()
        fault = self.fault()
        if fault:
            suffer(self, fault)
        self.group.all_reduce(self.gradient)
        # Who is evicted or voted out is what these jobs go on without.
        self.group.all_to_all(self.tokens, self.received, on_hole="zero")
        self.steps += 1


def suffer(job: Training, fault: str) -> None:
    """One step's worth of a fault."""
    if fault == "slow_compute":
        burn(max(0.03, 5 * COMPUTE_S))
    elif fault == "slow_input":  # waits for its data, and uses no processor
        time.sleep(max(0.03, 5 * COMPUTE_S))
    elif fault == "skip":
        job.group.all_to_all(job.tokens, job.received)
    elif fault == "wrong_shape":
        job.group.all_reduce(np.ones(ELEMENTS + 1, np.float32))
    elif fault == "wrong_dtype":
        job.group.all_reduce(np.ones(ELEMENTS, np.int32))
    elif fault == "deadlocked_thread":
        hold_a_lock_forever()
    elif fault == "endless_loop":
        while True:
            pass
    elif fault == "stuck_in_c":
        ctypes.PyDLL(None).sleep(60)  # holds the interpreter's lock, unlike CDLL
    else:
        raise AssertionError(fault)


def hold_a_lock_forever() -> None:
    lock = threading.Lock()
    held = threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            threading.Event().wait(120)

    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    with lock:
        pass


def train() -> None:
    """Train until a file says stop."""
    with holdfast.init() as group:
        job = Training(group)
        job.step()
        announce(group)
        flag = np.zeros(1, np.int32)
        while not flag[0]:
            job.step()
            flag[0] = Path("stop").exists()
            group.all_reduce(flag, op="max")
        print("STEPS", job.steps, flush=True)


def wait_for_a_message() -> None:
    """The victim never sends what rank 0 waits for; the others wait for rank 0."""
    with holdfast.init() as group:
        job = Training(group)
        job.step()
        announce(group)
        await_file(Path("fault"))
        if group.rank in job.victims:
            hold_a_lock_forever()
        if group.rank == 0:
            group.recv(np.empty(10, np.float32), job.victims[0])
        group.all_reduce(np.ones(10, np.float32))


def cross_two_groups() -> None:
    """The victim begins two groups' ops in another order than the rest, and all wait for ever."""
    with holdfast.init() as group, holdfast.init(name="other") as other:
        job = Training(group)
        job.step()
        other.all_reduce(np.ones(10, np.float32))
        announce(group)
        await_file(Path("fault"))
        pair = (other, group) if group.rank in job.victims else (group, other)
        for one in pair:
            one.all_reduce(np.ones(ELEMENTS, np.float32))


def quiet() -> None:
    """One op, and then nothing until a file says stop."""
    with holdfast.init() as group:
        Training(group).step()
        announce(group)
        await_file(Path("stop"))


def every_collective() -> None:
    """Each collective once, in two groups, with blocks of one and of several sizes; messages."""
    with holdfast.init() as group, holdfast.init(name="other") as other:
        size, rank = group.size, group.rank
        block, whole = np.ones(6, np.float64), np.ones(6 * size, np.float64)
        for one in (group, other, group):
            one.all_reduce(block)
            one.reduce_scatter(block, whole)
            one.all_gather(whole, block)
            one.all_to_all(np.empty_like(whole), whole)
            one.broadcast(block, root=1)
            one.reduce(np.ones(3, np.int32), root=size - 1)
            one.gather(whole if rank == 1 else None, block, root=1)
            one.scatter(block, whole if rank == 0 else None, root=0)
            one.barrier()
            pieces, more = ([np.ones(1 + r * r, np.float32) for r in range(size)] for _ in "ab")
            one.all_gather(pieces, pieces[rank])
            one.reduce_scatter(pieces[rank], more)
        if rank == 0:
            group.send(block, size - 1)
        if rank == size - 1:
            group.recv(block, 0)
        announce(group)
        await_file(Path("stop"))
        group.barrier()

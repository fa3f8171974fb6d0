"""Ranks of a job whose members are 600 ms of round trip apart."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

import holdfast

WHOLE_OPS = 8
OPS = 12
VICTIM = 2


def sums_and_a_loss() -> None:
    """Sum ones: all ranks are in each of the first sums; then the victim dies."""
    with holdfast.init() as group:
        for op in range(OPS):
            if op == WHOLE_OPS and group.rank == VICTIM:
                os.kill(os.getpid(), signal.SIGKILL)
            array = np.ones(1000, np.float32)
            group.all_reduce(array)
            if op == 1 and group.rank == 0:
                Path("going").touch()
            print("SUM", op, int(array[0]), int(array.min() == array.max()), flush=True)


def another_call() -> None:
    """Say what each rank is told when the calls differ."""
    with holdfast.init() as group:
        array = np.ones(1000, np.float32)
        group.all_reduce(array)
        try:
            group.all_reduce(array, "max" if group.rank == 2 else "sum")
        except holdfast.errors.HoldfastError as error:
            print("TOLD", error, flush=True)

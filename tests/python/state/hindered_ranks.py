"""Ranks of test_hindrances.py: the keeper of one of them stands still, and all say so."""

from __future__ import annotations

import os
import signal
import threading
import time

import torch
import torch.distributed as dist
from snapshot_ranks import build, train_step

from holdfast.ft.state.snapshots import Snapshots

WAIT_S = 60.0


def stops_one_keeper() -> None:
    """The keeper of rank 1 stands still for longer than its group waits for it."""
    torch.set_num_threads(1)
    os.environ["HOLDFAST_DOMAIN"] = f"domain{os.environ['RANK']}"
    os.environ["HOLDFAST_SILENCE"] = "2"
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    state = build(rank)
    with Snapshots(state, patience=0.5) as snapshots:
        for _ in snapshots.steps(3):
            train_step(state)
        begun = time.monotonic()
        if rank == 1:
            keeper = snapshots.keeper
            os.kill(keeper, signal.SIGSTOP)
            threading.Timer(4.0, lambda: os.kill(keeper, signal.SIGCONT)).start()
        seen = set()
        protected, step = torch.zeros(1), 3
        while not (protected.item() and time.monotonic() - begun > 4.0):
            train_step(state)
            step += 1
            waited = snapshots.waited_s
            snapshots.take(step)
            assert snapshots.waited_s - waited < 2.5, snapshots.waited_s - waited
            seen.add(snapshots.unprotected)
            protected = torch.tensor([float(not snapshots.unprotected)])
            dist.all_reduce(protected, dist.ReduceOp.MIN)
            late = torch.tensor([float(time.monotonic() - begun > WAIT_S)])
            dist.all_reduce(late, dist.ReduceOp.MAX)
            assert not late.item(), seen
            threading.Event().wait(0.05)
        print("SEEN", sorted(seen), flush=True)
        assert len(seen) > 1
        print("PROTECTED", step, snapshots.committed, flush=True)
        dist.barrier()
    dist.destroy_process_group()

"""What many snapshots and kills of keepers leave: processes, descriptors, threads and memory.

``python snapshot_leaks.py --snapshots 1000 --kills 100`` trains in one process and takes snapshots,
each after a step; its keeper is killed at random instants, and training goes on until another one
protects it. After a tenth of all, and at the end, it counts what the trainer and its keeper have;
after the training, how long the keeper is still there. Markdown. Status 1: something grew by more
than ``--part`` (memory), or at all (the rest), or a process was left for 5 s.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from holdfast.ft.state.snapshots import Snapshots

LIMIT_S, END_S = 60.0, 5.0


def has(process: int) -> dict[str, int]:
    """Resident kilobytes, descriptors and threads of a process."""
    rows = Path(f"/proc/{process}/status").read_text().splitlines()
    status = dict(row.split(":", 1) for row in rows)
    return {
        "kB resident": int(status["VmRSS"].split()[0]),
        "descriptors": len([*Path(f"/proc/{process}/fd").iterdir()]),
        "threads": int(status["Threads"]),
    }


def keepers(job: str) -> list[int]:
    """All of a job, zombies among them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has just ended
            if b"holdfast._keeper" in words and job.encode() in words:
                found.append(int(folder.name))
    return found


def children() -> int:
    """Of this process, zombies among them."""
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


class Training:
    """A small model, and how often its keeper is killed."""

    def __init__(self, snapshots: int, kills: int, seed: int) -> None:
        torch.manual_seed(seed)
        self._net = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
        self._optimizer = torch.optim.AdamW(self._net.parameters())
        self.state = {"model": self._net, "optim": self._optimizer}
        self._chance = random.Random(seed)
        self._count = snapshots
        self._due = sorted(self._chance.sample(range(snapshots), kills))
        self.taken = self.killed = 0
        self.longest_s = 0.0  # without protection

    def run(self, snapshots: Snapshots, upto: int) -> None:
        """Go on to a snapshot, and to the last kill where it is the last."""
        while self.taken < upto or (upto == self._count and self._due):
            if self._due and self.taken >= self._due[0]:
                self._due.pop(0)
                self._kill(snapshots)
            self._step(snapshots)

    def look(self, snapshots: Snapshots) -> dict[str, dict[str, int]]:
        """What both have that is not of a message on its way: the least of several steps."""
        looks = []
        for _ in range(10):
            self._step(snapshots)
            snapshots.fence()
            threading.Event().wait(0.02)  # for the keeper to be done with it
            looks.append({"trainer": has(os.getpid()), "keeper": has(snapshots.keeper)})
        return {
            who: {name: min(one[who][name] for one in looks) for name in what}
            for who, what in looks[0].items()
        }

    def _step(self, snapshots: Snapshots) -> None:
        self._optimizer.zero_grad()
        self._net(torch.randn(8, 256)).square().mean().backward()
        self._optimizer.step()
        self.taken += 1
        snapshots.take(self.taken)

    def _kill(self, snapshots: Snapshots) -> None:
        """Kill the keeper within the next few steps, and go on until the state is protected."""
        keeper = snapshots.keeper
        timer = threading.Timer(0.02 * self._chance.random(), os.kill, (keeper, signal.SIGKILL))
        begun = time.monotonic()
        timer.start()
        while snapshots.keeper in (keeper, 0) or snapshots.unprotected:
            self._step(snapshots)
            if time.monotonic() - begun > LIMIT_S:
                raise SystemExit(f"unprotected for {LIMIT_S} s: {snapshots.unprotected}")
        self.killed += 1
        self.longest_s = max(self.longest_s, time.monotonic() - begun)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--snapshots", type=int, default=1000, metavar="N", help="at least (1000)")
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="of keepers (100)")
    parser.add_argument("--part", type=float, default=0.1, help="memory may grow by (0.1)")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", RuntimeWarning)
    torch.set_num_threads(1)
    job = f"leaks-{uuid.uuid4().hex}"
    training = Training(asked.snapshots, asked.kills, asked.seed)
    begun = time.monotonic()
    with Snapshots(training.state, job=job, patience=20.0) as snapshots:
        training.run(snapshots, max(1, asked.snapshots // 10))
        first = training.look(snapshots)
        training.run(snapshots, asked.snapshots)
        last = training.look(snapshots)
        there = len(keepers(job)), children()
    ended = time.monotonic()
    while (left := len(keepers(job)) + children()) and time.monotonic() - ended < END_S:
        time.sleep(0.05)
    grown = report(first, last, asked.part)
    print(
        f"\n{training.taken} snapshots, {training.killed} kills in {ended - begun:.0f} s; at most "
        f"{training.longest_s:.1f} s without protection; keepers and children at the end: "
        f"{there[0]} and {there[1]}, {left} of them {time.monotonic() - ended:.1f} s later"
    )
    return int(bool(grown or left or there != (1, 1)))


def report(
    first: dict[str, dict[str, int]], last: dict[str, dict[str, int]], part: float
) -> list[str]:
    """Print what there was, and return what has grown."""
    print("| | after a tenth | at the end |\n|---|---|---|")
    grown = []
    for who, what in first.items():
        for name, before in what.items():
            after = last[who][name]
            print(f"| {who}: {name} | {before} | {after} |")
            if after > before * (1 + part if name.startswith("kB") else 1):
                grown.append(f"{who}: {name}")
    return grown


if __name__ == "__main__":
    sys.exit(main())

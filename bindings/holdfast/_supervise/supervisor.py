"""The one loop that waits for ranks, and starts those again that have failed."""

from __future__ import annotations

import queue
import signal
import sys
import time
from collections.abc import Sequence
from typing import Protocol

from holdfast._supervise.comebacks import Comeback, Comebacks, Rules
from holdfast._supervise.processes import Process, Processes, how


class World(Protocol):
    """Knows what a rank is to have in its environment."""

    processes: Processes

    def start(self, rank: int) -> None:
        """Start a rank, for the first time or again."""

    def start_all(self) -> None:
        """End what still runs, and begin the job's next life."""

    def tend(self) -> float | None:
        """Do what is due behind the ranks; return when it is to be called again, if at all."""


class Supervisor:
    """Runs the ranks of a world to their ends.

    Parameters
    ----------
    name : str
        What lines of its own begin with.
    world : World
        Whose processes none has been started of.
    rules : Rules
        What is started again.
    grace_s : float
        Seconds for the others to end by themselves after one has failed.
    signals : sequence of Signals
        Passed on to the ranks, beside SIGINT and SIGTERM, which end the job.
    """

    def __init__(
        self,
        name: str,
        world: World,
        rules: Rules,
        grace_s: float,
        signals: Sequence[signal.Signals] = (),
    ) -> None:
        self._name, self._world, self._grace_s = name, world, grace_s
        self._processes = world.processes
        self._count = len(self._processes.names)
        self._comebacks = Comebacks(self._processes, self._count, rules)
        self._signals = tuple(signals)
        self._running: dict[int, Process] = {}  # whose end is still to come
        self._due: dict[int, float] = {}  # when ranks are to be started again
        self._status: dict[int, int] = {}  # of their latest ends
        self._first_failure = 0
        self._deadline: float | None = None  # of the others' grace

    def run(self) -> int:
        """Run to the end.

        Returns
        -------
        int
            0, or the status of the first rank that failed (128 + signal when a signal ended it).
        """
        restore = self._processes.forward_signals(self._signals)
        try:
            for rank in range(self._count):
                self._world.start(rank)
            self._running = dict(enumerate(self._processes.all))
            self._watch()
        finally:
            self._processes.close()
            for number, handler in restore.items():
                signal.signal(number, handler)
        failed = self._first_failure
        return 128 - failed if failed < 0 else failed

    def _watch(self) -> None:
        while self._running or self._due:
            tending = self._world.tend()
            instants = [*self._due.values(), self._deadline, tending]
            left = [max(0.0, at - time.monotonic()) for at in instants if at is not None]
            try:
                rank, process = self._processes.ends.get(timeout=min(left, default=None))
            except queue.Empty:
                self._do_what_is_due(time.monotonic())
                continue
            if self._processes.stopping.is_set() and self._due:
                self._first_failure = self._first_failure or self._status[next(iter(self._due))]
                self._due.clear()
            # Others are of an earlier life, or say that there was a signal.
            if process is not None and self._running.get(rank) is process:
                del self._running[rank]
                self._take_end(rank, process.wait())

    def _do_what_is_due(self, now: float) -> None:
        if self._deadline is not None and now >= self._deadline:
            self._processes.end()
            self._deadline = None
        for rank in [rank for rank, at in self._due.items() if at <= now]:
            del self._due[rank]
            self._start_again(rank)

    def _take_end(self, rank: int, status: int) -> None:
        """After a failure give the others their grace, unless something is started again."""
        # Those that we ended ourselves, after the first failure's grace, are no news.
        if status == 0 or (self._first_failure != 0 and self._deadline is None):
            return
        name = self._processes.names[rank]
        self._say(f"{name} {how(status)}")
        if self._first_failure != 0:
            return
        comeback = self._comebacks.judge(rank, status)
        if comeback is Comeback.ONE:
            pause = self._comebacks.pause_s(rank)
            if pause == 0:
                self._start_again(rank)
            else:
                self._say(f"{name} is started again in {pause:g} s")
                self._due[rank] = time.monotonic() + pause
                self._status[rank] = status
        elif comeback is Comeback.ALL:
            self._say("nobody is left; all ranks are started again")
            self._world.start_all()
            self._running = dict(enumerate(self._processes.all))
            if self._processes.stopping.is_set():  # by a signal that not all of them can have got
                self._processes.end()
        else:
            if self._comebacks.why:
                self._say(f"{name} {self._comebacks.why}")
            self._first_failure = status
            self._due.clear()
            self._deadline = time.monotonic() + self._grace_s

    def _start_again(self, rank: int) -> None:
        self._world.start(rank)
        self._running[rank] = self._processes.all[rank]
        self._say(f"{self._processes.names[rank]} is started again")
        if self._processes.stopping.is_set():  # by a signal that this one cannot have got
            self._processes.end()

    def _say(self, text: str) -> None:
        print(f"{self._name}: {text}", file=sys.stderr, flush=True)

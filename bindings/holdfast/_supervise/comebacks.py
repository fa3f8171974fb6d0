"""Which processes are started again when one of them has failed, when, and how often."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from holdfast._supervise.processes import Processes

# A process that runs for so long since it was started again is part of the job.
SETTLED_S = 10.0
_LONGEST_BACKOFF_S = 60.0


class Comeback(Enum):
    """What is started again."""

    NOTHING = auto()
    ONE = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class Rules:
    """What is started again at all.

    Parameters
    ----------
    most : int
        Starts of each process after its first.
    backoff_s : float
        Seconds to wait before a process is started again that has run for less than SETTLED_S
        since it was; twice as many at each further time. The first is started at once.
    signals_alone : bool
        Only what was ended by a signal.
    others_elsewhere : bool
        The job has ranks that others started: it goes on in them, as far as is known here.
    """

    most: int
    backoff_s: float = 0.0
    signals_alone: bool = False
    others_elsewhere: bool = False


class Comebacks:
    """Which may be started again: one while the job goes on in somebody else, or all.

    Parameters
    ----------
    processes : Processes
        All of them, when one is judged.
    count : int
        How many there are.
    rules : Rules
    """

    def __init__(self, processes: Processes, count: int, rules: Rules) -> None:
        self._processes = processes
        self._rules = rules
        self._left = [rules.most] * count
        self._last = [-math.inf] * count
        self._quick = [0] * count  # lives in a row that were shorter than SETTLED_S
        # By rank, when one came back to a world that went on; the others began it.
        self._came: dict[int, float] = {}
        self.why = ""
        """Why the latest was not started again."""

    def judge(self, rank: int, status: int) -> Comeback:
        """Say what may be started again, and count it."""
        now, rules = time.monotonic(), self._rules
        self.why = ""
        # Not a loss, which comes from outside, but an error that it would make again.
        if status > 0 and now - self._last[rank] < SETTLED_S:
            return self._nothing("failed again at once")
        if status > 0 and rules.signals_alone:
            return self._nothing("was not ended by a signal")
        if self._processes.stopping.is_set():
            return Comeback.NOTHING
        # Has a part in the job, or will never have: it was started again a moment ago.
        parts = [r for r in range(len(self._left)) if self._has_part(r, now)]
        all_ = self._processes.all
        if rules.others_elsewhere or any(all_[r].poll() is None for r in parts if r != rank):
            if not self._count([rank], now):
                return self._nothing(self._too_often())
            self._came[rank] = now
            return Comeback.ONE
        # Where some have ended well the job has, and would begin anew.
        is_over = any(process.poll() == 0 for process in all_)
        # Those that were started again a moment ago have been counted for this loss.
        if is_over or not self._count(parts, now):
            return self._nothing("" if is_over else self._too_often())
        self._last = [now] * len(self._left)
        self._came.clear()
        return Comeback.ALL

    def pause_s(self, rank: int) -> float:
        """Return the seconds to wait before the start that was counted last."""
        doubled = self._rules.backoff_s * 2.0 ** min(self._quick[rank] - 1, 30)
        return min(_LONGEST_BACKOFF_S, doubled) if self._quick[rank] else 0.0

    def _nothing(self, why: str) -> Comeback:
        self.why = why
        return Comeback.NOTHING

    def _too_often(self) -> str:
        return f"was started again {self._rules.most} times already" if self._rules.most else ""

    def _has_part(self, rank: int, now: float) -> bool:
        return now - self._came.get(rank, -math.inf) >= SETTLED_S

    def _count(self, ranks: Sequence[int], now: float) -> bool:
        """Take one start of each, if all of them have one left."""
        if any(self._left[rank] == 0 for rank in ranks):
            return False
        for rank in ranks:
            self._left[rank] -= 1
            self._quick[rank] = self._quick[rank] + 1 if now - self._last[rank] < SETTLED_S else 0
            self._last[rank] = now
        return True

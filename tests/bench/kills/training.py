"""One training that is killed again and again: its processes, and its lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from trap import process_of, sign

RANKS = 4
HERE = Path(__file__).resolve().parent
Steps = dict[tuple[int, int], str]
"""By rank and step, what the step came to: loss and digest."""


class Training:
    """A job (launcher.py).

    Parameters
    ----------
    folder : Path
        Its own.
    env : dict
        For its ranks (kill_ranks.py).
    """

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        folder.mkdir(parents=True)
        self.folder, self._env = folder, env
        self._rests = [""] * RANKS
        self._read = [0] * RANKS
        self.found: dict[tuple[int, int], set[str]] = {}
        self.latest: dict[int, tuple[int, bool]] = {}
        """By rank, its latest step, and whether the state was protected at it."""
        self.furthest = -1
        self.again: list[int] = []
        """Steps done again, by begin of a life."""
        self.start()

    def start(self) -> None:
        """Start all its ranks, for the first time or again."""
        with (self.folder / "output").open("a") as output:
            self.launcher = subprocess.Popen(
                [sys.executable, str(HERE / "launcher.py")],
                cwd=self.folder,
                env={
                    **os.environ,
                    "KILLS_AT": str(self.folder),
                    "RANKS": str(RANKS),
                    "OMP_NUM_THREADS": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                    **self._env,
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        sign(self.folder, "launcher", self.launcher.pid)

    def look(self) -> None:
        """Read what it has said since."""
        for rank in range(RANKS):
            path = self.folder / f"output-{rank}"
            if not path.exists():
                continue
            with path.open(errors="replace") as output:
                output.seek(self._read[rank])
                text = self._rests[rank] + output.read()
                self._read[rank] = output.tell()
            *lines, self._rests[rank] = text.split("\n")
            for line in lines:
                self._hear(rank, line.split(" "))

    def _hear(self, rank: int, words: list[str]) -> None:
        done = self.latest.get(rank, (-1, False))[0]
        if len(words) == 5 and words[0] == "STEP":
            step = int(words[1])
            self.found.setdefault((rank, step), set()).add(" ".join(words[2:4]))
            self.latest[rank] = (step, words[4] == "protected")
            self.furthest = max(self.furthest, step)
        elif len(words) == 3 and words[0] == "BEGINS":
            self.again.append(done + 1 - int(words[2]))

    def waits(self, what: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so; return whether it is."""
        deadline = time.monotonic() + seconds
        while not what():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
            self.look()
        return True

    def is_well(self, after: int) -> bool:
        """Whether all ranks have done a step after that one, protected, and live."""
        there = [self.latest.get(rank, (-1, False)) for rank in range(RANKS)]
        return all(step > after and protected for step, protected in there)

    def wrong(self, right: Steps) -> list[str]:
        """Return what differs from the undisturbed run."""
        wrong = [f"{at}: {sorted(told)}" for at, told in self.found.items() if len(told) > 1]
        wrong += [
            f"{at}: {told} and not {right.get(at)}"
            for at, values in self.found.items()
            for told in values
            if told != right.get(at)
        ]
        return wrong[:4]

    @property
    def missing(self) -> int:
        """How many steps of ranks have not been seen."""
        return RANKS * (self.furthest + 1) - len(self.found)

    def dump(self) -> None:
        """Have all processes write their stacks into their logs."""
        for name in self._names():
            if process := process_of(self.folder, name):
                os.kill(process, signal.SIGUSR1)
        time.sleep(1.0)

    def end(self) -> None:
        """End what is left of it."""
        if self.launcher.poll() is None:
            self.launcher.kill()
        self.launcher.wait()
        for name in self._names():
            if process := process_of(self.folder, name):
                os.kill(process, signal.SIGKILL)

    def _names(self) -> list[str]:
        return [f"{who}-{rank}" for who in ("trainer", "keeper") for rank in range(RANKS)]

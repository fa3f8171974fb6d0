"""Where a process of a training may be told to kill somebody, itself included, at that very place.

The bench leaves an order, a file; whichever process comes to the place that it names takes it, and
kills who is named, before anything else happens there. So a kill hits the phase that it is for, and
not one that a clock made likely.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Order:
    """A kill that is to come.

    Parameters
    ----------
    number : int
        Of the order in its training.
    phase : str
        Where.
    rank : int
        Whose process takes it; -1: the first that comes.
    skip : int
        How often that process comes by before.
    victims : list of str
        ``trainer-2``, ``keeper-0``, ``launcher``.
    """

    number: int
    phase: str
    rank: int
    skip: int
    victims: list[str]

    def leave(self, folder: Path) -> None:
        """Give the order."""
        beside = folder / "order.new"
        beside.write_text(json.dumps(asdict(self)))
        beside.rename(folder / "order")

    def hit(self, folder: Path) -> dict[str, Any] | None:
        """Return where it was done; None: nowhere yet."""
        try:
            return dict(json.loads((folder / f"hit-{self.number}").read_text()))
        except (OSError, ValueError):
            return None

    def take_back(self, folder: Path) -> bool:
        """Return whether it could be taken back before it was done."""
        with contextlib.suppress(OSError):
            (folder / "order").rename(folder / f"missed-{self.number}")
            return True
        return False


class Trap:
    """Of one process.

    Parameters
    ----------
    folder : Path
        Of the training.
    who : str
        ``trainer`` or ``keeper``.
    rank : int
        Its rank.
    """

    def __init__(self, folder: Path, who: str, rank: int) -> None:
        self._folder, self._who, self._rank = folder, who, rank
        self._seen: dict[int, int] = {}

    def sign(self) -> None:
        """Say which process this is."""
        sign(self._folder, f"{self._who}-{self._rank}", os.getpid())

    def at(self, phase: str, detail: object = "") -> None:
        """Do the order that there is for this place, if there is one."""
        try:
            order = Order(**json.loads((self._folder / "order").read_text()))
        except (OSError, ValueError):
            return
        if order.phase != phase or order.rank not in (-1, self._rank):
            return
        self._seen[order.number] = seen = self._seen.get(order.number, 0) + 1
        if seen <= order.skip:
            return
        try:
            (self._folder / "order").rename(self._folder / f"taken-{order.number}")
        except OSError:
            return  # another one was faster
        victims = [process_of(self._folder, name) for name in order.victims]
        told = {"phase": phase, "by": f"{self._who}-{self._rank}", "detail": str(detail)}
        beside = self._folder / "hit.new"
        beside.write_text(json.dumps({**told, "killed": sum(map(bool, victims))}))
        beside.rename(self._folder / f"hit-{order.number}")
        for process in sorted(victims, key=lambda one: one == os.getpid()):
            if process:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def sign(folder: Path, name: str, process: int) -> None:
    """Take note of a process."""
    beside = folder / f"process-{name}.{process}"
    beside.write_text(str(process))
    beside.rename(folder / f"process-{name}")


def process_of(folder: Path, name: str) -> int:
    """Return a process of the training by its name; 0: it does not live."""
    try:
        process = int((folder / f"process-{name}").read_text())
        environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return 0
    return process if f"KILLS_AT={folder}".encode() in environment else 0

"""PyTorch's flight-recorder analyser, and what it found. Needs torch."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.distributed.flight_recorder import fr_trace

TRACE = [sys.executable, "-m", "holdfast.cli", "trace", "--format", "torch"]
ANALYSER = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace"]


@dataclass(frozen=True)
class Analysis:
    """What the analyser said, and the collectives of its data base."""

    text: str
    collectives: list[Any]

    @property
    def wrong(self) -> list[Any]:
        """Those that failed its checks, or that some ranks did not join."""
        return [c for c in self.collectives if not c.pass_check or c.missing_ranks]


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def export(*arguments: str) -> tuple[int, str]:
    """`holdfast trace --format torch`; its status, and what it said."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    done = subprocess.run(
        [*TRACE, *arguments], capture_output=True, text=True, timeout=60, check=False, env=env
    )
    return done.returncode, done.stdout + done.stderr


def analyse(folder: Path) -> Analysis:
    """Let the analyser read a folder, in this process: torch takes seconds to import."""
    out = folder.parent / f"{folder.name}.db"
    lines = _Lines()
    logger = logging.getLogger("Flight Recorder")
    logger.addHandler(lines)
    try:
        fr_trace.main([str(folder), "-o", str(out)])
    finally:
        logger.removeHandler(lines)
        gc.enable()  # the analyser switches it off
    _, data = pickle.loads(out.read_bytes())
    return Analysis("\n".join(lines.lines), data.collectives)


def analyse_as_users_do(folder: Path) -> tuple[int, str]:
    """Let the analyser read a folder, as a command; its status, and what it said."""
    done = subprocess.run(
        [*ANALYSER, str(folder)], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout + done.stderr

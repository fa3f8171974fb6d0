"""An empty virtual environment, and programs that run in it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 600


class Failed(Exception):
    """A step did not do what it must; the text says which and what it said."""


@dataclass(frozen=True)
class Time:
    """Seconds on the wall, and of processors: the second hardly depends on what else runs."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} ({self.cpu:.1f})"


class Clock:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._began = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), used.ru_utime + used.ru_stime

    def read(self) -> Time:
        wall, cpu = self._now()
        return Time(wall - self._began[0], cpu - self._began[1])


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder of its own."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def package(self) -> Path:
        """Where Holdfast is installed."""
        return next(self.folder.glob("lib/python*/site-packages")) / "holdfast"

    @property
    def torch_libraries(self) -> Path:
        return self.package.parent / "torch" / "lib"

    def run(self, *command: str | Path, tools: bool = False, status: int = 0) -> str:
        """Run a program of the environment, and return what it printed.

        Parameters
        ----------
        *command : str or Path
            Without a slash, looked for in the environment alone.
        tools : bool
            The system's programs are found, too; otherwise nothing that compiles is.
        status : int
            The one that it must end with.

        Raises
        ------
        Failed
            With the last lines of its output.
        """
        binaries = str(self.folder / "bin")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        env["PATH"] = f"{binaries}:{os.environ['PATH']}" if tools else binaries
        # A machine's own limits on versions must not choose what is tested.
        env["PIP_CONSTRAINT"] = os.devnull
        done = subprocess.run(
            command, env=env, cwd=self.folder, timeout=LIMIT_S, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        if done.returncode != status:
            last = "\n".join(done.stdout.splitlines()[-12:])
            raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{last}")
        return done.stdout

    def pip(self, *arguments: str | Path) -> Time:
        """Install something; returns how long it took."""
        clock = Clock()
        self.run(self.python, "-m", "pip", "install", "--quiet", *arguments)
        return clock.read()


def create(python: str, folder: Path) -> Environment:
    """Make it, in place of what the folder held."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True, timeout=LIMIT_S)
    return Environment(folder)

"""Launchers of other MPIs: whose ``mpiexec`` one is, and what it needs to start ranks here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Launcher:
    """An MPI's ``mpiexec``.

    Parameters
    ----------
    name : str
        ``openmpi``, ``mpich``, or ``mpi`` where it does not say.
    command : tuple of str
        What ``-n RANKS PROGRAM`` follows.
    """

    name: str
    command: tuple[str, ...]

    @property
    def compiler(self) -> Path:
        """The ``mpicc`` that is installed with it."""
        return Path(self.command[0]).with_name("mpicc")


def find() -> str | None:
    """Return the ``mpiexec`` beside this Python, or else the one on PATH."""
    here = str(Path(sys.executable).parent)
    return shutil.which("mpiexec", path=here) or shutil.which("mpiexec")


def ask(path: str) -> Launcher:
    """Ask an ``mpiexec`` whose it is.

    Raises
    ------
    ConfigError
        When it cannot be run.
    """
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"--mpiexec {path}: {error}") from None
    if "Open MPI" in told or "OpenRTE" in told:
        extra = ["--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            extra.append("--allow-run-as-root")
        return Launcher("openmpi", (path, *extra))
    return Launcher("mpich" if "HYDRA" in told or "MPICH" in told else "mpi", (path,))

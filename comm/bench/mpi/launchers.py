"""Launchers of other MPIs: whose ``mpiexec`` one is, and how it starts ranks here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import ConfigError

# What an ``mpiexec`` is asked: it answers at once, or has none to ask.
_ASK_S = 30.0


@dataclass(frozen=True, slots=True)
class Launcher:
    """An MPI's ``mpiexec``.

    Parameters
    ----------
    name : str
        ``openmpi``, ``mpich``, or ``mpi`` where it does not say.
    path : str
        The launcher.
    settings : tuple of tuple of str
        Options of which now one, now another makes a program faster; the last ones start any
        number of ranks.
    always : tuple of str
        Options that it needs beside them.
    """

    name: str
    path: str
    settings: tuple[tuple[str, ...], ...] = ((),)
    always: tuple[str, ...] = ()

    @property
    def compiler(self) -> Path:
        """The ``mpicc`` that is installed with it."""
        path = Path(self.path)
        return path.with_name(path.name.replace("mpiexec", "mpicc", 1))

    def command(self, setting: tuple[str, ...] | None = None) -> list[str]:
        """Return what ``-n RANKS PROGRAM`` follows; as a rule with the last setting."""
        return [self.path, *self.always, *(self.settings[-1] if setting is None else setting)]

    def starts(self, setting: tuple[str, ...], ranks: int) -> bool:
        """Whether it starts so many ranks here: some settings want a core for each."""
        try:
            done = subprocess.run(
                [*self.command(setting), "-n", str(ranks), "true"],
                capture_output=True,
                timeout=_ASK_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0


def find(name: str = "") -> str | None:
    """Return the ``mpiexec`` beside this Python, or else the one on PATH.

    Parameters
    ----------
    name : str
        Of this MPI; "": of any. Distributions that have several call them ``mpiexec.NAME``.
    """
    here = str(Path(sys.executable).parent)
    paths = [shutil.which("mpiexec", path=here), shutil.which("mpiexec")]
    if name:
        paths.append(shutil.which(f"mpiexec.{name}"))
    return next((path for path in paths if path and (not name or ask(path).name == name)), None)


def ask(path: str) -> Launcher:
    """Ask an ``mpiexec`` whose it is.

    Raises
    ------
    ConfigError
        When it cannot be run.
    """
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_ASK_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"--mpiexec {path}: {error}") from None
    if "Open MPI" in told or "OpenRTE" in told:
        # Ranks that are told that there are more of them than cores give way to each other.
        always = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
        return Launcher("openmpi", path, ((), ("--oversubscribe", "--bind-to", "none")), always)
    if "HYDRA" in told or "MPICH" in told:
        return Launcher("mpich", path, (("-bind-to", "core"), ()))
    return Launcher("mpi", path)

"""C programs of MPI: compiled as their users compile them, and run by Holdfast's command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compilers import compiler
from headers import unpack

from holdfast import _mpi


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def build(abi: str, source: Path, folder: Path) -> Path:
    """Compile a program as its users do; for other MPIs, with their header and our library."""
    made = folder / f"{source.stem}-{abi}"
    if abi == "abi":
        done = command(
            "mpicc", "-std=c11", "-Wall", "-Werror", "-pthread", str(source), "-o", str(made)
        )
        assert done.returncode == 0, done.stderr
    else:
        header = unpack(abi, folder)
        flags = [
            "-std=c11",
            "-w",
            "-pthread",
            f"-I{header.parent}",
            str(source),
            str(_mpi.library(abi)),
        ]
        # The core is no part of what such a program was linked with.
        compiler("cc", *flags, "-Wl,--allow-shlib-undefined", "-o", str(made))
    return made


def build_text(abi: str, text: str, folder: Path) -> Path:
    """Compile a program of this text."""
    source = folder / "program.c"
    source.write_text(text)
    return build(abi, source, folder)

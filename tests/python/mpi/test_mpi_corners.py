"""Corners of the standard that programs rely on: what is in corners.c holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from compilers import needs_compiler
from mpi_programs import build, command

from holdfast import _mpi

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
SOURCE = Path(__file__).with_name("corners.c")


@needs_compiler
@pytest.mark.parametrize(("abi", "ranks"), [("abi", 2), ("mpich", 4), ("openmpi", 3)])
def test_corners_of_the_standard_hold(abi, ranks, tmp_path) -> None:
    done = command("run", "-n", str(ranks), str(build(abi, SOURCE, tmp_path)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"fine {rank} of {ranks}" for rank in range(ranks)]

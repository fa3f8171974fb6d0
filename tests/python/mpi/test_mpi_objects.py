"""Objects that programs make and free leave nothing behind; messages that nobody receives wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from compilers import needs_compiler
from mpi_programs import build, command

from holdfast import _mpi

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
SOURCE = Path(__file__).with_name("many_objects.c")


@needs_compiler
@pytest.mark.parametrize(
    ("abi", "ranks", "objects"),
    [("abi", 2, 10000), ("mpich", 3, 2000), ("openmpi", 2, 2000)],
)
def test_objects_that_are_freed_leave_nothing(abi, ranks, objects, tmp_path) -> None:
    made = build(abi, SOURCE, tmp_path)
    done = command("run", "-n", str(ranks), str(made), str(objects))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"fine {rank} of {ranks}" for rank in range(ranks)]

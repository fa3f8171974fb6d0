"""MPI_THREAD_MULTIPLE: what is in threads.c holds, with time to spare."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from compilers import needs_compiler
from mpi_programs import build, command

from holdfast import _mpi

pytestmark = pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI")
SOURCE = Path(__file__).with_name("threads.c")


@needs_compiler
@pytest.mark.parametrize(("abi", "ranks"), [("abi", 2), ("mpich", 2), ("openmpi", 2), ("abi", 3)])
def test_threads_of_a_rank_talk_at_the_same_time(abi, ranks, tmp_path) -> None:
    made = build(abi, SOURCE, tmp_path)
    start = time.monotonic()
    done = command("run", "-n", str(ranks), str(made))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"fine {rank} of {ranks}" for rank in range(ranks)]
    # Half a second on two cores; a wait that nobody ends in time takes longer than all of it.
    assert time.monotonic() - start < 10

"""Groups of mpi4py's communicators, under a real MPI: the world, a split, a duplicate."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

MPIEXEC = shutil.which("mpiexec", path=Path(sys.executable).parent) or shutil.which("mpiexec")
HAS_MPI = MPIEXEC is not None and importlib.util.find_spec("mpi4py") is not None

# The program's own messages are under way while the ranks meet.
PROGRAM = """
import numpy as np
from mpi4py import MPI
import holdfast

world = MPI.COMM_WORLD
half = world.Split(world.rank % 2, key=-world.rank)
twin = world.Dup()
for comm, name in ((world, "world"), (half, "half"), (twin, "twin")):
    peer = (world.rank + 1) % world.size
    before = (world.rank - 1) % world.size
    sent = world.isend({"from": world.rank}, peer, tag=7)
    with holdfast.from_mpi(comm, name=name) as group:
        assert (group.rank, group.size) == (comm.rank, comm.size)
        data = np.array([world.rank], np.int64)
        group.all_reduce(data)
        assert data[0] == sum(comm.allgather(world.rank)), (name, data)
    assert world.recv(source=before, tag=7) == {"from": before}
    sent.wait()
for wrong, text in ((MPI.COMM_NULL, "COMM_NULL"), (7, "intra-communicator")):
    try:
        holdfast.from_mpi(wrong)
    except holdfast.ConfigError as error:
        assert text in str(error), error
    else:
        raise AssertionError(wrong)
print("GOOD", flush=True)
"""


@pytest.mark.skipif(not HAS_MPI, reason="waits for mpi4py and an mpiexec (the extra dev has both)")
def test_groups_are_made_of_communicators_while_messages_are_under_way(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [str(MPIEXEC), "-n", "3", sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("GOOD") == 3


def test_what_is_no_communicator_is_refused():
    with pytest.raises(holdfast.ConfigError, match="accepted: an intra-communicator"):
        holdfast.from_mpi("world")

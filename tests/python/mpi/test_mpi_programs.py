"""mpi4py programs on our libmpi, by `holdfast run`: packed broadcasts, and the loss of a rank."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from headers import ROOT

from holdfast import _mpi

pytestmark = [
    pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI"),
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="waits for mpi4py"),
]

BROADCAST = """
from mpi4py import MPI
import numpy as np
world = MPI.COMM_WORLD
for root in range(world.size):
    data = np.arange(10.0) if world.rank == root else np.full(10, -1.0)
    even = MPI.DOUBLE.Create_indexed_block(1, [0, 2, 4, 6, 8])
    even.Commit()
    world.Bcast((data, 1, even), root=root)
    even.Free()
    if world.rank != root:
        assert list(data) == [i if i % 2 == 0 else -1 for i in range(10)], data
print("GOOD", flush=True)
"""

ONE_DIES = """
from mpi4py import MPI
import numpy as np, os, signal
world = MPI.COMM_WORLD
world.Set_errhandler(MPI.ERRORS_RETURN)
world.Barrier()
if world.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
"""

LOSS = f"""{ONE_DIES}
try:
    if world.rank == 0:
        world.Recv(np.zeros(1), source=MPI.ANY_SOURCE)
    else:
        world.Allreduce(np.zeros(1), np.zeros(1))
except MPI.Exception as error:
    if error.Get_error_class() == MPI.ERR_PROC_ABORTED:
        print("LOST", flush=True)
os._exit(0)
"""


# By a receive that waits for it, one that is posted later, and a send.
LOST_PEER = f"""{ONE_DIES}
calls = [lambda: world.Recv(np.zeros(1), source=1)]
if world.rank == 0:
    calls = [*calls, lambda: world.Ssend(np.zeros(1), dest=1)]
for call in calls:
    try:
        call()
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_PROC_ABORTED
        print(error.Get_error_string(), flush=True)
os._exit(0)
"""


def run(program: str, ranks: int, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(ranks), "program.py"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_broadcast_packs_at_the_root_and_unpacks_elsewhere(tmp_path):
    done = run(BROADCAST, 3, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("GOOD") == 3


def heat(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program of `make demo-mpi`."""
    program = ROOT / "examples" / "mpi_heat.py"
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "run", "-n", "4", str(program), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_demo_saves_what_the_survivors_have(tmp_path):
    done = heat(tmp_path, "--kill", "2", "--steps", "200", "--out", "out")
    assert done.returncode == 137, done.stderr
    told = re.findall(r"rank (\d): step 100 ended ([\d.]+) ms .*, lost rank 2; saved", done.stdout)
    assert sorted(rank for rank, _ in told) == ["0", "1", "3"], done.stdout
    # Milliseconds, unless the machine does something else.
    assert min(float(after_ms) for _, after_ms in told) < 1000
    assert sorted(path.name for path in (tmp_path / "out").glob("*.npz")) == [
        f"heat-{rank}.npz" for rank in (0, 1, 3)
    ]


def test_the_demo_ends_well_without_a_kill(tmp_path):
    done = heat(tmp_path, "--steps", "200")
    assert done.returncode == 0, done.stderr
    assert "all 200 steps are done; no heat was lost" in done.stdout


def test_a_message_to_a_lost_rank_names_it(tmp_path):
    done = run(LOST_PEER, 3, tmp_path)
    assert done.stdout.count("lost rank 1 of MPI_COMM_WORLD") == 3, done.stdout + done.stderr


def test_survivors_get_an_error_when_a_rank_is_killed(tmp_path):
    done = run(LOSS, 3, tmp_path)
    assert done.stdout.count("LOST") == 2, done.stdout + done.stderr

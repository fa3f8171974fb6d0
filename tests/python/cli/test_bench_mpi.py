"""``holdfast bench --api mpi``: a C program of MPI over Holdfast's library, and over others'."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import _mpi
from holdfast.comm.bench.mpi import launchers

pytestmark = [
    pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="waits for a C compiler"),
]
CASES = {
    *(("barrier", 0), ("dup_free", 0), ("split_free", 0)),
    *((name, size) for name in ("allreduce", "bcast", "alltoall") for size in (8, 4096, 262144)),
    *((name, 4194304) for name in ("allreduce", "bcast", "alltoall")),
}


def bench(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "bench", "--api", "mpi", *arguments],
        env={**os.environ, **({} if path is None else {"PATH": path})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def rows_of(*arguments: str) -> dict[tuple[str, int, str], dict[str, object]]:
    done = bench("-c", "collectives", "--rounds", "1", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(row["ranks"] == 2 and 0 < row["time_us"] <= row["p50_us"] for row in rows)
    return {(row["name"], row["bytes"], row["contestant"]): row for row in rows}


def test_each_case_is_a_row() -> None:
    rows = rows_of("--peers", "none")
    assert set(rows) == {(*case, "holdfast") for case in CASES}
    assert all(row["peer"] is None and row["ratios"] == {} for row in rows.values())


@pytest.mark.skipif(
    launchers.find() is None or not Path(str(launchers.find())).with_name("mpicc").is_file(),
    reason="waits for another MPI with its mpicc: pip install mpich",
)
def test_ratios_are_those_of_the_times() -> None:
    rows = rows_of()
    assert {(name, size) for name, size, _ in rows} == CASES
    for name, size in CASES:
        ours = rows[name, size, "holdfast"]
        (peer,) = ours["ratios"]
        theirs = rows[name, size, peer]
        assert ours["peer"] == peer
        assert ours["ratio"] == pytest.approx(
            theirs["time_us"] / ours["time_us"], rel=0.02, abs=0.001
        )


@pytest.mark.parametrize(
    ("arguments", "path", "told"),
    [
        (["-c", "all_reduce"], None, "messages"),
        (["--mpiexec", "/nonexistent/mpiexec"], None, "/nonexistent/mpiexec"),
        (["--peers", "none"], "/nonexistent", "no cc on PATH"),
    ],
)
def test_what_cannot_be_measured_is_told(arguments, path, told) -> None:
    done = bench("--rounds", "1", *arguments, path=path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr

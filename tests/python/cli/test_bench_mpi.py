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
from holdfast.comm.bench.mpi import launchers, programs
from holdfast.comm.bench.mpi.rows import Row, compare
from holdfast.errors import ConfigError

pytestmark = [
    pytest.mark.skipif(not _mpi.installed(), reason="waits for an installation with MPI"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="waits for a C compiler"),
]
SMALL, OF_HALO, OF_PACK = 8, 32768, 65536
SHAPES = (*(f"vector_{block}" for block in (4, 8, 16, 32, 64)), "records", "gather")
# By the size of a case, and what beside MPI takes part in it.
CASES = {
    **{(name, SMALL): "" for name in ("ping_pong", "bounce", "exchange")},
    **{(name, SMALL): "" for name in ("10000_in_order", "10000_reversed")},
    **{(f"halo_64_axis{axis}", OF_HALO): "hand" for axis in range(3)},
    **{(name, SMALL): "" for name in ("allreduce", "bcast", "alltoall")},
    **{(name, 0): "" for name in ("barrier", "dup_and_free", "split_and_free")},
    **{
        (f"call_{name}", SMALL): "holdfast.h"
        for name in ("allreduce", "bcast", "allgather", "alltoall")
    },
    ("call_barrier", 0): "holdfast.h",
}
PACKING = {
    ("memcpy", OF_PACK): "",
    **{(f"{way}_{shape}", OF_PACK): "hand" for way in ("pack", "unpack") for shape in SHAPES},
}


def bench(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "holdfast.cli",
            "bench",
            "--api",
            "mpi",
            "--rounds",
            "1",
            *arguments,
        ],
        env={**os.environ, **({} if path is None else {"PATH": path})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def rows_of(*arguments: str) -> dict[tuple[str, int, str], dict[str, object]]:
    done = bench("--json", *arguments)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(0 < row["time_us"] <= row["p50_us"] for row in rows)
    return {(row["name"], row["bytes"], row["contestant"]): row for row in rows}


def test_each_case_is_a_row() -> None:
    rows = rows_of("--peers", "none", "-c", "messages,halo,collectives,calls", "--sizes", "8,32K")
    beside = {(*case, f"holdfast/{way}") for case, way in CASES.items() if way}
    assert set(rows) == {(*case, "holdfast") for case in CASES} | beside
    assert {row["ranks"] for row in rows.values()} == {2}
    assert all(row["peer"] is None for row in rows.values())


def test_packing_is_measured_in_one_rank_whatever_the_number() -> None:
    rows = rows_of("--peers", "none", "-c", "pack", "--sizes", "64K", "-n", "2,4")
    beside = {(*case, f"holdfast/{way}") for case, way in PACKING.items() if way}
    assert set(rows) == {(*case, "holdfast") for case in PACKING} | beside
    assert {row["ranks"] for row in rows.values()} == {1}


@pytest.mark.skipif(
    launchers.find() is None or not launchers.ask(str(launchers.find())).compiler.is_file(),
    reason="waits for another MPI with its mpicc: pip install mpich",
)
def test_ratios_are_those_of_the_times() -> None:
    rows = rows_of("--peers", "mpi", "-c", "collectives", "--sizes", "8")
    ours = rows["allreduce", SMALL, "holdfast"]
    (peer,) = ours["ratios"]
    theirs = rows["allreduce", SMALL, peer]
    assert ours["peer"] == peer
    assert ours["ratio"] == pytest.approx(theirs["time_us"] / ours["time_us"], rel=0.02, abs=0.001)
    launcher = launchers.ask(str(launchers.find()))
    assert theirs["options"] in {" ".join(setting) for setting in launcher.settings}


def test_of_a_launchers_options_the_faster_ones_count() -> None:
    theirs, hand, ours = (Row("c", 8, who, 2) for who in ("mpich", "holdfast/hand", "holdfast"))
    theirs.add("-bind-to core", 8.0, 9.0)
    theirs.add("", 6.0, 7.0)
    theirs.add("-bind-to core", 7.0, 8.0)
    hand.add("", 1.0, 1.5)
    ours.add("", 2.0, 2.5)
    assert [row.contestant for row in compare([theirs, hand, ours])][2] == "mpich"
    assert (theirs.setting, theirs.least, theirs.middle) == ("", 6.0, 7.0)
    assert ours.ratios == {"mpich": 3.0, "holdfast/hand": 0.5}
    assert ours.as_json()["peer"] == "mpich"


def launcher(folder: Path, name: str, says: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def test_named_peers_are_those_that_are_measured(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    open_mpi = launcher(tmp_path, "mpiexec.openmpi", "mpiexec (Open MPI) 5.0.11")
    mpich = launcher(tmp_path, "mpiexec", "HYDRA build details:")
    assert [one.path for one in programs.peers_of("openmpi", None)] == [open_mpi]
    assert [one.name for one in programs.peers_of("mpi", None)] == ["mpich"]
    assert [one.name for one in programs.peers_of("all", None)] == ["mpich", "openmpi"]
    assert capsys.readouterr().err == ""
    Path(open_mpi).unlink()
    assert [one.name for one in programs.peers_of("all", None)] == ["mpich"]
    assert "no mpiexec of openmpi" in capsys.readouterr().err
    for given in (None, mpich):
        with pytest.raises(ConfigError, match="no mpiexec of openmpi"):
            programs.peers_of("mpich,openmpi", given)
    with pytest.raises(ConfigError, match="one of each MPI"):
        programs.peers_of("all", f"{mpich},{mpich}")


@pytest.mark.parametrize(
    ("arguments", "path", "told"),
    [
        (["-c", "all_reduce"], None, "messages"),
        (["--mpiexec", "/nonexistent/mpiexec"], None, "/nonexistent/mpiexec"),
        (["--peers", "gloo"], None, "--peers 'gloo' with --api mpi; accepted: all, none, mpi"),
        (["--peers", "none"], "/nonexistent", "no cc on PATH"),
        (["--peers", "none", "-n", "0"], None, "numbers from 1 to 1024"),
        (["--peers", "none", "-c", "messages", "--sizes", "9"], None, "has --sizes 9"),
    ],
)
def test_what_cannot_be_measured_is_told(arguments, path, told) -> None:
    done = bench(*arguments, path=path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr

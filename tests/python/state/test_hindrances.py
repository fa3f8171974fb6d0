"""What is in the way of snapshots: training goes on all the same, and says what it lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from ranks import importing
from test_snapshots import job

# Mounts of its own; as a user other than root, where the system lets anybody be root in there.
_MOUNTS = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
mounts = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*_MOUNTS, "true"], capture_output=True, check=False).returncode != 0,
    reason="waits for a system that lets this user make a mount namespace (unshare -m)",
)


def run(here: Path, function: str, before: list[str] | None = None, **env: str) -> str:
    """Run a program, ``module.function``, in a folder; what it has said."""
    program = f"{importing(function.split('.')[0])}; {function}()"
    named = {"OMP_NUM_THREADS": "1", "HOLDFAST_JOB": f"test-{uuid.uuid4().hex}", **env}
    done = subprocess.run(
        [*(before or []), sys.executable, "-c", program],
        cwd=here,
        env={**os.environ, **named},
        timeout=120,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_all_that_snapshots_do_is_counted(tmp_path: Path) -> None:
    assert "COUNTED" in run(tmp_path, "alone_programs.counts")


def test_a_state_of_more_tensors_than_descriptors_comes_back(tmp_path: Path) -> None:
    assert "RESTORED" in run(tmp_path, "alone_programs.has_few_descriptors")


def test_a_keeper_that_stands_still_costs_one_wait(tmp_path: Path) -> None:
    assert "GOES ON" in run(tmp_path, "alone_programs.stops_its_keeper")


@mounts
def test_a_full_disk_is_said_and_costs_no_step(tmp_path: Path) -> None:
    assert "FLUSHED" in run(tmp_path, "alone_programs.fills_its_disk", _MOUNTS)


@mounts
def test_a_full_shm_is_in_nobodys_way(tmp_path: Path) -> None:
    assert "PROTECTED" in run(tmp_path, "alone_programs.has_little_memory_in_shm", _MOUNTS)


def test_a_keeper_that_stood_still_for_long_has_another_in_its_place(tmp_path: Path) -> None:
    output = job(tmp_path, "stops_one_keeper", module="hindered_ranks", ranks=2, SPREAD="")
    assert output.count("PROTECTED") == 2, output
    assert output.count("stands still") >= 2, output


@pytest.mark.parametrize("what", ["is_refused", "is_anothers"])
def test_what_is_wrong_is_refused_before_a_step(tmp_path: Path, what: str) -> None:
    assert "REFUSED" in run(tmp_path, f"wrong_programs.{what}")


def test_snapshots_and_kills_of_keepers_leave_nothing(tmp_path: Path) -> None:
    """The whole count is by hand: docs/evidence/snapshots.md."""
    program = Path(__file__).resolve().parents[2] / "bench/snapshot_leaks.py"
    done = subprocess.run(
        [sys.executable, str(program), "--snapshots", "60", "--kills", "3"],
        cwd=tmp_path,
        timeout=120,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 kills in" in done.stdout

"""The transport ucx, by UCX's own library; without adapters it goes over TCP here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ranks import finish, run_ranks, segments_of, start_rank
from ucx_library import needs_ucx

UCX = {"HOLDFAST_TRANSPORTS": "ucx", "HOLDFAST_TIMEOUT": "60", "HOLDFAST_CONNECT_TIMEOUT": "60"}


@needs_ucx
@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_collective_at_every_size(size, tmp_path):
    run_ranks("ucx_ranks", "every_size", size, tmp_path, env=UCX)


@needs_ucx
@pytest.mark.parametrize(
    "program", ["many_at_once", "several_groups", "exit_without_close", "signals_stay"]
)
def test_program(program, tmp_path):
    outcomes = run_ranks("ucx_ranks", program, 2, tmp_path, env=UCX, fresh=True)
    assert segments_of(outcomes) == set()
    for outcome in outcomes:
        # Neither its own words nor a crash of its at the end.
        assert "UCX" not in outcome.output, outcome.output


@needs_ucx
def test_shared_memory_inside_hosts_and_ucx_across(tmp_path):
    env = {
        **UCX,
        "HOLDFAST_TRANSPORTS": "shm,ucx",
        "HOLDFAST_ADDRESS": "127.0.0.1",
        "TRANSPORTS": "self,shm,ucx,ucx;shm,self,ucx,ucx;ucx,ucx,self,shm;ucx,ucx,shm,self",
    }
    processes = [
        start_rank("ucx_ranks", "links", r, 4, tmp_path, {**env, "HOLDFAST_HOST_ID": f"h{r // 2}"})
        for r in range(4)
    ]
    for outcome in finish(processes, 100):
        assert outcome.status == 0, outcome.output


@needs_ucx
def test_ranks_that_differ_in_it_are_told_at_the_meeting(tmp_path):
    processes = [
        start_rank("ucx_ranks", "refused", r, 2, tmp_path, {"HOLDFAST_TRANSPORTS": transports})
        for r, transports in enumerate(["shm,ucx", "shm,tcp"])
    ]
    for outcome in finish(processes, 60):
        assert outcome.status == 0, outcome.output
        assert "transports: shm+ucx" in outcome.output
        assert "Set the same on all ranks" in outcome.output


@pytest.fixture
def no_library(tmp_path):
    """An environment in which UCX's library is no library."""
    (tmp_path / "libucp.so.0").write_bytes(b"not a library")
    return {**os.environ, **UCX, "LD_LIBRARY_PATH": str(tmp_path)}


@needs_ucx
def test_a_library_that_cannot_be_opened_is_named(no_library):
    code = "import holdfast; holdfast.init('file:///nowhere/at/all', 0, 1)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=no_library,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    for word in ("ConfigError", "transports", "libucp.so.0", "libucx0"):
        assert word in done.stderr, done.stderr


@needs_ucx
def test_info_says_whether_it_is_there(no_library):
    command = [sys.executable, "-m", "holdfast.cli", "info"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "UCX              on (1." in told
    lacks = subprocess.run(
        command, env=no_library, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert "UCX              off: " in lacks
    assert "libucp.so.0" in lacks


@needs_ucx
def test_the_bench_measures_it():
    done = subprocess.run(
        [
            *(sys.executable, "-m", "holdfast.cli", "bench", "--api", "group", "--peers", "none"),
            *("--transport", "ucx", "--sizes", "4K,1M", "--rounds", "1", "--json"),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("holdfast/ucx") == 2, done.stdout

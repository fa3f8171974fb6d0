"""A rank's forked children neither keep it alive nor have anything that is Holdfast's."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ports import held_port
from ranks import Process, finish, kill, run_ranks, start_rank
from ucx_library import UCX

# Nobody is voted out for silence: only what a kernel says ends a wait.
_NO_HEARTBEATS = {"HOLDFAST_HEARTBEAT": "3600", "HOLDFAST_SILENCE": "36000"}
# From the signal to the end of the first op without the dead. It takes some 10 ms where the
# machine has time.
_AT_ONCE_S = 1.0
# For a whole world: imports of four workers' torch, on a busy machine.
_LIMIT_S = 60.0
_needs_clone = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="waits for the number of clone()"
)


def said(process: Process, what: str) -> Any:
    """Return what a rank says of itself, next."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line.startswith("{") and what in (told := json.loads(line)):
            return told[what]
    raise AssertionError(f"a rank ended before it said {what!r}")


@contextlib.contextmanager
def ended(processes: list[Process], children: list[int]) -> Iterator[None]:
    """Whatever happens, none of them outlives the test; and no rank its time."""

    def end_ranks() -> None:
        for process in processes:
            kill(process)

    limit = threading.Timer(_LIMIT_S, end_ranks)
    limit.start()
    try:
        yield
    finally:
        limit.cancel()
        end_ranks()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def lose_one(way: str, hosts: int, here: Path, **more: str) -> None:
    """Kill rank 0 of two that have children; rank 1, which would wait for ever, goes on at once."""
    env = {"CHILDREN": way, "HOLDFAST_TIMEOUT": "30", **_NO_HEARTBEATS, **more}
    played = [{"HOLDFAST_HOST_ID": f"host{rank}"} if hosts == 2 else {} for rank in range(2)]
    processes = [
        start_rank("fork_ranks", "train", rank, 2, here, {**env, **played[rank]})
        for rank in range(2)
    ]
    children: list[int] = []
    with ended(processes, children):
        for process in processes:
            children += said(process, "children")
        ranks = [said(process, "ready") for process in processes]
        victim = ranks.index(0)
        killed = time.monotonic()
        kill(processes[victim])
        took = said(processes[1 - victim], "recovered") - killed
        (survivor,) = finish([processes[1 - victim]], _LIMIT_S)
        assert survivor.status == 0, survivor.output
        assert took < _AT_ONCE_S, f"{took:.2f} s"
        for child in children if way in ("children", "clones") else ():
            os.kill(child, 0)  # They were there all the time.


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("way", ["fork", "forkserver"])
def test_workers_of_a_data_loader_do_not_keep_a_killed_rank_alive(way, hosts, tmp_path):
    pytest.importorskip("torch", reason="waits for torch")
    lose_one(way, hosts, tmp_path)


@pytest.mark.parametrize("hosts", [1, 2])
def test_children_that_never_end_do_not_keep_a_killed_rank_alive(hosts, tmp_path):
    lose_one("children", hosts, tmp_path)


@_needs_clone
def test_a_host_is_told_of_a_death_whoever_holds_the_dead_ranks_sockets(tmp_path):
    lose_one("clones", 1, tmp_path)


@_needs_clone
def test_peers_that_met_through_a_coordinator_are_told_as_well(tmp_path):
    # A coordinator lets nobody in without heartbeats; silence counts after three of them.
    slow = {"HOLDFAST_HEARTBEAT": "1"}
    address = f"127.0.0.1:{held_port()}"
    coordinator = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "holdfast.cli",
            "coordinator",
            "--address",
            "127.0.0.1",
            "--port",
            address.split(":")[1],
        ],
        env={**os.environ, **slow},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert coordinator.stdout is not None
        assert "listens" in coordinator.stdout.readline()
        lose_one("clones", 1, tmp_path, URL=f"holdfast://{address}", **slow)
    finally:
        coordinator.terminate()
        coordinator.communicate(timeout=10)


@pytest.mark.parametrize("transport", ["shm", "tcp", UCX])
def test_a_forked_child_has_nothing_that_holdfast_opened(transport, tmp_path):
    env = {
        "HOLDFAST_TRANSPORTS": transport,
        "HOLDFAST_HTTP": "127.0.0.1:0",
        "HOLDFAST_FLIGHT_DIR": str(tmp_path),
    }
    run_ranks("fork_ranks", "children_have_nothing", 2, tmp_path, env=env, timeout_s=60)

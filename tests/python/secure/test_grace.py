"""What proves a death where connections are sealed: no packet that anybody could have sent.

Ranks on one machine play hosts by HOLDFAST_HOST_ID, so no kernel tells one of another's end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from coordinators import Coordinator
from leftovers import running
from ranks import Process, finish, importing, kill, run_ranks, start_rank

from holdfast import ConfigError, Options
from holdfast._ends import Witness
from holdfast.cli import main

GRACE_S = 1.5
# Less than `grace` by one heartbeat: a rank may be killed just before it would have spoken.
HEARTBEAT_S = 0.1
# Where nothing is waited for that is longer than a busy machine takes.
SOON_S = 10.0
SEALED = {
    "HOLDFAST_TRANSPORTS": "tcp",
    "HOLDFAST_TIMEOUT": "60",
    "HOLDFAST_HEARTBEAT": str(HEARTBEAT_S),
    "HOLDFAST_GRACE": str(GRACE_S),
    "HOLDFAST_SILENCE": "50",  # counts for nothing
}


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "job.secret"
    assert main(["secret", str(path)]) == 0
    return str(path)


def start_coordinator(here: Path) -> str:
    """Start a coordinator by the environment; return its address."""
    coordinator = Coordinator(here)
    running.append(coordinator.process)
    return coordinator.address


def start_on(hosts: Sequence[str], here: Path, env: dict[str, str]) -> list[Process]:
    """One rank on each of these hosts; they have met when this returns."""
    processes = [
        start_rank(
            *("grace_ranks", "until_one_is_missing", rank, len(hosts), here),
            {**env, "HOLDFAST_HOST_ID": host, "HOLDFAST_ADDRESS": "127.0.0.1"},
        )
        for rank, host in enumerate(hosts)
    ]
    for process in processes:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    return processes


def lose(victim: int, processes: Sequence[Process]) -> float:
    """Kill a rank; return the seconds until the last of the others had its next result."""
    time.sleep(1)
    killed = time.monotonic()
    kill(processes[victim])
    ends = []
    for outcome in finish(processes, 60):
        if outcome.rank == victim:
            continue
        assert outcome.status == 0, outcome.output
        told = json.loads(next(line for line in outcome.output.splitlines() if line[0] == "{"))
        assert told["missing"] == [victim], outcome.output
        ends.append(told["end"])
    return max(ends) - killed


@pytest.mark.parametrize("led", [False, True])
def test_a_rank_that_nobody_saw_end_is_lost_after_grace(
    secret: str, tmp_path: Path, led: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**SEALED, "HOLDFAST_SECRET_FILE": secret}
    if led:
        for name in ("HOLDFAST_SECRET_FILE", "HOLDFAST_GRACE", "HOLDFAST_HEARTBEAT"):
            monkeypatch.setenv(name, env[name])
        env["HOLDFAST_COORDINATOR"] = start_coordinator(tmp_path) + "/job"
    took = lose(1, start_on(["a", "b", "c"], tmp_path, env))
    print(f"{took:.3f} s, of which grace is {GRACE_S} s")
    assert GRACE_S - 2 * HEARTBEAT_S < took < GRACE_S + SOON_S


@pytest.mark.parametrize("led", [False, True])
def test_a_rank_of_the_dead_ones_host_is_believed_at_once(
    secret: str, tmp_path: Path, led: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**SEALED, "HOLDFAST_SECRET_FILE": secret, "HOLDFAST_GRACE": "50"}
    if led:
        for name in ("HOLDFAST_SECRET_FILE", "HOLDFAST_GRACE", "HOLDFAST_HEARTBEAT"):
            monkeypatch.setenv(name, env[name])
        env["HOLDFAST_COORDINATOR"] = start_coordinator(tmp_path) + "/job"
    took = lose(2, start_on(["a", "b", "b", "c"], tmp_path, env))
    print(f"{took * 1e3:.0f} ms")
    assert took < SOON_S


def test_without_a_secret_a_refused_call_is_proof(tmp_path: Path) -> None:
    env = {**SEALED, "HOLDFAST_GRACE": "50"}
    assert lose(1, start_on(["a", "b", "c"], tmp_path, env)) < SOON_S


def test_a_refused_call_in_the_name_of_one_that_lives_is_not_believed(
    secret: str, tmp_path: Path
) -> None:
    env = {
        **SEALED,
        "HOLDFAST_SECRET_FILE": secret,
        "HOLDFAST_GRACE": "50",
        "HOLDFAST_ADDRESS": "127.0.0.1",
    }
    processes = [
        start_rank(
            *("grace_ranks", "reduce_among_refusals", rank, 3, tmp_path),
            {**env, "HOLDFAST_HOST_ID": f"host{rank}"},
        )
        for rank in range(3)
    ]
    for outcome in finish(processes, 60):
        assert outcome.status == 0, outcome.output
        assert '{"live": [0, 1, 2]}' in outcome.output


def test_a_job_that_starts_again_in_its_store_waits_for_grace(secret: str, tmp_path: Path) -> None:
    """That all calls are refused does not show that the life before is over."""
    env = {**SEALED, "HOLDFAST_SECRET_FILE": secret, "HOLDFAST_HOST_ID": "here"}
    first = [start_rank("grace_ranks", "until_one_is_missing", r, 2, tmp_path, env) for r in (0, 1)]
    for process in first:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    for process in first:
        kill(process)
    finish(first, 60)
    began = time.monotonic()
    run_ranks("secure_ranks", "collectives", 2, tmp_path, env=env)
    assert time.monotonic() - began > GRACE_S


def start_launched(host: str, here: Path, env: dict[str, str]) -> Process:
    """Start one rank by `holdfast run`."""
    script = here / "rank.py"
    script.write_text(f"{importing('grace_ranks')}; grace_ranks.until_a_peer_is_missing()\n")
    launcher = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", "run", "-n", "1", str(script)],
        env={**os.environ, **env, "HOLDFAST_HOST_ID": host, "HOLDFAST_ADDRESS": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    running.append(launcher)
    return launcher


def number_of_rank(launcher: Process) -> int:
    assert launcher.stdout is not None
    for line in launcher.stdout:
        if line.startswith("ready "):
            return int(line.split()[1])
    raise AssertionError("the rank did not come in")


def test_a_launcher_is_believed_of_the_rank_that_it_started(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**SEALED, "HOLDFAST_SECRET_FILE": secret, "HOLDFAST_GRACE": "50"}
    for name in ("HOLDFAST_SECRET_FILE", "HOLDFAST_GRACE", "HOLDFAST_HEARTBEAT"):
        monkeypatch.setenv(name, env[name])
    env["URL"] = f"holdfast://{start_coordinator(tmp_path)}/job"
    launchers = [start_launched(host, tmp_path, env) for host in ("a", "b")]
    numbers = [number_of_rank(launcher) for launcher in launchers]
    time.sleep(1)
    killed = time.monotonic()
    os.kill(numbers[0], signal.SIGKILL)
    outcomes = finish(launchers, 60)
    assert outcomes[0].status == 128 + signal.SIGKILL
    assert outcomes[1].status == 0, outcomes[1].output
    told = json.loads(next(line for line in outcomes[1].output.splitlines() if line[0] == "{"))
    print(f"{(told['end'] - killed) * 1e3:.0f} ms")
    assert told["end"] - killed < SOON_S


def test_a_launcher_says_nothing_of_what_its_ranks_have_started(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(SOON_S)
    port = listener.getsockname()[1]
    witness = Witness(tmp_path / "notes")
    assert witness.environment["HOLDFAST_WITNESS"].endswith(f":{tmp_path}/notes")
    for note in ("71-5", "711-6", "71-7.new"):
        (tmp_path / "notes" / note).write_text(f"127.0.0.1 {port}\nnowhere 1\n127.0.0.1 x\n")
    witness.tell(71)
    caller, _ = listener.accept()
    said = b""
    while piece := caller.recv(100):
        said += piece
    assert said[8:16] == (5).to_bytes(8, "little")
    listener.settimeout(0.2)
    with pytest.raises(TimeoutError):
        listener.accept()
    assert sorted(p.name for p in (tmp_path / "notes").iterdir()) == ["71-7.new", "711-6"]


def test_grace_is_three_heartbeats_or_more() -> None:
    with pytest.raises(ConfigError, match=r"option grace = .*; accepted: three heartbeats"):
        Options(heartbeat=1, grace=2.9)
    # Without a secret its default counts for nothing.
    assert Options(heartbeat=10, silence=30).grace == 15


def test_trust_in_resets_beside_a_secret_is_refused(secret: str) -> None:
    with pytest.raises(
        ConfigError, match=r"option trust_resets = .*beside a secret.*accepted: .*none"
    ):
        Options(trust_resets="lan", secret_file=secret)

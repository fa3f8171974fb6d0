"""Coordinators and elastic groups: real processes that join, leave, die and come back."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coordinators import Coordinator
from leftovers import running
from ranks import all_end_well, finish, kill, run_ranks, start_rank
from ucx_library import needs_ucx

import holdfast

ROUNDS = int(os.environ.get("CHURN_ROUNDS", "60"))


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    made = Coordinator(tmp_path)
    yield made
    made.process.terminate()
    made.process.wait(10)


def start(function: str, rank: int, size: int, here: Path, env: dict[str, str]) -> Any:
    running.append(start_rank("elastic_ranks", function, rank, size, here, env))
    return running[-1]


def await_ready(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    seen = ""
    while "ready" not in (line := process.stdout.readline()):
        seen += line
        assert line, f"ended before it was ready\n{seen}"
    return line.split()


def peer(coordinator: Coordinator, here: Path, function: str = "peer", **env: str) -> Any:
    settings = {
        "URL": f"holdfast://{coordinator.address}",
        "MIN_PEERS": "2",
        "HOLDFAST_TIMEOUT": "20",
        "HOLDFAST_CONNECT_TIMEOUT": "20",
        **env,
    }
    return start(function, 0, 1, here, settings)


def stop_and_compare(processes: list[subprocess.Popen[str]], here: Path) -> dict[str, int]:
    (here / "stop").touch()
    outcomes = finish(processes, 40)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.output
    ends = {end_of(outcome.output) for outcome in outcomes}
    assert len(ends) == 1, ends
    end: dict[str, int] = json.loads(ends.pop())
    return end


def end_of(output: str) -> str:
    """What a peer says at its end; the runtime's own lines may come between."""
    found = re.search(r"END (\{[^}]*\})", output)
    assert found, output
    return found[1]


@pytest.mark.parametrize(
    ("transport", "overlap"),
    [("shm", ""), ("tcp", ""), ("tcp", "1"), pytest.param("ucx", "", marks=needs_ucx)],
)
def test_peers_come_and_go(transport, overlap, coordinator, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport, "OVERLAP": overlap}
    first = [peer(coordinator, tmp_path, **env) for _ in range(2)]
    ranks = [await_ready(process)[1] for process in first]
    time.sleep(0.3)
    third = peer(coordinator, tmp_path, **env)
    _, rank, fetched, step = await_ready(third)
    assert (rank, fetched) == ("2", "5"), "every chunk comes from the members"
    assert int(step) > 0
    leaver = peer(coordinator, tmp_path, OWN_STEPS="20", **env)
    assert await_ready(leaver)[1] == "3"
    assert leaver.wait(20) == 0, leaver.communicate()[0]
    time.sleep(0.3)
    kill(first[0])
    time.sleep(0.3)
    # The lowest rank that is free.
    late = peer(coordinator, tmp_path, **env)
    assert await_ready(late)[1] == ranks[0]
    time.sleep(0.3)
    assert stop_and_compare([first[1], third, late], tmp_path)["step"] > 20
    first[0].wait()


def test_a_group_that_grows_shares_memory(coordinator, tmp_path):
    (tmp_path / "flight").mkdir()
    env = {"HOLDFAST_FLIGHT_DIR": str(tmp_path / "flight")}
    peers = [peer(coordinator, tmp_path, **env) for _ in range(2)]
    for process in peers:
        await_ready(process)
    for _ in range(2):
        peers.append(peer(coordinator, tmp_path, **env))
        await_ready(peers[-1])
        time.sleep(0.2)
    kill(peers.pop(0))
    peers.append(peer(coordinator, tmp_path, **env))
    await_ready(peers[-1])
    stop_and_compare(peers, tmp_path)
    records = [holdfast.read_flight(str(p)) for p in (tmp_path / "flight").glob("*.flight")]
    took = {
        (entry["epoch"], entry["path"])
        for record in records
        for entry in record["entries"]
        if entry["bytes"] == 4000 and entry["path"] not in ("none", "repair")
    }
    assert len({epoch for epoch, _ in took}) >= 4, took
    assert {path for _, path in took} == {"flat"}, took


# By chance: a third of such worlds.
def test_who_closes_at_once_takes_no_result_along(coordinator, tmp_path):
    outcomes = finish([peer(coordinator, tmp_path, "close_at_once") for _ in range(3)], 60)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.output
    ends = {end_of(outcome.output) for outcome in outcomes}
    assert ends == {json.dumps({"steps": [10 + world for world in range(8)]})}


def test_all_name_the_same_newcomers(coordinator, tmp_path):
    founders = [peer(coordinator, tmp_path, "agree_who_joined") for _ in range(2)]
    for process in founders:
        await_ready(process)
    late = [peer(coordinator, tmp_path, "agree_who_joined") for _ in range(2)]
    all_end_well(founders + late, 30)


def test_training_outlives_its_coordinator(coordinator, tmp_path):
    peers = [peer(coordinator, tmp_path, MIN_PEERS="3") for _ in range(3)]
    ranks = [await_ready(process)[1] for process in peers]
    coordinator.kill()
    time.sleep(0.5)
    assert all(process.poll() is None for process in peers)
    # A loss waits for a decision, and gets it from the coordinator's next life.
    kill(peers[1])
    time.sleep(0.5)
    coordinator.start()
    late = peer(coordinator, tmp_path)
    assert await_ready(late)[1] == ranks[1]
    time.sleep(0.3)
    assert stop_and_compare([peers[0], peers[2], late], tmp_path)["step"] > 0
    peers[1].wait()


def test_a_job_of_a_fixed_size_may_have_a_coordinator(coordinator, tmp_path):
    env = {"HOLDFAST_COORDINATOR": f"{coordinator.address}/fixed"}

    def run(rank: int) -> subprocess.Popen[str]:
        return start("fixed", rank, 3, tmp_path, env)

    ranks = [run(r) for r in range(3)]
    for process in ranks:
        await_ready(process)
    time.sleep(0.2)
    for victim in (0, 2):
        kill(ranks[victim])
        ranks[victim].wait()
        time.sleep(0.3)
        ranks[victim] = run(victim)
        await_ready(ranks[victim])
    time.sleep(0.2)
    (tmp_path / "stop").touch()
    for outcome in finish(ranks, 40):
        assert outcome.status == 0, outcome.output
        assert "END 7" in outcome.output, outcome.output


def test_a_second_job_of_the_same_name_is_refused(coordinator, tmp_path):
    env = {"HOLDFAST_COORDINATOR": coordinator.address}
    first = [start("fixed", r, 2, tmp_path, env) for r in range(2)]
    for process in first:
        await_ready(process)
    (tmp_path / "other").mkdir()
    second = [start("fixed", r, 2, tmp_path / "other", env) for r in range(2)]
    for outcome in finish(second, 30):
        assert outcome.status != 0
        assert "another job" in outcome.output, outcome.output
    (tmp_path / "stop").touch()
    all_end_well(first, 30)


def test_a_second_coordinator_at_the_same_address_is_refused(coordinator):
    port = coordinator.address.split(":")[1]
    command = ["-m", "holdfast.cli", "coordinator", "--address", "127.0.0.1", "--port", port]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode != 0
    assert "cannot listen" in done.stderr
    assert port in done.stderr


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """Something that listens, and is no coordinator."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    ends = threading.Event()

    def serve() -> None:
        while not ends.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(1)
                connection.recv(65536)
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    ends.set()
    thread.join()
    listener.close()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20, b"", bytes(500)])
def test_an_address_that_answers_with_garbage_is_refused(answer, tmp_path):
    with server(answer) as address:
        env = {"URL": f"holdfast://{address}", "LIMIT": "20"}
        (joined,) = finish([start("join_and_say", 0, 1, tmp_path, env)], 15)
        assert "is no Holdfast coordinator" in joined.output, joined.output
        env = {"HOLDFAST_COORDINATOR": address}
        (fixed,) = finish([start("fixed", 0, 1, tmp_path, env)], 15)
        assert fixed.status != 0
        assert "is no Holdfast coordinator" in fixed.output, fixed.output


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("holdfast://127.0.0.1:1", "no coordinator at 127.0.0.1:1"),
        ("holdfast://no-such-host.invalid:29400", "no-such-host.invalid"),
        ("holdfast://127.0.0.1", "accepted: host:port"),
        ("http://127.0.0.1:29400", "accepted: holdfast://host:port"),
    ],
)
def test_addresses_without_a_coordinator(url, says, tmp_path):
    env = {"URL": url, "LIMIT": "0.5"}
    (told,) = finish([start("join_and_say", 0, 1, tmp_path, env)], 20)
    assert says in told.output, told.output


def test_sync(tmp_path):
    run_ranks("elastic_ranks", "sync_cases", 4, tmp_path)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_sync_while_holders_go_on(transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport}
    run_ranks("elastic_ranks", "sync_overlapped", 3, tmp_path, env=env)


def test_sync_of_torch_tensors(tmp_path):
    run_ranks("elastic_ranks", "sync_torch", 2, tmp_path)


def test_joins_and_leaves_leave_nothing_behind(coordinator, tmp_path):
    """The whole set is `CHURN_ROUNDS=1000`."""
    member = peer(coordinator, tmp_path, "host")
    await_ready(member)
    guest = peer(coordinator, tmp_path, "churn", ROUNDS=str(ROUNDS))
    (outcome,) = finish([guest], 30 + ROUNDS)
    assert outcome.status == 0, outcome.output
    early, late = (
        json.loads(line.removeprefix("HOLDS"))
        for line in outcome.output.splitlines()
        if line.startswith("HOLDS")
    )
    print(early, late)
    assert late["descriptors"] <= early["descriptors"]
    assert late["threads"] <= early["threads"]
    assert late["segments"] <= early["segments"]
    assert late["resident_kb"] <= early["resident_kb"] + 4096 + 8 * ROUNDS


def test_ddp_over_a_group_that_grows(coordinator, tmp_path):
    pytest.importorskip("torch", reason="waits for torch: DDP is its own")
    peers = [peer(coordinator, tmp_path, "ddp") for _ in range(2)]
    for process in peers:
        await_ready(process)
    peers.append(peer(coordinator, tmp_path, "ddp"))
    outcomes = finish(peers, 60)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.output
    ends = {end_of(outcome.output) for outcome in outcomes}
    assert len(ends) == 1, ends
    assert '"size": 3' in ends.pop()


def test_arguments_of_join_that_cannot_be_used():
    for arguments, error, says in (
        ({"min_peers": 0}, holdfast.ConfigError, "min_peers = 0"),
        ({"token": "secret"}, holdfast.ConfigError, "this is no token"),
    ):
        with pytest.raises(error, match=says):
            holdfast.join("holdfast://127.0.0.1:29400", **arguments)

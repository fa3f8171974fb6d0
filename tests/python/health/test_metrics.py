"""Metrics, health pages and flight records of real ranks: they say what happened."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from health_jobs import Prometheus
from health_ranks import await_file, page, scrape, total
from ranks import finish, kill, run_ranks, start_rank
from ucx_library import UCX
from waiting import eventually

import holdfast

HTTP = {"HOLDFAST_HTTP": "127.0.0.1:0"}
WAIT_S = 30.0


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test that fails does not leave behind."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            kill(process)
            process.communicate()


def start_world(
    function: str, size: int, here: Path, started: list[subprocess.Popen[str]], **env: str
) -> list[subprocess.Popen[str]]:
    ranks = [
        start_rank("health_ranks", function, r, size, here, {**HTTP, **env}) for r in range(size)
    ]
    started.extend(ranks)
    return ranks


def addresses(here: Path, size: int) -> list[str]:
    for rank in range(size):
        await_file(here / f"http.{rank}")
    return [(here / f"http.{rank}").read_text() for rank in range(size)]


def succeed(ranks: list[subprocess.Popen[str]], but: tuple[int, ...] = ()) -> list[str]:
    outcomes = finish(ranks, 60)
    for outcome in outcomes:
        assert outcome.rank in but or outcome.status == 0, outcome.output
    return [outcome.output for outcome in outcomes]


@pytest.mark.parametrize("transports", ["shm,tcp", "tcp", UCX])
def test_the_numbers_are_what_happened(transports: str, tmp_path: Path) -> None:
    run_ranks(
        "health_ranks", "counts", 3, tmp_path, env={**HTTP, "HOLDFAST_TRANSPORTS": transports}
    )


@pytest.mark.parametrize(
    "function", ["ready", "wait_for_one", "wait_for_a_message", "fail_an_op", "see_one_leave"]
)
def test_two_ranks_see_themselves(function: str, tmp_path: Path) -> None:
    run_ranks("health_ranks", function, 2, tmp_path, env=HTTP)


def test_a_sync_is_counted_in_bytes_of_the_state(tmp_path: Path) -> None:
    run_ranks("metrics_ranks", "sync_a_state", 3, tmp_path, env=HTTP)


def test_operators_see_by_which_map_a_group_plans(tmp_path: Path) -> None:
    run_ranks("metrics_ranks", "show_maps", 2, tmp_path, env=HTTP)


@pytest.mark.parametrize(
    "function", ["send_coded", "look_at_residuals_now_and_then", "hide_communication"]
)
def test_two_ranks_know_what_they_save_and_hide(function: str, tmp_path: Path) -> None:
    run_ranks("metrics_ranks", function, 2, tmp_path, env=HTTP)


@pytest.mark.parametrize("function", ["reduce_gradients", "train_under_ddp"])
def test_two_ranks_know_what_torch_saves_and_hides(function: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="waits for torch: reducers and DDP are made of it")
    run_ranks("metrics_torch_ranks", function, 2, tmp_path, env=HTTP)


@pytest.mark.parametrize("transports", ["shm,tcp", "tcp", UCX])
def test_a_loss_is_counted_once_and_by_its_cause(
    transports: str, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    ranks = start_world("lose_a_rank", 3, tmp_path, started, HOLDFAST_TRANSPORTS=transports)
    succeed(ranks, but=(1,))
    assert ranks[1].returncode == -signal.SIGKILL


def test_pages_are_served_while_the_interpreter_is_stuck(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    ranks = start_world("hold_the_interpreter", 2, tmp_path, started)
    where = addresses(tmp_path, 2)
    (tmp_path / "go").touch()
    answers = 0
    while not (tmp_path / "over.0").exists():
        assert page(where[0], "/healthz", timeout_s=2) == (200, "ok\n")
        assert scrape(where[0])["holdfast_members"] == 2
        answers += not (tmp_path / "over.0").exists()
        time.sleep(0.05)
    assert answers > 5
    succeed(ranks)


def attack(address: str, seconds: float) -> int:
    """A thousand connections of clients that mean no good; how many were opened."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + seconds
    held: list[socket.socket] = []
    words = [b"", b"GET / HT", b"\x16\x03\x01\x00", b"A" * 9000, b"GET /metrics HTTP/1.1\r\n\r\n"]
    opened = 0
    try:
        while time.monotonic() < until or opened < 1000:
            client = socket.create_connection((host, int(port)), 10)
            opened += 1
            held.append(client)
            with contextlib.suppress(OSError):  # hung up on, as it should be
                client.sendall(words[opened % len(words)])
            if len(held) > 200:
                held.pop(0).close()
            assert opened < 100_000
    finally:
        for client in held:
            client.close()
    return opened


def test_hostile_clients_stop_neither_collectives_nor_pages(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    ranks = start_world("run_until_stopped", 2, tmp_path, started)
    where = addresses(tmp_path, 2)
    opened: list[int] = []
    attackers = [threading.Thread(target=lambda a=a: opened.append(attack(a, 2))) for a in where]
    before = total(scrape(where[0]), "holdfast_ops_total")
    for attacker in attackers:
        attacker.start()
    while any(attacker.is_alive() for attacker in attackers):
        for address in where:
            assert page(address, "/healthz", timeout_s=10)[0] == 200
    for attacker in attackers:
        attacker.join()
    assert len(opened) == 2
    during = total(scrape(where[0]), "holdfast_ops_total") - before
    (tmp_path / "stop").touch()
    steps = [int(re.findall(r"STEPS (\d+)", output)[0]) for output in succeed(ranks)]
    assert min(opened) >= 1000
    assert during > 20, f"{during} ops under attack, {steps} in all"


def test_flight_records_outlive_kill_9(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    folder = tmp_path / "flight"
    folder.mkdir()
    ranks = start_world("die_in_an_op", 2, tmp_path, started, HOLDFAST_FLIGHT_DIR=str(folder))
    ranks[1].wait(WAIT_S)
    assert ranks[1].returncode == -signal.SIGKILL
    (dead,) = folder.glob(f"holdfast-{ranks[1].pid}-*.flight")
    log = holdfast.read_flight(str(dead))
    assert (log["pid"], log["rank"]) == (ranks[1].pid, 1)
    assert (log["torn"], log["damaged"], log["truncated"]) == (0, 0, False)
    last = log["entries"][-1]
    assert last["collective"] == "all_reduce"
    assert last["bytes"] == 200_000
    assert (last["state"], last["waited_for"]) == ("started", [0])
    assert last["sequence"] == 5
    assert [e["state"] for e in log["entries"][:-1]] == ["ended"] * 5
    assert all(e["enqueued_ns"] <= e["started_ns"] < e["ended_ns"] for e in log["entries"][:-1])
    seconds = (last["started_ns"] + log["wall_offset_ns"]) / 1e9
    assert abs(seconds - time.time()) < 3600
    # The other rank never called it.
    (tmp_path / "stop").touch()
    ranks[0].communicate(timeout=WAIT_S)
    other = holdfast.read_flight(str(tmp_path / "rank0.flight"))
    assert other["rank"] == 0
    assert [e["sequence"] for e in other["entries"]] == [0, 1, 2, 3, 4]
    assert set(other["groups"]) == set(log["groups"])


def test_a_flight_record_that_is_cut_or_none_is_reported(tmp_path: Path) -> None:
    nothing = tmp_path / "empty"
    nothing.write_bytes(b"")
    with pytest.raises(holdfast.ProtocolError, match="no flight record"):
        holdfast.read_flight(str(nothing))
    other = tmp_path / "other"
    other.write_bytes(b"x" * 10_000)
    with pytest.raises(holdfast.ProtocolError, match="HLDFGHT1"):
        holdfast.read_flight(str(other))
    with pytest.raises(FileNotFoundError):
        holdfast.read_flight(str(tmp_path / "missing"))


@pytest.mark.parametrize("value", ["example.org:80", "127.0.0.1:65536", "nonsense"])
def test_an_address_that_cannot_be_used_is_refused(value: str) -> None:
    with pytest.raises(holdfast.ConfigError, match="option http"):
        holdfast.Options(http=value)


# ---- the coordinator, and a real Prometheus ------------------------------------------------------


@pytest.fixture
def coordinator(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> Callable[[], tuple[str, str]]:
    """Starts a coordinator; where its members and its readers reach it."""
    listens = ["--address", "127.0.0.1", "--http", "127.0.0.1:0"]

    def start() -> tuple[str, str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", "coordinator", "--port", "0", *listens],
            stdout=subprocess.PIPE,
            stderr=(tmp_path / "coordinator.log").open("a"),
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        port = re.search(r"port (\d+)", process.stdout.readline())
        pages = re.search(r"http://(\S+)", process.stdout.readline())
        assert port is not None
        assert pages is not None
        return f"127.0.0.1:{port[1]}", pages[1]

    return start


def targets(pages: str) -> list[dict[str, Any]]:
    status, text = page(pages, "/targets")
    assert status == 200, text
    found: list[dict[str, Any]] = json.loads(text)
    return found


def test_a_coordinator_tells_who_is_scraped_where(
    coordinator: Callable[[], tuple[str, str]],
    tmp_path: Path,
    started: list[subprocess.Popen[str]],
) -> None:
    address, pages = coordinator()
    assert targets(pages) == [{"targets": [pages], "labels": {"role": "coordinator"}}]
    env = {"HOLDFAST_COORDINATOR": f"{address}/job"}
    ranks = start_world("run_until_stopped", 3, tmp_path, started, **env)
    where = addresses(tmp_path, 3)
    world = eventually(lambda: t if len(t := targets(pages)[1:]) == 3 else None)
    assert [t["targets"] for t in world] == [[a] for a in where]
    assert [t["labels"]["rank"] for t in world] == ["0", "1", "2"]
    (name,) = {t["labels"]["world"] for t in world}
    assert name.startswith("job/")
    assert scrape(pages)[f'holdfast_coordinator_members{{world="{name}"}}'] == 3
    kill(ranks[2])
    left = eventually(lambda: t if len(t := targets(pages)[1:]) == 2 else None)
    assert [t["labels"]["rank"] for t in left] == ["0", "1"]
    metrics = eventually(
        lambda: (
            m if (m := scrape(pages))[f'holdfast_coordinator_epoch{{world="{name}"}}'] == 2 else 0
        )
    )
    assert metrics[f'holdfast_coordinator_ranks{{world="{name}"}}'] == 3
    assert page(pages, "/healthz") == page(pages, "/readyz") == (200, "ok\n")
    (tmp_path / "stop").touch()
    succeed(ranks, but=(2,))


def test_a_peer_that_joins_is_counted(
    coordinator: Callable[[], tuple[str, str]],
    tmp_path: Path,
    started: list[subprocess.Popen[str]],
) -> None:
    address, pages = coordinator()
    env = {"URL": f"holdfast://{address}/grows"}
    peers = start_world("grow", 1, tmp_path, started, **env)
    (first,) = addresses(tmp_path, 1)
    assert scrape(first)["holdfast_joins_total"] == 0
    peers += start_world("grow", 1, tmp_path, started, **env)
    second = addresses(tmp_path, 2)[1]
    eventually(lambda: scrape(first)["holdfast_joins_total"] == 1)
    assert scrape(first)["holdfast_members"] == scrape(second)["holdfast_members"] == 2
    eventually(lambda: [t["targets"] for t in targets(pages)[1:]] == [[first], [second]])
    (tmp_path / "stop").touch()
    succeed(peers)


@pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="no prometheus here (Debian package prometheus)"
)
def test_a_real_prometheus_finds_all_ranks_and_knows_what_happened(
    coordinator: Callable[[], tuple[str, str]],
    tmp_path: Path,
    started: list[subprocess.Popen[str]],
) -> None:
    address, pages = coordinator()
    env = {"HOLDFAST_COORDINATOR": f"{address}/job"}
    ranks = start_world("run_until_stopped", 4, tmp_path, started, **env)
    where = addresses(tmp_path, 4)
    prometheus = Prometheus(tmp_path, pages)
    started.append(prometheus.process)
    everybody = {"0": 4.0, "1": 4.0, "2": 4.0, "3": 4.0}
    eventually(lambda: prometheus.query("holdfast_members") == everybody)
    up = eventually(lambda: v if len(v := prometheus.query("up")) == 5 else None)
    assert set(up.values()) == {1.0}, prometheus.log.read_text()
    # The server has seen some of what the ranks themselves say by now.
    before = total(scrape(where[0]), "holdfast_ops_total", "all_reduce")
    eventually(
        lambda: (
            prometheus.query('sum by (rank) (holdfast_ops_total{collective="all_reduce"})').get(
                "0", 0
            )
            >= before
        )
    )
    assert before <= total(scrape(where[0]), "holdfast_ops_total", "all_reduce")
    quantile = "histogram_quantile(0.5, rate(holdfast_op_duration_seconds_bucket[5s]))"
    median = eventually(lambda: prometheus.query(quantile).get("0", 0))
    assert 1e-6 < median < 10
    # Every op of theirs blocks.
    exposed, active = (f"rate(holdfast_op_{n}_seconds_total[5s])" for n in ("exposed", "active"))
    hidden = eventually(
        lambda: h if len(h := prometheus.query(f"1 - {exposed} / {active}")) == 4 else None
    )
    assert all(-0.01 < share < 0.2 for share in hidden.values()), hidden
    examples = eventually(
        lambda: prometheus.ask(
            "/api/v1/query_exemplars",
            query="holdfast_op_duration_seconds_bucket",
            start=str(time.time() - 60),
            end=str(time.time() + 60),
        )
    )
    assert all(re.fullmatch(r"[0-9a-f]+:\d+", e["labels"]["op"]) for e in examples[0]["exemplars"])
    kill(ranks[3])
    died = 'holdfast_losses_total{cause="died"} == 1'
    eventually(lambda: set(prometheus.query(died)) >= {"0", "1", "2"})
    eventually(lambda: prometheus.query("holdfast_members") == {"0": 3.0, "1": 3.0, "2": 3.0})
    (tmp_path / "stop").touch()
    succeed(ranks, but=(3,))

"""What ranks do in the tests of metrics, health pages and flight records."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np

import holdfast
from holdfast import _layer_metrics
from holdfast.comm.group import Group

WAIT_S = 30.0
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"


def page(address: str, path: str, accept: str = "", timeout_s: float = 10) -> tuple[int, str]:
    """Status and text of one of a process's pages."""
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text: str) -> dict[str, float]:
    """Every sample of a scrape, by its name with labels."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r"([a-z_]+(?:\{[^}]*\})?) (\S+)(?: # \{[^}]*\} \S+ \S+)?", line)
        assert match, line
        assert match[1] not in found, f"twice: {line}"
        found[match[1]] = float(match[2])
    return found


def scrape(address: str, accept: str = "") -> dict[str, float]:
    """What /metrics says, by name and labels."""
    status, text = page(address, "/metrics", accept)
    assert status == 200, text
    return samples(text)


def total(metrics: dict[str, float], name: str, *labels: str) -> float:
    """The sum of all samples of that name that have these labels."""
    return sum(
        value
        for key, value in metrics.items()
        if key.partition("{")[0] == name and all(label in key for label in labels)
    )


def await_file(path: Path) -> None:
    """Wait until a file is there."""
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.005)


def announce(group: Group) -> None:
    """Tell the test where this rank's pages are."""
    draft = Path(f"draft.{group.rank}")
    draft.write_text(group.http_address)
    draft.rename(f"http.{group.rank}")


def counts() -> None:
    """Every number is what this rank has just done."""
    with holdfast.init() as group:
        before = scrape(group.http_address)
        small = np.ones(100, np.float32)
        large = np.ones(1_000_000, np.float32)
        for _ in range(10):
            group.all_reduce(small)
        for _ in range(3):
            group.broadcast(large)
        work = group.all_reduce(large, async_op=True)
        assert work is not None
        work.wait()
        group.barrier()
        if group.rank == 0:
            group.send(small, 1)
        elif group.rank == 1:
            group.recv(small, 0)
        after = scrape(group.http_address, OPENMETRICS)

        def grown(name: str, *labels: str) -> float:
            return total(after, name, *labels) - total(before, name, *labels)

        reduce, broadcast = 'collective="all_reduce"', 'collective="broadcast"'
        assert grown("holdfast_ops_total", reduce) == 11
        assert grown("holdfast_ops_total", broadcast) == 3
        assert grown("holdfast_ops_total", 'collective="barrier"') == 1
        assert grown("holdfast_op_bytes_total", reduce) == 10 * 400 + 4_000_000
        assert grown("holdfast_op_bytes_total", broadcast) == 12_000_000
        assert grown("holdfast_op_duration_seconds_count", reduce) == 11
        assert grown("holdfast_op_duration_seconds_bucket", reduce, 'le="+Inf"') == 11
        assert 0 < grown("holdfast_op_duration_seconds_sum", reduce) < 60
        messages = (grown("holdfast_ops_total", "send"), grown("holdfast_ops_total", "recv"))
        assert messages == {0: (1, 0), 1: (0, 1)}.get(group.rank, (0, 0))
        assert total(after, "holdfast_ops_failed_total") == 0
        assert after["holdfast_queue_depth"] == 0
        assert after["holdfast_epoch"] == 1
        assert after["holdfast_members"] == group.size
        assert after["holdfast_rank"] == group.rank
        version = f'version="{holdfast.__version__}"'
        assert total(after, "holdfast_build_info", version) == 1
        if os.environ["HOLDFAST_TRANSPORTS"] == "tcp":
            peer = f'peer="{(group.rank + 1) % group.size}"'
            assert total(after, "holdfast_link_bytes_total", peer, "sent", "tcp") > 1_000_000
            # The kernel is asked with every heartbeat.
            deadline = time.monotonic() + WAIT_S
            for name in ("holdfast_link_rtt_seconds", "holdfast_link_least_rtt_seconds"):
                while not total(scrape(group.http_address), name, peer):
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
        text = page(group.http_address, "/metrics", OPENMETRICS)[1]
        assert text.endswith("# EOF\n")
        # The group's id and the op's number lead from a bucket to the flight record.
        example = re.search(rf'bucket\{{{reduce}.* # \{{op="([0-9a-f]+):(\d+)"\}}', text)
        assert example, text
        entries = group.flight()["entries"]
        found = [e for e in entries if e["sequence"] == int(example[2])]
        assert int(example[1], 16) in [int(e["group"], 16) for e in found]
        assert len(entries) == group.flight()["ops"]
        group.barrier()


def ready() -> None:
    """Ready in a group, not outside of one, and not any more after it."""
    with holdfast.init() as group:
        address = group.http_address
        assert page(address, "/healthz") == (200, "ok\n")
        assert page(address, "/readyz") == (200, "ok\n")
        assert page(address, "/nowhere")[0] == 404
        group.barrier()
    assert page(address, "/healthz") == (200, "ok\n")
    status, why = page(address, "/readyz")
    assert (status, why) == (503, "in no group yet\n")


def lose_a_rank() -> None:
    """Rank 1 dies in the middle of an op; the others count one loss and one repaired op."""
    group = holdfast.init()
    if group.rank == 1:
        group.all_reduce(np.ones(10, np.float32))
        os.kill(os.getpid(), signal.SIGKILL)
    group.all_reduce(np.ones(10, np.float32))
    array = np.ones(1_000_000, np.float32)
    group.all_reduce(array)
    assert array[0] == 2
    metrics = scrape(group.http_address)
    # The other one's word may come before this one's own connection has ended.
    deadline = time.monotonic() + 10
    while total(metrics, "holdfast_losses_total") == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        metrics = scrape(group.http_address)
    assert metrics['holdfast_losses_total{cause="died"}'] == 1
    assert total(metrics, "holdfast_losses_total") == 1
    assert metrics["holdfast_epoch"] == 2
    assert metrics["holdfast_members"] == 2
    assert metrics["holdfast_recovery_seconds_count"] == 1
    assert 0 < metrics["holdfast_recovery_seconds_sum"] < 10
    assert group.outcome is not None
    assert metrics["holdfast_repairs_total"] == group.outcome.retried
    assert page(group.http_address, "/readyz") == (200, "ok\n")
    last = group.flight()["entries"][-1]
    assert last["epoch"] in (1, 2)
    assert (last["state"], last["code"]) == ("ended", "ok")
    group.barrier()
    group.close()


def wait_for_one() -> None:
    """Rank 1 comes late; rank 0 counts the time it waited for it, and its record says for whom."""
    with holdfast.init() as group:
        array = np.ones(100_000, np.float32)
        group.all_reduce(array)
        if group.rank == 0:
            work = group.all_reduce(array, async_op=True)
            deadline = time.monotonic() + WAIT_S
            while group.flight()["entries"][-1]["waited_for"] != [1]:
                assert time.monotonic() < deadline, group.flight()["entries"][-1]
                time.sleep(0.005)
            metrics = scrape(group.http_address)
            assert metrics["holdfast_queue_depth"] == 1
            time.sleep(0.2)
            Path("waited").touch()
            assert work is not None
            work.wait()
            metrics = scrape(group.http_address)
            assert 0.15 < metrics['holdfast_peer_wait_seconds_total{peer="1"}'] < WAIT_S
        else:
            await_file(Path("waited"))
            group.all_reduce(array)
        group.barrier()


def wait_for_a_message() -> None:
    """Rank 0 receives what rank 1 sends late, and counts the time that it waited for it."""
    with holdfast.init() as group:
        array = np.ones(10, np.float32)
        if group.rank == 0:
            work = group.recv(array, 1, async_op=True)
            assert work is not None
            deadline = time.monotonic() + WAIT_S
            while not total(scrape(group.http_address), "holdfast_peer_wait_seconds_total"):
                assert time.monotonic() < deadline
                time.sleep(0.005)
            Path("waited").touch()
            work.wait()
            last = group.flight()["entries"][-1]
            assert (last["collective"], last["path"], last["waited_for"]) == (
                "recv",
                "message",
                [1],
            )
        else:
            await_file(Path("waited"))
            group.send(array, 0)
        group.barrier()


def see_one_leave() -> None:
    """Rank 1 leaves: the others lose it, by its own will."""
    group = holdfast.init()
    group.all_reduce(np.ones(10, np.float32))
    if group.rank == 1:
        group.leave()
        return
    group.all_reduce(np.ones(10, np.float32))
    metrics = scrape(group.http_address)
    assert metrics['holdfast_losses_total{cause="left"}'] == 1
    assert total(metrics, "holdfast_losses_total") == 1
    group.barrier()
    group.close()


def grow() -> None:
    """A peer of an elastic group passes step boundaries until a file says stop."""
    with holdfast.join(os.environ["URL"], min_peers=1) as group:
        announce(group)
        stop = False
        while not stop:
            group.advance()
            flag = np.array([Path("stop").exists()], np.int32)
            group.all_reduce(flag, op="max")
            stop = bool(flag[0])


def fail_an_op() -> None:
    """An op that rank 1 never calls fails in time, and is counted by its cause."""
    group = holdfast.init()
    try:
        if group.rank == 0:
            try:
                group.all_reduce(np.ones(100_000, np.float32), timeout=0.3)
            except holdfast.Timeout:
                pass
            else:
                raise AssertionError("it ended")
            metrics = scrape(group.http_address)
            assert metrics['holdfast_ops_failed_total{cause="Timeout"}'] == 1
            last = group.flight()["entries"][-1]
            assert (last["state"], last["code"]) == ("ended", "Timeout")
            assert last["waited_for"] == [1]
            assert page(group.http_address, "/readyz") == (503, "the group has failed\n")
            Path("failed").touch()
        else:
            await_file(Path("failed"))
    finally:
        group.close()


def hold_the_interpreter() -> None:
    """A thread that does not let go of the interpreter's lock keeps no page from being served."""
    with holdfast.init() as group:
        group.all_reduce(np.ones(10, np.float32))
        announce(group)
        await_file(Path("go"))
        ctypes.PyDLL(None).sleep(3)  # holds the lock, unlike CDLL
        Path(f"over.{group.rank}").touch()
        group.barrier()


def run_until_stopped() -> None:
    """All-reduce until a file says stop; every sum that all contributed to must be right."""
    with holdfast.init() as group:
        announce(group)
        array = np.empty(20_000, np.float32)
        steps = 0
        stop = False
        while not stop:
            array[:] = group.rank
            group.all_reduce(array)
            if group.outcome is not None and not group.outcome.missing:
                assert array[0] == array[-1] == group.size * (group.size - 1) / 2
            steps += 1
            flag = np.array([Path("stop").exists()], np.int32)
            group.all_reduce(flag, op="max")
            stop = bool(flag[0])
        print("STEPS", steps, flush=True)


def work_and_rest() -> None:
    """Thirty ops for which all wait for the last rank; then nothing more is counted, until told."""
    with holdfast.init() as group:
        announce(group)
        array = np.ones(50_000, np.float32)
        for _ in range(30):
            if group.rank == group.size - 1:
                time.sleep(0.02)
            group.all_reduce(array)
        Path(f"rests.{group.rank}").touch()
        await_file(Path("stop"))


def work_until_stopped() -> None:
    """All-reduce until told, without a word of its own; the last rank is late for each.

    By more than a busy machine makes the others late: it is the one that is waited for.
    """
    with holdfast.init() as group:
        announce(group)
        if group.rank == 0 and (why := os.environ.get("UNPROTECTED")):
            _layer_metrics.reach_state(False, 7, 12.0)
            _layer_metrics.expose_state(why, 40.0)
        array = np.ones(50_000, np.float32)
        while True:
            if group.rank == group.size - 1:
                time.sleep(0.2)
            flag = np.array([Path("stop").exists()], np.int32)
            group.all_reduce(flag, op="max")
            if flag[0]:
                return
            group.all_reduce(array)


def collect() -> None:
    """A registry says what the page says, histograms and exemplars too."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

    from holdfast.ft.health.collector import HoldfastCollector

    registry = CollectorRegistry()
    registry.register(HoldfastCollector())
    assert generate_latest(registry) == b""
    with holdfast.init() as group:
        for _ in range(5):
            group.all_reduce(np.ones(10, np.float32))
        found = samples(generate_latest(registry).decode())
        told = scrape(group.http_address)
        same = {"holdfast_ops_total", "holdfast_op_bytes_total", "holdfast_op_duration_seconds_sum"}
        for name in same:
            assert total(found, name) == total(told, name) > 0, name
        assert found["holdfast_members"] == 2
        assert 'holdfast_op_duration_seconds_bucket{collective="all_reduce",le="+Inf"}' in found
        assert " # {op=" in generate_openmetrics(registry).decode()
        group.barrier()


def publish() -> None:
    """Write metrics to a folder until told to stop."""
    from holdfast.ft.health.collector import Publisher

    with holdfast.init() as group:
        for _ in range(3):
            group.all_reduce(np.ones(10, np.float32))
        with Publisher(os.environ["FOLDER"], interval_s=0.1):
            Path(f"published.{group.rank}").touch()
            await_file(Path("stop"))
        group.barrier()


def push_at_the_end() -> None:
    """Tell a gateway of seven ops."""
    from holdfast.ft.health.collector import push

    with holdfast.init() as group:
        for _ in range(7):
            group.all_reduce(np.ones(10, np.float32))
        push(os.environ["GATEWAY"], "short", group.rank)
        group.barrier()


def collect_in_a_child() -> None:
    """A forked child collects nothing, and does not hang."""
    from holdfast.ft.health.collector import HoldfastCollector

    with holdfast.init() as group:
        group.all_reduce(np.ones(10, np.float32))
        assert list(HoldfastCollector().collect())
        child = os.fork()
        if child == 0:
            Path("child").write_text(str(len(list(HoldfastCollector().collect()))))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def die_in_an_op() -> None:
    """Rank 1 dies while it waits for rank 0, which never calls."""
    group = holdfast.init()
    for _ in range(5):
        group.all_reduce(np.ones(10, np.float32))
    if group.rank == 1:
        group.all_reduce(np.ones(50_000, np.float32), async_op=True)
        deadline = time.monotonic() + WAIT_S
        # The op before it may have waited for rank 0 as well, on a busy machine.
        while True:
            last = group.flight()["entries"][-1]
            if (last["bytes"], last["waited_for"]) == (200_000, [0]):
                break
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGKILL)
    group.dump_flight("rank0.flight")
    await_file(Path("stop"))
    group.close()

"""Holdfast's numbers in a registry of prometheus_client, in its multi-process mode, and pushed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_ranks import page, samples
from ports import held_port
from ranks import finish, kill, run_ranks, start_rank
from waiting import WAIT_S, eventually

import holdfast

pytest.importorskip("prometheus_client", reason="no prometheus_client here (extra prometheus)")

from prometheus_client import CollectorRegistry, Counter, generate_latest

from holdfast.ft.health.collector import HoldfastCollector, Publisher, push, remove_pushed


def test_a_registry_tells_what_the_page_tells(tmp_path: Path) -> None:
    run_ranks("health_ranks", "collect", 2, tmp_path, env={"HOLDFAST_HTTP": "127.0.0.1:0"})


def test_a_process_without_groups_has_nothing_to_tell(tmp_path: Path) -> None:
    code = (
        "from prometheus_client import CollectorRegistry, generate_latest\n"
        "from holdfast.ft.health.collector import HoldfastCollector\n"
        "registry = CollectorRegistry()\n"
        "registry.register(HoldfastCollector())\n"
        "assert generate_latest(registry) == b''\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_one_process_tells_of_all_that_publish_and_live(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    env = {"FOLDER": str(folder)}
    ranks = [start_rank("health_ranks", "publish", r, 2, tmp_path, env) for r in range(2)]
    try:
        eventually(lambda: all((tmp_path / f"published.{r}").exists() for r in range(2)))
        # Of a process that is no more.
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        (folder / f"{dead.pid}-0.holdfast").write_text("# EOF\n")
        (folder / "other.db").write_text("not ours")
        registry = CollectorRegistry()
        registry.register(HoldfastCollector(folder))
        own = Counter("of_the_program", "Its own.", registry=registry)
        own.inc()
        found = samples(generate_latest(registry).decode())
        for rank in ranks:
            ops = [v for k, v in found.items() if f'pid="{rank.pid}"' in k and "ops_total" in k]
            assert sum(ops) >= 3
        assert found["of_the_program_total"] == 1
        (tmp_path / "stop").touch()
    finally:
        outcomes = finish(ranks, WAIT_S)
    assert [o.status for o in outcomes] == [0, 0], outcomes
    # Who ends well cleans up.
    assert not [
        path for path in folder.glob("*.holdfast") if not path.name.startswith(f"{dead.pid}")
    ]


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("nan")])
def test_an_interval_that_cannot_be_used_is_refused(interval_s: float, tmp_path: Path) -> None:
    with pytest.raises(holdfast.ConfigError, match=r"accepted: 0\.1 and more"):
        Publisher(tmp_path, interval_s)


@pytest.fixture
def gateway() -> Iterator[str]:
    """A real Pushgateway."""
    address = f"127.0.0.1:{held_port()}"
    process = subprocess.Popen(
        ["prometheus-pushgateway", f"--web.listen-address={address}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ready() -> bool:
        try:
            return page(address, "/-/ready")[0] == 200
        except OSError:
            return False

    try:
        eventually(ready)
        yield address
    finally:
        kill(process)
        process.wait()


@pytest.mark.skipif(
    shutil.which("prometheus-pushgateway") is None,
    reason="waits for prometheus-pushgateway (Debian package of that name)",
)
def test_a_short_job_is_told_of_by_a_gateway_after_its_end(gateway: str, tmp_path: Path) -> None:
    run_ranks("health_ranks", "push_at_the_end", 2, tmp_path, env={"GATEWAY": gateway})
    text = page(gateway, "/metrics")[1]
    for rank in range(2):
        lines = [
            line
            for line in text.splitlines()
            if line.startswith("holdfast_ops_total{") and f'rank="{rank}"' in line
        ]
        assert any('collective="all_reduce"' in line and 'job="short"' in line for line in lines)
        assert sum(float(line.rpartition(" ")[2]) for line in lines) >= 7
    remove_pushed(gateway, "short", 0)
    text = page(gateway, "/metrics")[1]
    assert 'rank="0"' not in text
    assert 'rank="1"' in text


def test_a_gateway_that_is_not_there_is_named() -> None:
    nobody = f"127.0.0.1:{held_port()}"
    with pytest.raises(holdfast.HoldfastError, match=f"pushing metrics to {nobody}") as caught:
        push(nobody, "job", 3)
    assert caught.value.ranks == (3,)
    with pytest.raises(holdfast.HoldfastError, match="removing metrics"):
        remove_pushed(nobody, "job", 3)


def test_a_gateway_that_never_answers_costs_its_time_limit(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(holdfast.HoldfastError, match="timed out"):
            push(address, "job", 0, timeout_s=0.2)


def test_a_forked_child_tells_nothing_of_its_parent(tmp_path: Path) -> None:
    run_ranks("health_ranks", "collect_in_a_child", 1, tmp_path)
    assert (tmp_path / "child").read_text() == "0"

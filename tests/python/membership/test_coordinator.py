"""A coordinator that was out of reach, or began anew: real processes, real signals, real cables."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from emulated_network import Network, Unavailable
from leftovers import running
from ports import held_port
from ranks import finish, kill, run_ranks, start_rank

PATIENCE_S = 30.0
# Silence is a matter of some of these.
HEARTBEAT = {
    "HOLDFAST_HEARTBEAT": "0.1",
    "HOLDFAST_SILENCE": "1",
    "HOLDFAST_TRANSPORTS": "tcp",
}


class Coordinator:
    """A coordinator's process; what it says is in a file."""

    def __init__(self, here: Path, address: str, before: Sequence[str] = ()) -> None:
        self.address = address
        self.before = before
        self.log = here / "coordinator.log"

    def start(self, *options: str) -> None:
        host, port = self.address.split(":")
        command = ["-m", "holdfast.cli", "coordinator", "--port", port, "--address", host]
        command.append("--insecure")
        self.process = subprocess.Popen(
            [*self.before, sys.executable, *command, *options],
            stdout=subprocess.PIPE,
            stderr=self.log.open("a"),
            env={**os.environ, **HEARTBEAT},
            text=True,
        )
        running.append(self.process)
        assert self.process.stdout is not None
        assert "listens" in self.process.stdout.readline()

    def kill(self) -> None:
        kill(self.process)
        self.process.wait()

    def await_line(self, pattern: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not re.search(pattern, self.log.read_text()):
            assert time.monotonic() < until, f"no {pattern} in\n{self.log.read_text()}"
            time.sleep(0.02)


def peer(url: str, here: Path, before: Sequence[str] = (), **env: str) -> Any:
    settings = {
        "URL": url,
        "MIN_PEERS": "2",
        "HOLDFAST_TIMEOUT": "20",
        "HOLDFAST_CONNECT_TIMEOUT": "30",
        **HEARTBEAT,
        **env,
    }
    running.append(start_rank("elastic_ranks", "peer", 0, 1, here, settings, before))
    return running[-1]


def await_ready(process: Any) -> list[str]:
    seen = ""
    while "ready" not in (line := process.stdout.readline()):
        seen += line
        assert line, f"ended before it was ready\n{seen}"
    return line.split()


def job_of_two(url: str, here: Path) -> list[Any]:
    members = [peer(url, here) for _ in range(2)]
    for member in members:
        await_ready(member)
    return members


def signal_all(processes: Sequence[Any], number: signal.Signals) -> None:
    for process in processes:
        os.kill(process.pid, number)


def end_all(processes: Sequence[Any], here: Path) -> None:
    """All end well, with the same state."""
    (here / "stop").touch()
    outcomes = finish(processes, 40)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.output
    ends = {found[1] for o in outcomes if (found := re.search(r"END (\{[^}]*\})", o.output))}
    assert len(ends) == 1, ends


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        with Network(4) as made:
            yield made
    except Unavailable as lacks:
        pytest.skip(str(lacks))


def test_an_outage_of_the_coordinators_cable_ends_no_job_and_founds_none(network, tmp_path):
    """For 3 s it hears nobody but a newcomer, of its own host."""
    address = f"{network.address(0)}:29400"
    coordinator = Coordinator(tmp_path, address, network.inside(0))
    coordinator.start("--grace", "0")
    url = f"holdfast://{address}/run7"
    members = [peer(url, tmp_path, network.inside(host)) for host in (1, 2)]
    for member in members:
        await_ready(member)
    network.pull_cable(0)
    late = peer(url, tmp_path, network.inside(0), MIN_PEERS="1")
    coordinator.await_line("1 waiting")
    time.sleep(3)
    assert all(process.poll() is None for process in [*members, late])
    network.plug_cable(0)
    assert await_ready(late)[1] == "2"
    end_all([*members, late], tmp_path)
    said = coordinator.log.read_text()
    # At most once, and in the end.
    assert said.count("has ended") <= 1, said
    assert "epoch 1, 1 of 1 ranks" not in said, said


@pytest.mark.parametrize("comes_first", ["grace", "record", "store"])
def test_members_come_before_a_newcomer_that_called_a_new_coordinator_first(comes_first, tmp_path):
    coordinator = Coordinator(tmp_path, f"127.0.0.1:{held_port()}")
    record = ("--record", str(tmp_path / "record"))
    if comes_first == "store":
        distributed = pytest.importorskip("torch.distributed", reason="waits for torch's TCPStore")
        store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        record = ("--record", f"tcp://127.0.0.1:{store.port}")
    coordinator.start(*(("--grace", "0") if comes_first == "grace" else record))
    url = f"holdfast://{coordinator.address}/run7"
    members = job_of_two(url, tmp_path)
    signal_all(members, signal.SIGSTOP)
    coordinator.kill()
    coordinator.log.write_text("")
    coordinator.start(*(("--grace", "20") if comes_first == "grace" else record))
    late = peer(url, tmp_path, MIN_PEERS="1")
    coordinator.await_line("run7/elastic: epoch 0, 0 of 0 ranks, 1 waiting; .*member")
    signal_all(members, signal.SIGCONT)
    assert await_ready(late)[1] == "2"
    end_all([*members, late], tmp_path)


def test_a_living_job_wins_against_one_that_was_founded_after_it(tmp_path):
    coordinator = Coordinator(tmp_path, f"127.0.0.1:{held_port()}")
    coordinator.start("--grace", "0")
    url = f"holdfast://{coordinator.address}/run7"
    members = job_of_two(url, tmp_path)
    signal_all(members, signal.SIGSTOP)
    coordinator.kill()
    coordinator.start("--grace", "0")
    late = peer(url, tmp_path, MIN_PEERS="1")
    assert await_ready(late)[1] == "0"
    signal_all(members, signal.SIGCONT)
    (outcome,) = finish([late], PATIENCE_S)
    assert outcome.status != 0
    assert "has gone on in an older world" in outcome.output, outcome.output
    later = peer(url, tmp_path, MIN_PEERS="1")
    assert await_ready(later)[1] == "2"
    end_all([*members, later], tmp_path)


def test_a_coordinator_that_moved_to_another_host_is_found_by_its_name(network, tmp_path):
    """The old host says nothing any more, not even that it is gone."""
    network.name(0, "coordinator.test")
    url = "holdfast://coordinator.test:29400/run7"
    first = Coordinator(tmp_path, f"{network.address(0)}:29400", network.inside(0))
    first.start("--grace", "0")
    members = [peer(url, tmp_path, network.inside(host)) for host in (1, 2)]
    for member in members:
        await_ready(member)
    network.pull_cable(0)
    second = Coordinator(tmp_path, f"{network.address(3)}:29400", network.inside(3))
    second.start("--grace", "20")
    network.name(3, "coordinator.test")
    late = peer(url, tmp_path, network.inside(2), MIN_PEERS="1")
    assert await_ready(late)[1] == "2"
    end_all([*members, late], tmp_path)


def test_resets_between_members_and_their_coordinator_lose_nobody(tmp_path):
    coordinator = Coordinator(tmp_path, f"127.0.0.1:{held_port()}")
    coordinator.start()
    env = {
        **HEARTBEAT,
        "HOLDFAST_SILENCE": "10",
        "HOLDFAST_TIMEOUT": "30",
        "HOLDFAST_COORDINATOR": f"{coordinator.address}/resets",
        "CUTS": "10",
    }
    for outcome in run_ranks("reset_ranks", "reduce_among_resets", 3, tmp_path, env=env):
        assert '"live": [0, 1, 2]' in outcome.output
        assert "lost rank" not in outcome.output, outcome.output


def says(*options: str) -> str:
    """What a coordinator that cannot start says."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "holdfast.cli",
            "coordinator",
            "--insecure",
            "--port",
            "0",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    return done.stderr


def test_a_record_that_cannot_serve_is_an_error_at_the_start(tmp_path):
    record = tmp_path / "record"
    coordinator = Coordinator(tmp_path, f"127.0.0.1:{held_port()}")
    coordinator.start("--record", str(record))
    assert "belongs to another coordinator" in says("--record", str(record))
    coordinator.kill()
    record.write_text("holdfast record 9 00\n")
    assert "its format is 9" in says("--record", str(record))
    record.write_text("holdfast record 1 0000000000000000\nrun\n")
    assert "its checksum is wrong; accepted" in says("--record", str(record))
    assert "cannot write beside it" in says("--record", str(tmp_path / "none" / "record"))
    assert "accepted: a file, or tcp://HOST:PORT" in says("--record", "tcp://here")
    pytest.importorskip("torch", reason="waits for torch's TCPStore")
    nobody = f"tcp://127.0.0.1:{held_port()}"
    assert f"'{nobody}': no store answers there" in says("--record", nobody)


def test_seconds_that_cannot_be_are_an_error_at_the_start():
    assert "--grace -1.0; accepted: 0 to" in says("--grace", "-1")
    assert "--keep nan; accepted: 0 to" in says("--keep", "nan")

"""A cable is pulled, for good or for a while: nobody's connection ends, and no word is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from emulated_network import Network, Unavailable
from leftovers import running
from ranks import Process, all_end_well, finish, start_rank

from holdfast.cli import main

HOSTS = 4
HEARTBEAT_S = 0.1
# Longer than TCP waits before it says something again, shorter than `silence`.
STILL_S = 4.0


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        with Network(HOSTS) as made:
            yield made
    except Unavailable as lacks:
        pytest.skip(str(lacks))


def start_hosts(
    network: Network, function: str, hosts: int, here: Path, env: Mapping[str, str]
) -> list[Process]:
    """One rank on each host; they have met when this returns."""
    here.mkdir()
    env = {**env, "HOLDFAST_TRANSPORTS": "tcp"}
    processes = [
        start_rank(
            *("host_ranks", function, r, hosts, here),
            {**env, "HOLDFAST_HOST_ID": f"host {r}", "HOLDFAST_ADDRESS": network.address(r)},
            before=network.inside(r),
        )
        for r in range(hosts)
    ]
    for process in processes:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    return processes


def await_line(process: Process, line: str) -> None:
    """Until the process says it, or ends."""
    assert process.stdout is not None
    said = []
    while text := process.stdout.readline():
        said.append(text)
        if text.strip() == line:
            return
    raise AssertionError("".join(said))


def lose_host(network: Network, here: Path, victim: int) -> float:
    """Return the seconds from the cut to the first op of the next view on the last survivor."""
    env = {
        "HOLDFAST_HEARTBEAT": str(HEARTBEAT_S),
        "HOLDFAST_SILENCE": str(3 * HEARTBEAT_S),
        "HOLDFAST_TIMEOUT": "3",
    }
    processes = start_hosts(network, "until_a_loss", HOSTS, here, env)
    time.sleep(1)
    cut = time.monotonic()
    network.pull_cable(victim)
    outcomes = finish(processes, 60)
    ends = []
    for outcome in outcomes:
        if outcome.rank == victim:
            # Alone it may not go on: it cannot know that it is not the others who are cut off.
            assert outcome.status != 0
            assert "Timeout" in outcome.output, outcome.output
            continue
        assert outcome.status == 0, outcome.output
        lines = [line for line in outcome.output.splitlines() if line.startswith("{")]
        told, end = map(json.loads, lines)
        assert told["missing"] == [victim]
        # Nothing proves that it is dead, and it cannot be told.
        assert end["in_doubt"] == [victim]
        ends.append(told["end"])
    return max(ends) - cut


@pytest.mark.parametrize("victim", [0, 2])
def test_the_others_go_on_without_a_host_that_is_cut_off(victim, network, tmp_path):
    took = lose_host(network, tmp_path / "world", victim)
    print(f"host {victim}: {took * 1e3:.0f} ms at a heartbeat of {HEARTBEAT_S * 1e3:.0f} ms")
    # Not how fast, which a busy machine decides, but that no time limit was waited for.
    assert took < 3


@pytest.mark.parametrize("sealed", [False, True])
def test_a_host_that_was_cut_off_for_too_long_comes_back(sealed, network, tmp_path):
    hosts, last = 3, 2
    limit = 5 * HEARTBEAT_S
    env = {"HOLDFAST_HEARTBEAT": str(HEARTBEAT_S), "HOLDFAST_TIMEOUT": "40"}
    env |= {"HOLDFAST_SILENCE": str(limit), "HOLDFAST_GRACE": str(limit)}
    secret = ("--insecure",)
    if sealed:
        assert main(["secret", str(tmp_path / "job.secret")]) == 0
        env["HOLDFAST_SECRET_FILE"] = str(tmp_path / "job.secret")
        secret = ("--secret-file", env["HOLDFAST_SECRET_FILE"])
    command = ("coordinator", "--address", network.address(0), "--port", "29400", "--grace", "0")
    coordinator = subprocess.Popen(
        [*network.inside(0), sys.executable, "-m", "holdfast.cli", *command, *secret],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    running.append(coordinator)
    assert coordinator.stdout is not None
    assert "listens" in coordinator.stdout.readline()
    env["URL"] = f"holdfast://{network.endpoint(0, 29400)}/job"
    world = tmp_path / "world"
    processes = start_hosts(network, "comes_back", hosts, world, env)
    time.sleep(0.5)
    network.pull_cable(last)
    await_line(processes[0], "SIZES 3 2")
    network.plug_cable(last)
    await_line(processes[0], "SIZES 3 2 3")
    (world / "stop").touch()
    ends = all_end_well(processes, 60)
    assert sum("OUT" in outcome.output for outcome in ends) == 1


def test_a_path_that_is_still_for_a_while_costs_nobody(network, tmp_path):
    hosts = 3  # tests/bench/membership_faults.py has others, many times
    env = {"SIZES": "8,8192,2097152", "HOLDFAST_TIMEOUT": "40"}
    processes = start_hosts(network, "until_told", hosts, tmp_path / "world", env)
    time.sleep(0.5)
    network.pull_cable(hosts - 1)
    time.sleep(STILL_S)
    network.plug_cable(hosts - 1)
    time.sleep(3)
    (tmp_path / "world" / "stop").touch()
    for outcome in all_end_well(processes, 60):
        told = json.loads(next(line for line in outcome.output.splitlines() if line[0] == "{"))
        print(f"rank {outcome.rank}: {told}")
        assert told["live"] == list(range(hosts))
        assert told["latest"] > STILL_S / 2  # the cable mattered
        assert "lost rank" not in outcome.output, outcome.output

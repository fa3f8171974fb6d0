"""A host that is cut off without a word: its cable is pulled, and nobody's connection ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ranks import finish, start_rank

HOSTS = 4
HEARTBEAT_S = 0.1
# One switch and its hosts, that nobody else has, and addresses kept for tests (RFC 5737).
SWITCH = f"hf{os.getpid()}s"
SPACES = [f"hf{os.getpid()}{i}" for i in range(HOSTS)]


def ip(*arguments: str) -> bool:
    done = subprocess.run(["ip", *arguments], capture_output=True, timeout=20, check=False)
    return done.returncode == 0


def address(host: int) -> str:
    return f"203.0.113.{host + 1}"


@pytest.fixture
def network() -> Iterator[None]:
    """Four namespaces at a switch."""
    if shutil.which("ip") is None:
        pytest.skip("waits for ip (Debian package iproute2)")
    try:
        if not all(ip("netns", "add", space) for space in [SWITCH, *SPACES]):
            pytest.skip("waits for the right to make network namespaces")
        if not ip("-n", SWITCH, "link", "add", "switch", "type", "bridge"):
            pytest.skip("waits for a kernel with bridges")
        assert ip("-n", SWITCH, "link", "set", "switch", "up")
        for i, space in enumerate(SPACES):
            assert ip(
                *("link", "add", "eth", "netns", space, "type", "veth"),
                *("peer", "name", f"port{i}", "netns", SWITCH),
            )
            assert ip("-n", SWITCH, "link", "set", f"port{i}", "master", "switch", "up")
            assert ip("-n", space, "address", "add", f"{address(i)}/24", "dev", "eth")
            assert ip("-n", space, "link", "set", "eth", "up")
            assert ip("-n", space, "link", "set", "lo", "up")
        yield
    finally:
        for space in [*SPACES, SWITCH]:
            ip("netns", "delete", space)


def lose_host(here: Path, victim: int) -> float:
    """Return the seconds from the cut to the first op of the next view on the last survivor."""
    here.mkdir()
    env = {
        "HOLDFAST_HEARTBEAT": str(HEARTBEAT_S),
        "HOLDFAST_SILENCE": str(3 * HEARTBEAT_S),
        "HOLDFAST_TIMEOUT": "3",
        "HOLDFAST_TRANSPORTS": "tcp",
    }
    processes = [
        start_rank(
            *("host_ranks", "until_a_loss", r, HOSTS, here),
            {**env, "HOLDFAST_HOST_ID": f"host {r}", "HOLDFAST_ADDRESS": address(r)},
            before=("ip", "netns", "exec", SPACES[r]),
        )
        for r in range(HOSTS)
    ]
    for process in processes:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    time.sleep(1)
    cut = time.monotonic()
    assert ip("-n", SWITCH, "link", "set", f"port{victim}", "down")
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
    took = lose_host(tmp_path / "world", victim)
    print(f"host {victim}: {took * 1e3:.0f} ms at a heartbeat of {HEARTBEAT_S * 1e3:.0f} ms")
    # Not how fast, which a busy machine decides, but that no time limit was waited for.
    assert took < 3

"""Several hosts on one machine: by a host id of one's own, and in network namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ranks import finish, start_rank

# Two namespaces that nobody else has, and addresses kept for tests (RFC 5737).
SPACES = (f"hf{os.getpid()}a", f"hf{os.getpid()}b")
ADDRESSES = ("198.51.100.1", "198.51.100.2")


def run_on_hosts(hosts: list[str], path: Path, algorithm: str) -> None:
    env = {"HOSTS": ",".join(hosts), "HOLDFAST_ALGORITHM": algorithm}
    processes = [
        start_rank(
            *("host_ranks", "collectives", r, len(hosts), path),
            {**env, "HOLDFAST_HOST_ID": host, "HOLDFAST_ADDRESS": "127.0.0.1"},
        )
        for r, host in enumerate(hosts)
    ]
    for outcome in finish(processes, 100):
        assert outcome.status == 0, outcome.output


@pytest.mark.parametrize("algorithm", ["", "two_level"])
@pytest.mark.parametrize(
    "hosts", [["a", "a", "b", "b"], ["a", "b", "a", "b"], ["a", "b", "b", "c", "b", "c"]]
)
def test_shared_memory_inside_sockets_across(hosts, algorithm, tmp_path):
    run_on_hosts(hosts, tmp_path, algorithm)


def ip(*arguments: str) -> bool:
    done = subprocess.run(["ip", *arguments], capture_output=True, timeout=20, check=False)
    return done.returncode == 0


@pytest.fixture
def spaces() -> Iterator[tuple[str, str]]:
    """Two namespaces joined by a cable."""
    if shutil.which("ip") is None:
        pytest.skip("waits for ip (Debian package iproute2)")
    try:
        if not all(ip("netns", "add", space) for space in SPACES):
            pytest.skip("waits for the right to make network namespaces")
        if not all(ip("-n", space, "link", "set", "lo", "up") for space in SPACES):
            pytest.skip("waits for network namespaces that ip may enter, as in no chroot")
        ends = (f"{SPACES[0]}0", f"{SPACES[1]}0")
        if not ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1]):
            pytest.skip("waits for a kernel with veth")
        for space, end, address in zip(SPACES, ends, ADDRESSES, strict=True):
            assert ip("link", "set", end, "netns", space)
            assert ip("-n", space, "address", "add", f"{address}/24", "dev", end)
            assert ip("-n", space, "link", "set", end, "up")
        yield SPACES
    finally:
        for space in SPACES:
            ip("netns", "delete", space)


@pytest.mark.parametrize("algorithm", ["", "two_level", "ring"])
def test_two_hosts_in_network_namespaces(algorithm, spaces, tmp_path):
    hosts = [0, 0, 1, 1]
    env = {"HOSTS": "a,a,b,b", "HOLDFAST_ALGORITHM": algorithm}
    processes = [
        start_rank(
            *("host_ranks", "collectives", r, len(hosts), tmp_path),
            {**env, "HOLDFAST_HOST_ID": f"host {h}", "HOLDFAST_ADDRESS": ADDRESSES[h]},
            before=("ip", "netns", "exec", spaces[h]),
        )
        for r, h in enumerate(hosts)
    ]
    for outcome in finish(processes, 100):
        assert outcome.status == 0, outcome.output

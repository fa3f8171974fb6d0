"""Peers that reach each other by IPv6: on loopback, and between hosts that have nothing else."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from emulated_network import Network, Unavailable
from leftovers import running
from ranks import all_end_well, start_rank


def start_coordinator(address: str, port: int, before: Sequence[str] = ()) -> str:
    """Start one; returns its port."""
    command = ["-m", "holdfast.cli", "coordinator", "--port", str(port), "--address", address]
    process = subprocess.Popen(
        [*before, sys.executable, *command, "--insecure", "--grace", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    running.append(process)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "listens" in line
    return line.split()[-1]


def test_peers_meet_at_a_coordinator_on_ipv6_loopback(tmp_path: Path) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError as why:
        pytest.skip(f"waits for a system with IPv6: {why}")
    port = start_coordinator("::1", 0)
    env = {
        "URL": f"holdfast://[::1]:{port}/run",
        "HOLDFAST_ADDRESS": "::1",
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_CONNECT_TIMEOUT": "20",
    }
    peers = [start_rank("secure_ranks", "telltale", r, 2, tmp_path, env) for r in range(2)]
    for outcome in all_end_well(peers, 60):
        assert "exchanged" in outcome.output


def test_hosts_with_ipv6_alone_train_together(tmp_path: Path) -> None:
    try:
        with Network(2) as network:
            for host in range(2):
                here = network.inside(host)
                for command in (
                    ("ip", "address", "flush", "dev", "eth"),
                    ("ip", "address", "add", f"2001:db8::{host + 1}/64", "dev", "eth", "nodad"),
                ):
                    done = subprocess.run([*here, *command], check=False, timeout=20)
                    if done.returncode != 0:
                        pytest.skip("waits for a system with IPv6")
            start_coordinator("2001:db8::1", 29400, network.inside(0))
            env = {
                "URL": "holdfast://[2001:db8::1]:29400/run",
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_CONNECT_TIMEOUT": "30",
            }
            peers = [
                start_rank(
                    *("secure_ranks", "telltale", r, 2, tmp_path),
                    {**env, "HOLDFAST_HOST_ID": f"host{r}"},
                    network.inside(r),
                )
                for r in range(2)
            ]
            for outcome in all_end_well(peers, 60):
                assert "exchanged" in outcome.output
    except Unavailable as why:
        pytest.skip(str(why))

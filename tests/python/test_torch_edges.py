"""The edges of the torch API: rare dtypes, odd tensors, refusals, time limits, groups, forks."""

from __future__ import annotations

import socket

import pytest
from ranks import run_ranks

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.parametrize(
    "program",
    ["edges", "groups", "refusals", "time_limits", "abort", "drop_in_flight", "fork"],
)
def test_edges(program, tmp_path):
    run_ranks("torch_edge_ranks", program, 2, tmp_path)


@pytest.mark.parametrize("program", ["join_again", "join_by_environment", "join_by_address"])
def test_ways_to_meet(program, tmp_path):
    port = free_port()
    env = {"PORT": port, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    run_ranks("torch_edge_ranks", program, 2, tmp_path, env=env)

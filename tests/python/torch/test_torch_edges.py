"""The edges of the torch API: rare dtypes, odd tensors, groups, ways to meet, callbacks."""

from __future__ import annotations

import pytest
from ports import held_port
from ranks import END_WHOLE, run_ranks

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_odd_tensors_dtypes_and_coalesced_calls(size, tmp_path):
    run_ranks("torch_edge_ranks", "edges", size, tmp_path)


def test_groups_overlap_and_serve_several_threads(tmp_path):
    run_ranks("torch_edge_ranks", "groups", 3, tmp_path)


@pytest.mark.parametrize("way", ["join_again", "join_by_environment", "join_by_address"])
def test_ways_to_meet(way, tmp_path):
    port = str(held_port())
    env = {"PORT": port, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    run_ranks("torch_edge_ranks", way, 2, tmp_path, env=env)


def test_callbacks_may_wait_for_ops_they_start(tmp_path):
    run_ranks("torch_edge_ranks", "callbacks", 2, tmp_path)


def test_hooks_and_uneven_inputs_of_ddp(tmp_path):
    run_ranks("torch_edge_ranks", "hooks", 2, tmp_path)


def test_exit_while_threads_call(tmp_path):
    outcomes = run_ranks(
        "torch_edge_ranks", "exit_while_threads_call", 2, tmp_path, env=END_WHOLE, timeout_s=60
    )
    assert [outcome.output for outcome in outcomes] == ["", ""]


def test_exit_while_callbacks_run(tmp_path):
    outcomes = run_ranks(
        "torch_edge_ranks", "exit_while_callbacks_run", 2, tmp_path, env=END_WHOLE, timeout_s=60
    )
    assert [outcome.output for outcome in outcomes] == ["True\n", "True\n"]

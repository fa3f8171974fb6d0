"""The PyTorch backend: every collective, found by torch without an import of ours."""

from __future__ import annotations

import pytest
from ranks import END_WHOLE, run_ranks

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_collective_gives_the_right_values(size, tmp_path):
    run_ranks("torch_ranks", "all_collectives", size, tmp_path, env=END_WHOLE)


def test_every_collective_over_tcp_alone(tmp_path):
    run_ranks("torch_ranks", "all_collectives", 3, tmp_path, env={"HOLDFAST_TRANSPORTS": "tcp"})


@pytest.mark.parametrize("algorithm", ["ring", "flat"])
def test_every_collective_with_one_algorithm(algorithm, tmp_path):
    run_ranks("torch_ranks", "all_collectives", 3, tmp_path, env={"HOLDFAST_ALGORITHM": algorithm})


def test_hosts_of_their_own_talk_over_tcp(tmp_path):
    # No shared memory between ranks that claim different hosts.
    from ranks import finish, start_rank

    processes = [
        start_rank("torch_ranks", "all_collectives", r, 2, tmp_path, {"HOLDFAST_HOST_ID": f"h{r}"})
        for r in range(2)
    ]
    assert [(o.status, o.output[-2000:]) for o in finish(processes, 120) if o.status] == []


def test_errors_name_what_is_wrong_and_what_is_accepted(tmp_path):
    run_ranks("torch_ranks", "errors", 2, tmp_path)


@pytest.mark.parametrize("time", range(4))  # it went wrong in two of three
def test_a_process_that_forgets_to_destroy_its_group_ends(time, tmp_path):
    run_ranks("torch_ranks", "forget_to_destroy", 2, tmp_path, env=END_WHOLE, timeout_s=30)

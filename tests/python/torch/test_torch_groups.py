"""The rest of the backend: derived groups, shrinking, odd reductions, hooks, mismatch reports."""

from __future__ import annotations

import os
import signal

import pytest
from ranks import finish, run_ranks, start_rank

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")

RAISE = {"HOLDFAST_ON_PEER_LOSS": "raise"}


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_odd_reductions_give_the_right_sums(transport, tmp_path):
    run_ranks(
        "torch_group_ranks", "odd_reductions", 3, tmp_path, env={"HOLDFAST_TRANSPORTS": transport}
    )


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_receive_from_anybody_names_the_sender(transport, tmp_path):
    run_ranks(
        *("torch_group_ranks", "receive_from_anybody", 3, tmp_path),
        env={"HOLDFAST_TRANSPORTS": transport},
    )


def test_groups_split_and_merge(tmp_path):
    run_ranks("torch_group_ranks", "derive_groups", 4, tmp_path)


def test_a_group_shrinks_in_peace(tmp_path):
    run_ranks("torch_group_ranks", "shrink_in_peace", 3, tmp_path)


def test_survivors_shrink_the_group_and_go_on(tmp_path):
    processes = [
        start_rank("torch_group_ranks", "shrink_after_a_death", r, 4, tmp_path, RAISE)
        for r in range(4)
    ]
    outcomes = finish(processes, 120)
    assert outcomes[2].status == -signal.SIGKILL
    for outcome in outcomes:
        assert outcome.rank == 2 or outcome.status == 0, outcome.output


def test_hooks_and_durations_tell_what_ended(tmp_path):
    run_ranks("torch_group_ranks", "watch_completions", 2, tmp_path)


def test_options_and_timeouts_reach_python(tmp_path):
    run_ranks("torch_group_ranks", "options_and_timeouts", 2, tmp_path)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_both_sides_of_a_mismatch_learn_what_each_called(transport, tmp_path):
    run_ranks(
        "torch_group_ranks", "tell_mismatches", 2, tmp_path, env={"HOLDFAST_TRANSPORTS": transport}
    )


def test_tensors_of_more_than_two_gibibytes(tmp_path):
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if pages < 12 * 2**30:
        pytest.skip("waits for 12 GiB of free memory")
    run_ranks("torch_group_ranks", "move_more_than_two_gibibytes", 2, tmp_path, timeout_s=240)

"""Sync of state in a GPU's memory, in real processes, as a rule over the emulated device
(cuda_driver.py).
"""

from __future__ import annotations

from functools import partial

import pytest
from coordinators import Coordinator
from cuda_driver import CHOSEN
from ranks import finish, run_ranks, segments_of, start_rank


def run(function, size, meeting, **more):
    env = {**CHOSEN, **more}
    return run_ranks("device_sync_ranks", function, size, meeting, env=env, timeout_s=150)


@pytest.mark.parametrize("hosts", ["", "1", "0,2"])
def test_only_chunks_that_differ_move_wherever_the_state_is(hosts, tmp_path):
    run("compare_where_the_state_is", 3, tmp_path, HOSTS=hosts)


def test_tensors_of_one_state_may_be_on_host_and_device(tmp_path):
    run("hold_some_tensors_on_each", 3, tmp_path)


def test_arrays_with_gaps_are_synced_and_nothing_else_is_written(tmp_path):
    run("fill_gaps_and_leave_what_is_between", 3, tmp_path)


def test_senders_copy_a_few_runs_at_a_time(tmp_path):
    run("give_more_than_is_copied_at_once", 3, tmp_path)


def test_a_sync_comes_after_what_made_the_state(tmp_path):
    run("follow_the_streams_that_made_it", 2, tmp_path)


def test_a_newcomer_is_brought_up_to_date_on_its_device(tmp_path):
    coordinator = Coordinator(tmp_path)
    try:
        url = f"holdfast://{coordinator.address}"
        env = {**CHOSEN, "URL": url}
        start = partial(start_rank, "device_sync_ranks", "bring_a_newcomer_up")
        processes = [start(r, 2, tmp_path, env) for r in range(2)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.stdout.read()
        processes.append(start(2, 3, tmp_path, {**env, "LATE": "1"}))
        outcomes = finish(processes, 60)
    finally:
        coordinator.process.terminate()
        coordinator.process.wait(10)
    assert all(o.output.split()[-1:] == ["ok"] for o in outcomes), outcomes


def test_what_cannot_be_synced_is_said_and_leaks_nothing(tmp_path):
    assert segments_of(run("say_what_cannot_be", 2, tmp_path)) == set()


def test_survivors_agree_when_a_holder_dies(tmp_path):
    processes = [
        start_rank("device_sync_ranks", "lose_a_holder", r, 4, tmp_path, CHOSEN) for r in range(4)
    ]
    outcomes = finish(processes, 100)
    assert outcomes[2].status == -9
    for rank in (0, 1, 3):
        assert (outcomes[rank].status, outcomes[rank].output.split()[-1]) == (0, "ok"), outcomes

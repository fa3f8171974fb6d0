"""The life of a group: exit, exceptions, fork and meeting again never hang, crash or leak."""

from __future__ import annotations

import pytest
from ports import held_port
from ranks import END_WHOLE, finish, run_ranks, segments_of, start_rank


@pytest.mark.parametrize(
    "way", ["exit_with_ops_running", "exit_while_a_thread_waits", "exit_while_threads_call"]
)
def test_exit_ends_what_still_runs(way, tmp_path):
    outcomes = run_ranks("group_ranks", way, 2, tmp_path, env=END_WHOLE, timeout_s=30)
    assert [o.output for o in outcomes] == ["", ""]
    assert segments_of(outcomes) == set()


def test_an_exception_ends_the_rank_with_its_own_trace_only(tmp_path):
    ranks = [start_rank("group_ranks", "exit_by_exception", r, 2, tmp_path, {}) for r in range(2)]
    for outcome in finish(ranks, 30):
        assert outcome.status == 1, outcome.output
        assert outcome.output.splitlines()[-1].startswith("ValueError: on purpose")


def test_a_forked_child_is_refused_and_does_no_harm(tmp_path):
    run_ranks("group_ranks", "fork_with_a_group", 2, tmp_path, timeout_s=30)


def test_ops_that_end_between_two_looks_succeed(tmp_path):
    run_ranks("group_ranks", "succeed_when_an_op_ends_between_two_looks", 2, tmp_path)


def test_a_group_may_meet_again_in_its_directory(tmp_path):
    run_ranks("group_ranks", "meet_twice", 3, tmp_path, timeout_s=30)


@pytest.mark.parametrize("program", ["leave_at_once", "meet_twice"])
def test_a_tcp_store_serves_until_everybody_has_met(program, tmp_path):
    pytest.importorskip("torch", reason="waits for torch: a tcp:// store is torch's")
    for i in range(3):
        port = str(held_port())
        env = {"HOLDFAST_STORE": "", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        run_ranks("group_ranks", program, 3, tmp_path / str(i), env=env, timeout_s=60)

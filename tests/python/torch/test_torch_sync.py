"""States that cannot be shared are refused by name on all ranks; empty ones are shared."""

from __future__ import annotations

import pytest
from ranks import finish, kill, run_ranks, start_rank

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


def test_sharded_states_are_refused_by_name_on_all_ranks(tmp_path):
    run_ranks("torch_sync_ranks", "sharded_states", 2, tmp_path, timeout_s=60)


def test_tensors_without_memory_are_refused_by_every_op(tmp_path):
    run_ranks("torch_sync_ranks", "tensors_without_memory", 2, tmp_path, timeout_s=60)


@pytest.mark.parametrize("function", ["no_tensors", "no_arrays"])
def test_states_without_tensors_are_shared_with_who_comes_back(function, tmp_path):
    ranks = [start_rank("torch_sync_ranks", function, r, 3, tmp_path, {}) for r in range(3)]
    for process in ranks:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    kill(ranks[1])
    ranks[1].wait()
    ranks[1] = start_rank("torch_sync_ranks", function, 1, 3, tmp_path, {})
    ends = []
    for outcome in finish(ranks, 60):
        assert outcome.status == 0, outcome.output
        ends.append(outcome.output.partition("END")[2])
    assert len(set(ends)) == 1, ends

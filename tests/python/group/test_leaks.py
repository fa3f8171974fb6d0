"""Groups and ops leave descriptors, threads, shared memory and resident size where they were."""

from __future__ import annotations

import pytest
from ranks import END_WHOLE, run_ranks, segments_of
from ucx_library import needs_ucx

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


@pytest.mark.parametrize("program", ["subgroups", "worlds", "python_groups", "small_ops"])
def test_nothing_is_left_behind(program, tmp_path):
    outcomes = run_ranks("leak_ranks", program, 2, tmp_path, env=END_WHOLE, timeout_s=120)
    assert not segments_of(outcomes)


@needs_ucx
def test_nothing_is_left_behind_by_ucx(tmp_path):
    env = {"HOLDFAST_TRANSPORTS": "ucx", **END_WHOLE}
    outcomes = run_ranks("leak_ranks", "worlds", 2, tmp_path, timeout_s=120, env=env)
    assert not segments_of(outcomes)

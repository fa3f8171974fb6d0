"""Groups and ops leave descriptors, threads, shared memory and resident size where they were."""

from __future__ import annotations

import pytest
from ranks import run_ranks, segments_of

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


@pytest.mark.parametrize("program", ["subgroups", "worlds", "python_groups", "small_ops"])
def test_nothing_is_left_behind(program, tmp_path):
    outcomes = run_ranks("leak_ranks", program, 2, tmp_path, timeout_s=120)
    assert not segments_of(outcomes)

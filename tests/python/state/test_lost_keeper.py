"""A keeper that is lost at the moment in which its trainer speaks to it."""

from __future__ import annotations

import itertools
import os
import signal
import uuid

import pytest
from waiting import eventually

torch = pytest.importorskip("torch", reason="waits for torch: a state is its tensors")

from holdfast.ft.state.snapshots import Snapshots  # noqa: E402


def test_a_keeper_that_ends_while_it_is_told_of_a_snapshot_costs_protection_alone() -> None:
    state = {"tensor": torch.zeros(3)}
    with Snapshots(state, job=f"test-{uuid.uuid4().hex}", keep_for=20.0) as snapshots:
        snapshots.take(1)
        os.kill(snapshots.keeper, signal.SIGKILL)
        steps = itertools.count(2)
        # Not noticed yet, or a moment ago.
        with pytest.warns(RuntimeWarning, match="the state is unprotected"):
            eventually(lambda: snapshots.take(next(steps)) or snapshots.unprotected, 20)

        def is_protected() -> bool:
            snapshots.take(next(steps))
            return not snapshots.unprotected

        eventually(is_protected, 20)

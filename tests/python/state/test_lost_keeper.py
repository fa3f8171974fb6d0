"""A keeper that is lost at the moment in which its trainer speaks to it."""

from __future__ import annotations

import os
import signal
import uuid

import pytest
from waiting import eventually

torch = pytest.importorskip("torch", reason="waits for torch: a state is its tensors")

from holdfast.ft.state.keeper.link import KeeperLink  # noqa: E402
from holdfast.ft.state.snapshots import Snapshots  # noqa: E402


def test_a_keeper_that_ends_while_it_is_told_of_a_snapshot_costs_protection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = {"tensor": torch.zeros(3)}
    with Snapshots(state, job=f"test-{uuid.uuid4().hex}", keep_for=20.0) as snapshots:
        snapshots.take(1)
        os.kill(snapshots.keeper, signal.SIGKILL)
        link = snapshots._link
        assert link is not None
        eventually(lambda: link.is_gone, 20)
        # Not noticed yet.
        monkeypatch.setattr(KeeperLink, "is_gone", False)
        with pytest.warns(RuntimeWarning, match="message 'take': the other end is gone"):
            snapshots.take(2)
        assert "the other end is gone" in snapshots.unprotected

"""Ranks that are far ahead of others: back-pressure, and never the end of a link."""

from __future__ import annotations

from ranks import run_ranks


def test_a_rank_that_is_280_mib_ahead_waits_for_the_other(tmp_path):
    env = {"HOLDFAST_TRANSPORTS": "tcp"}
    run_ranks("credit_ranks", "broadcast_while_the_other_is_late", 2, tmp_path, env=env)

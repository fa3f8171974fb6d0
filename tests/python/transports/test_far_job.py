"""A job over a path of 600 ms round trip: limits that suppose a near network follow it."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import far_ranks
import pytest
from emulated_path import LongPath, Unavailable
from ranks import finish, start_rank

ONE_WAY_MS = 300.0
# A connection tells of what was lost a round trip later, which is longer than this.
SILENCE_S = 0.6
OUTAGE_S = 0.3
LIMIT_S = 150.0


@pytest.fixture
def path():
    try:
        with LongPath() as path:
            path.set("both", delay_ms=ONE_WAY_MS)
            yield path
    except Unavailable as why:
        pytest.skip(str(why))


def start(path: LongPath, function: str, meeting: Path, places: tuple[int, ...]) -> list:
    processes = []
    for rank, place in enumerate(places):
        env = {
            "HOLDFAST_TRANSPORTS": "tcp",
            "HOLDFAST_ADDRESS": path.address(place),
            "HOLDFAST_HOST_ID": f"host{rank}",
            "HOLDFAST_HEARTBEAT": "0.2",
            "HOLDFAST_SILENCE": str(SILENCE_S),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        }
        at = (rank, len(places), meeting, env, path.inside(place))
        processes.append(start_rank("far_ranks", function, *at))
    return processes


def test_an_outage_shorter_than_a_round_trip_loses_nobody_and_a_death_does(path, tmp_path) -> None:
    processes = start(path, "sums_and_a_loss", tmp_path, (0, 1, 1))
    give_up = time.monotonic() + LIMIT_S
    while not (tmp_path / "going").exists() and time.monotonic() < give_up:
        threading.Event().wait(0.02)
    path.set("both", still=1)
    threading.Event().wait(OUTAGE_S)
    path.set("both", still=0)
    outcomes = finish(processes, LIMIT_S)
    for survivor in outcomes[:2]:
        assert survivor.status == 0, survivor.output
        sums = [
            tuple(map(int, line.split()[1:]))
            for line in survivor.output.splitlines()
            if line.startswith("SUM")
        ]
        whole = [(op, 3, 1) for op in range(far_ranks.WHOLE_OPS)]
        assert sums[: far_ranks.WHOLE_OPS] == whole, survivor.output
        assert [op for op, _, _ in sums] == list(range(far_ranks.OPS)), survivor.output
        assert sums[-1] == (far_ranks.OPS - 1, 2, 1), survivor.output
    assert outcomes[far_ranks.VICTIM].status != 0


def test_who_called_what_comes_from_far_away_in_time(path, tmp_path) -> None:
    # Two that are near each other find out at once, and wait for the third to say what it called.
    outcomes = finish(start(path, "another_call", tmp_path, (0, 1, 1)), LIMIT_S)
    for outcome in outcomes:
        told = [line for line in outcome.output.splitlines() if line.startswith("TOLD")]
        assert len(told) == 1, outcome.output
        assert "did not answer" not in told[0], told[0]
        assert "sum); rank 2 called all_reduce" in told[0], told[0]

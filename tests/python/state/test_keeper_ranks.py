"""Keepers of real ranks: what they agree on, and what outlives a trainer."""

from __future__ import annotations

import uuid
from pathlib import Path

from ranks import finish, run_ranks, start_rank
from waiting import eventually

RANKS = 3


def job() -> dict[str, str]:
    return {"HOLDFAST_JOB": f"test-{uuid.uuid4().hex}"}


def test_what_all_have_committed_is_there_in_the_next_life(tmp_path: Path) -> None:
    outcomes = run_ranks("keeper_ranks", "commits_and_goes_back", RANKS, tmp_path, env=job())
    for outcome in outcomes:
        process = int(outcome.output.split("KEEPER ")[1].split()[0])
        eventually(lambda keeper=process: not Path(f"/proc/{keeper}").exists(), 10)


def test_a_killed_trainer_leaves_its_keeper_which_stands_in_for_it(tmp_path: Path) -> None:
    env = job()
    ranks = [
        start_rank("keeper_ranks", "dies_in_a_copy", r, RANKS, tmp_path, env) for r in range(RANKS)
    ]
    outcomes = finish(ranks, 100)
    assert [outcome.status == 0 for outcome in outcomes] == [True, False, True], outcomes
    assert all("GOES ON" in outcomes[r].output for r in (0, 2))
    run_ranks("keeper_ranks", "comes_back", RANKS, tmp_path, env=env)

"""Connections that are closed between the living: nobody is lost, and no sum is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ranks import run_ranks

# Beside other work on two cores: a turn of the scheduler is no fault of ours.
LATEST_S = 2.0


def told(output: str) -> dict[str, float | list[int]]:
    line = next(line for line in output.splitlines() if line.startswith("{"))
    return json.loads(line)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("transports", ["tcp", "shm,tcp"])
def test_resets_between_the_living_lose_nobody(tmp_path: Path, transports: str, size: int) -> None:
    env = {"HOLDFAST_TRANSPORTS": transports, "CUTS": "10", "HOLDFAST_TIMEOUT": "30"}
    outcomes = run_ranks("reset_ranks", "reduce_among_resets", size, tmp_path, env=env)
    words = [told(outcome.output) for outcome in outcomes]
    assert len({word["ops"] for word in words}) == 1
    for word, outcome in zip(words, outcomes, strict=True):
        assert word["live"] == list(range(size)), word
        assert word["epoch"] > 1, word  # the cuts were seen
        assert word["latest"] < LATEST_S, word
        # Afterwards they leave, one by one, and that is another word.
        assert "lost rank" not in outcome.output, outcome.output


def test_messages_that_a_reset_lost_are_told_of_and_none_is_mistaken(tmp_path: Path) -> None:
    env = {"HOLDFAST_TRANSPORTS": "tcp", "CUTS": "12", "HOLDFAST_TIMEOUT": "30"}
    outcomes = run_ranks("reset_ranks", "messages_among_resets", 3, tmp_path, env=env)
    for outcome in outcomes:
        assert told(outcome.output)["live"] == [0, 1, 2]


@pytest.mark.parametrize("transports", ["tcp", "shm,tcp"])
def test_who_has_forgotten_a_peer_that_has_not_meets_it_again(
    tmp_path: Path, transports: str
) -> None:
    env = {"HOLDFAST_TRANSPORTS": transports, "HOLDFAST_TIMEOUT": "20"}
    run_ranks("reset_ranks", "groups_around_a_reset", 2, tmp_path, env=env, timeout_s=100)

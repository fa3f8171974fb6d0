"""Late members in real processes: over other backends, and while others are killed or come in."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from late_methods import GRACED
from ranks import run_ranks, start_rank
from test_round_churn import World

KINDS = ["diloco", "local sgd, int8", "streaming, 3, 3", "eager, 1, 6", "co2, 3, 4", "sparse"]


class LateWorld(World):
    """Peers of `late_ranks`."""

    def start(self, *roles: str) -> None:
        for role in roles:
            number = len(self.peers)
            env = {**self.env, "ROLE": role}
            self.peers.append(start_rank("late_ranks", "live", number, 1, self.here, env))


@pytest.fixture
def world_of(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_HEARTBEAT", "0.05")
    monkeypatch.setenv("HOLDFAST_SILENCE", "2")
    made: list[LateWorld] = []

    def make(kind: str, wanted: str, **more: str) -> LateWorld:
        made.append(LateWorld(tmp_path, kind, wanted, 3, **more))
        return made[-1]

    yield make
    for world in made:
        world.clear()


def agree(ends: list[dict], trails: list[list[str]], members: int) -> None:
    """All have the same rounds, whoever was there for them, and end with the same bits."""
    assert len(ends) == members
    assert all(end == ends[0] for end in ends), ends
    assert ends[0]["bits"] == ends[0]["model"]
    assert len(ends[0]["members"]) == members
    whole = max(trails, key=len)
    steps = [int(line.split()[1]) for line in whole]
    # Those who were in time have lost no round.
    assert steps == list(range(steps[0], steps[-1] + 1, 6))
    for trail in trails:
        assert set(trail) <= set(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_is_killed_while_another_one_is_stood_in_for(kind, world_of):
    world = world_of(kind, "fewer")
    world.start("stays", "late", "dies")
    ends, trails = world.end()
    agree(ends, trails, 2)
    assert any(line.startswith("BACK") for line in world.said[1])


@pytest.mark.parametrize("kind", ["diloco", "streaming, 3, 3", "eager, 1, 6", "sparse"])
def test_a_loss_that_is_an_error_is_raised_when_the_late_one_is_back_at_the_same_row(
    kind, world_of
):
    world = world_of(kind, "fewer", HOLDFAST_ON_PEER_LOSS="raise")
    world.start("stays", "late", "dies")
    ends, _ = world.end()
    assert len(ends) == 2
    assert ends[0] == ends[1]
    lost = [[line for line in said if line.startswith("LOST")] for said in world.said[:2]]
    assert lost[0] == lost[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_newcomer_comes_in_while_a_member_is_stood_in_for(kind, world_of):
    world = world_of(kind, "joined")
    world.start("stays", "stays", "late")
    world.hear(0, "LATE")
    world.start("comes")
    ends, trails = world.end()
    agree(ends, trails, 4)
    assert any(line.startswith("BACK") for line in world.said[2])


@pytest.mark.parametrize("backend", ["holdfast", "gloo"])
def test_over_any_backend_all_have_the_same_bits_and_know_who_was_late(backend, tmp_path):
    kinds = [kind for kind in GRACED if backend == "holdfast" or kind in KINDS]
    env = {"BACKEND": backend, "KINDS": ";".join(kinds)}
    outcomes = run_ranks("late_ranks", "still", 3, tmp_path, env=env)
    found = []
    for outcome in outcomes:
        (line,) = [x for x in outcome.output.splitlines() if x.startswith("FOUND ")]
        found.append(json.loads(line.removeprefix("FOUND ")))
        assert "the computation of rank 2 is late by" in outcome.output
    assert set(found[0]) == set(kinds)
    assert found[0] == found[1] == found[2]

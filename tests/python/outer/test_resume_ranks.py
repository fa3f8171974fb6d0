"""Runs that go on from a checkpoint of torch, in as many members and in others."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: checkpoints are torch's")

from ledger_ranks import committed, notes, trained  # noqa: E402
from ranks import run_ranks  # noqa: E402
from resume_ranks import KINDS, SAMPLES, H  # noqa: E402

# Nats, of the loss of a run that went on in other members than the run that was not stopped.
NEAR = 0.01


def found_by(function: str, size: int, here, **env: str) -> list[dict]:
    (here / "torch").unlink(missing_ok=True)
    outcomes = run_ranks("resume_ranks", function, size, here, env=env)
    lines = [line for one in outcomes for line in one.output.splitlines()]
    found = [json.loads(line[len("FOUND ") :]) for line in lines if line.startswith("FOUND ")]
    assert len(found) == size
    return found


def added(rows: list[list[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("backend", ["gloo", "holdfast"])
def test_a_run_goes_on_through_torchs_checkpoints_with_the_bits_of_the_uninterrupted_one(
    backend, tmp_path
):
    ends = found_by("save", 3, tmp_path, BACKEND=backend)
    assert found_by("go_on", 3, tmp_path, BACKEND=backend) == ends
    # Local parts differ: each rank got its own.
    assert len({tuple(end["delayed, 3, 6"]) for end in ends}) == 3


@pytest.mark.parametrize("backend", ["gloo", "holdfast"])
def test_four_members_go_on_as_three_and_as_six_and_owe_the_same(backend, tmp_path):
    four = found_by("save_long", 4, tmp_path, BACKEND=backend)
    for size in (3, 6):
        others = found_by("go_on_with_others", size, tmp_path, BACKEND=backend)
        for kind in KINDS:
            assert {one[kind]["bits"] for one in others} == {four[0][kind]["bits"]}
            owed = added([one[kind]["residual"] for one in four])
            owe = added([one[kind]["residual"] for one in others])
            assert len(owed) == len(owe) == (2 if kind == "sparse" else 0)
            for had, has in zip(owed, owe, strict=True):
                assert had != 0
                assert math.isclose(had, has, rel_tol=1e-5, abs_tol=1e-6)
            loss = four[0][kind]["loss"]
            assert all(abs(one[kind]["loss"] - loss) <= NEAR for one in others), (kind, size)


def test_a_run_of_another_trainer_or_of_none_is_refused_and_nothing_is_written(tmp_path):
    run_ranks("resume_ranks", "refused", 2, tmp_path, env={"BACKEND": "gloo"})


@pytest.mark.parametrize("backend", ["gloo", "holdfast"])
def test_an_epoch_that_is_resumed_at_any_step_has_the_bits_of_the_uninterrupted_one(
    backend, tmp_path
):
    ends = found_by("counted_bits", 2, tmp_path, BACKEND=backend)
    assert ends[0] == ends[1]


@pytest.mark.parametrize("size", [3, 6])
def test_an_epoch_that_goes_on_in_other_members_has_each_index_once(size, tmp_path):
    env = {"BACKEND": "gloo", "SAVE_AT": str(3 * H + 4)}
    four = found_by("counted", 4, tmp_path, **env)
    assert len({one["digest"] for one in four}) == 1
    assert 0 < four[0]["left"] < SAMPLES
    # Some samples were trained on, and are in no mean yet.
    assert all(one["open"] for one in four)
    others = found_by("counted", size, tmp_path, BACKEND="gloo")
    assert {one["left"] for one in others} == {0}
    found = notes(tmp_path)
    assert sorted(committed(found)) == list(range(SAMPLES))
    again = Counter(index for note in found for index in note.get("trained", ()))
    assert set(again) == trained(found) == set(range(SAMPLES))
    # What rank 3 had not sent is trained on again, where it is not there now.
    twice = sum(count == 2 for count in again.values())
    assert max(again.values()) <= 2
    assert twice == (four[3]["open"] if size == 3 else 0)

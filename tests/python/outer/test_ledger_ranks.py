"""The ledger in processes of their own, of which some are killed."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from coordinators import Coordinator  # noqa: E402
from ledger_ranks import SIZE, committed, notes, trained  # noqa: E402
from ranks import finish, kill, run_ranks, start_rank  # noqa: E402


def samples_of_steps(found: list[dict]) -> float:
    """Of all outer steps; a newcomer does not know of whom the mean is that it awaited."""
    steps: dict[int, float] = {}
    for note in sorted(found, key=lambda note: "unsure" in note):
        if "step" in note and not ("unsure" in note and steps.get(note["step"])):
            steps[note["step"]] = max(note["samples"], steps.get(note["step"], 0.0))
    return sum(steps.values())


@pytest.mark.parametrize("kind", ["diloco", "eager, 3, 6"])
def test_an_epoch_with_ten_kills_and_joins_and_a_new_coordinator_has_each_index_once(
    kind, tmp_path
):
    coordinator = Coordinator(tmp_path)
    env = {"METHOD": kind, "URL": f"holdfast://{coordinator.address}", "HOLDFAST_TIMEOUT": "60"}
    chance = random.Random(int(os.environ.get("HOLDFAST_TEST_SEED", "3")))
    started = []

    def start() -> None:
        peer = start_rank("ledger_ranks", "elastic", len(started), 1, tmp_path, env)
        started.append(peer)
        there.append(peer)

    def until_in(peer) -> None:
        while (line := peer.stdout.readline()).strip() != "in":
            assert line, peer.communicate()[0]

    there: list = []
    killed: set[int] = set()
    try:
        for _ in range(4):
            start()
        for peer in there:
            until_in(peer)
        for turn in range(10):
            # A round is 6 steps of 20 ms and more.
            time.sleep(chance.uniform(0, 0.15))
            victim = there.pop(chance.randrange(len(there)))
            kill(victim)
            killed.add(victim.pid)
            if turn == 5:
                coordinator.kill()
                start()
                coordinator.start()
            else:
                start()
            until_in(there[-1])
        left = min(note["left"] for note in notes(tmp_path, killed) if "left" in note)
        assert left > 0
        (tmp_path / "calm").touch()
        outcomes = finish(there, 60)
    finally:
        for peer in there:
            kill(peer)
        coordinator.process.terminate()
        coordinator.process.wait(10)
    assert all(o.status == 0 for o in outcomes), "".join(o.output[-1500:] for o in outcomes)
    ends = [line for one in outcomes for line in one.output.splitlines() if line[:3] == "END"]
    assert len(ends) == 4
    assert len(set(ends)) == 1
    found = notes(tmp_path, killed)
    assert sorted(committed(found)) == list(range(SIZE))
    assert trained(found) == set(range(SIZE))
    if kind == "diloco":
        assert samples_of_steps(found) == SIZE


@pytest.mark.parametrize(
    ("backend", "kind"),
    [("gloo", "streaming, 3, 3"), ("holdfast", "co2"), ("gloo", "sparse"), ("holdfast", "diloco")],
)
def test_progress_that_was_not_finite_is_no_sample_and_its_samples_come_again(
    backend, kind, tmp_path
):
    env = {"BACKEND": backend, "METHOD": kind}
    outcomes = run_ranks("ledger_ranks", "whole_epoch", 3, tmp_path, env=env)
    assert any("rank 1 is not finite" in outcome.output for outcome in outcomes)
    ends = {line for one in outcomes for line in one.output.splitlines() if line[:3] == "END"}
    assert len(ends) == 1
    found = notes(tmp_path, set())
    assert sorted(committed(found)) == list(range(900))
    times = Counter(index for note in found for index in note.get("trained", ()))
    assert set(times) == set(range(900))
    assert max(times.values()) == 2

"""What keepers have is restored in another number of ranks, with the bits that it had."""

from __future__ import annotations

import ast
import uuid
from collections import defaultdict
from pathlib import Path

import pytest
from ranks import Outcome, finish, start_rank
from waiting import eventually


def run(function: str, ranks: int, here: Path, **env: str) -> list[Outcome]:
    here.mkdir(exist_ok=True)
    started = [start_rank("reshard_ranks", function, r, ranks, here, env) for r in range(ranks)]
    return finish(started, 100)


def lines(outcomes: list[Outcome], word: str) -> list[list[str]]:
    """The words of all lines that begin with one."""
    found = [line.split() for one in outcomes for line in one.output.splitlines()]
    return [words[1:] for words in found if words[:1] == [word]]


def test_a_job_goes_on_in_another_number_of_ranks(tmp_path: Path) -> None:
    """4 ranks, of which a host is lost; then 2, then 3: one snapshot for all, bit by bit."""
    job = {"HOLDFAST_JOB": f"test-{uuid.uuid4().hex}"}
    states: dict[str, set[str]] = {}  # of the life before, by step
    keepers, begun = set(), -2
    plan = [(4, {"CODE": "3+1", "LOST": "1"}), (2, {"CODE": "1+1"})]
    plan += [(3, {"CODE": "2+1", "LAST": "1"})]
    for number, (ranks, env) in enumerate(plan):
        outcomes = run("lives", ranks, tmp_path / str(number), **job, **env)
        text = "\n".join(one.output for one in outcomes)
        found = lines(outcomes, "BEGINS")
        assert len(found) == ranks, text
        assert len({(step, digest) for step, digest, _ in found}) == 1, text
        step, digest, _ = found[0]
        assert int(step) >= begun + 2, text
        if states:
            assert states[step] == {digest}, text
        begun = int(step)
        keepers |= {keeper for _, _, keeper in found}
        states = defaultdict(set)
        for step, digest in lines(outcomes, "STEP"):
            states[step].add(digest)
    assert lines(outcomes, "ENDS") == [["protected"]] * 3, text
    # Those of ranks that are gone have ended as well.
    for keeper in keepers:
        eventually(lambda process=keeper: not Path(f"/proc/{process}").exists(), 10)


@pytest.mark.parametrize("lost", ["trainer", "host"])
def test_fewer_ranks_go_on_in_their_processes(tmp_path: Path, lost: str) -> None:
    """4 to 3 ranks within an epoch: each sample once, and what was owed stays as a sum."""
    job = {"HOLDFAST_JOB": f"test-{uuid.uuid4().hex}", "HOLDFAST_ON_HOLE": "raise"}
    outcomes = run("shrinks", 4, tmp_path, LOST=lost, **job)
    text = "\n".join(one.output for one in outcomes)
    assert [one.status == 0 for one in outcomes] == [True, True, False, True], text
    assert lines(outcomes, "ENDS") == [["protected", "1"]] * 3, text
    begun = {int(words[0]) for words in lines(outcomes, "BEGINS")}
    assert len(begun) == 2, text
    place = max(begun)
    assert place >= 2, text
    # Bits of the whole, and the sums of what ranks owe, are those of the four.
    digests: dict[int, set[str]] = defaultdict(set)
    owed: dict[tuple[str, int], list[str]] = defaultdict(list)
    for word in ("BEGINS", "STEP"):
        for step, digest, *rest in lines(outcomes, word):
            digests[int(step)].add(digest)
            if int(step) == place:
                owed[word, place].append(" ".join(rest))
    assert len(digests[place]) == 1, text
    before, after = sums_of(owed["STEP", place]), sums_of(owed["BEGINS", place])
    assert before, text
    assert before.keys() == after.keys(), text
    for name, value in before.items():
        assert value == pytest.approx(after[name], abs=1e-4), (name, text)
    # What was done after the snapshot that all went on from was done again.
    done = []
    for one in outcomes:
        done += counted(one, place)
    assert sorted(done) == [*range(96)], text


def counted(one: Outcome, place: int) -> list[int]:
    """Samples of a rank that count: until the snapshot in the first call, all in the second."""
    found, calls = [], 0
    for line in one.output.splitlines():
        word, *rest = line.split() or [""]
        if word == "BEGINS":
            calls += 1
        elif word == "DID" and (calls == 2 or int(rest[0]) <= place):
            found += [int(index) for index in rest[1:]]
    return found


def sums_of(texts: list[str]) -> dict[str, float]:
    """The sum over all ranks, by residual."""
    found: dict[str, float] = defaultdict(float)
    for text in texts:
        for name, sums in ast.literal_eval(text).items():
            found[name] += sums[0]
    return found

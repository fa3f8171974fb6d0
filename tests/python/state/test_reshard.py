"""What keepers have is restored in another number of ranks, with the bits that it had."""

from __future__ import annotations

import ast
import signal
import threading
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ranks import Outcome, finish, start_rank
from waiting import eventually


def run(function: str, ranks: int, here: Path, **env: str) -> list[Outcome]:
    here.mkdir(exist_ok=True)
    started = [start_rank("reshard_ranks", function, r, ranks, here, env) for r in range(ranks)]
    return finish(started, 100)


def respawned(function: str, ranks: int, here: Path, **env: str) -> list[str]:
    """Run ranks, each of which is started again when it was killed; what each has said in all."""
    here.mkdir(exist_ok=True)

    starting = threading.Lock()

    def live(rank: int) -> str:
        said = ""
        while True:
            with starting:
                started = start_rank("reshard_ranks", function, rank, ranks, here, env)
            (one,) = finish([started], 100)
            said += one.output
            if one.status != -signal.SIGKILL:
                return said if one.status == 0 else f"{said}\n(status {one.status})"

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(live, range(ranks)))


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


def test_after_a_restore_another_host_may_be_lost_before_anything_is_taken(tmp_path: Path) -> None:
    job = {"HOLDFAST_JOB": f"test-{uuid.uuid4().hex}", "CODE": "3+1"}
    plan: list[dict[str, str]] = [{"LOST": "1"}, {"LOST": "0", "REBUILT": "1"}, {"LAST": "1"}]
    begun = []
    for number, env in enumerate(plan):
        outcomes = run("lives", 4, tmp_path / str(number), **job, **env)
        text = "\n".join(one.output for one in outcomes)
        found = {(step, digest) for step, digest, _ in lines(outcomes, "BEGINS")}
        assert len(found) == 1, text
        begun += [*found]
    assert begun[0][0] == "0"
    assert begun[1][0] >= "2"
    assert begun[2] == begun[1], text
    assert lines(outcomes, "ENDS") == [["protected"]] * 4, text


@pytest.mark.parametrize("lost", ["trainer", "host"])
def test_fewer_ranks_go_on_in_their_processes(tmp_path: Path, lost: str) -> None:
    """4 to 3 ranks within an epoch: each sample once, and what was owed stays as a sum."""
    job = {"HOLDFAST_JOB": f"test-{uuid.uuid4().hex}", "HOLDFAST_ON_HOLE": "raise"}
    outcomes = run("shrinks", 4, tmp_path, LOST=lost, **job)
    text = "\n".join(one.output for one in outcomes)
    assert [one.status == 0 for one in outcomes] == [True, True, False, True], text
    assert lines(outcomes, "ENDS") == [["protected", "1"]] * 3, text
    assert "code (3, 1) has 3 hosts now, and is (2, 1)" in text
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


@pytest.mark.parametrize(
    ("spread", "kills"), [("ddp", "trainer:2:5 host:1:7"), ("hsdp", "trainer:2:5")]
)
def test_with_a_replica_nobody_goes_back(tmp_path: Path, spread: str, kills: str) -> None:
    """Killed after a step, all go on with the next one; a host after that costs one at most."""
    job = {"HOLDFAST_ON_PEER_LOSS": "raise", "HOLDFAST_ON_HOLE": "raise", "SPREAD": spread}

    def told(name: str, **env: str) -> list[list[str]]:
        env |= {"HOLDFAST_JOB": f"test-{uuid.uuid4().hex}", **job}
        said = respawned("replicates", 4, tmp_path / name, **env)
        assert sum(text.count("ENDS protected") for text in said) == 4, "\n".join(said)
        return [line.split() for text in said for line in text.splitlines()]

    def steps(words: list[list[str]]) -> dict[tuple[str, str], set[str]]:
        found = defaultdict(set)
        for _, rank, step, digest in (each for each in words if each[:1] == ["STEP"]):
            found[rank, step].add(digest)
        return found

    undisturbed, killed = told("undisturbed"), told("killed", KILLS=kills)
    assert steps(killed) == steps(undisturbed)
    begun = [int(words[1]) for words in killed if words[:1] == ["BEGINS"]]
    assert begun.count(5) == 4, begun
    assert all(step in (0, 5, 6, 7) for step in begun), begun

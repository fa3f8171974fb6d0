"""One rank of a training in parallel is killed, and what the others saw is judged by the docs.

The ranks are those of `parallel_ranks.py`. What should happen is in `docs/reference/guarantees.md`;
the functions below say it once more, for each way to train.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ranks import finish, kill, start_rank

_STEPS = 24
# Survivors are told of the loss in this time, wherever they are.
TOLD_WITHIN_S = 1.0
# The kill comes in one of the steps from here to there.
_EARLIEST, _LATEST = 2, 8
_WORLD_S = 60.0

Told = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What one survivor told."""

    rank: int
    status: int
    steps: list[Told]
    error: Told | None
    after: Told | None
    """Of a group that was used again after the error."""
    ended: bool
    text: str


@dataclass(frozen=True)
class Death:
    """One killed rank, and the survivors."""

    way: str
    victim: int
    size: int
    when: float
    step: int
    seen: list[Seen]


@dataclass
class Trial:
    """What came of a death: nothing is wrong when it was as the docs say."""

    death: Death
    wrong: list[str] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    """From the kill until each survivor was told, or had ended its next step."""

    def expect(self, holds: bool, otherwise: str) -> None:
        """Take down what is not as it should be."""
        if not holds:
            self.wrong.append(otherwise)

    @property
    def saw(self) -> str:
        """In a word, what survivors saw."""
        kinds = {s.error["error"] if s.error else "went on" for s in self.death.seen}
        return " / ".join(sorted(kinds))


def _goes_on(trial: Trial, one: Seen) -> None:
    """All steps are taken; how long the next one took is noted."""
    trial.expect(one.error is None, f"rank {one.rank}: {one.error}")
    trial.expect(len(one.steps) == _STEPS, f"rank {one.rank} took {len(one.steps)} steps")
    later = [step["t"] - trial.death.when for step in one.steps]
    trial.times_s.append(min((t for t in later if t > 0), default=math.inf))


def _is_told(trial: Trial, one: Seen, lost: int | None) -> None:
    """PeerLost comes in time; it names the rank."""
    if one.error is None:
        trial.wrong.append(f"rank {one.rank} was told nothing")
        return
    trial.times_s.append(one.error["t"] - trial.death.when)
    trial.expect(one.error["error"] == "PeerLost", f"rank {one.rank}: {one.error['text']}")
    names = lost is None or one.error["lost"] == [lost]
    trial.expect(names, f"rank {one.rank} was told of {one.error['lost']}")
    trial.expect(
        trial.times_s[-1] <= TOLD_WITHIN_S,
        f"rank {one.rank} was told after {trial.times_s[-1]:.2f} s",
    )


def _all_are_told_alike(trial: Trial) -> None:
    """All survivors are told at one op of one step, and can use the group again."""
    death = trial.death
    survivors = [one.rank for one in death.seen]
    for one in death.seen:
        _is_told(trial, one, death.victim)
        after = one.after or {}
        usable = (after.get("usable"), after.get("live")) == (len(survivors), survivors)
        trial.expect(usable, f"rank {one.rank}: the group is not usable: {one.after}")
    errors = [one.error for one in death.seen if one.error is not None]
    ops = {error["op"].partition(" of ")[0] for error in errors}
    trial.expect(len(ops) <= 1, f"told at different ops: {ops}")
    steps = {error["step"] for error in errors}
    trial.expect(len(steps) <= 1, f"told at different steps: {steps}")


def _same_bits(trial: Trial) -> None:
    for told in zip(*(one.steps for one in trial.death.seen), strict=False):
        bits = {step["crc"] for step in told}
        trial.expect(len(bits) == 1, f"step {told[0]['step']} ended with different bits")


def _ddp(trial: Trial) -> None:
    """All survivors go on, and have the same bits after every step."""
    for one in trial.death.seen:
        _goes_on(trial, one)
    _same_bits(trial)


def _zero1(trial: Trial) -> None:
    """What the lost rank kept of the optimiser is lost, so all are told; none has other weights."""
    _all_are_told_alike(trial)
    _same_bits(trial)
    bits = {one.after["crc"] for one in trial.death.seen if one.after is not None}
    trial.expect(len(bits) <= 1, "weights differ after the error")


def _fsdp2(trial: Trial) -> None:
    """What the lost rank kept of the weights is lost, so all are told."""
    _all_are_told_alike(trial)


def _hsdp(trial: Trial) -> None:
    """Who shares a replica with the lost rank is told of it, the other replica of his leaving."""
    death = trial.death
    shards = death.size // 2
    for one in death.seen:
        shares = one.rank // shards == death.victim // shards
        _is_told(trial, one, death.victim % shards if shares else None)


def _pipeline(trial: Trial) -> None:
    """Its neighbours are told of its loss, theirs of their leaving, and so on to both ends."""
    for one in trial.death.seen:
        near = abs(one.rank - trial.death.victim) == 1
        _is_told(trial, one, trial.death.victim if near else None)


@dataclass(frozen=True)
class Way:
    """A way to train: its ranks, and what their deaths should look like."""

    name: str
    ranks: int
    judge: Callable[[Trial], None]


WAYS = (
    Way("ddp", 3, _ddp),
    Way("fsdp2", 3, _fsdp2),
    Way("hsdp", 4, _hsdp),
    Way("zero1", 3, _zero1),
    Way("pipeline", 3, _pipeline),
)


def _read(rank: int, status: int, output: str) -> Seen:
    told = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return Seen(
        rank,
        status,
        [one for one in told if "loss" in one],
        next((one for one in told if "error" in one), None),
        next((one for one in told if "usable" in one), None),
        any("end" in one for one in told),
        output,
    )


def _judge(way: Way, death: Death) -> Trial:
    trial = Trial(death)
    way.judge(trial)
    for one in death.seen:
        last = one.text.strip().rpartition("\n")[2]
        trial.expect(one.status == 0 and one.ended, f"rank {one.rank}, {one.status}: {last}")
        finite = all(math.isfinite(step["loss"]) for step in one.steps)
        trial.expect(finite, f"rank {one.rank}: a loss is not finite")
        stepped = max(told["stepped"] for told in (*one.steps, one.error or {"stepped": 0}))
        trial.expect(stepped == 0, f"rank {one.rank}: {stepped} steps of a model with a hole")
    return trial


def try_death(way: Way, victim: int, seed: int, folder: Path) -> Trial:
    """Train, kill a rank at a random moment of a step, and judge what the others saw.

    Parameters
    ----------
    way : Way
        How to train.
    victim : int
        Whom to kill.
    seed : int
        Chooses the moment.
    folder : Path
        Empty.

    Returns
    -------
    Trial
        The judgement.
    """
    chance = random.Random(f"{way.name} {victim} {seed}")
    at = chance.randint(_EARLIEST, _LATEST)
    env = {"PARALLEL": way.name, "STEPS": str(_STEPS), "HOLDFAST_TIMEOUT": "20"}
    ranks = [
        start_rank("parallel_ranks", "train", rank, way.ranks, folder, env)
        for rank in range(way.ranks)
    ]
    before = now = 0.0
    assert ranks[victim].stdout is not None
    for line in ranks[victim].stdout:
        told = json.loads(line) if line.startswith("{") else {}
        before, now = (now, told["t"]) if "loss" in told else (before, now)
        if told.get("step") == at:
            break
    # Anywhere in a step, whose length is that of the last one.
    time.sleep(chance.random() * (now - before))
    when = time.monotonic()
    with contextlib.suppress(ProcessLookupError):  # one that ended by itself is told of below
        kill(ranks[victim])
    outcomes = finish(ranks, _WORLD_S)
    ended = outcomes[victim]
    seen = [_read(o.rank, o.status, o.output) for o in outcomes if o.rank != victim]
    trial = _judge(way, Death(way.name, victim, way.ranks, when, at, seen))
    trial.expect(ended.status == -signal.SIGKILL, f"rank {victim} ended before: {ended.output}")
    return trial

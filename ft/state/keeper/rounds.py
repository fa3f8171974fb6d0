"""Rounds of the keepers: whether a snapshot counts, and which one is gone back to.

A round is a fixed row of collectives. A keeper whose trainer is gone takes part in the rounds of
the others, with nothing to say; when nobody has anything to say, there are no more rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.ft.state.keeper.generation import Generation, Generations
from holdfast.ft.state.keeper.peers import Peers, Range


class Rounds:
    """Of one keeper.

    Parameters
    ----------
    peers : Peers
        The keepers.
    generations : Generations
        What this one has.
    """

    def __init__(self, peers: Peers, generations: Generations) -> None:
        self.peers = peers
        self._generations = generations
        self._passed = -1  # the others were at that step, when this one came in late

    def commit(self, generation: Generation, error: str) -> tuple[bool, str]:
        """Agree whether a snapshot counts: on all ranks that have a trainer, or on none.

        Parameters
        ----------
        generation : Generation
            This rank's part.
        error : str
            Why it is not whole; empty: it is.

        Returns
        -------
        tuple of bool and str
            Whether it counts, and if not, why.
        """
        if generation.step <= self._passed:
            return False, "this rank's keeper has come in later"
        self.peers.group.advance()
        snapshot = generation.snapshot
        mine = {
            "step": generation.step,
            "epoch": snapshot.epoch if snapshot else 0,
            "error": error,
        }
        told, missing = self.peers.tell_json(mine)
        why = _refusal(told, missing)
        self._passed = max(one.get("step", -1) for one in told.values())
        generation.is_committed = not why
        if not why:
            for other in self._generations.all:
                if other is not generation and other.step >= generation.step:
                    other.drop()  # of a history that was gone back on
        return not why, why

    def idle(self) -> bool:
        """Take part in a round with nothing; return whether anybody had anything."""
        self.peers.group.advance()
        told, _ = self.peers.tell_json({"idle": True})
        return any("idle" not in one for one in told.values())

    def choose(self) -> tuple[int, dict[int, bytes]]:
        """Agree on the newest snapshot that all have; collective.

        Returns
        -------
        tuple of int and dict of int to bytes
            Its step, -1: there is none; and the heads of all bodies, by rank.
        """
        for one in self._generations.all:
            if one.is_whole and one.damaged():
                one.drop()
        mine = {"snapshots": [one.told() for one in self._generations.all if one.is_whole]}
        told, missing = self.peers.tell_json(mine)
        step = _newest(told, missing)
        chosen = self._generations.of(step)
        for one in self._generations.all:
            if one is chosen:
                one.is_committed = True
            else:
                one.drop()
        head = chosen.snapshot.head if chosen and chosen.snapshot else b""
        return step, self.peers.tell(head).by_rank if step >= 0 else {}

    def fetch(self, step: int, wanted: Sequence[Range], into: memoryview) -> Iterator[None]:
        """Fetch ranges of all ranks' bodies; collective, also for who wants nothing."""
        generation = self._generations.of(step)
        body = generation.body if generation else memoryview(b"")
        yield from self.peers.exchange(wanted, body, into)


def _refusal(told: dict[int, Any], missing: Sequence[int]) -> str:
    """Return why a snapshot does not count; the same on all."""
    taken = {rank: one for rank, one in told.items() if "idle" not in one}
    for rank, one in sorted(taken.items()):
        if one["error"]:
            return f"rank {rank}: {one['error']}"
    if missing:
        return f"ranks {_names(missing)}: their keepers are gone"
    if idle := sorted(set(told) - set(taken)):
        return f"ranks {_names(idle)}: their trainers are gone"
    steps = {(one["step"], one["epoch"]) for one in taken.values()}
    if len(steps) > 1:
        text = ", ".join(f"{rank}: {one['step']}" for rank, one in sorted(taken.items()))
        return (
            f"ranks took snapshots of different steps ({text}): some keeper has come in late, or "
            "take() was called after different steps"
        )
    return ""


def _newest(told: dict[int, Any], missing: Sequence[int]) -> int:
    """Return the newest step that all ranks have whole, in one epoch; -1: there is none."""
    if missing:
        return -1
    have = [{(s["step"], s["epoch"]) for s in one["snapshots"]} for one in told.values()]
    common = set.intersection(*have) if have else set()
    return max((step for step, _ in common), default=-1)


def _names(ranks: Sequence[int]) -> str:
    return ", ".join(str(rank) for rank in ranks)

"""Hangs: who waits for whom, and where that ends.

Each rank's oldest op that does not end has edges to the ranks it waits for. Followed to their end
they lead to a rank that waits for nobody: it has never called the op (the root of the hang), or in
a circle: of different ops, which is a deadlock, or of one op, whose data does not move. The idea of
a wait-for graph over ranks is that of MegaScale (Jiang et al., NSDI 2024) and C4 (Dong et al.,
2024); here every edge is an op that its rank has written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.ft.health.evidence import (
    Evidence,
    Look,
    Metrics,
    Op,
    Record,
    Subject,
    describe_ranks,
)
from holdfast.ft.health.finding import Culprit, Finding, Limits

_LINES = 6
# Durations by which a rank's usual op is known.
_USUAL_OPS = 20
# What heartbeats, which are no progress, may move in a few seconds.
_MOVED_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Wait:
    """An op that does not end."""

    op: Op
    seconds: float
    known: bool  # until when it has waited is known, not guessed


@dataclass(frozen=True, slots=True)
class _Rank:
    record: Record
    waits: tuple[Wait, ...]  # oldest first
    begun: Mapping[str, int]  # by group: the last collective

    def has_begun(self, op: Op) -> bool:
        return self.begun.get(op.group, -1) >= op.sequence

    def wait_in(self, op: Op) -> Wait | None:
        return next((w for w in self.waits if w.op.call == op.call and not w.op.is_message), None)


def op_text(op: Op, record: Record) -> str:
    """Return "all_reduce 12 of group default (f32, 200000 bytes)", after what was called."""
    name = f"{op.caller}, {op.collective}" if op.caller else op.collective
    if op.is_message:
        other = f"rank {op.other} of it" if op.other >= 0 else "any of several ranks"
        return f"{name} of group {record.group_name(op.group)} with {other}"
    return (
        f"{name} {op.sequence} of group {record.group_name(op.group)} "
        f"({op.dtype}, {op.bytes} bytes)"
    )


def usual_s(record: Record) -> float:
    """Return what an op of this rank takes in the worst of twenty cases, in seconds; 0: unknown."""
    times = sorted(e.ended_ns - e.started_ns for e in record.entries if e.ended and e.code == "ok")
    if len(times) < _USUAL_OPS:
        return 0.0
    return times[int(0.95 * (len(times) - 1))] / 1e9


def _now_ns(look: Look, newest_ns: int) -> tuple[int, bool]:
    """Until when a record's ops have waited, by its wall clock, and whether that is known."""
    return (look.at_ns, True) if look.at_ns > 0 else (newest_ns, False)


def waits_of(record: Record, now_ns: int, known: bool, limits: Limits) -> tuple[Wait, ...]:
    """Return the ops of a record that wait for too long.

    Parameters
    ----------
    record : Record
        Of one rank.
    now_ns : int
        Until when, on the wall clock.
    known : bool
        Whether that is certain. If not, each op that has not ended counts.
    limits : Limits
        What is too long.

    Returns
    -------
    tuple of Wait
        Oldest first; those that gave up by their time limit are among them.
    """
    patience = max(limits.hang_s, limits.hang_ratio * usual_s(record))
    waits = []
    for op in record.entries:
        if op.ended and op.code == "Timeout":
            waits.append(Wait(op, (op.ended_ns - op.started_ns) / 1e9, True))
        if op.ended:
            continue
        seconds = (now_ns - record.wall_offset_ns - op.started_ns) / 1e9
        if seconds >= patience or not known:
            waits.append(Wait(op, max(0.0, seconds), known))
    return tuple(waits)


def _begun(record: Record) -> dict[str, int]:
    last: dict[str, int] = {}
    for op in record.entries:
        if not op.is_message:
            last[op.group] = max(last.get(op.group, -1), op.sequence)
    return last


class WaitGraph:
    """Who waits for whom.

    Parameters
    ----------
    evidence : Evidence
        With records.
    limits : Limits
        From when on a wait counts.
    """

    def __init__(self, evidence: Evidence, limits: Limits) -> None:
        records = evidence.records()
        newest = max((r.last_ns for r in records.values()), default=0)
        self.ranks: dict[int, _Rank] = {}
        self.subjects: dict[int, Subject] = evidence.by_rank()
        for rank, record in records.items():
            subject = self.subjects[rank]
            look = next(look for look in reversed(subject.looks) if look.record)
            now, known = _now_ns(look, newest)
            # Who is stopped or dead waits for nobody, whatever its record says.
            absent = subject.process in ("stopped", "gone") or bool(subject.last.trouble)
            waits = () if evidence.live and absent else waits_of(record, now, known, limits)
            self.ranks[rank] = _Rank(record, waits, _begun(record))

    def awaited(self, rank: int, wait: Wait) -> list[int]:
        """Return the ranks that an op waits for: as it says, and those that have not begun it."""
        op = wait.op
        found = set(op.waited_for)
        if not op.is_message:
            found |= {
                other
                for other, state in self.ranks.items()
                if op.group in state.begun and not state.has_begun(op)
            }
        return sorted(found - {rank})

    def roots(self) -> dict[int, list[tuple[int, Wait]]]:
        """Return the ranks where waiting ends, with who waits for each, directly or not."""
        found: dict[int, dict[int, Wait]] = {}
        for rank, state in self.ranks.items():
            for wait in state.waits[:1]:
                for root in self._follow(rank, wait, {rank}):
                    found.setdefault(root, {})[rank] = wait
        return {root: sorted(waiting.items()) for root, waiting in found.items()}

    def _follow(self, rank: int, wait: Wait, seen: set[int]) -> set[int]:
        roots: set[int] = set()
        for other in self.awaited(rank, wait):
            if other in seen:
                continue
            seen.add(other)
            state = self.ranks.get(other)
            if state is None:
                roots.add(other)
                continue
            own = state.wait_in(wait.op)
            if own is not None:
                roots |= self._follow(other, own, seen)
            elif state.waits:
                roots |= self._follow(other, state.waits[0], seen)
            elif wait.op.is_message or not state.has_begun(wait.op):
                roots.add(other)
        return roots

    def circle(self) -> list[tuple[int, Wait]]:
        """Return ranks that wait for each other in a circle, each in its oldest op; or nothing."""
        for start in sorted(self.ranks):
            path: list[int] = []
            rank = start
            while rank not in path and rank in self.ranks and self.ranks[rank].waits:
                path.append(rank)
                ahead = self.awaited(rank, self.ranks[rank].waits[0])
                ahead = [r for r in ahead if r in self.ranks and self.ranks[r].waits]
                if not ahead:
                    break
                # In the direction of another op, where there is one: that is what blocks.
                here = self.ranks[rank].waits[0].op.call
                ahead.sort(key=lambda r: self.ranks[r].waits[0].op.call == here)
                rank = ahead[0]
                if rank in path:
                    return self._around(path[path.index(rank) :])
        return []

    def _around(self, circle: list[int]) -> list[tuple[int, Wait]]:
        """The ranks of a circle, and those that wait in the same ops beside it."""
        calls = {self.ranks[rank].waits[0].op.call for rank in circle}
        beside = [(rank, state.waits[0]) for rank, state in self.ranks.items() if state.waits]
        return [(rank, wait) for rank, wait in beside if rank in circle or wait.op.call in calls]


def _confidence(waiting: list[tuple[int, Wait]], present: int, limits: Limits) -> float:
    longest = max(w.seconds for _, w in waiting)
    patient = min(1.0, longest / (3 * limits.hang_s))
    part = len(waiting) / max(1, present - 1)
    if not any(w.known for _, w in waiting) and longest < limits.hang_s:
        return 0.5
    return 0.7 + 0.15 * patient + 0.12 * part


def _wait_lines(graph: WaitGraph, waiting: list[tuple[int, Wait]]) -> list[str]:
    lines = []
    for rank, wait in waiting[:_LINES]:
        record = graph.ranks[rank].record
        whom = describe_ranks(graph.awaited(rank, wait)) if graph.awaited(rank, wait) else "nobody"
        for_how_long = f"for {wait.seconds:.1f} s" if wait.known else "to the end of its record"
        lines.append(f"rank {rank} waits {for_how_long} in {op_text(wait.op, record)}, for {whom}")
    if len(waiting) > _LINES:
        lines.append(f"and {len(waiting) - _LINES} more ranks wait")
    return lines


def _own_lines(graph: WaitGraph, root: int, missing: Wait) -> list[str]:
    state = graph.ranks.get(root)
    if state is None:
        return [f"rank {root} has left no record"]
    record = state.record
    lines = []
    if not missing.op.is_message:
        op = missing.op
        called = f"{op.caller}, {op.collective}" if op.caller else op.collective
        lines.append(f"rank {root} has not called {called} {op.sequence}")
    if not record.entries:
        return [*lines, f"rank {root} has called nothing yet"]
    last = record.entries[-1]
    told = f"its last call was {op_text(last, record)}"
    look = graph.subjects[root].last
    if last.ended and look.at_ns > 0:
        ago = (look.at_ns - record.wall_offset_ns - last.ended_ns) / 1e9
        told += f", which ended {max(0.0, ago):.1f} s ago"
    return [*lines, told]


def _moved(evidence: Evidence, ranks: list[int]) -> bool:
    """Whether data still comes to one of these ranks."""

    def received(metrics: Metrics | None) -> float:
        name = "holdfast_link_bytes_total"
        return metrics.total(name, direction="received") if metrics else 0.0

    subjects = evidence.by_rank()
    for rank in ranks:
        looks = [look for look in subjects[rank].looks if look.metrics]
        if len(looks) >= 2:
            grown = received(looks[-1].metrics) - received(looks[0].metrics)
            if grown > _MOVED_BYTES:
                return True
    return False


def _circle_finding(graph: WaitGraph, evidence: Evidence, limits: Limits) -> list[Finding]:
    circle = graph.circle()
    if not circle:
        return []
    ranks = tuple(sorted(rank for rank, _ in circle))
    lines = tuple(_wait_lines(graph, circle))
    sure = _confidence(circle, len(graph.ranks), limits)
    # Messages have numbers of their own: equal ones are different messages.
    if len({wait.op.call for _, wait in circle}) > 1 or any(w.op.is_message for _, w in circle):
        advice = (
            "these ranks begin ops in different orders: give all ranks one order of groups and "
            "messages, or let the first op end before the second begins"
        )
        return [Finding("deadlock", Culprit(_odd_ones(circle, ranks)), sure, lines, advice)]
    if _moved(evidence, list(ranks)) or not any(w.known for _, w in circle):
        return []
    advice = "all of them have called the op and its data does not move: look at their links"
    return [Finding("stalled", Culprit(ranks), 0.8 * sure, lines, advice)]


def _odd_ones(circle: list[tuple[int, Wait]], ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Of a circle the ranks that differ from most, where most agree."""
    calls = [wait.op.call for _, wait in circle]
    most = max(calls, key=calls.count)
    odd = tuple(sorted(rank for rank, wait in circle if wait.op.call != most))
    return odd if 0 < 2 * len(odd) < len(circle) else ranks


def find_hangs(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find the ranks that others wait for in vain.

    Parameters
    ----------
    evidence : Evidence
        With flight records.
    limits : Limits
        From when on a wait counts.

    Returns
    -------
    list of Finding
        Kinds `hang` (a rank that never called an op), `deadlock`, `stalled`.
    """
    graph = WaitGraph(evidence, limits)
    found = []
    for root, waiting in graph.roots().items():
        missing = waiting[0][1]
        lines = (*_own_lines(graph, root, missing), *_wait_lines(graph, waiting))
        advice = (
            "look at what its threads are at: a lock, input that does not come, a branch that the "
            "others did not take"
        )
        sure = _confidence(waiting, len(graph.ranks), limits)
        found.append(Finding("hang", Culprit((root,)), sure, lines, advice))
    return found or _circle_finding(graph, evidence, limits)

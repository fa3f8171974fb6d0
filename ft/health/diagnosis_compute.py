"""Compute stragglers: ranks, or hosts, that come late to ops for what they do between them.

Of each collective that all ranks took part in, the rank that began it last is late by the time
since the one before it: that is what the others lost to this rank alone. It is the rank's own doing
as far as it also spent that much more than anybody else since its previous op, a comparison that
needs no common clock; the rest it owes to communication. A rank is to blame when it loses the
others a good part of their time, several times what any other rank does, and in each third of the
time that was looked at: on a machine with more processes than processors everybody is late now and
then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.ft.health.clocks import SYNCHRONISING, offsets_ns
from holdfast.ft.health.evidence import Call, Evidence, Op, Record, describe_ranks
from holdfast.ft.health.finding import Culprit, Finding, Limits

# What is looked at: the latest so long, and longer where that holds too few ops.
_WINDOW_NS = 3_000_000_000
_LONGEST_NS = 60_000_000_000
_OPS = 12
_PARTS = 3


@dataclass(frozen=True, slots=True)
class Arrival:
    """One collective: when each rank began it, on one clock, and what it had spent before."""

    call: Call
    starts: Mapping[int, int]
    own: Mapping[int, int]  # ns since the end of the rank's previous op
    finish: int

    @property
    def latest(self) -> int:
        """When all had begun."""
        return max(self.starts.values())


@dataclass(slots=True)
class _Blame:
    seconds: float = 0.0
    parts: list[float] = field(default_factory=lambda: [0.0] * _PARTS)
    gaps: list[float] = field(default_factory=list)


def arrivals(records: Mapping[int, Record]) -> list[Arrival]:
    """Return the collectives that all ranks with records took part in, oldest first.

    Parameters
    ----------
    records : mapping of int to Record
        By rank.

    Returns
    -------
    list of Arrival
        With times on one clock.
    """
    offsets = offsets_ns(records)
    ops: dict[Call, dict[int, tuple[Op, int]]] = {}
    for rank, record in records.items():
        previous = 0
        for op in record.entries:
            own = max(0, op.enqueued_ns - previous) if previous else 0
            if op.collective in SYNCHRONISING and op.ended and op.code == "ok":
                ops.setdefault(op.call, {})[rank] = (op, own)
            previous = max(previous, op.ended_ns)
    found = []
    for call, by_rank in ops.items():
        if len(by_rank) < len(records):
            continue
        starts = {rank: op.enqueued_ns + offsets[rank] for rank, (op, _) in by_rank.items()}
        spent = {rank: between for rank, (_, between) in by_rank.items()}
        finish = max(op.ended_ns + offsets[rank] for rank, (op, _) in by_rank.items())
        found.append(Arrival(call, starts, spent, finish))
    return sorted(found, key=lambda a: a.latest)


def window(found: Sequence[Arrival]) -> list[Arrival]:
    """Return the latest of them: three seconds' worth, or a dozen."""
    if not found:
        return []
    end = found[-1].latest
    recent = [a for a in found if a.latest >= end - _WINDOW_NS]
    if len(recent) < _OPS:
        recent = [a for a in found[-_OPS:] if a.latest >= end - _LONGEST_NS]
    return recent


def late_by_ns(arrival: Arrival, ranks: Sequence[int]) -> int:
    """Return by how much these ranks, all of them, made all others wait; at most 0: they did not.

    Parameters
    ----------
    arrival : Arrival
        Of a collective.
    ranks : sequence of int
        One rank, or those of one host.

    Returns
    -------
    int
        Nanoseconds, without what communication had cost them before.
    """
    others = [rank for rank in arrival.starts if rank not in ranks]
    late = min(arrival.starts[r] for r in ranks) - max(arrival.starts[r] for r in others)
    spent = min(arrival.own[r] for r in ranks) - max(arrival.own[r] for r in others)
    return min(late, spent)


def _blames(
    recent: Sequence[Arrival], suspects: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], _Blame]:
    begin, end = recent[0].latest, recent[-1].latest
    part_ns = max(1, (end - begin) // _PARTS + 1)
    blames = {ranks: _Blame() for ranks in suspects}
    for arrival in recent:
        part = min(_PARTS - 1, (arrival.latest - begin) // part_ns)
        for ranks, blame in blames.items():
            late = late_by_ns(arrival, ranks) / 1e9
            if late > 0:
                blame.seconds += late
                blame.parts[part] += late
                blame.gaps.append(late)
    return blames


def _guilty(
    blames: Mapping[tuple[int, ...], _Blame], seconds: float, limits: Limits
) -> tuple[tuple[int, ...], float] | None:
    """The one that is to blame, and for what part of the time."""
    order = sorted(blames, key=lambda ranks: -blames[ranks].seconds)
    worst = blames[order[0]]
    next_worst = blames[order[1]].seconds if len(order) > 1 else 0.0
    share = worst.seconds / seconds
    if share < limits.blame_share or worst.seconds < limits.blame_ratio * next_worst:
        return None
    if any(part < limits.blame_share / 2 * seconds / _PARTS for part in worst.parts):
        return None
    # Of an op that has waited for it at all: the middle one. Small ones follow every late one.
    gaps = sorted(gap for gap in worst.gaps if gap >= limits.blame_s / 4)
    if not gaps or gaps[len(gaps) // 2] < limits.blame_s:
        return None
    return order[0], share


def _hosts(records: Mapping[int, Record]) -> dict[str, tuple[int, ...]]:
    ranks: dict[str, list[int]] = {}
    for rank, record in sorted(records.items()):
        ranks.setdefault(record.host, []).append(rank)
    return {host: tuple(found) for host, found in ranks.items()}


def find_compute_stragglers(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find who comes late to ops.

    Parameters
    ----------
    evidence : Evidence
        With the flight records of at least two ranks.
    limits : Limits
        How late is late.

    Returns
    -------
    list of Finding
        Kind `slow-host` or `slow-compute`.
    """
    records = {rank: r for rank, r in evidence.records().items() if r.entries}
    if len(records) < 2:
        return []
    recent = window(arrivals(records))
    if len(recent) < _OPS // 2:
        return []
    # From the end of what came before the first of them.
    seconds = (recent[-1].latest - min(recent[0].starts.values())) / 1e9
    if seconds <= 0:
        return []
    hosts = {host: ranks for host, ranks in _hosts(records).items() if len(ranks) > 1}
    if len(_hosts(records)) > 1 and hosts:
        per_host = _blames(recent, list(_hosts(records).values()))
        guilty = _guilty(per_host, seconds, limits)
        if guilty is not None and len(guilty[0]) > 1:
            name = next(host for host, ranks in hosts.items() if ranks == guilty[0])
            return [_finding(recent, guilty, seconds, name)]
    guilty = _guilty(_blames(recent, [(rank,) for rank in sorted(records)]), seconds, limits)
    return [] if guilty is None else [_finding(recent, guilty, seconds, "")]


def _finding(
    recent: Sequence[Arrival], guilty: tuple[tuple[int, ...], float], seconds: float, host: str
) -> Finding:
    ranks, share = guilty
    gaps = sorted(max(0, late_by_ns(a, ranks)) for a in recent)
    own = sorted(min(a.own[r] for r in ranks) for a in recent)
    others = sorted(max(t for r, t in a.own.items() if r not in ranks) for a in recent)
    far = int(0.9 * (len(recent) - 1))
    lines = (
        f"{describe_ranks(ranks)} began ops last and cost the others {100 * share:.0f} % of "
        f"{seconds:.1f} s ({len(recent)} collectives), up to {gaps[-1] / 1e6:.1f} ms each",
        f"between ops: {own[far] / 1e6:.1f} ms there, {others[far] / 1e6:.1f} ms on the slowest "
        "of the others (of ten ops the second longest)",
    )
    advice = (
        "it is late for what it does between ops, not for the network: its share of the data, its "
        "input, other processes on its processors, a processor that is throttled"
    )
    sure = min(0.97, 0.6 + share)
    if host:
        return Finding("slow-host", Culprit(ranks, host=host), sure, lines, advice)
    return Finding("slow-compute", Culprit(ranks), sure, lines, advice)

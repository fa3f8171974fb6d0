"""Views: which ranks each collective of a group was for, by what their flight records say.

A record has its own rank's ops and the names of its groups, and no lists of members; here they are
put together again. A group has other members in each view, so each view of it is a group of its
own here. What records cannot tell is left out rather than guessed: calls that one of them has lost,
and those that were under way a moment ago, when the ranks of a running job were looked at one
after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.ft.health.clocks import SYNCHRONISING
from holdfast.ft.health.evidence import Call, Evidence, Op, Record, by_call
from holdfast.ft.health.finding import Limits

Ops = Mapping[int, Op]  # by rank


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group in one view.

    Parameters
    ----------
    group : str
        Id of the group.
    epoch : int
        Number of the view.
    name : str
        Of the group.
    members : tuple of int
        Ranks of the world.
    width : int
        Blocks of an op that has one for each rank: vacant ranks have theirs.
    """

    group: str
    epoch: int
    name: str
    members: tuple[int, ...]
    width: int


@dataclass(frozen=True, slots=True)
class Calls:
    """The collectives of a job.

    Parameters
    ----------
    views : tuple of GroupView
        By group and epoch; only those that have calls.
    of : mapping of Call to tuple of int and Ops
        Place in `views`, and the op of each rank that has called it.
    lost : int
        Calls left out because a record that should have them does not.
    under_way : int
        Calls left out because they had just begun.
    """

    views: tuple[GroupView, ...]
    of: Mapping[Call, tuple[int, Ops]]
    lost: int
    under_way: int


@dataclass(frozen=True, slots=True)
class _Stay:
    """What one record says of a group."""

    first_epoch: int
    last_epoch: int
    last: int  # number of the last collective; -1: none
    has_lost: bool  # entries, by being overwritten, torn or damaged

    def in_view(self, epoch: int, settled: bool) -> bool:
        return self.first_epoch <= epoch and (epoch <= self.last_epoch or not settled)

    def lost(self, call: Call, ops: Ops) -> bool:
        """Whether its rank may have made a call that the record does not have."""
        if not self.has_lost:
            return False
        return self.last > call[1] or (self.last < 0 and any(_is_well(op) for op in ops.values()))


def _is_well(op: Op) -> bool:
    return op.ended and op.code == "ok"


def _epoch(ops: Ops) -> int:
    """The view of a call: some may have made it in the one before."""
    return max(op.epoch for op in ops.values())


def _stays(
    group: str, records: Mapping[int, Record], calls: Mapping[Call, Ops]
) -> Iterator[tuple[int, _Stay]]:
    own = {call: ops for call, ops in calls.items() if call[0] == group}
    began = min(_epoch(ops) for ops in own.values())
    for rank, record in records.items():
        made = [call for call, ops in own.items() if rank in ops]
        if not made and group not in record.groups:
            continue
        epochs = [_epoch(own[call]) for call in made] or [began]
        last = max((number for _, number in made), default=-1)
        has_lost = record.ops > len(record.entries)
        yield rank, _Stay(min(epochs), max(epochs), last, has_lost)


def _settled(ops: Ops) -> bool:
    """Whether an op has ended well that ends nowhere before all members have begun it."""
    return any(op.collective in SYNCHRONISING and _is_well(op) for op in ops.values())


def _silent(calls: list[Ops], records: Mapping[int, Record]) -> set[int]:
    """Ranks without a record that ops wait for still."""
    open_ops = [op for ops in calls for op in ops.values() if not op.ended]
    return {rank for op in open_ops for rank in op.waited_for if rank not in records}


def _views(
    records: Mapping[int, Record], calls: Mapping[Call, Ops], stays: Mapping[str, dict[int, _Stay]]
) -> list[GroupView]:
    by_view: dict[tuple[str, int], list[Ops]] = {}
    for (group, _), ops in calls.items():
        by_view.setdefault((group, _epoch(ops)), []).append(ops)
    views = []
    widths: dict[str, int] = {}
    for (group, epoch), made in sorted(by_view.items(), key=lambda item: item[0]):
        settled = any(_settled(ops) for ops in made)
        members = {rank for rank, stay in stays[group].items() if stay.in_view(epoch, settled)}
        members |= _silent(made, records)
        highest = max(op.rank for ops in made for op in ops.values())
        widths[group] = max(widths.get(group, 0), highest + 1, len(members))
        name = next(records[rank].group_name(group) for rank in made[0])
        views.append(GroupView(group, epoch, name, tuple(sorted(members)), widths[group]))
    return views


def _looked_ns(evidence: Evidence) -> int:
    """When the first of the ranks that live was looked at; 0: nobody lives."""
    subjects = [s for s in evidence.subjects if s.record and s.process != "gone"]
    looks = [next(x for x in reversed(s.looks) if x.record) for s in subjects]
    return min((look.at_ns for look in looks if look.at_ns > 0), default=0)


def _is_young(view: GroupView, ops: Ops, records: Mapping[int, Record], before_ns: int) -> bool:
    if all(rank in ops and ops[rank].ended for rank in view.members):
        return False
    begun = min(op.started_ns + records[rank].wall_offset_ns for rank, op in ops.items())
    return begun > before_ns


def calls_of(evidence: Evidence, limits: Limits | None = None) -> Calls:
    """Find the collectives of a job, and whom each was for.

    Parameters
    ----------
    evidence : Evidence
        With flight records.
    limits : Limits, optional
        `hang_s`: an op of a running job that has not ended everywhere is left out when it began
        less than that before the first rank was looked at.

    Returns
    -------
    Calls
        Without messages: their numbers are each rank's own.
    """
    records = evidence.records()
    calls = by_call(records)
    stays = {group: dict(_stays(group, records, calls)) for group in {call[0] for call in calls}}
    known = {
        call: ops
        for call, ops in calls.items()
        if not any(stay.lost(call, ops) for rank, stay in stays[call[0]].items() if rank not in ops)
    }
    views = _views(records, known, stays)
    place = {(view.group, view.epoch): at for at, view in enumerate(views)}
    looked_ns = _looked_ns(evidence) if evidence.live else 0
    before_ns = looked_ns - int((limits or Limits()).hang_s * 1e9)
    found: dict[Call, tuple[int, Ops]] = {}
    for call, ops in sorted(known.items()):
        at = place[call[0], _epoch(ops)]
        if not looked_ns or not _is_young(views[at], ops, records, before_ns):
            found[call] = (at, ops)
    return Calls(tuple(views), found, len(calls) - len(known), len(known) - len(found))

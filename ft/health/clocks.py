"""Clocks: how those of several hosts differ, by the ops that all ranks end together.

An all_reduce, a barrier and their like end on no rank before all of them have begun, and end on all
at about one time. So of two ranks a and b and every such op, whatever the network did in it,

    end_a - start_b >= d  and  end_b - start_a >= -d

where d is what a's clock is ahead of b's: each op bounds d on both sides. Inside of the bounds of
all ops the median of end_a - end_b over the fastest quarter is taken: the ends differ by what the
last message took, which is little where the whole op was fast. This is the estimate of Cristian
(Distributed Computing, 1989) with ops in the place of messages. The error is at most half of the
fastest op; ranks of one host share a clock, and differ by nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from holdfast.ft.health.evidence import Call, Op, Record

# Ops that no rank ends before all have begun.
SYNCHRONISING = ("all_reduce", "barrier", "all_gather", "reduce_scatter", "all_to_all")
# The latest: enough for a median, and few enough for clocks that drift.
_OPS = 512
# Of those the fastest quarter counts, and so many at least.
_QUICK_OPS = 5


def _ends(record: Record) -> dict[Call, Op]:
    """A rank's ops that tell of its clock, latest first."""
    found: dict[Call, Op] = {}
    for op in reversed(record.entries):
        if op.collective in SYNCHRONISING and op.ended and op.code == "ok" and not op.repaired:
            found[op.call] = op
            if len(found) == _OPS:
                break
    return found


def _took_ns(ops: tuple[Op, Op]) -> int:
    """How long the slower of two ranks was in an op."""
    return max(op.ended_ns - op.started_ns for op in ops)


def difference_ns(a: Record, b: Record) -> int | None:
    """Return what the wall clock of one record is ahead of another's.

    Parameters
    ----------
    a, b : Record
        Of two ranks.

    Returns
    -------
    int or None
        Nanoseconds; None when they have no op in common.
    """
    ends_a, ends_b = _ends(a), _ends(b)
    common = [(ends_a[call], ends_b[call]) for call in ends_a if call in ends_b]
    if not common:
        return None
    shift = a.wall_offset_ns - b.wall_offset_ns
    # The fastest: a link that is slow in one direction makes the ends differ, by what it takes.
    quick = sorted(common, key=_took_ns)[: max(_QUICK_OPS, len(common) // 4)]
    middle = int(statistics.median(x.ended_ns - y.ended_ns for x, y in quick)) + shift
    most = min(x.ended_ns - y.started_ns for x, y in common) + shift
    least = max(x.started_ns - y.ended_ns for x, y in common) + shift
    return max(least, min(most, middle)) if least <= most else middle


def offsets_ns(records: Mapping[int, Record]) -> dict[int, int]:
    """Return what to add to each rank's monotonic times to have them on one clock.

    Parameters
    ----------
    records : mapping of int to Record
        By rank.

    Returns
    -------
    dict of int to int
        Nanoseconds; the clock is the wall clock of the lowest rank's host. A rank that has no op in
        common with any rank whose clock is known is taken by its own word.
    """
    if not records:
        return {}
    ranks = sorted(records)
    hosts: dict[str, int] = {}  # the first rank of each
    for rank in ranks:
        hosts.setdefault(records[rank].host, rank)
    base = records[ranks[0]]
    ahead: dict[str, int] = {base.host: 0}  # of the base's wall clock
    waiting = [host for host in hosts if host != base.host]
    while waiting:
        found = _settle(waiting, ahead, hosts, records)
        for host, value in found.items():
            ahead[host] = value
        waiting = [host for host in waiting if host not in found]
        if not found:
            ahead |= dict.fromkeys(waiting, 0)
            break
    result = {}
    for rank in ranks:
        host = records[rank].host
        # Each process has looked at both clocks by itself; of one host, one look serves all.
        result[rank] = records[hosts[host]].wall_offset_ns - ahead[host]
    return result


def _settle(
    waiting: list[str],
    ahead: Mapping[str, int],
    hosts: Mapping[str, int],
    records: Mapping[int, Record],
) -> dict[str, int]:
    """The hosts whose clock can be told from one that is known."""
    found: dict[str, int] = {}
    for host in waiting:
        for known, by in ahead.items():
            between = difference_ns(records[hosts[host]], records[hosts[known]])
            if between is not None:
                found[host] = by + between
                break
    return found

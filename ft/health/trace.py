"""Trace: the flight records of all ranks as one timeline, for Perfetto or Chrome.

One process for each rank, one row for each group and, where ops of a group ran at the same time,
one more for each of them. An op is a slice from its start to its end, with its arguments; from its
call to its start, if that took time, it is `queued`. Arrows follow an op from the rank that began
it first over all others to the one that began it last: who was waited for. Times are on one clock,
see :mod:`holdfast.ft.health.clocks`. Messages have no number in common, and no arrows.

References
----------
Trace Event Format, Google, 2016: the JSON that both viewers read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.ft.health.clocks import offsets_ns
from holdfast.ft.health.diagnosis_calls import signature
from holdfast.ft.health.evidence import Call, Op, Record

_US = 1000.0
# A wait for the driving thread that nobody would see on a screen.
_QUEUED_NS = 1000

Event = dict[str, Any]
_Placed = tuple[int, int, Op]  # time of the start, row, op


def _rows(record: Record, end_ns: int) -> dict[int, int]:
    """A row for each op, by its number: ops in one row do not overlap."""
    rows: dict[int, int] = {}
    free: list[tuple[str, int]] = []  # group, and when the row's last op ends
    for op in sorted(record.entries, key=lambda e: e.enqueued_ns):
        end = op.ended_ns or end_ns
        group = op.group + ("m" if op.is_message else "")
        for row, (owner, until) in enumerate(free):
            if owner == group and until <= op.enqueued_ns:
                free[row] = (group, end)
                rows[op.number] = row
                break
        else:
            free.append((group, end))
            rows[op.number] = len(free) - 1
    return rows


def _name(op: Op) -> str:
    return op.name if op.ended else f"{op.name} (not ended)"


def _arguments(op: Op, record: Record) -> dict[str, Any]:
    return {
        "group": record.group_name(op.group),
        "collective": op.collective,
        "sequence": op.sequence,
        "epoch": op.epoch,
        "bytes": op.bytes,
        "dtype": op.dtype,
        "op": op.op,
        "path": op.path,
        "algorithm": op.algorithm,
        "root or peer": op.other,
        "code": op.code,
        "repaired": op.repaired,
        "waited for": list(op.waited_for),
        "number": op.number,
    }


def _metadata(rank: int, record: Record, rows: Mapping[int, int]) -> list[Event]:
    host = record.host if len(record.host) <= 24 else record.host[:24]
    events: list[Event] = [
        _meta(rank, 0, "process_name", name=f"rank {rank} ({host}, pid {record.pid})"),
        _meta(rank, 0, "process_sort_index", sort_index=rank),
    ]
    named: dict[int, str] = {}
    for op in record.entries:
        what = " messages" if op.is_message else ""
        named.setdefault(rows[op.number], f"{record.group_name(op.group)}{what}")
    events += [_meta(rank, row, "thread_name", name=name) for row, name in sorted(named.items())]
    return events


def _meta(rank: int, row: int, what: str, **arguments: Any) -> Event:
    return {"ph": "M", "pid": rank, "tid": row, "name": what, "args": arguments}


def _slices(
    rank: int, op: Op, row: int, times: tuple[float, float, float], args: Any
) -> list[Event]:
    called, start, end = times
    events: list[Event] = []
    place = {"pid": rank, "tid": row, "cat": op.collective}
    if (start - called) * _US >= _QUEUED_NS:
        events.append({"ph": "X", "name": "queued", "ts": called, "dur": start - called, **place})
    # A viewer binds an arrow to the slice around it: none may have no width.
    width = max(end - start, 0.001)
    events.append({"ph": "X", "name": _name(op), "ts": start, "dur": width, "args": args, **place})
    return events


def _arrows(call: Call, placed: Mapping[int, _Placed], number: int, zero_ns: int) -> list[Event]:
    """From the first to begin an op to the last."""
    order = sorted(placed.items(), key=lambda item: item[1][0])
    if len(order) < 2 or len({signature(op) for _, (_, _, op) in order}) > 1:
        return []
    events: list[Event] = []
    for at, (rank, (start_ns, row, op)) in enumerate(order):
        phase = "s" if at == 0 else "f" if at == len(order) - 1 else "t"
        event: Event = {
            "ph": phase,
            "id": number,
            "name": f"{op.collective} {call[1]}",
            "cat": "same op",
            "pid": rank,
            "tid": row,
            "ts": (start_ns - zero_ns) / _US,
        }
        if phase == "f":
            event["bp"] = "e"  # to the slice around it, not to the next one
        events.append(event)
    return events


def merge(records: Mapping[int, Record]) -> dict[str, Any]:
    """Merge flight records into one trace.

    Parameters
    ----------
    records : mapping of int to Record
        By rank.

    Returns
    -------
    dict
        For json.dump: `traceEvents`, in microseconds since the first call, and `otherData` with the
        time of that on the wall clock, and what was added to each rank's clock.
    """
    offsets = offsets_ns(records)
    times = [e.enqueued_ns + offsets[r] for r, record in records.items() for e in record.entries]
    zero = min(times, default=0)
    last = max(
        (max(e.ended_ns, e.started_ns) + offsets[r] for r, x in records.items() for e in x.entries),
        default=zero,
    )
    events: list[Event] = []
    calls: dict[Call, dict[int, _Placed]] = {}
    for rank, record in sorted(records.items()):
        shift = offsets[rank]
        rows = _rows(record, last - shift)
        events += _metadata(rank, record, rows)
        for op in record.entries:
            end = (op.ended_ns or last - shift) + shift
            moments = (
                op.enqueued_ns + shift,
                op.started_ns + shift,
                max(end, op.started_ns + shift),
            )
            called, start, finish = ((moment - zero) / _US for moment in moments)
            arguments = _arguments(op, record)
            events += _slices(rank, op, rows[op.number], (called, start, finish), arguments)
            if not op.is_message:
                calls.setdefault(op.call, {})[rank] = (op.started_ns + shift, rows[op.number], op)
    for number, (call, placed) in enumerate(sorted(calls.items()), 1):
        events += _arrows(call, placed, number, zero)
    about = {
        "made by": "holdfast trace",
        "start_wall_ns": zero,
        "clock_offsets_ns": {str(rank): offset for rank, offset in offsets.items()},
    }
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}

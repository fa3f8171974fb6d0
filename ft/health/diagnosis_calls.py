"""Mismatched calls: the same number of a collective means different things on different ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.ft.health.evidence import Call, Evidence, Op, Record, by_call, describe_ranks
from holdfast.ft.health.finding import Culprit, Finding, Limits

# Where all ranks pass the same number of bytes. Of the others each rank may pass another one.
_SAME_BYTES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather")
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_REFUSED = "ProtocolError"
# How far a rank's later calls are compared, to see whether it has left one out.
_AHEAD = 4

Signature = tuple[str, str, str, int, int]


def signature(op: Op) -> Signature:
    """Return what all ranks must agree on: collective, dtype, operation, bytes, root."""
    name = op.collective
    return (
        name,
        op.dtype if name != "barrier" else "",
        op.op if name in _REDUCING else "",
        op.bytes if name in _SAME_BYTES else 0,
        op.other if name in _ROOTED else 0,
    )


def _text(kind: Signature) -> str:
    name, dtype, op, size, root = kind
    parts = [op, dtype, f"{size} bytes" if size else "", f"root {root}" if name in _ROOTED else ""]
    inside = ", ".join(part for part in parts if part)
    return f"{name} ({inside})" if inside else name


def _left_out(calls: Mapping[Call, Mapping[int, Op]], call: Call, odd: int, other: int) -> str:
    """Whether the odd rank's calls are another's of one later, or the other way round."""
    group, first = call

    def calls_of(rank: int, shift: int) -> list[Signature]:
        found = []
        for step in range(_AHEAD):
            op = calls.get((group, first + shift + step), {}).get(rank)
            if op is None:
                break
            found.append(signature(op))
        return found

    for shift_odd, shift_other, what in ((0, 1, "has left out"), (1, 0, "has called beyond")):
        pairs = list(zip(calls_of(odd, shift_odd), calls_of(other, shift_other), strict=False))
        if pairs and all(a == b for a, b in pairs):
            return what
    return ""


def _finding(
    calls: Mapping[Call, Mapping[int, Op]], call: Call, records: Mapping[int, Record]
) -> Finding:
    ops = calls[call]
    by_kind: dict[Signature, list[int]] = {}
    for rank, op in sorted(ops.items()):
        by_kind.setdefault(signature(op), []).append(rank)
    votes = sorted(by_kind.items(), key=lambda pair: -len(pair[1]))
    agree = votes[0][1]
    clear = len(agree) > len(votes[1][1])
    odd = tuple(sorted(rank for _, ranks in votes[1:] for rank in ranks)) if clear else tuple(ops)
    group = records[agree[0]].group_name(call[0])
    lines = [
        f"number {call[1]} of group {group} is {_text(kind)} on {describe_ranks(ranks)}"
        for kind, ranks in votes
    ]
    codes = Counter(op.code for op in ops.values())
    if codes[_REFUSED]:
        lines.append(f"the op was refused on {codes[_REFUSED]} of {len(ops)} ranks")
    if clear:
        for rank in odd:
            if what := _left_out(calls, call, rank, agree[0]):
                seen = votes[0][0] if what == "has left out" else signature(ops[rank])
                lines.append(f"rank {rank} {what} {_text(seen)}: its next calls are in step")
    sure = (0.97 if codes[_REFUSED] else 0.85) if clear else 0.6
    advice = (
        "all ranks must call the same collectives, in one order, with the same sizes: look at the "
        "branch, or the last batch, that made this rank differ"
    )
    return Finding("mismatch", Culprit(odd), sure, tuple(lines), advice)


def find_mismatches(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find ranks that called something else than the others.

    Parameters
    ----------
    evidence : Evidence
        With flight records.
    limits : Limits
        Not used: calls agree or do not.

    Returns
    -------
    list of Finding
        Kind `mismatch`: of each group the first disagreement; what follows is its consequence.
    """
    del limits
    records = evidence.records()
    calls = by_call(records)
    first: dict[str, int] = {}
    for (group, number), ops in calls.items():
        if len({signature(op) for op in ops.values()}) > 1:
            first[group] = min(number, first.get(group, number))
    return [_finding(calls, call, records) for call in sorted(first.items())]

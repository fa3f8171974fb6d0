"""Links: slow, lossy or decaying ones, and ranks whose links are all slow.

The matrix has a row for each rank and a column for each peer: between two looks, the time that the
rank waited for the peer, the bytes it sent there, how long those were on their way, and what was
sent again. Waiting spreads: behind one slow link everybody waits for somebody. The time in which
data is on its way does not, the kernel measures it for each connection by itself, and bytes by that
time are what the link carries. One cell out of line is a link; a row, or a column, is what a rank
sends, or receives; and a column of waits whose links are all well is a rank that is slow inside of
ops.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.ft.health.evidence import Evidence, Metrics, describe_ranks
from holdfast.ft.health.finding import Culprit, Finding, Limits

Cell = tuple[int, int]  # the rank that says so, and the peer
_WAIT = "holdfast_peer_wait_seconds_total"
_RTT = "holdfast_link_rtt_seconds"
_AGAIN = "holdfast_link_retransmits_total"
_BYTES = "holdfast_link_bytes_total"
_BUSY = "holdfast_link_busy_seconds_total"
_MIN_SECONDS = 0.5
# What is compared: a watch has seen better and worse days.
_RECENT_LOOKS = 3
# Links that are named one by one; more are the network.
_MOST_LINKS = 3
# Speeds that show a trend; those of heartbeats alone are none.
_TREND_LOOKS = 5
_MIN_BUSY_S = 0.02


@dataclass(slots=True)
class Matrix:
    """What happened between the last looks."""

    seconds: float = 0.0
    ranks: list[int] = field(default_factory=list)
    waits: dict[Cell, float] = field(default_factory=dict)  # seconds
    again: dict[Cell, float] = field(default_factory=dict)  # segments
    sent: dict[Cell, float] = field(default_factory=dict)  # bytes
    busy: dict[Cell, float] = field(default_factory=dict)  # seconds
    rtts: dict[Cell, list[float]] = field(default_factory=dict)  # seconds, by look

    def speed(self, cell: Cell) -> float:
        """What a link carries, in bytes/s; infinite where nothing was on its way for long."""
        busy = self.busy.get(cell, 0.0)
        return self.sent.get(cell, 0.0) / busy if busy > 0 else math.inf

    def used(self) -> list[Cell]:
        """Links that carry data, and not heartbeats only."""
        most = max(self.sent.values(), default=0.0)
        return [cell for cell, size in self.sent.items() if size >= max(most / 20, 1)]


def matrix_of(evidence: Evidence) -> Matrix:
    """Put the looks at all ranks together.

    Parameters
    ----------
    evidence : Evidence
        With at least two looks at ranks.

    Returns
    -------
    Matrix
        Empty without.
    """
    matrix = Matrix()
    for rank, subject in sorted(evidence.by_rank().items()):
        looks = [(look.at_ns, look.metrics) for look in subject.looks if look.metrics is not None]
        if len(looks) < 2:
            continue
        matrix.ranks.append(rank)
        (began, first), (ended, last) = looks[-_RECENT_LOOKS:][0], looks[-1]
        matrix.seconds = max(matrix.seconds, (ended - began) / 1e9)
        for peer, waited in _grown(first, last, _WAIT).items():
            matrix.waits[rank, peer] = waited
        for peer, count in _grown(first, last, _AGAIN).items():
            matrix.again[rank, peer] = count
        for peer, size in _grown(first, last, _BYTES, direction="sent", transport="tcp").items():
            matrix.sent[rank, peer] = size
        for peer, busy in _grown(first, last, _BUSY).items():
            matrix.busy[rank, peer] = busy
        for _, metrics in looks:
            for peer, rtt in metrics.by_peer(_RTT).items():
                matrix.rtts.setdefault((rank, peer), []).append(rtt)
    return matrix


def _grown(first: Metrics, last: Metrics, name: str, **labels: str) -> dict[int, float]:
    before = first.by_peer(name, **labels)
    return {p: v - before.get(p, 0.0) for p, v in last.by_peer(name, **labels).items()}


def _lossy(matrix: Matrix, limits: Limits) -> list[Finding]:
    total = sum(matrix.again.values())
    found = []
    for (rank, peer), count in matrix.again.items():
        rest = [c for cell, c in matrix.again.items() if cell != (rank, peer)]
        usual = statistics.median(rest) if rest else 0.0
        # A segment on the wire carries 1448 bytes on most networks, more on none that loses.
        share = count / max(1.0, matrix.sent.get((rank, peer), 0.0) / 1448)
        if count < limits.retransmits or share < limits.retransmit_share or count < 4 * usual:
            continue
        line = (
            f"rank {rank} sent {count:.0f} segments to rank {peer} again in "
            f"{matrix.seconds:.1f} s, {100 * min(1.0, share):.2g} % of what it sent there; "
            f"in the middle a link has {usual:.0f}"
        )
        advice = "look at the cable, the ports and the queues between the two hosts"
        sure = 0.95 if count >= total / 2 else 0.75
        found.append(Finding("lossy-link", Culprit(link=(rank, peer)), sure, (line,), advice))
    return found


def _speed_line(matrix: Matrix, cell: Cell, usual: float) -> str:
    share = 100 * matrix.busy[cell] / matrix.seconds
    return (
        f"rank {cell[0]} had data on its way to rank {cell[1]} for {share:.0f} % of "
        f"{matrix.seconds:.1f} s, at {matrix.speed(cell) / 1e6:.2g} MB/s; good links here carry "
        f"{usual / 1e6:.2g} MB/s" + _rtt_text(matrix, cell)
    )


def _rtt_text(matrix: Matrix, cell: Cell) -> str:
    times = matrix.rtts.get(cell)
    return f"; round trip {1e3 * times[-1]:.1f} ms" if times else ""


def _wait_lines(matrix: Matrix, cells: Iterable[Cell]) -> list[str]:
    return [
        f"rank {cell[0]} waited for rank {cell[1]} {100 * matrix.waits[cell] / matrix.seconds:.0f} "
        f"% of {matrix.seconds:.1f} s"
        for cell in cells
        if matrix.waits.get(cell, 0.0) > 0.05 * matrix.seconds
    ]


def _slow(matrix: Matrix, limits: Limits) -> list[Finding]:
    """Links that carry much less than others, and are what the job waits for."""
    used = matrix.used()
    if len(used) < 3:
        return []  # nothing to compare with
    speeds = sorted((matrix.speed(cell) for cell in used), reverse=True)
    usual = speeds[len(speeds) // 4]
    slow = [
        cell
        for cell in used
        if matrix.busy.get(cell, 0.0) >= limits.busy_share * matrix.seconds
        and matrix.speed(cell) * limits.speed_ratio <= usual
    ]
    # Most of them: that is how this network is, two sites for example.
    if not slow or len(slow) > max(1, len(used) / 3):
        return []
    for side, what in enumerate(("sends", "receives")):
        ranks = {cell[side] for cell in slow}
        own = [cell for cell in used if cell[side] in ranks]
        if len(ranks) == 1 and len(slow) >= 2 and len(slow) >= 0.6 * len(own):
            return [_slow_rank(matrix, ranks.pop(), what, slow, usual)]
    found = []
    for cell in sorted(slow, key=lambda c: -matrix.busy[c])[:_MOST_LINKS]:
        lines = (_speed_line(matrix, cell, usual), *_wait_lines(matrix, [cell[::-1]]))
        advice = "look at the path between the two hosts: its rate, its queues, other traffic"
        sure = 0.9 / len(slow) ** 0.5
        found.append(Finding("slow-link", Culprit(link=cell), sure, lines, advice))
    return found


def _slow_rank(matrix: Matrix, rank: int, what: str, slow: list[Cell], usual: float) -> Finding:
    lines = (
        *(_speed_line(matrix, cell, usual) for cell in slow[:_MOST_LINKS]),
        f"what rank {rank} {what} is slow, from or to whomever",
    )
    advice = "its own link to the network is slow or full: its interface, its port, other traffic"
    return Finding("slow-network", Culprit((rank,)), 0.9, lines, advice)


def _column(matrix: Matrix, limits: Limits) -> list[Finding]:
    """A rank that all others wait for inside of ops, and that waits for nobody."""
    ranks = matrix.ranks
    if len(ranks) < 3 or matrix.seconds < _MIN_SECONDS:
        return []
    columns = {
        r: statistics.median(matrix.waits.get((i, r), 0.0) for i in ranks if i != r) for r in ranks
    }
    own = {r: sum(w for (who, _), w in matrix.waits.items() if who == r) for r in ranks}
    order = sorted(ranks, key=lambda r: -columns[r])
    worst, second = order[0], order[1]
    share = columns[worst] / matrix.seconds
    if share < limits.wait_share or columns[worst] < limits.wait_ratio * columns[second]:
        return []
    if own[worst] > statistics.median(own[r] for r in ranks if r != worst) / 2:
        return []
    lines = _wait_lines(matrix, [(i, worst) for i in ranks if i != worst])
    lines.append(f"rank {worst} itself waited for {own[worst]:.1f} s in all")
    advice = "it is slow inside of ops: it gets too little processor, or its memory is slow"
    return [Finding("slow-rank", Culprit((worst,)), min(0.9, 0.5 + share), tuple(lines), advice)]


def find_trends(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find links that get worse from look to look.

    Parameters
    ----------
    evidence : Evidence
        With six looks or more.
    limits : Limits
        How much a link has to lose.

    Returns
    -------
    list of Finding
        Kind `decaying-link`.
    """
    speeds = _speeds(evidence)
    falls: dict[Cell, float] = {}
    for cell, series in speeds.items():
        if len(series) < _TREND_LOOKS:
            continue
        third = (len(series) + 2) // 3
        early, late = statistics.median(series[:third]), statistics.median(series[-third:])
        # Rank correlation with time: one outlier is no trend.
        downs = sum(b < a for i, a in enumerate(series) for b in series[i + 1 :])
        steady = downs / (len(series) * (len(series) - 1) / 2)
        if late * limits.trend_ratio <= early and steady >= 0.75:
            falls[cell] = early / late
    # Most of them: the machine, or the job, has changed, and not a link.
    if not falls or len(falls) > max(1, len(speeds) / 3):
        return []
    found = []
    for cell, ratio in sorted(falls.items(), key=lambda fall: -fall[1])[:_MOST_LINKS]:
        shown = ", ".join(f"{speed / 1e6:.2g}" for speed in speeds[cell])
        lines = (f"from rank {cell[0]} to rank {cell[1]}, in MB/s, look by look: {shown}",)
        advice = "it gets worse: look at the path between the two hosts before it breaks"
        sure = min(0.9, 0.5 + ratio / 20)
        found.append(Finding("decaying-link", Culprit(link=cell), sure, lines, advice))
    return found


def _speeds(evidence: Evidence) -> dict[Cell, list[float]]:
    """What each link carried while data was on its way, from look to look, in bytes/s."""
    found: dict[Cell, list[float]] = {}
    for rank, subject in evidence.by_rank().items():
        scrapes = [look.metrics for look in subject.looks if look.metrics is not None]
        for first, last in itertools.pairwise(scrapes):
            sent = _grown(first, last, _BYTES, direction="sent", transport="tcp")
            for peer, busy in _grown(first, last, _BUSY).items():
                if busy > _MIN_BUSY_S and sent.get(peer, 0.0) > 0:
                    found.setdefault((rank, peer), []).append(sent[peer] / busy)
    return found


def find_slow_links(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find links, and ranks, that communicate slowly.

    Parameters
    ----------
    evidence : Evidence
        With two looks at the metrics of at least three ranks.
    limits : Limits
        How slow is slow.

    Returns
    -------
    list of Finding
        Kinds `lossy-link`, `slow-link`, `slow-network`, `slow-rank`.
    """
    matrix = matrix_of(evidence)
    if matrix.seconds < _MIN_SECONDS:
        return []
    lossy = _lossy(matrix, limits)
    slow = _slow(matrix, limits)
    # What is lost is late: one thing, told once.
    lost = {frozenset(f.culprit.link) for f in lossy if f.culprit.link}
    slow = [f for f in slow if f.culprit.link is None or frozenset(f.culprit.link) not in lost]
    return [*lossy, *slow] or _column(matrix, limits)


def matrix_text(matrix: Matrix) -> str:
    """Return the delay matrix as a table: rows wait, columns are waited for, in percent."""
    if matrix.seconds < _MIN_SECONDS or not matrix.ranks:
        return ""
    head = f"waited for (% of {matrix.seconds:.1f} s), {describe_ranks(matrix.ranks)}:"
    rows = [head, "        " + "".join(f"{peer:>6}" for peer in matrix.ranks)]
    for rank in matrix.ranks:
        cells = [100 * matrix.waits.get((rank, p), 0.0) / matrix.seconds for p in matrix.ranks]
        row = "".join(
            f"{'-' if rank == p else f'{c:.0f}':>6}"
            for p, c in zip(matrix.ranks, cells, strict=True)
        )
        rows.append(f"rank {rank:<3}{row}")
    return "\n".join(rows)

"""Links: slow, lossy or decaying ones, and ranks whose links are all slow.

The matrix has a row for each rank and a column for each peer: between some looks, the time that the
rank waited for the peer, segments sent again, and the round-trip time at each look. Waiting
spreads: behind one slow link everybody waits for somebody. A round trip does not: it is long where
data queues before a link. It is noisy, for an acknowledgement may be held back and a processor may
be busy, but upwards only: the least of several looks is taken. One pair out of line is a link; all
pairs of one rank are that rank, or its host; and a column of waits without anything wrong on its
links is a rank that is slow inside of ops.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from holdfast.ft.health.evidence import Evidence, Metrics, describe_ranks
from holdfast.ft.health.finding import Culprit, Finding, Limits

Cell = tuple[int, int]  # the rank that says so, and the peer
_WAIT = "holdfast_peer_wait_seconds_total"
_RTT = "holdfast_link_rtt_seconds"
_LEAST = "holdfast_link_least_rtt_seconds"
_RATE = "holdfast_link_delivered_bytes_per_second"
_AGAIN = "holdfast_link_retransmits_total"
_BYTES = "holdfast_link_bytes_total"
_MIN_SECONDS = 0.5
# What heartbeats and small talk do not send in a few seconds.
_DATA_BYTES = 256 * 1024
# What is compared: a watch has seen better and worse days.
_RECENT_LOOKS = 7
# Links that are named one by one; more are the network.
_MOST_LINKS = 3
# Samples that show a trend.
_TREND_LOOKS = 6
_TREND_S = 6.0


@dataclass(slots=True)
class Matrix:
    """What happened between the last looks."""

    seconds: float = 0.0  # of the latest looks, which are compared
    seen_s: float = 0.0  # of all of them
    ranks: list[int] = field(default_factory=list)
    waits: dict[Cell, float] = field(default_factory=dict)  # seconds
    again: dict[Cell, float] = field(default_factory=dict)  # segments
    sent: dict[Cell, float] = field(default_factory=dict)  # bytes
    rtts: dict[Cell, list[float]] = field(default_factory=dict)  # seconds, by look
    least: dict[Cell, float] = field(default_factory=dict)  # seconds: without queues, of late
    rates: dict[Cell, float] = field(default_factory=dict)  # bytes a second, when it was full

    def pair_rtt(self, a: int, b: int) -> float:
        """The round-trip time between two ranks: the least of the latest looks, at either end."""
        ends = [self.rtts[c][-_RECENT_LOOKS:] for c in ((a, b), (b, a)) if c in self.rtts]
        # At one end it may be that of small acknowledgements alone: the other one sends the data.
        return max((min(end) for end in ends), default=0.0)

    def carries(self, a: int, b: int) -> bool:
        """Whether data went between two ranks over TCP, and not heartbeats only."""
        return self.sent.get((a, b), 0.0) + self.sent.get((b, a), 0.0) >= _DATA_BYTES

    def waited(self, a: int, b: int) -> float:
        """Seconds that two ranks waited for each other."""
        return self.waits.get((a, b), 0.0) + self.waits.get((b, a), 0.0)

    def pairs(self) -> list[Cell]:
        """Pairs of ranks between which data went, and whose round-trip time is known."""
        known = {(min(c), max(c)) for c in self.rtts if c[0] != c[1]}
        return sorted(pair for pair in known if self.carries(*pair))


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
        matrix.seen_s = max(matrix.seen_s, (looks[-1][0] - looks[0][0]) / 1e9)
        matrix.seconds = max(matrix.seconds, (ended - began) / 1e9)
        for peer, waited in _grown(first, last, _WAIT).items():
            matrix.waits[rank, peer] = waited
        for peer, count in _grown(first, last, _AGAIN).items():
            matrix.again[rank, peer] = count
        for peer, size in _grown(first, last, _BYTES, direction="sent", transport="tcp").items():
            matrix.sent[rank, peer] = size
        for peer, rtt in last.by_peer(_LEAST).items():
            matrix.least[rank, peer] = rtt
        for peer, rate in last.by_peer(_RATE).items():
            matrix.rates[rank, peer] = rate
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
        if not matrix.carries(rank, peer):
            continue
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


def _direction(matrix: Matrix, a: int, b: int) -> Cell:
    """Of a link the sender and the receiver: who waits for the other."""
    forth, back = matrix.waits.get((b, a), 0.0), matrix.waits.get((a, b), 0.0)
    return (a, b) if forth >= back else (b, a)


def _rtt_line(matrix: Matrix, pairs: Iterable[Cell], usual: float) -> list[str]:
    return [
        f"round trip between ranks {a} and {b}: {1e3 * matrix.pair_rtt(a, b):.1f} ms; "
        f"usual here: {1e3 * usual:.2f} ms"
        for a, b in pairs
    ]


def _path_lines(matrix: Matrix, link: Cell) -> list[str]:
    """What the kernel says of the way from a rank to another: whether it is long, or full."""
    lines = []
    least = [matrix.least[c] for c in (link, link[::-1]) if c in matrix.least]
    if least:
        long = min(least) >= matrix.pair_rtt(*link) / 2
        why = "the way itself is long" if long else "data queues on the way"
        lines.append(f"its least round trip of late was {1e3 * min(least):.2f} ms: {why}")
    if link in matrix.rates:
        lines.append(f"it delivered {8 * matrix.rates[link] / 1e6:.0f} Mbit/s when it was full")
    return lines


def _wait_lines(matrix: Matrix, cells: Iterable[Cell]) -> list[str]:
    return [
        f"rank {cell[0]} waited for rank {cell[1]} {100 * matrix.waits[cell] / matrix.seconds:.0f} "
        f"% of {matrix.seconds:.1f} s"
        for cell in cells
        if matrix.waits.get(cell, 0.0) > 0.05 * matrix.seconds
    ]


def _slow(matrix: Matrix, limits: Limits) -> list[Finding]:
    """By round-trip times: data that queues before a link makes them long."""
    pairs = matrix.pairs()
    if len(pairs) < 3:
        return []  # nothing to compare with
    times = sorted(matrix.pair_rtt(*pair) for pair in pairs)
    usual = times[(len(times) - 1) // 4]
    high = [
        pair
        for pair in pairs
        if matrix.pair_rtt(*pair) >= max(limits.rtt_s, limits.rtt_ratio * usual)
    ]
    # A link that nobody waits for may be as slow as it likes.
    waited = sum(matrix.waited(*pair) for pair in high)
    if not high or waited < limits.link_wait_share * matrix.seconds:
        return []
    rank = _apart(matrix, pairs, limits)
    if rank is not None:
        own = [pair for pair in pairs if rank in pair]
        return [_slow_rank(matrix, rank, own, usual)]
    # Beside a slow link others are a little slow, for what is answered late.
    worst = max(matrix.pair_rtt(*pair) for pair in high)
    high = [pair for pair in high if matrix.pair_rtt(*pair) >= worst / 2]
    # Most of them: that is how this network is, two sites for example.
    if len(high) > max(1, len(pairs) / 3):
        return []
    found = []
    slowest = _one_by_rank(sorted(high, key=lambda p: -matrix.pair_rtt(*p)))
    for pair in slowest[:_MOST_LINKS]:
        link = _direction(matrix, *pair)
        lines = (
            *_rtt_line(matrix, [pair], usual),
            *_path_lines(matrix, link),
            *_wait_lines(matrix, [link[::-1]]),
        )
        advice = "look at the path between the two hosts: its rate, its queues, other traffic"
        sure = 0.9 / len(high) ** 0.5
        found.append(Finding("slow-link", Culprit(link=link), sure, lines, advice))
    return found


def _one_by_rank(pairs: Iterable[Cell]) -> list[Cell]:
    """Those that share no rank with one before: what a rank sends on waits for its slowest link."""
    kept: list[Cell] = []
    taken: set[int] = set()
    for pair in pairs:
        if not taken & set(pair):
            kept.append(pair)
            taken |= set(pair)
    return kept


def _apart(matrix: Matrix, pairs: list[Cell], limits: Limits) -> int | None:
    """The rank all of whose pairs are slow, measured by the pairs that it is not in."""
    best: tuple[float, int] | None = None
    for rank in sorted({rank for pair in pairs for rank in pair}):
        own = [matrix.pair_rtt(*pair) for pair in pairs if rank in pair]
        rest = [matrix.pair_rtt(*pair) for pair in pairs if rank not in pair]
        if len(own) < 2 or not rest:
            continue
        least = max(limits.rtt_s, limits.rtt_ratio * statistics.median(rest))
        if min(own) >= least and (best is None or min(own) / least > best[0]):
            best = (min(own) / least, rank)
    return None if best is None else best[1]


def _slow_rank(matrix: Matrix, rank: int, high: list[Cell], usual: float) -> Finding:
    waits_for_it = sum(w for (_, peer), w in matrix.waits.items() if peer == rank)
    it_waits = sum(w for (who, _), w in matrix.waits.items() if who == rank)
    side = "sends" if waits_for_it >= it_waits else "receives"
    lines = (
        *_rtt_line(matrix, high, usual),
        f"all others waited {waits_for_it:.1f} s for rank {rank}, it waited {it_waits:.1f} s for "
        f"them: what it {side} is slow",
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
        With five looks or more.
    limits : Limits
        From when on a round-trip time is worth a word.

    Returns
    -------
    list of Finding
        Kind `decaying-link`.
    """
    matrix = matrix_of(evidence)
    if matrix.seen_s < _TREND_S:
        return []
    late_of = {c: statistics.median(t[-(len(t) // 3 + 1) :]) for c, t in matrix.rtts.items()}
    rises: dict[Cell, float] = {}
    for cell, times in matrix.rtts.items():
        if len(times) < _TREND_LOOKS or not matrix.carries(*cell):
            continue
        early = statistics.median(times[: len(times) // 3 + 1])
        others = statistics.median(t for c, t in late_of.items() if set(c) != set(cell))
        # Rank correlation with time: one outlier is no trend.
        ups = sum(b > a for i, a in enumerate(times) for b in times[i + 1 :])
        steady = ups / (len(times) * (len(times) - 1) / 2)
        least = max(limits.rtt_s, limits.trend_ratio * early, limits.rtt_ratio * others)
        if late_of[cell] >= least and steady >= 0.7:
            rises[cell] = late_of[cell] / max(early, 1e-9)
    if len(rises) > max(2, len(matrix.rtts) / 3):
        return []  # most of them: the machine is busy, not a link
    # Beside a link that decays others answer late.
    worst = max((late_of[cell] for cell in rises), default=0.0)
    rises = {cell: ratio for cell, ratio in rises.items() if late_of[cell] >= worst / 2}
    found = []
    for (rank, peer), ratio in sorted(rises.items(), key=lambda r: -r[1])[:_MOST_LINKS]:
        shown = ", ".join(f"{1e3 * t:.1f}" for t in matrix.rtts[rank, peer])
        lines = (f"round trip from rank {rank} to rank {peer}, in ms: {shown}",)
        advice = "it gets worse: look at the path between the two hosts before it breaks"
        culprit = Culprit(link=_direction(matrix, rank, peer))
        found.append(Finding("decaying-link", culprit, min(0.9, 0.5 + ratio / 20), lines, advice))
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
    # What is lost is late, there and on the next links: one thing, told once.
    lost = {rank for f in lossy for rank in f.culprit.link or ()}
    slow = [f for f in slow if not lost & set(f.culprit.link or ())]
    slow, lossy = _joined(slow, lossy)
    return [*lossy, *slow] or _column(matrix, limits)


def _joined(slow: list[Finding], lossy: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """What a full queue drops on the links of a slow rank is that rank's, and no link's."""
    joined = []
    for finding in slow:
        own = set(finding.culprit.ranks)
        drops = [f for f in lossy if f.culprit.link and own & set(f.culprit.link)]
        lossy = [f for f in lossy if f not in drops]
        lines = (line for f in drops for line in f.evidence)
        joined.append(replace(finding, evidence=(*finding.evidence, *lines)))
    return joined, lossy


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

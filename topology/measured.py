"""A map of links from measurements of pairs: who measures whom when, sites, and what is shared.

Pure: numbers in, numbers out, the same on all ranks. comm/measure.py sends and receives.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.int64]

# A gap: links across are so many times slower, or later, than those inside.
_RATE_GAP = 2.0
_DELAY_GAP = 3.0
_DELAY_GAP_NS = 500_000
# Flows that together get no more than this share of what each gets alone share something.
_SHARED = 0.8
# Ranks of one host that were not measured: shared memory, roughly.
_INSIDE_KBIT = 40_000_000
_INSIDE_NS = 1_000
_KBIT_PER_GBIT = 1e6
_NS_PER_US = 1e3


@dataclass(frozen=True, slots=True)
class Flows:
    """What flows got that ran at once.

    Parameters
    ----------
    senders, receivers : tuple of int
        Sets of hosts; all that went from the one to the other shares a capacity, if any.
    kbit_per_s : int
        All flows together.
    alone_kbit_per_s : int
        The sum of what each of them got alone.
    """

    senders: tuple[int, ...]
    receivers: tuple[int, ...]
    kbit_per_s: int
    alone_kbit_per_s: int

    @property
    def shares(self) -> bool:
        """Whether they got in each other's way."""
        return self.kbit_per_s < _SHARED * self.alone_kbit_per_s


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Pair everybody with everybody, in rounds in which each has one partner at most.

    Parameters
    ----------
    count : int
        How many there are.

    Returns
    -------
    list of list of (int, int)
        `count` - 1 rounds, or `count` where that is odd: the circle method.
    """
    seats = list(range(count + count % 2))
    found = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = zip(seats[:half], reversed(seats[half:]), strict=True)
        found.append([(min(p), max(p)) for p in pairs if max(p) < count])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found


def sites(kbit: Matrix, alpha_ns: Matrix) -> list[int]:
    """Group hosts where a clear gap in rates, or else in latencies, parts them.

    Parameters
    ----------
    kbit, alpha_ns : array, hosts x hosts
        Of pairs; 0 where nothing is known.

    Returns
    -------
    list of int
        By host, the number of its site, from 0 on; all 0 where there is no gap.
    """
    hosts = len(kbit)
    for values, is_near, least_gap in (
        (np.minimum(kbit, kbit.T), True, _RATE_GAP),
        (np.maximum(alpha_ns, alpha_ns.T), False, _DELAY_GAP),
    ):
        found = _parted(values, is_near, least_gap)
        if found is not None:
            return found
    return [0] * hosts


def _parted(values: Matrix, is_near: bool, least_gap: float) -> list[int] | None:
    """The groups that the widest gap leaves, if all pairs inside are on its one side, and all
    across on the other.

    `is_near`: large values are inside.
    """
    hosts = len(values)
    known = sorted({int(values[a, b]) for a, b in itertools.combinations(range(hosts), 2)} - {0})
    gaps = sorted(
        ((high / low, low, high) for low, high in itertools.pairwise(known)), reverse=True
    )
    for ratio, low, high in gaps:
        if ratio < least_gap:
            return None
        if not is_near and high - low < _DELAY_GAP_NS:
            continue
        inside = values >= high if is_near else (values <= low) & (values > 0)
        group = _components(inside)
        same = np.equal.outer(group, group)
        if 1 < max(group) + 1 < hosts and all(
            bool(inside[a, b]) == bool(same[a, b])
            for a, b in itertools.combinations(range(hosts), 2)
        ):
            return group
    return None


def _components(joined: npt.NDArray[np.bool_]) -> list[int]:
    group = list(range(len(joined)))
    for a, b in itertools.combinations(range(len(joined)), 2):
        if joined[a, b] and group[a] != group[b]:
            old, new = max(group[a], group[b]), min(group[a], group[b])
            group = [new if g == old else g for g in group]
    numbers = {g: n for n, g in enumerate(dict.fromkeys(group))}
    return [numbers[g] for g in group]


def uncrowded(kbit: Matrix, site_of: Sequence[int], alone: Matrix) -> Matrix:
    """Correct what pairs of hosts got while others of their sites sent over the same line.

    Parameters
    ----------
    kbit : array, hosts x hosts
        What pairs got, while other pairs sent.
    site_of : sequence of int
        By host.
    alone : array, sites x sites
        What one pair of hosts of two sites got while nobody else of these sites sent; 0: not known.

    Returns
    -------
    array, hosts x hosts
        A pair of two sites gets what that one got, or what its cards do inside of their sites.
    """
    corrected: Matrix = kbit.copy()
    near = np.where(np.equal.outer(site_of, site_of), kbit, 0)
    out, into = near.max(axis=1), near.max(axis=0)
    for a, b in itertools.permutations(range(len(kbit)), 2):
        most = int(alone[site_of[a], site_of[b]])
        if site_of[a] == site_of[b] or most == 0:
            continue
        for card in (int(out[a]), int(into[b])):
            most = min(most, card) if card else most
        corrected[a, b] = max(int(kbit[a, b]), most)
    return corrected


def crossings(site_of: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Name, for each site, the flows that show what its way out can do.

    Parameters
    ----------
    site_of : sequence of int
        By host.

    Returns
    -------
    list of list of (int, int)
        By site: its hosts, each with another host outside to send to; empty where that would show
        nothing new.
    """
    found = []
    for site in range(max(site_of) + 1):
        inside = [h for h, s in enumerate(site_of) if s == site]
        outside = [h for h, s in enumerate(site_of) if s != site]
        # Of two sites the one's way out is the other one's way in.
        told = site == 1 and max(site_of) == 1
        alone = len(inside) < 2 or len(outside) < 2 or told
        found.append([] if alone else list(zip(inside, outside, strict=False)))
    return found


def chart_of(
    host_of: Sequence[int],
    kbit: Matrix,
    alpha_ns: Matrix,
    site_of: Sequence[int],
    flows: Sequence[Flows],
) -> str:
    """Make the map of ranks from what hosts measured.

    Parameters
    ----------
    host_of : sequence of int
        By rank: its host; -1 where the rank is vacant, which counts as a middling host of its own.
    kbit, alpha_ns : array, hosts x hosts
        By sending and receiving host, and inside of each; 0 where nothing is known.
    site_of : sequence of int
        By host.
    flows : sequence of Flows
        What sites' ways out, and ways in, were seen to do.

    Returns
    -------
    str
        The map, as JSON.
    """
    hosts = len(kbit)
    apart = ~np.eye(hosts, dtype=bool)
    middle = _median(kbit[apart & (kbit > 0)], _INSIDE_KBIT)
    delay = _median(alpha_ns[apart & (alpha_ns > 0)], _INSIDE_NS)
    ranks = range(len(host_of))

    def rate(a: int, b: int) -> float:
        if a == b:
            return 0
        x, y = host_of[a], host_of[b]
        if min(x, y) < 0:
            return middle / _KBIT_PER_GBIT
        known = int(kbit[x, y]) or (_INSIDE_KBIT if x == y else middle)
        return known / _KBIT_PER_GBIT

    def late(a: int, b: int) -> float:
        if a == b:
            return 0
        x, y = host_of[a], host_of[b]
        if min(x, y) < 0:
            return delay / _NS_PER_US
        return (int(alpha_ns[x, y]) or (_INSIDE_NS if x == y else delay)) / _NS_PER_US

    several = max(site_of, default=0) > 0
    domains = [
        [
            *([f"site-{site_of[h]}" if h >= 0 else "site-unknown"] if several else []),
            f"host-{h}" if h >= 0 else f"host-of-rank-{rank}",
        ]
        for rank, h in enumerate(host_of)
    ]
    return json.dumps(
        {
            "format": 1,
            "ranks": len(host_of),
            "domains": domains,
            "gbit_per_s": [[rate(a, b) for b in ranks] for a in ranks],
            "alpha_us": [[late(a, b) for b in ranks] for a in ranks],
            "shared": [*_cards(host_of, kbit), *_lines(host_of, flows)],
        }
    )


def _median(values: Matrix, otherwise: int) -> int:
    return int(np.median(values)) if values.size else otherwise


def _cards(host_of: Sequence[int], kbit: Matrix) -> list[dict[str, object]]:
    """A card for each host: it does what its best pair does."""
    cards: list[dict[str, object]] = []
    apart = np.where(np.eye(len(kbit), dtype=bool), 0, kbit)
    for host in range(len(kbit)):
        own = [rank for rank, h in enumerate(host_of) if h == host]
        others = [rank for rank, h in enumerate(host_of) if h != host]
        for way, best in (("out", apart[host].max()), ("in", apart[:, host].max())):
            if not own or not others or best == 0:
                continue
            ends = (own, others) if way == "out" else (others, own)
            cards.append(_capacity(f"host-{host} {way}", int(best), *ends))
    return cards


def _lines(host_of: Sequence[int], flows: Sequence[Flows]) -> list[dict[str, object]]:
    lines = []
    for number, flow in enumerate(flows):
        if not flow.shares:
            continue
        senders = [rank for rank, h in enumerate(host_of) if h in flow.senders]
        receivers = [rank for rank, h in enumerate(host_of) if h in flow.receivers]
        lines.append(_capacity(f"line {number}", flow.kbit_per_s, senders, receivers))
    return lines


def _capacity(name: str, kbit: int, senders: list[int], receivers: list[int]) -> dict[str, object]:
    rate = kbit / _KBIT_PER_GBIT
    return {"name": name, "gbit_per_s": rate, "from": senders, "to": receivers}

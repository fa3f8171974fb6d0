"""A map that follows the traffic: which capacity is less, or more, than the map says.

Between measurements the kernel says of every connection how long its round trips are, how short
they were of late, and what it delivered when it was last full (TCP_INFO). A pair whose round trips
are long beside the least ones has data queueing on its way: something on it is full. What is
delivered then, summed up over the pairs that share a capacity, is what the capacity does.

A pair is explained where a capacity on its way delivers about what the map says. Of the others the
capacity is blamed that has most of them, and no pair that is explained. One look proves little, so
a capacity is blamed three times in a row before the map changes, and rests for some looks then.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Pair = tuple[int, int]

# Data queues where the round trip is so many times the least one, and so much longer.
_QUEUE_RATIO = 2.0
_QUEUE_NS = 1_000_000
# What counts as delivering what the map says, and as more than it says.
_FULL = 0.7
_MORE = 1.25
_LOOKS_TO_BELIEVE = 3
_LOOKS_OF_REST = 5
_KBIT_PER_GBIT = 1_000_000
_BITS_PER_KBIT = 1000


@dataclass(frozen=True, slots=True)
class Path:
    """What a rank's kernel says of the connection to a peer.

    Parameters
    ----------
    rtt_ns, least_rtt_ns : int
        Round trips: smoothed, and the least of late; 0 where nothing is known.
    bytes_per_s : int
        What it delivered when it was last full; 0: it never was.
    """

    rtt_ns: int
    least_rtt_ns: int
    bytes_per_s: int

    @property
    def queues(self) -> bool:
        """Whether data queues on the way."""
        longer = self.rtt_ns >= _QUEUE_RATIO * self.least_rtt_ns + _QUEUE_NS
        return self.least_rtt_ns > 0 and self.bytes_per_s > 0 and longer


@dataclass(frozen=True, slots=True)
class Change:
    """A capacity that is not what the map says.

    Parameters
    ----------
    capacity : tuple of int, or int
        The pair of ranks, sender first, or the place of a shared capacity in the map's list.
    name : str
        For people.
    kbit_per_s, seen_kbit_per_s : int
        What the map says, and what was delivered.
    """

    capacity: Pair | int
    name: str
    kbit_per_s: int
    seen_kbit_per_s: int

    def __str__(self) -> str:
        was, seen = self.kbit_per_s / 1e3, self.seen_kbit_per_s / 1e3
        return f"{self.name}: {seen:.4g} Mbit/s were seen where the map says {was:.4g}"


@dataclass(frozen=True, slots=True)
class _Capacity:
    key: Pair | int
    name: str
    kbit: int
    pairs: frozenset[Pair]


def find_changes(chart: Mapping[str, Any], paths: Sequence[Mapping[int, Path]]) -> list[Change]:
    """Compare a look at all connections with a map.

    Parameters
    ----------
    chart : mapping
        A map with a matrix `gbit_per_s`, as a group has it.
    paths : sequence of mapping
        By rank: of each peer that it is connected to.

    Returns
    -------
    list of Change
        By the number of pairs that they explain; none where the map fits.
    """
    full = {
        (rank, peer): path.bytes_per_s * 8 // _BITS_PER_KBIT
        for rank, known in enumerate(paths)
        for peer, path in known.items()
        if peer != rank and path.queues
    }
    capacities = _capacities(chart, set(full))
    seen = {c.key: sum(full[pair] for pair in c.pairs) for c in capacities}
    changes = []
    for c in capacities:
        # Flows that share a capacity need not have been full at once: their sum proves no more.
        most = max((full[pair] for pair in c.pairs), default=0)
        if most > _MORE * c.kbit:
            changes.append(Change(c.key, c.name, c.kbit, most))
    explained = {p for c in capacities if seen[c.key] >= _FULL * c.kbit for p in c.pairs}
    left = set(full) - explained
    while left:
        blamed = max(
            (c for c in capacities if c.pairs & left and not c.pairs & explained),
            key=lambda c: (len(c.pairs & left), -len(c.pairs)),
        )
        changes.append(Change(blamed.key, blamed.name, blamed.kbit, seen[blamed.key]))
        left -= blamed.pairs
    return changes


def _capacities(chart: Mapping[str, Any], full: set[Pair]) -> list[_Capacity]:
    """Those that a pair goes through; a pair's own first, so that of equals it is blamed."""
    found = []
    for a, b in sorted(full):
        kbit = round(chart["gbit_per_s"][a][b] * _KBIT_PER_GBIT)
        found.append(_Capacity((a, b), f"rank {a} to rank {b}", kbit, frozenset({(a, b)})))
    for place, shared in enumerate(chart.get("shared", ())):
        through = frozenset((a, b) for a, b in full if a in shared["from"] and b in shared["to"])
        if through:
            kbit = round(shared["gbit_per_s"] * _KBIT_PER_GBIT)
            found.append(_Capacity(place, f'"{shared["name"]}"', kbit, through))
    return found


def changed(chart: Mapping[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """Return the map with these changes."""
    new = copy.deepcopy(dict(chart))
    for change in changes:
        rate = change.seen_kbit_per_s / _KBIT_PER_GBIT
        if isinstance(change.capacity, int):
            new["shared"][change.capacity]["gbit_per_s"] = rate
        else:
            sender, receiver = change.capacity
            new["gbit_per_s"][sender][receiver] = rate
    return new


@dataclass(slots=True)
class Watch:
    """Looks again and again, and says what has changed for good."""

    _blamed: dict[Pair | int, list[Change]] = field(default_factory=dict)  # in a row
    _resting: dict[Pair | int, int] = field(default_factory=dict)  # looks that are left

    def look(self, chart: Mapping[str, Any], paths: Sequence[Mapping[int, Path]]) -> list[Change]:
        """Return the changes that the map should have now.

        Parameters
        ----------
        chart, paths
            As for `find_changes`.

        Returns
        -------
        list of Change
            With the most that was seen of late.
        """
        self._resting = {c: n - 1 for c, n in self._resting.items() if n > 1}
        found = find_changes(chart, paths)
        self._blamed = {c.capacity: [*self._blamed.get(c.capacity, []), c] for c in found}
        believed = []
        for capacity, row in list(self._blamed.items()):
            if len(row) < _LOOKS_TO_BELIEVE or capacity in self._resting:
                continue
            believed.append(max(row[-_LOOKS_TO_BELIEVE:], key=lambda c: c.seen_kbit_per_s))
            self._resting[capacity] = _LOOKS_OF_REST
            del self._blamed[capacity]
        return believed

"""A map of links as Python reads it, in words, and beside another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast._core import map_capacities, map_facts

# What is listed one by one; more are counted.
MOST_LISTED = 8
_KBIT_PER_MBIT = 1e3
_NS_PER_US = 1e3


@dataclass(frozen=True, slots=True)
class Shared:
    """A capacity that pairs share: all from the one set of ranks to the other."""

    name: str
    kbit_per_s: int
    senders: tuple[int, ...]
    receivers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A map.

    Parameters
    ----------
    domains : tuple of tuple of str
        By rank, from the outside in; empty where it is not known.
    kbit_per_s : array of int64, ranks x ranks
        By sender and receiver; 0: no way.
    alpha_ns : array of int64, ranks x ranks
        One message, one way.
    shared : tuple of Shared
        As the map lists them.
    digest : str
        The same wherever the map says the same.
    """

    domains: tuple[tuple[str, ...], ...]
    kbit_per_s: npt.NDArray[np.int64]
    alpha_ns: npt.NDArray[np.int64]
    shared: tuple[Shared, ...]
    digest: str

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.domains)


def read(map_text: str) -> Chart:
    """Read a map.

    Parameters
    ----------
    map_text : str
        JSON, ``format: 1``.

    Returns
    -------
    Chart

    Raises
    ------
    ConfigError
        Naming the key, its value, and what is accepted.
    """
    ranks, kbit, shared = map_capacities(map_text, [])
    domains, alpha_ns, digest = map_facts(map_text)
    return Chart(
        tuple(tuple(path) for path in domains),
        np.array(kbit, dtype=np.int64).reshape(ranks, ranks),
        np.array(alpha_ns, dtype=np.int64).reshape(ranks, ranks),
        tuple(Shared(name, k, tuple(a), tuple(b)) for name, k, a, b in shared),
        f"{digest:016x}",
    )


def describe(chart: Chart) -> Iterator[str]:
    """Yield lines that say what is in a map."""
    yield f"{chart.ranks} ranks, map {chart.digest}"
    yield from _tree(chart)
    apart = chart.kbit_per_s[~np.eye(chart.ranks, dtype=bool)]
    delays = chart.alpha_ns[~np.eye(chart.ranks, dtype=bool)][apart > 0]
    there = apart[apart > 0]
    yield f"pairs: {_span(there, _KBIT_PER_MBIT, 'Mbit/s')}, {_span(delays, _NS_PER_US, 'us')}"
    if missing := int((apart == 0).sum()):
        yield f"{missing} of {apart.size} directed pairs have no way"
    if len(set(there.tolist())) > 1:
        slowest = sorted(
            (int(chart.kbit_per_s[a, b]), int(a), int(b))
            for a, b in np.argwhere(chart.kbit_per_s > 0)
            if a != b
        )
        listed = slowest[:MOST_LISTED]
        yield "slowest pairs: " + ", ".join(f"{a} to {b} {_mbit(k)}" for k, a, b in listed)
    if chart.shared:
        least = sorted(chart.shared, key=lambda one: one.kbit_per_s)
        yield f"{len(least)} shared capacities, the least first:"
        for one in least[:MOST_LISTED]:
            yield (
                f'  "{one.name}" {_mbit(one.kbit_per_s)}: {_ranks(one.senders)} to '
                f"{_ranks(one.receivers)}"
            )
        if len(least) > MOST_LISTED:
            yield f"  and {len(least) - MOST_LISTED} more"


def _tree(chart: Chart) -> Iterator[str]:
    """Domains, indented, with their ranks."""
    told: set[tuple[str, ...]] = set()
    for path in chart.domains:
        for depth in range(len(path)):
            prefix = path[: depth + 1]
            if prefix in told:
                continue
            told.add(prefix)
            inside = [r for r, p in enumerate(chart.domains) if p[: depth + 1] == prefix]
            yield f"{'  ' * depth}{prefix[-1]}: {_ranks(inside)}"
    if not told:
        yield "it does not say where ranks are"


def differences(old: Chart, new: Chart, tolerance: float) -> Iterator[str]:
    """Yield lines that say what another map has otherwise.

    Parameters
    ----------
    old, new : Chart
        To compare.
    tolerance : float
        Rates and latencies that differ by no more than this share of the older one are alike.
    """
    if old.ranks != new.ranks:
        yield f"ranks: {old.ranks}, now {new.ranks}"
        return
    for rank, (was, now) in enumerate(zip(old.domains, new.domains, strict=True)):
        if was != now:
            yield f"rank {rank}: in {'/'.join(was) or 'no domain'}, now {'/'.join(now) or 'none'}"
    yield from _pairs("Mbit/s", _KBIT_PER_MBIT, old.kbit_per_s, new.kbit_per_s, tolerance)
    yield from _pairs("us one way", _NS_PER_US, old.alpha_ns, new.alpha_ns, tolerance)
    before = {one.name: one for one in old.shared}
    after = {one.name: one for one in new.shared}
    for name in before.keys() - after.keys():
        yield f'"{name}" is gone'
    for name in sorted(after):
        if name not in before:
            yield f'"{name}" is new: {_mbit(after[name].kbit_per_s)}'
            continue
        was_one, now_one = before[name], after[name]
        if (was_one.senders, was_one.receivers) != (now_one.senders, now_one.receivers):
            yield f'"{name}" is shared by others'
        if _differ(was_one.kbit_per_s, now_one.kbit_per_s, tolerance):
            yield f'"{name}": {_change(was_one.kbit_per_s, now_one.kbit_per_s, 1e3, "Mbit/s")}'


def _pairs(
    unit: str,
    factor: float,
    old: npt.NDArray[np.int64],
    new: npt.NDArray[np.int64],
    tolerance: float,
) -> Iterator[str]:
    """The pairs that changed, those that did most first."""
    found = []
    for a, b in np.argwhere(old != new):
        was, now = int(old[a, b]), int(new[a, b])
        if a != b and _differ(was, now, tolerance):
            found.append((max(was, now) / max(min(was, now), 1), int(a), int(b)))
    found.sort(key=lambda row: (-row[0], row[1], row[2]))
    for _, a, b in found[:MOST_LISTED]:
        yield f"rank {a} to rank {b}: {_change(int(old[a, b]), int(new[a, b]), factor, unit)}"
    if len(found) > MOST_LISTED:
        yield f"and {len(found) - MOST_LISTED} more pairs ({unit})"


def _differ(was: int, now: int, tolerance: float) -> bool:
    return abs(now - was) > tolerance * was


def _change(was: int, now: int, factor: float, unit: str) -> str:
    times = f" ({now / was:.2f} times)" if was > 0 else ""
    return f"{was / factor:.6g} {unit}, now {now / factor:.6g}{times}"


def _mbit(kbit: int) -> str:
    return f"{kbit / _KBIT_PER_MBIT:.6g} Mbit/s"


def _span(values: npt.NDArray[np.int64], factor: float, unit: str) -> str:
    least, most = int(values.min()) / factor, int(values.max()) / factor
    if least == most:
        return f"{least:.6g} {unit}"
    return f"{least:.6g} to {most:.6g} {unit}, median {np.median(values) / factor:.6g}"


def _ranks(ranks: tuple[int, ...] | list[int]) -> str:
    """Numbers as "0-3, 7"."""
    parts: list[str] = []
    start = last = ranks[0]
    for rank in [*ranks[1:], -1]:
        if rank == last + 1:
            last = rank
            continue
        parts.append(str(start) if start == last else f"{start}-{last}")
        start = last = rank
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(parts)

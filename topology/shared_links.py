"""What measurements of links mean: sites, what pairs share, and the map of it all. Pure.

The same on all ranks that have the same numbers.

References
----------
.. [1] Sen, "Estimates of the regression coefficient based on Kendall's tau", 1968: slopes by the
   middle one of pairs.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.topology.rounds import Trial

Matrix = npt.NDArray[np.int64]

# A gap: links across sites are so many times slower, or later, than all inside.
_RATE_GAP = 1.8
_DELAY_GAP = 3.0
_DELAY_GAP_NS = 500_000
# Flows that together get no more than this of what each gets alone share something.
_SHARED = 0.8
# What a rank may claim: a peer that lies costs speed, and breaks nothing.
MOST_KBIT = 10**9
MOST_NS = 10**12
# Ranks of one host that were not measured: shared memory, roughly.
_INSIDE_KBIT = 40_000_000
_INSIDE_NS = 1_000
_KBIT_PER_GBIT = 1e6
_NS_PER_US = 1e3
_SITE = re.compile(r"site-(\d+)( .*)")
# Of a site's name in a capacity's, which has 64 bytes at most.
_NAME_BYTES = 56
_NANOBITS_PER_KBIT = 8 * 1_000_000


@dataclass(frozen=True, slots=True)
class Links:
    """What hosts have measured.

    Parameters
    ----------
    kbit_per_s, alpha_ns : array of int64, hosts x hosts
        By sender and receiver; 0: not known.
    """

    kbit_per_s: Matrix
    alpha_ns: Matrix

    @property
    def hosts(self) -> int:
        """How many there are."""
        return len(self.kbit_per_s)

    def bounded(self) -> Links:
        """Return the same with nothing that a map would refuse."""
        return Links(np.clip(self.kbit_per_s, 0, MOST_KBIT), np.clip(self.alpha_ns, 0, MOST_NS))


def _ns_per_chunk(stamps: Sequence[int]) -> float:
    """The pace at which equal chunks came: the middle one of pairs that are half the way apart.

    One that was noticed late moves it less than it would move the first or the last [1]_.
    """
    half = len(stamps) // 2
    paces = [(stamps[k + half] - stamps[k]) / half for k in range(len(stamps) - half)]
    return max(1.0, float(np.median(paces)))


def rate_of(stamps: Sequence[int], chunk_bytes: int) -> int:
    """Return the kbit/s of equal chunks by when they arrived.

    The first quarter is left out: TCP finds its rate in it, and token buckets spend what they have
    saved.

    Parameters
    ----------
    stamps : sequence of int
        Nanoseconds, by chunk; four or more.
    chunk_bytes : int
        Bytes of each.
    """
    steady = stamps[(len(stamps) - 1) // 4 :]
    return max(1, int(chunk_bytes * _NANOBITS_PER_KBIT / _ns_per_chunk(steady)))


def rate_together(stamps: Matrix, chunk_bytes: Sequence[int]) -> int:
    """Return the kbit/s of flows together, while all of them ran.

    Parameters
    ----------
    stamps : array of int64, flows x chunks
        When each arrived, by one clock.
    chunk_bytes : sequence of int
        By flow.

    Returns
    -------
    int
        0: a flow did not come through.
    """
    if not stamps.size or (stamps == 0).any():
        return 0
    flows = np.maximum.accumulate(stamps, axis=1)
    chunks = flows.shape[1]
    begin, end = int(flows[:, (chunks - 1) // 4].max()), int(flows[:, -1].min())
    if end - begin < (int(flows.max()) - int(flows.min())) // 8:
        # They ran one after the other rather than at once.
        begin, end = int(flows[:, 0].min()), int(flows[:, -1].max())
    sizes = np.repeat(np.asarray(chunk_bytes, dtype=np.int64), chunks)
    order = np.argsort(flows, axis=None, kind="stable")
    times, moved = flows.ravel()[order], np.cumsum(sizes[order])
    window = (times >= begin) & (times <= end)
    times, moved = times[window], moved[window]
    half = max(1, len(times) // 2)
    spent = np.maximum(1, times[half:] - times[:-half])
    paces = (moved[half:] - moved[:-half]) / spent
    return max(1, int(np.median(paces) * _NANOBITS_PER_KBIT))


def find_sites(links: Links) -> list[int]:
    """Group hosts where a clear gap in rates, or in latencies, parts them.

    All pairs inside of sites are on the gap's one side, all across on the other. A host alone
    among others of one site has a slow card, not a site: rates do not tell it apart.

    Parameters
    ----------
    links : Links
        What was measured.

    Returns
    -------
    list of int
        By host, the number of its site, from 0 on; all 0 where there is no gap.
    """
    pace = np.minimum(links.kbit_per_s, links.kbit_per_s.T)
    cost = np.where(pace > 0, MOST_KBIT * 1000 // np.maximum(pace, 1), 0)
    delay = np.maximum(links.alpha_ns, links.alpha_ns.T)
    by_rate = _parted(cost, _RATE_GAP, 0)
    by_delay = _parted(delay, _DELAY_GAP, _DELAY_GAP_NS)
    if by_rate is not None and not _is_slow_card(by_rate):
        return by_rate
    return by_delay if by_delay is not None else [0] * links.hosts


def _is_slow_card(site_of: Sequence[int]) -> bool:
    sizes = [site_of.count(site) for site in set(site_of)]
    return sum(size > 1 for size in sizes) < 2


def _parted(costs: Matrix, least_ratio: float, least_gap: int) -> list[int] | None:
    """The groups that the widest gap leaves; small costs are inside, and 0 is not known."""
    hosts = len(costs)
    pairs = [(a, b) for a, b in itertools.combinations(range(hosts), 2) if costs[a, b] > 0]
    known = sorted({int(costs[a, b]) for a, b in pairs})
    gaps = sorted(
        ((high / low, low, high) for low, high in itertools.pairwise(known)), reverse=True
    )
    for ratio, low, high in gaps:
        if ratio < least_ratio:
            return None
        if high - low < least_gap:
            continue
        group = _components(hosts, [(a, b) for a, b in pairs if costs[a, b] <= low])
        if 1 < max(group) + 1 < hosts and all(
            (group[a] == group[b]) is (int(costs[a, b]) <= low) for a, b in pairs
        ):
            return group
    return None


def _components(hosts: int, joined: Sequence[tuple[int, int]]) -> list[int]:
    group = list(range(hosts))
    for a, b in joined:
        if group[a] != group[b]:
            old, new = max(group[a], group[b]), min(group[a], group[b])
            group = [new if g == old else g for g in group]
    numbers = {g: n for n, g in enumerate(dict.fromkeys(group))}
    return [numbers[g] for g in group]


def fill(links: Links, site_of: Sequence[int]) -> Links:
    """Give pairs that nobody measured what others of the same sites have, or all others.

    Parameters
    ----------
    links, site_of
        As of `find_sites`.
    """
    sites = np.array(site_of)
    made = []
    for values in (links.kbit_per_s, links.alpha_ns):
        whole = values.copy()
        apart = ~np.eye(links.hosts, dtype=bool)
        everywhere = _median(values[apart & (values > 0)], 1)
        for a, b in np.argwhere(apart & (values == 0)):
            alike = np.logical_and.outer(sites == sites[a], sites == sites[b]) & apart
            whole[a, b] = _median(values[alike & (values > 0)], everywhere)
        made.append(whole)
    return Links(*made)


def _median(values: Matrix, otherwise: int) -> int:
    return int(np.median(values)) if values.size else otherwise


def free_of_others(links: Links, lone: Sequence[tuple[Trial, int]]) -> Links:
    """Correct pairs across sites that shared a line with others of their round.

    Parameters
    ----------
    links : Links
        Of pairs in rounds.
    lone : sequence of (Trial, int)
        Flows that ran alone, and their kbit/s; 0: it did not come through.
    """
    rates = links.kbit_per_s.copy()
    apart = np.where(np.eye(links.hosts, dtype=bool), 0, links.kbit_per_s)
    out, into = apart.max(axis=1), apart.max(axis=0)
    for trial, alone in lone:
        for a, b in itertools.product(trial.senders, trial.receivers):
            rates[a, b] = max(int(rates[a, b]), min(alone, int(out[a]), int(into[b])))
    return Links(rates, links.alpha_ns)


def shared_by(
    links: Links, host_of: Sequence[int], tried: Sequence[tuple[Trial, int]]
) -> list[tuple[Trial, int]]:
    """Return the trials whose flows got in each other's way, with what they share.

    Parameters
    ----------
    links : Links
        Of pairs, each alone.
    host_of : sequence of int
        By rank.
    tried : sequence of (Trial, int)
        With the kbit/s of all flows together; 0: it did not come through.
    """
    found = []
    for trial, together in tried:
        alone = [int(links.kbit_per_s[host_of[a], host_of[b]]) for a, b in trial.flows]
        if 0 < together < _SHARED * sum(alone):
            # A card does what a flow got alone: others may have been kept back by a site's line.
            found.append((trial, min(MOST_KBIT, max(together, max(alone) if trial.is_card else 0))))
    return found


def sites_of(domains: Sequence[Sequence[str]]) -> list[int]:
    """Number the outermost domains, as they appear.

    Parameters
    ----------
    domains : sequence of sequence of str
        By host: the names of what is around it, from the outside in; those without any are one
        site.

    Returns
    -------
    list of int
        By host: its site.
    """
    names = [path[0] if path else "" for path in domains]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] for name in names]


def map_of(
    host_of: Sequence[int],
    links: Links,
    site_of: Sequence[int],
    shared: Sequence[tuple[Trial, int]],
    domains: Sequence[Sequence[str]] = (),
) -> str:
    """Make the map of ranks from what hosts measured.

    Parameters
    ----------
    host_of : sequence of int
        By rank: its host; -1 where the rank is vacant, which counts as a middling host of its own.
    links : Links
        By host, nothing missing but inside of hosts.
    site_of : sequence of int
        By host.
    shared : sequence of (Trial, int)
        Capacities, in kbit/s.
    domains : sequence of sequence of str
        By host: the names of what is around it, where they are known; sites are those of
        :func:`sites_of` then.

    Returns
    -------
    str
        JSON, as the option `topology` reads it.
    """
    apart = ~np.eye(links.hosts, dtype=bool)
    rate = _by_rank(host_of, links.kbit_per_s, _INSIDE_KBIT, apart)
    late = _by_rank(host_of, links.alpha_ns, _INSIDE_NS, apart)
    several = max(site_of, default=0) > 0

    def path(rank: int, host: int) -> list[str]:
        if domains:
            around = domains[host] if host >= 0 else ()
            return [*around, f"host-{host}" if host >= 0 else f"host-of-rank-{rank}"]
        site = f"site-{site_of[host]}" if host >= 0 else "site-unknown"
        name = f"host-{host}" if host >= 0 else f"host-of-rank-{rank}"
        return [site, name] if several else [name]

    known: dict[str, Any] = {
        "format": 1,
        "ranks": len(host_of),
        "domains": [path(rank, host) for rank, host in enumerate(host_of)],
        "gbit_per_s": [[kbit / _KBIT_PER_GBIT for kbit in row] for row in rate],
        "alpha_us": [[ns / _NS_PER_US for ns in row] for row in late],
        "shared": [
            {
                "name": _named(trial.name, site_of, domains),
                "gbit_per_s": kbit / _KBIT_PER_GBIT,
                "from": [rank for rank, h in enumerate(host_of) if h in trial.senders],
                "to": [rank for rank, h in enumerate(host_of) if h in trial.receivers],
            }
            for trial, kbit in shared
        ],
    }
    return json.dumps(known)


def _named(trial: str, site_of: Sequence[int], domains: Sequence[Sequence[str]]) -> str:
    """Return the name of a capacity, by the name that its site was given."""
    found = _SITE.match(trial)
    if not domains or found is None:
        return trial
    path = domains[list(site_of).index(int(found[1]))]
    return f"{path[0][:_NAME_BYTES]}{found[2]}" if path else trial


def _by_rank(
    host_of: Sequence[int], values: Matrix, inside: int, apart: npt.NDArray[np.bool_]
) -> list[list[int]]:
    middle = _median(values[apart & (values > 0)], inside)

    def of(a: int, b: int) -> int:
        x, y = host_of[a], host_of[b]
        if a == b:
            return 0
        if min(x, y) < 0:
            return middle
        return int(values[x, y]) or (inside if x == y else middle)

    everybody = range(len(host_of))
    return [[of(a, b) for b in everybody] for a in everybody]

"""Measures the links of a group, and has it agree on the map.

Hosts measure each other pair by pair, in rounds in which no two pairs share a host, by the first
rank of each; then sites' ways out are tried with several flows at once. All that ranks learn is
summed up, so that all of them make the same map of it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from holdfast.errors import HoldfastError
from holdfast.topology import measured

if TYPE_CHECKING:
    from holdfast.comm.group import Group

_TAG = 0x6D617073  # kept for measurements
_BLOCK_BYTES = 64 * 1024
# Round trips of small messages: the least of so many.
_ROUND_TRIPS = 10
# What may be under way, so that a fast and long way is filled: this, or what a Gbit/s has then.
_LEAST_WINDOW = 8
_WINDOW_BYTES_PER_S = 1.5 * 125e6
_MOST_WINDOW = 256
# The part of a flow in which TCP finds its rate.
_WARM_UP = 0.3
# Seconds that a flow lasts.
_LEAST_FLOW_S = 0.05
_MOST_FLOW_S = 0.5
# A peer that is this late is given up.
_PATIENCE_S = 10.0


@dataclass(slots=True)
class _Found:
    """By sending and receiving host; 0: not measured here."""

    kbit: npt.NDArray[np.int64]
    alpha_ns: npt.NDArray[np.int64]


def measure(group: Group, budget: float) -> str:
    """Measure the links of a group; all its ranks call it.

    Parameters
    ----------
    group : Group
        Of all ranks of its world.
    budget : float
        Seconds that it should take about.

    Returns
    -------
    str
        The map, as JSON: the same on all ranks.
    """
    host_of = group._native.hosts
    hosts = max(host_of) + 1
    first = {h: r for r, h in reversed(list(enumerate(host_of))) if h >= 0}
    rounds = measured.rounds(hosts)
    # Two directions each round, and a quarter of the time for what is shared.
    flow_s = min(max(0.75 * budget / max(1, 2 * len(rounds)), _LEAST_FLOW_S), _MOST_FLOW_S)
    found = _Found(np.zeros((hosts, hosts), np.int64), np.zeros((hosts, hosts), np.int64))
    for pairs in rounds:
        group.barrier()
        for a, b in pairs:
            if group.rank in (first[a], first[b]):
                with _given_up():
                    _measure_pair(group, first, (a, b), flow_s, found)
    for matrix in (found.kbit, found.alpha_ns):
        group.all_reduce(matrix)
    site_of = measured.sites(found.kbit, found.alpha_ns)
    if max(site_of) > 0:
        alone = _alone(group, first, site_of, flow_s)
        found.kbit = measured.uncrowded(found.kbit, site_of, alone)
    flows = _cross(group, first, site_of, found, flow_s)
    return measured.chart_of(host_of, found.kbit, found.alpha_ns, site_of, flows)


@contextlib.contextmanager
def _given_up() -> Iterator[None]:
    """A lost or late peer leaves its pair unmeasured; collectives tell all ranks of a loss."""
    with contextlib.suppress(HoldfastError):
        yield


def _measure_pair(
    group: Group, first: dict[int, int], pair: tuple[int, int], flow_s: float, found: _Found
) -> None:
    a, b = pair
    if group.rank == first[a]:
        round_trip = _ping(group, first[b])
        found.alpha_ns[a, b] = found.alpha_ns[b, a] = round_trip // 2
        _send_flow(group, first[b], flow_s, round_trip)
        found.kbit[b, a] = _take_flow(group, first[b])
    else:
        round_trip = _pong(group, first[a])
        found.kbit[a, b] = _take_flow(group, first[a])
        _send_flow(group, first[a], flow_s, round_trip)


def _ping(group: Group, peer: int) -> int:
    """Nanoseconds of the fastest round trip, which the peer is told."""
    word = np.zeros(1, np.int64)
    best = 0
    for _ in range(_ROUND_TRIPS):
        start = time.monotonic_ns()
        group.send(word, peer, _TAG, timeout=_PATIENCE_S)
        group.recv(word, peer, _TAG, timeout=_PATIENCE_S)
        spent = time.monotonic_ns() - start
        best = spent if best == 0 else min(best, spent)
    word[0] = best
    group.send(word, peer, _TAG, timeout=_PATIENCE_S)
    return best


def _pong(group: Group, peer: int) -> int:
    word = np.zeros(1, np.int64)
    for _ in range(_ROUND_TRIPS):
        group.recv(word, peer, _TAG, timeout=_PATIENCE_S)
        group.send(word, peer, _TAG, timeout=_PATIENCE_S)
    group.recv(word, peer, _TAG, timeout=_PATIENCE_S)
    return int(word[0])


def _send_flow(group: Group, peer: int, seconds: float, round_trip_ns: int) -> None:
    """Send blocks for a while; each is answered by a word, and so many may be under way."""
    block = np.zeros(_BLOCK_BYTES, np.uint8)
    word = np.zeros(1, np.int64)
    filled = int(_WINDOW_BYTES_PER_S * round_trip_ns / 1e9) // _BLOCK_BYTES
    window = min(max(_LEAST_WINDOW, filled), _MOST_WINDOW)
    end = time.monotonic() + seconds
    sent = answered = 0
    while block[0] == 0:
        block[0] = 1 if time.monotonic() >= end else 0
        group.send(block, peer, _TAG, timeout=_PATIENCE_S)
        sent += 1
        if sent - answered >= window:
            group.recv(word, peer, _TAG, timeout=_PATIENCE_S)
            answered += 1
    for _ in range(sent - answered):
        group.recv(word, peer, _TAG, timeout=_PATIENCE_S)


def _take_flow(group: Group, peer: int) -> int:
    """Receive blocks to the last one; kbit/s, of what came after the first third."""
    block = np.zeros(_BLOCK_BYTES, np.uint8)
    word = np.zeros(1, np.int64)
    arrived = []
    while block[0] == 0:
        group.recv(block, peer, _TAG, timeout=_PATIENCE_S)
        arrived.append(time.monotonic_ns())
        group.send(word, peer, _TAG, timeout=_PATIENCE_S)
    start = int(_WARM_UP * len(arrived))
    count = len(arrived) - 1 - start
    if count < 1:
        return 0
    spent = max(1, arrived[-1] - arrived[start])
    return max(1, count * _BLOCK_BYTES * 8 * 1_000_000 // spent)


def _alone(
    group: Group, first: dict[int, int], site_of: Sequence[int], flow_s: float
) -> npt.NDArray[np.int64]:
    """By sending and receiving site, what a pair of hosts gets when no other sends there."""
    sites = max(site_of) + 1
    ranks = {site: first[site_of.index(site)] for site in range(sites)}
    found = _Found(np.zeros((sites, sites), np.int64), np.zeros((sites, sites), np.int64))
    for pairs in measured.rounds(sites):
        group.barrier()
        for pair in pairs:
            if group.rank in (ranks[pair[0]], ranks[pair[1]]):
                with _given_up():
                    _measure_pair(group, ranks, pair, flow_s, found)
    group.all_reduce(found.kbit)
    return found.kbit


def _cross(
    group: Group,
    first: dict[int, int],
    site_of: Sequence[int],
    found: _Found,
    flow_s: float,
) -> list[measured.Flows]:
    """Try each site's way out and way in with several flows at once."""
    tried = []
    for out in measured.crossings(site_of):
        for pairs in (out, [(b, a) for a, b in out]):
            if not pairs:
                continue
            group.barrier()
            got = np.zeros(len(pairs), np.int64)
            for number, (a, b) in enumerate(pairs):
                with _given_up():
                    if group.rank == first[a]:
                        round_trip = 2 * int(found.alpha_ns[a, b])
                        _send_flow(group, first[b], flow_s, round_trip)
                    elif group.rank == first[b]:
                        got[number] = _take_flow(group, first[a])
            group.all_reduce(got)
            alone = sum(int(found.kbit[a, b]) for a, b in pairs)
            if (got == 0).any():
                continue  # somebody was lost
            tried.append(_flows(pairs, site_of, int(got.sum()), alone))
    return tried


def _flows(
    pairs: list[tuple[int, int]], site_of: Sequence[int], kbit: int, alone: int
) -> measured.Flows:
    """What is shared is the site's: all of it, and all outside."""
    senders, receivers = {site_of[a] for a, _ in pairs}, {site_of[b] for _, b in pairs}
    if len(senders) == 1:
        inside = tuple(h for h, s in enumerate(site_of) if s in senders)
        outside = tuple(h for h, s in enumerate(site_of) if s not in senders)
        return measured.Flows(inside, outside, kbit, alone)
    inside = tuple(h for h, s in enumerate(site_of) if s in receivers)
    outside = tuple(h for h, s in enumerate(site_of) if s not in receivers)
    return measured.Flows(outside, inside, kbit, alone)

"""Who measures whom, and when: pairs of hosts in rounds, then flows that run at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Beyond so many hosts a sample of pairs is measured, and the others follow their sites.
MOST_PAIRED_HOSTS = 32
# Flows of one host's card: more show nothing new.
_CARD_FLOWS = 7
# Flows of a site's line.
_LINE_FLOWS = 16

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Trial:
    """Flows that run at once, to see what they share.

    Parameters
    ----------
    name : str
        What is tried: of the capacity, if there is one.
    senders, receivers : tuple of int
        Hosts. All that goes from the one set to the other shares what is found.
    flows : tuple of (int, int)
        Ranks that send, and those that they send to.
    is_card : bool
        Whether one host is tried, rather than a site.
    """

    name: str
    senders: tuple[int, ...]
    receivers: tuple[int, ...]
    flows: tuple[Pair, ...]
    is_card: bool


def rounds(hosts: int) -> list[list[Pair]]:
    """Pair hosts, in rounds in which each has one partner at most: the circle method.

    Parameters
    ----------
    hosts : int
        How many there are.

    Returns
    -------
    list of list of (int, int)
        All pairs; beyond `MOST_PAIRED_HOSTS` a sample, in which each host has as many partners as
        with that number.
    """
    seats = list(range(hosts + hosts % 2))
    found = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = zip(seats[:half], reversed(seats[half:]), strict=True)
        found.append([(min(p), max(p)) for p in pairs if max(p) < hosts])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    if hosts <= MOST_PAIRED_HOSTS:
        return found
    # Evenly over all rounds, so that sites of hosts that are numbered in order meet as well.
    count = MOST_PAIRED_HOSTS - 1
    return [found[k * len(found) // count] for k in range(count)]


def card_trials(ranks_of: Sequence[Sequence[int]]) -> list[Trial]:
    """Try what a host sends, and what it receives, with several others at once.

    Parameters
    ----------
    ranks_of : sequence of sequence of int
        By host; none where all its ranks are lost.

    Returns
    -------
    list of Trial
        None of hosts for which one pair has shown it all.
    """
    found = []
    for host, own in enumerate(ranks_of):
        others = _by_turns(ranks_of, [h for h in range(len(ranks_of)) if h != host])
        flows = [(own[i % len(own)], other) for i, other in enumerate(others) if own]
        if len(flows) < 2:
            continue
        # Evenly over those that there are: the next ones by number may be one site.
        count = min(_CARD_FLOWS, len(flows))
        flows = [flows[k * len(flows) // count] for k in range(count)]
        outside = tuple(h for h in range(len(ranks_of)) if h != host)
        into = tuple((b, a) for a, b in flows)
        found.append(Trial(f"host-{host} out", (host,), outside, tuple(flows), True))
        found.append(Trial(f"host-{host} in", outside, (host,), into, True))
    return found


def _by_turns(ranks_of: Sequence[Sequence[int]], hosts: Sequence[int]) -> list[int]:
    """Ranks of hosts: the first of each, then the second of each, and so on."""
    deepest = max((len(ranks_of[h]) for h in hosts), default=0)
    return [ranks_of[h][k] for k in range(deepest) for h in hosts if k < len(ranks_of[h])]


def line_trials(ranks_of: Sequence[Sequence[int]], site_of: Sequence[int]) -> list[Trial]:
    """Try what a site sends, and what it receives, with many of its hosts at once.

    Each host has one flow, so that no card decides.

    Parameters
    ----------
    ranks_of, site_of
        By host: its ranks, and the number of its site.

    Returns
    -------
    list of Trial
        Of two sites, the one's way out is the other one's way in, and is tried once.
    """
    sites = max(site_of, default=0) + 1
    found = []
    for site in range(sites) if sites > 1 else ():
        inside = tuple(h for h, s in enumerate(site_of) if s == site)
        outside = tuple(h for h, s in enumerate(site_of) if s != site)
        near = [ranks_of[h][0] for h in inside if ranks_of[h]]
        far = [ranks_of[h][0] for h in outside if ranks_of[h]]
        count = min(len(near), len(far), _LINE_FLOWS)
        if count < 2:
            continue
        # Evenly over the others, so that no single one of their lines is the narrow place.
        flows = tuple((near[k], far[k * len(far) // count]) for k in range(count))
        found.append(Trial(f"site-{site} out", inside, outside, flows, False))
        if sites > 2 or site == 0:
            into = tuple((b, a) for a, b in flows)
            found.append(Trial(f"site-{site} in", outside, inside, into, False))
    return found if sites > 2 else found[:2]


def lone_trials(ranks_of: Sequence[Sequence[int]], site_of: Sequence[int]) -> list[Trial]:
    """Name, for each site and each other one, a flow that runs alone.

    In a round several pairs may have shared a line; what one of them gets, this shows.

    Parameters
    ----------
    ranks_of, site_of
        As of `line_trials`.

    Returns
    -------
    list of Trial
        Of one flow each.
    """
    sites = max(site_of, default=0) + 1
    groups = [tuple(h for h, s in enumerate(site_of) if s == site) for site in range(sites)]
    found = []
    for a, senders in enumerate(groups):
        for b, receivers in enumerate(groups):
            near = next((ranks_of[h][0] for h in senders if ranks_of[h]), None)
            far = next((ranks_of[h][0] for h in receivers if ranks_of[h]), None)
            if a == b or near is None or far is None:
                continue
            name = f"site-{a} to site-{b}"
            found.append(Trial(name, senders, receivers, ((near, far),), False))
    return found

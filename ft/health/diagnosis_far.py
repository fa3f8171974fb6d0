"""Far links: trunks whose connections break again and again.

A trunk goes on when its connections break, so nobody hangs and no view changes; ops are slower, and
what breaks them may one day break all. Each end counts its own losses, and knows its own reason.
"""

from __future__ import annotations

from holdfast.ft.health.evidence import Evidence, Metrics
from holdfast.ft.health.finding import Culprit, Finding, Limits

_RECENT = "holdfast_link_recent_cuts"
_CUTS = "holdfast_link_cuts_total"
_ADVICE = {
    "reset": "something between ends connections: a NAT or a firewall that forgets or limits them, "
    "a load balancer; or their hosts' systems",
    "stalled": "the path stands still for moments: look at its loss, its routes, its radio",
    "timeout": "the path was gone for long: look at its routes and at the hosts' interfaces",
    "altered": "something between changes what is sent: a broken device, or somebody",
}
_USUAL = "look at the path between the two hosts, and at what is in between"


def find_flapping(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find trunks that have lost many connections within the last minute.

    Parameters
    ----------
    evidence : Evidence
        With metrics of ranks.
    limits : Limits
        How many are many.

    Returns
    -------
    list of Finding
        Kind `flapping-link`, one for each pair of ranks.
    """
    ends: dict[tuple[int, int], list[tuple[float, int, int, Metrics]]] = {}
    for rank, subject in sorted(evidence.by_rank().items()):
        metrics = subject.last.metrics
        if metrics is None:
            continue
        for peer, count in metrics.by_peer(_RECENT).items():
            if count >= limits.cuts:
                pair = (min(rank, peer), max(rank, peer))
                ends.setdefault(pair, []).append((count, rank, peer, metrics))
    found = []
    for told in ends.values():
        most, rank, peer, metrics = max(told, key=lambda end: end[0])
        whys = _whys(metrics, peer)
        lines = [
            f"rank {here} has lost connections to rank {there} at {count:.0f} moments of a minute"
            for count, here, there, _ in told
        ]
        if whys:
            shown = ", ".join(f"{count:.0f} {why}" for why, count in whys)
            lines.append(f"in all, by reason: {shown}")
        advice = _ADVICE.get(whys[0][0], _USUAL) if whys else _USUAL
        sure = min(0.95, 0.6 + 0.03 * most)
        found.append(
            Finding("flapping-link", Culprit(link=(rank, peer)), sure, tuple(lines), advice)
        )
    return found


def _whys(metrics: Metrics, peer: int) -> list[tuple[str, float]]:
    """Reasons of all cuts of a link, the most frequent first."""
    counts: dict[str, float] = {}
    for labels, count in metrics.values.get(_CUTS, {}).items():
        have = dict(labels)
        if have.get("peer") == str(peer) and count > 0:
            counts[have.get("why", "")] = count
    return sorted(counts.items(), key=lambda item: -item[1])

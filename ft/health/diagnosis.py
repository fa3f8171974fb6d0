"""Diagnosis: from evidence to findings. Pure: no clock, no network, no file.

Each question is asked by itself; what is left here is which answer explains which other. A rank
that is dead explains that others wait for it; a hang explains that nobody goes on; calls that do
not match explain why ops failed. What is explained becomes evidence of its cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.ft.health.diagnosis_calls import find_mismatches
from holdfast.ft.health.diagnosis_compute import find_compute_stragglers
from holdfast.ft.health.diagnosis_far import find_flapping
from holdfast.ft.health.diagnosis_hang import find_hangs
from holdfast.ft.health.diagnosis_links import find_slow_links, find_trends
from holdfast.ft.health.diagnosis_members import find_members
from holdfast.ft.health.diagnosis_starved import explain_by_starving, find_starved
from holdfast.ft.health.diagnosis_state import find_unprotected
from holdfast.ft.health.evidence import Evidence
from holdfast.ft.health.finding import Culprit, Finding, Limits, one_each

# A rank that is not there is said once, by what is known best.
_ABSENT = ("stopped", "dead", "voted-out", "mute", "lost", "stuck")
_SLOW = (
    *("starved", "slow-host", "slow-compute", "slow-network", "slow-link", "slow-rank"),
    "lossy-link",
)


def _absences(found: list[Finding]) -> list[Finding]:
    """Of what is said of a rank's absence the most direct; the rest is its evidence."""
    chosen: dict[Culprit, Finding] = {}
    rest = []
    for finding in sorted(found, key=lambda f: _rank_of_kind(f.kind)):
        if finding.kind not in _ABSENT or finding.remark:
            rest.append(finding)
            continue
        other = chosen.get(finding.culprit)
        if other is None:
            chosen[finding.culprit] = finding
        else:
            chosen[finding.culprit] = _explained(other, finding)
    return [*chosen.values(), *rest]


def _rank_of_kind(kind: str) -> int:
    return _ABSENT.index(kind) if kind in _ABSENT else len(_ABSENT)


def _explained(cause: Finding, effect: Finding) -> Finding:
    """The cause, with its effect as evidence."""
    lines = tuple(dict.fromkeys((*cause.evidence, *effect.evidence)))
    return replace(
        cause,
        confidence=max(cause.confidence, min(0.99, effect.confidence)),
        evidence=lines,
        stack=cause.stack or effect.stack,
    )


def _fold(causes: list[Finding], effects: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Effects whose culprit has a cause go into it; the others are returned as they are."""
    left = []
    for effect in effects:
        for at, cause in enumerate(causes):
            if not cause.remark and set(effect.culprit.ranks) & set(cause.culprit.ranks):
                causes[at] = _explained(cause, effect)
                break
        else:
            left.append(effect)
    return causes, left


def diagnose(evidence: Evidence, limits: Limits | None = None) -> list[Finding]:
    """Say what is wrong with a job.

    Parameters
    ----------
    evidence : Evidence
        What is known of it.
    limits : Limits, optional
        From where on something is wrong.

    Returns
    -------
    list of Finding
        The surest first, remarks last; empty when nothing is wrong.
    """
    limits = limits or Limits()
    members = _absences(find_members(evidence, limits))
    files = [
        Finding(
            "bad-dump",
            Culprit(file=bad.path),
            0.95,
            (f"{bad.path}: {bad.why}",),
            "what could be read was used; was the disk full when it was written?",
        )
        for bad in evidence.bad_files
    ]
    calls = find_mismatches(evidence, limits)
    members, hangs = _fold(members, find_hangs(evidence, limits))
    absent = [f for f in members if f.kind in _ABSENT and not f.remark]
    if calls:
        # Ops that were refused end their ranks' part: what then waits, or is gone, waits for that.
        hangs = []
        members = [replace(f, remark=True) if f.kind in ("dead", "lost") else f for f in members]
    stuck = [*hangs, *absent, *calls]
    slow = [] if any(f.sick for f in stuck) else _slowness(evidence, limits)
    others, starved = explain_by_starving([*members, *hangs, *slow], find_starved(evidence, limits))
    far = find_flapping(evidence, limits)
    exposed = find_unprotected(evidence, limits)
    return one_each([*others, *files, *calls, *starved, *far, *exposed])


def _slowness(evidence: Evidence, limits: Limits) -> list[Finding]:
    compute = find_compute_stragglers(evidence, limits)
    links = find_slow_links(evidence, limits)
    if not compute:
        return [*links, *find_trends(evidence, limits)]
    # Whoever comes late is waited for inside of ops, too, and answers late on its links.
    compute, rest = _fold(compute, [f for f in links if f.kind == "slow-rank"])
    lossy = [f for f in links if f.kind == "lossy-link"]
    slow = [f for f in links if f.kind in ("slow-link", "slow-network")]
    return [*compute, *lossy, *(replace(f, remark=True) for f in [*rest, *slow])]


def suspicious(findings: Iterable[Finding]) -> bool:
    """Whether somebody is called slow: which a second look should confirm.

    Parameters
    ----------
    findings : iterable of Finding
        Of :func:`diagnose`.

    Returns
    -------
    bool
        Of those that are sick.
    """
    return any(f.sick and f.kind in _SLOW for f in findings)


def doubtful(before: Iterable[Finding], after: Iterable[Finding]) -> bool:
    """Whether somebody is called slow of whom that was not said before.

    Parameters
    ----------
    before, after : iterable of Finding
        Of earlier diagnoses, and the latest.

    Returns
    -------
    bool
        Of those that are sick.
    """
    return any(f.sick and not g.sick for f, g in _pairs(before, after))


def _pairs(before: Iterable[Finding], after: Iterable[Finding]) -> list[tuple[Finding, Finding]]:
    after = list(after)
    return list(zip(after, confirmed(before, after), strict=True))


def confirmed(before: Iterable[Finding], after: Iterable[Finding]) -> list[Finding]:
    """Keep of those who are called slow only whom both looks agree on.

    Parameters
    ----------
    before, after : iterable of Finding
        Of two diagnoses, of one stretch of time each.

    Returns
    -------
    list of Finding
        The later ones.
    """
    blamed = {(_side(f.culprit), f.kind) for f in before}
    kept = []
    for finding in after:
        known = finding.kind not in _SLOW or (_side(finding.culprit), finding.kind) in blamed
        kept.append(finding if known else replace(finding, remark=True))
    return kept


def _side(culprit: Culprit) -> Culprit:
    """A link without its direction, which is the less certain half of it."""
    if culprit.link is None:
        return culprit
    a, b = culprit.link
    return replace(culprit, link=(min(a, b), max(a, b)))

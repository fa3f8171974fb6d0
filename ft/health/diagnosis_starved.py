"""Starved ranks: their processes live and want to run, and others have the processors.

Of a process of this host the kernel tells how long its threads have run, and how long they were
ready to run and had no processor. Whoever had to wait for most of what it wanted is late for that
reason, whatever its page, its calls or its links look like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.ft.health.evidence import Evidence, Subject
from holdfast.ft.health.finding import Culprit, Finding, Limits

# What a rank without a processor looks like from outside.
_EFFECTS = ("mute", "stuck", "hang", "stalled", "slow-compute", "slow-rank")
_ADVICE = (
    "give it a processor: fewer ranks on this host, or less beside them (see top); a quota or "
    "a processor set of its container may be too small. It is not voted out for this"
)


def _waited_ns(subject: Subject) -> tuple[int, int, int]:
    """Time between the first and the last look, and in it ready without a processor, and run."""
    looks = [look for look in subject.looks if look.ready_ns + look.run_ns > 0]
    if len(looks) < 2 or subject.process != "running":
        return 0, 0, 0
    first, last = looks[0], looks[-1]
    # Threads that have ended take their time along.
    waited = max(0, last.ready_ns - first.ready_ns)
    return last.at_ns - first.at_ns, waited, max(0, last.run_ns - first.run_ns)


def find_starved(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find ranks whose processes get no processor.

    Parameters
    ----------
    evidence : Evidence
        With two looks at processes of this host.
    limits : Limits
        From where on they are starved.

    Returns
    -------
    list of Finding
        Kind `starved`.
    """
    found = []
    for subject in evidence.subjects:
        took, waited, ran = _waited_ns(subject)
        if subject.rank < 0 or took <= 0 or waited < limits.starved_part * took:
            continue
        share = waited / (waited + ran)
        if share < limits.starved_share:
            continue
        pid = subject.record.pid if subject.record else 0
        line = (
            f"process {pid} runs (it is not stopped), and in {took / 1e9:.1f} s its threads ran "
            f"for {ran / 1e9:.2f} s and waited {waited / 1e9:.2f} s for a processor"
        )
        found.append(Finding("starved", Culprit((subject.rank,)), share, (line,), _ADVICE))
    return found


def explain_by_starving(
    findings: Sequence[Finding], starved: Sequence[Finding]
) -> tuple[list[Finding], list[Finding]]:
    """Put what starved ranks look like from outside to their starving.

    Parameters
    ----------
    findings : sequence of Finding
        Of all other kinds.
    starved : sequence of Finding
        Of :func:`find_starved`.

    Returns
    -------
    tuple of list of Finding
        The findings that are left, and the starved: remarks where nobody suffers from it.
    """
    by_culprit = {finding.culprit: replace(finding, remark=True) for finding in starved}
    left = []
    for finding in findings:
        cause = by_culprit.get(finding.culprit)
        if cause is None or finding.kind not in _EFFECTS or not finding.sick:
            left.append(finding)
            continue
        by_culprit[finding.culprit] = replace(
            cause,
            evidence=tuple(dict.fromkeys((*cause.evidence, *finding.evidence))),
            stack=cause.stack or finding.stack,
            remark=False,
        )
    return left, list(by_culprit.values())

"""States: ranks whose snapshots do not protect them, since when and why."""

from __future__ import annotations

from holdfast.ft.health.evidence import Evidence, Metrics
from holdfast.ft.health.finding import Culprit, Finding, Limits

_EXPOSED = "holdfast_state_unprotected_seconds"
_ADVICE = (
    "until it is protected again a loss costs the steps since then: look at its keeper (`holdfast "
    "state ls`, and the process `holdfast._keeper` of the rank), and at what the reason names"
)


def find_unprotected(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find ranks whose state is unprotected.

    Parameters
    ----------
    evidence : Evidence
        With metrics of ranks.
    limits : Limits
        For how long it may be so.

    Returns
    -------
    list of Finding
        Kind `unprotected`, one for each rank; a remark while it has lasted for less.
    """
    found = []
    for subject in evidence.subjects:
        metrics = subject.last.metrics
        if metrics is None:
            continue
        for why, seconds in metrics.by(_EXPOSED, "why").items():
            said = f"its state has been unprotected for {seconds:.1f} s: {why}"
            ranks = (subject.rank,) if subject.rank >= 0 else ()
            culprit = Culprit(ranks, source="" if ranks else subject.source)
            lines = (said, _kept(metrics))
            young = seconds < limits.unprotected_s
            found.append(Finding("unprotected", culprit, 0.95, lines, _ADVICE, remark=young))
    return found


def _kept(metrics: Metrics) -> str:
    steps = metrics.by("holdfast_state_step", "state")
    ages = metrics.by("holdfast_state_age_seconds", "state")
    told = [
        f"step {steps[state]:.0f} is {state}, {ages.get(state, 0.0):.1f} s old"
        for state in ("committed", "flushed")
        if state in steps
    ]
    return "; ".join(told) or "keepers and storage have nothing"

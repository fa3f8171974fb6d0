"""Finding: one thing that is wrong, who is to blame, how sure that is, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.ft.health.evidence import describe_ranks

# Below this a finding is a remark: a script is not told that the job is sick.
SURE_ENOUGH = 0.5


@dataclass(frozen=True, slots=True)
class Culprit:
    """Who or what is to blame; only one of them."""

    ranks: tuple[int, ...] = ()
    link: tuple[int, int] | None = None  # sender, receiver
    host: str = ""
    file: str = ""
    coordinator: str = ""
    source: str = ""  # address of a rank whose number is not known

    @property
    def name(self) -> str:
        """In words."""
        if self.link is not None:
            return f"link from rank {self.link[0]} to rank {self.link[1]}"
        if self.host:
            return f"host {self.host}"
        if self.coordinator:
            return f"coordinator {self.coordinator}"
        if self.ranks:
            return describe_ranks(self.ranks)
        return self.file or self.source or "the job"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Parameters
    ----------
    kind : str
        One of those of docs/operate/doctor.md.
    culprit : Culprit
        Who is to blame.
    confidence : float
        0 to 1.
    evidence : tuple of str
        What it was concluded from, a line each.
    advice : str
        What to do.
    stack : str
        What the culprit's threads are at, where that is known.
    remark : bool
        Worth knowing, and no sickness.
    """

    kind: str
    culprit: Culprit
    confidence: float
    evidence: tuple[str, ...]
    advice: str
    stack: str = ""
    remark: bool = False

    @property
    def sick(self) -> bool:
        """Whether a script should be told."""
        return not self.remark and self.confidence >= SURE_ENOUGH

    def as_json(self) -> dict[str, Any]:
        """Return it as a value for json.dumps."""
        return {
            "kind": self.kind,
            "culprit": {
                "name": self.culprit.name,
                "ranks": list(self.culprit.ranks),
                "link": list(self.culprit.link) if self.culprit.link else None,
                "host": self.culprit.host,
                "file": self.culprit.file,
                "coordinator": self.culprit.coordinator,
                "source": self.culprit.source,
            },
            "confidence": round(self.confidence, 3),
            "evidence": list(self.evidence),
            "advice": self.advice,
            "stack": self.stack,
            "sick": self.sick,
        }


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on something is worth a word: relative, and absolute, so that noise is neither.

    Parameters
    ----------
    hang_s : float
        An op that has waited for less is none to worry about.
    hang_ratio : float
        Nor is one that has waited for less than so many times what ops of its rank take.
    blame_share : float
        Part of all time that the others lose to one rank (or host) that comes late.
    blame_ratio : float
        So many times as much as to the next one.
    blame_s : float
        Seconds by which it is late, in the middle.
    rtt_s, rtt_ratio : float
        A slow link has a round trip of so many seconds, and so many times that of good links.
    link_wait_share : float
        And its ranks wait for each other for this part of the time.
    trend_ratio : float
        A link decays when its round trip becomes so many times as long.
    retransmits, retransmit_share : float
        A lossy link sends again so many segments between two looks, and this part of all.
    wait_share, wait_ratio : float
        A rank that is slow inside of ops has all others wait for this part of the time, and so many
        times as long as for any other.
    cuts : float
        A flapping link has lost so many connections within a minute.
    unprotected_s : float
        A state that has been unprotected for less is none to worry about.
    starved_part, starved_share : float
        A starved rank was ready to run, without a processor, for this part of the time, and for
        this part of what it wanted to run.
    """

    hang_s: float = 2.0
    hang_ratio: float = 5.0
    blame_share: float = 0.15
    blame_ratio: float = 3.0
    blame_s: float = 0.002
    rtt_s: float = 0.005
    rtt_ratio: float = 3.0
    link_wait_share: float = 0.1
    trend_ratio: float = 3.0
    retransmit_share: float = 0.005
    retransmits: float = 6.0
    wait_share: float = 0.2
    wait_ratio: float = 2.0
    cuts: float = 5.0
    unprotected_s: float = 30.0
    starved_part: float = 0.5
    starved_share: float = 0.8


def one_each(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, the surest first, one for each kind and culprit.

    Parameters
    ----------
    findings : iterable of Finding
        Any.

    Returns
    -------
    list of Finding
        Evidence of the same about the same is put together.
    """
    merged: dict[tuple[str, Culprit], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.culprit)
        other = merged.get(key)
        if other is None:
            merged[key] = finding
            continue
        first, second = sorted((other, finding), key=lambda f: -f.confidence)
        lines = tuple(dict.fromkeys((*first.evidence, *second.evidence)))
        merged[key] = Finding(
            *(first.kind, first.culprit, first.confidence, lines, first.advice),
            stack=first.stack or second.stack,
            remark=first.remark and second.remark,
        )
    return sorted(merged.values(), key=lambda f: (f.remark, -f.confidence, f.kind))

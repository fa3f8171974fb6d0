"""Eviction: when a rank that looks ill again and again is put out of a job. Pure.

Looks go in, decisions come out: no clock, no process, no page. One look may err, so a rank has to
be accused in several looks one after the other; ranks are evicted one at a time with a pause after
each, as an eviction makes the others wait, too; and never so many that too few are left. What is
done with a decision is the business of :mod:`holdfast.ft.health.evictor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.errors import ConfigError
from holdfast.ft.health.evidence import Evidence, Subject
from holdfast.ft.health.finding import Finding

# Of a rank, and such that its end helps. A dead one is gone, and a mismatch is in the program.
KINDS = (
    *("hang", "deadlock", "stalled", "stopped", "mute", "stuck", "voted-out", "lost"),
    *("slow-compute", "slow-rank", "slow-network"),
)


@dataclass(frozen=True, slots=True)
class Policy:
    """When somebody is evicted.

    Parameters
    ----------
    kinds : tuple of str
        Of findings that count: some of `KINDS`.
    after : int
        So many looks one after the other have to accuse the same process. At least 1.
    confidence : float
        From where on an accusation counts, above 0 to 1.
    every_s : float
        Seconds from one eviction to the next, at least. 0: no pause.
    keep : int
        So many answering ranks are left, at least; 0: more than half of all that are known.

    Raises
    ------
    ConfigError
        For values that cannot be used.
    """

    kinds: tuple[str, ...]
    after: int = 3
    confidence: float = 0.8
    every_s: float = 60.0
    keep: int = 0

    def __post_init__(self) -> None:
        for kind in self.kinds or ("",):
            if kind not in KINDS:
                raise ConfigError(f"--evict {kind!r}; accepted: {', '.join(KINDS)}")
        if self.after < 1:
            raise ConfigError(f"--after {self.after}; accepted: looks, 1 or more")
        if not 0 < self.confidence <= 1:
            told = f"--evict-confidence {self.confidence:g}"
            raise ConfigError(f"{told}; accepted: above 0, to 1")
        if not 0 <= self.every_s <= 86400:
            raise ConfigError(f"--evict-every {self.every_s:g}; accepted: seconds, up to a day")
        if self.keep < 0:
            raise ConfigError(f"--keep {self.keep}; accepted: ranks, 1 or more; 0: a majority")


@dataclass(frozen=True, slots=True)
class Look:
    """What one look says of who may be evicted.

    Parameters
    ----------
    at_s : float
        Of a clock that only goes forward.
    findings : tuple of Finding
        What is wrong.
    known : frozenset of int
        Ranks that are known of.
    answering : frozenset of int
        Those of them that answer, and run.
    processes : mapping of int to str
        What tells a rank's process from its successor; without it: unknown.
    """

    at_s: float
    findings: tuple[Finding, ...]
    known: frozenset[int]
    answering: frozenset[int]
    processes: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Decision:
    """A rank that has been accused for long enough.

    Parameters
    ----------
    rank : int
        Of the world.
    finding : Finding
        The latest accusation.
    looks : int
        How many there were, one after the other.
    held : str
        Why it is not evicted all the same; empty: it is to be.
    """

    rank: int
    finding: Finding
    looks: int
    held: str = ""


@dataclass(slots=True)
class Court:
    """Counts accusations, and decides.

    Parameters
    ----------
    policy : Policy
        When somebody is evicted.
    """

    policy: Policy
    _counts: dict[int, tuple[str, int]] = field(default_factory=dict)  # process, looks so far
    _evicted: dict[int, str] = field(default_factory=dict)  # the last process of each rank
    _evicted_s: float | None = None

    def decide(self, look: Look) -> list[Decision]:
        """Take one more look into account.

        Parameters
        ----------
        look : Look
            The latest.

        Returns
        -------
        list of Decision
            Who has been accused for long enough; at most one of them is not held.
        """
        accused = _accused(look.findings, self.policy)
        counts = {}
        for rank in accused:
            process, count = self._counts.get(rank, ("", 0))
            now = look.processes.get(rank, process)
            # What is still said of one that was evicted is its end; only its successor may be ill.
            if self._evicted.get(rank) != now:
                counts[rank] = (now, count + 1 if now == process or not process else 1)
        self._counts = counts
        due = [rank for rank, (_, count) in counts.items() if count >= self.policy.after]
        due.sort(key=lambda rank: (-counts[rank][1], -accused[rank].confidence, rank))
        decisions: list[Decision] = []
        for rank in due:
            held = self._why_not(rank, look)
            if not held and any(not other.held for other in decisions):
                held = "one at a time"
            decisions.append(Decision(rank, accused[rank], counts[rank][1], held))
        return decisions

    def _why_not(self, rank: int, look: Look) -> str:
        left = len(look.answering - {rank})
        keep = self.policy.keep or len(look.known) // 2 + 1
        if left < keep:
            return f"{left} answering ranks would be left of {len(look.known)}; kept: {keep}"
        if self._evicted_s is not None and look.at_s - self._evicted_s < self.policy.every_s:
            return f"the last eviction is less than {self.policy.every_s:g} s ago"
        return ""

    def evicted(self, rank: int, at_s: float) -> None:
        """Be told that a rank was evicted: the same process is not evicted twice.

        Parameters
        ----------
        rank : int
            Of a decision.
        at_s : float
            When, by the clock of the looks.
        """
        self._evicted[rank] = self._counts.pop(rank, ("", 0))[0]
        self._evicted_s = at_s

    def failed(self, rank: int) -> None:
        """Be told that a rank could not be evicted: it is tried again after as many looks more.

        Parameters
        ----------
        rank : int
            Of a decision.
        """
        self._counts.pop(rank, None)


def _accused(findings: Iterable[Finding], policy: Policy) -> dict[int, Finding]:
    """By rank the surest accusation that counts: of one rank, and of nothing else."""
    accused: dict[int, Finding] = {}
    for finding in findings:
        culprit = finding.culprit
        alone = len(culprit.ranks) == 1 and culprit.link is None and not culprit.host
        counts = finding.sick and finding.confidence >= policy.confidence
        if not (alone and counts and finding.kind in policy.kinds):
            continue
        (rank,) = culprit.ranks
        if rank not in accused or finding.confidence > accused[rank].confidence:
            accused[rank] = finding
    return accused


def _takes_part(subject: Subject) -> bool:
    """Whether a rank would go on with the job: pages of one that was voted out answer, too."""
    runs = subject.answers and subject.process not in ("stopped", "gone")
    return runs and "voted out" not in subject.last.ready


def look_of(evidence: Evidence, findings: Iterable[Finding], at_s: float) -> Look:
    """Return what a look at a job says of who may be evicted.

    Parameters
    ----------
    evidence : Evidence
        What was seen.
    findings : iterable of Finding
        What is wrong.
    at_s : float
        When, by a clock that only goes forward.

    Returns
    -------
    Look
        For :meth:`Court.decide`.
    """
    by_rank = evidence.by_rank()
    return Look(
        at_s,
        tuple(findings),
        frozenset(by_rank),
        frozenset(rank for rank, subject in by_rank.items() if _takes_part(subject)),
        {rank: f"{s.record.pid} {s.record.member}" for rank, s in by_rank.items() if s.record},
    )

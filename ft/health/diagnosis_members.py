"""Members: ranks that are dead, stopped, mute or lost, and a coordinator that does not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from holdfast.ft.health.evidence import Evidence, Metrics, Record, Subject, describe_ranks
from holdfast.ft.health.finding import Culprit, Finding, Limits

_LOOK_AT_PROCESS = (
    "look at the end of its output, and at the system's log for an out-of-memory kill"
)
_CAUSES = {
    "died": ("its process has ended", _LOOK_AT_PROCESS),
    "silent": (
        "it sent no sign of life",
        "the process is stopped, or its host, or the network to it, is gone",
    ),
    "cut": ("its connection broke", "look at the network between it and the others"),
}


def _culprit(subject: Subject, evidence: Evidence) -> Culprit:
    if subject.rank >= 0:
        return Culprit((subject.rank,))
    missing = _missing(evidence) - {s.rank for s in evidence.subjects}
    unnumbered = [s for s in evidence.subjects if s.rank < 0]
    if len(missing) == 1 and len(unnumbered) == 1:
        return Culprit(tuple(missing))
    return Culprit(source=subject.source)


def _seen_ranks(evidence: Evidence) -> set[int]:
    """All ranks that anybody knows of."""
    seen = {s.rank for s in evidence.subjects if s.rank >= 0}
    seen |= {rank for _, rank in evidence.vanished if rank >= 0}
    for subject in evidence.subjects:
        if subject.metrics is not None:
            for name in ("holdfast_link_bytes_total", "holdfast_peer_wait_seconds_total"):
                seen |= set(subject.metrics.by_peer(name))
    return seen


def _answering(evidence: Evidence) -> list[Subject]:
    return [s for s in evidence.subjects if s.answers and s.process not in ("stopped", "gone")]


def _missing(evidence: Evidence) -> set[int]:
    return _seen_ranks(evidence) - {s.rank for s in _answering(evidence)}


def _processes(evidence: Evidence) -> list[Finding]:
    """What this host's own table of processes says of the writers of records."""
    found = []
    runs = [s for s in evidence.subjects if s.process == "running"]
    for subject in evidence.subjects:
        record = subject.record
        pid = record.pid if record else 0
        if subject.process == "stopped":
            line = f"process {pid} is stopped (state T)"
            advice = "let it go on (kill -CONT), or find out who stopped it: a debugger, a person"
            found.append(Finding("stopped", _culprit(subject, evidence), 0.99, (line,), advice))
        # Of a job that is over, all processes are gone; of another host, none are seen.
        beside = any(s.host == subject.host and _same_job(s, subject) for s in runs)
        if subject.process == "gone" and beside and not _left_well(subject):
            line = f"process {pid}, which wrote {subject.source}, is gone; others of the job run"
            found.append(
                Finding("dead", _culprit(subject, evidence), 0.9, (line,), _LOOK_AT_PROCESS)
            )
    return found


def _same_job(a: Subject, b: Subject) -> bool:
    """Whether two records have a group in common."""
    return bool(a.record and b.record and set(a.record.groups) & set(b.record.groups))


def _left_well(subject: Subject) -> bool:
    """Whether nothing was under way at the end of a record, and nothing had failed."""
    record = subject.record
    if record is None or not record.entries:
        return False
    return all(op.ended and op.code == "ok" for op in record.entries[-8:])


def _mute(evidence: Evidence) -> list[Finding]:
    """Ranks whose pages do not answer."""
    found = []
    causes = _causes(s.metrics for s in _answering(evidence) if s.metrics is not None)
    for subject in evidence.subjects:
        trouble = subject.last.trouble
        if not subject.looks or not trouble or subject.process in ("stopped", "gone"):
            continue
        if len(subject.looks) > 1 and not subject.looks[-2].trouble and "refused" not in trouble:
            continue  # once is a busy machine
        refused = "refused" in trouble.lower() or "reset" in trouble.lower()
        answered = any(s.answers for s in evidence.subjects)
        if refused:
            kind, advice = "dead", _LOOK_AT_PROCESS
            line = f"nobody listens at {subject.source}: {trouble}"
        else:
            kind = "mute"
            advice = "its process is stopped (kill -CONT), or its host or the network to it is gone"
            line = f"{subject.source} does not answer: {trouble}"
        # Where nobody answers, it may be the way to them.
        sure = 0.9 if answered else 0.4
        left = refused and causes["left"] > 0 and causes.total() == causes["left"]
        culprit = _culprit(subject, evidence)
        found.append(Finding(kind, culprit, sure, (line,), advice, remark=left))
    return found


def _stuck(evidence: Evidence) -> list[Finding]:
    found = []
    for subject in evidence.subjects:
        said = subject.last.health
        if subject.answers and said and said != "ok":
            advice = "its threads get no processor, or one is stuck in the core: report it"
            line = f"{subject.source}/healthz: {said}"
            found.append(Finding("stuck", _culprit(subject, evidence), 0.9, (line,), advice))
        if subject.answers and "voted out" in subject.last.ready:
            advice = "it was stopped, or cut off, for longer than option silence: start it again"
            line = f"{subject.source}/readyz: {subject.last.ready}"
            found.append(Finding("voted-out", _culprit(subject, evidence), 0.9, (line,), advice))
    return found


def _causes(metrics: Iterable[Metrics]) -> Counter[str]:
    """Losses by cause, as the rank that saw most of them counts them."""
    best: Counter[str] = Counter()
    for scrape in metrics:
        counts = {k: int(v) for k, v in scrape.by("holdfast_losses_total", "cause").items()}
        if sum(counts.values()) > sum(best.values()):
            best = Counter(counts)
    return +best


def _lost(evidence: Evidence) -> list[Finding]:
    """Ranks that the view of those who answer has lost."""
    here = [(s, s.metrics) for s in _answering(evidence) if s.metrics is not None]
    if not here:
        return []
    causes = _causes(m for _, m in here)
    epoch = max(m.total("holdfast_epoch") for _, m in here)
    members = max(
        int(m.total("holdfast_members")) for _, m in here if m.total("holdfast_epoch") == epoch
    )
    missing = tuple(sorted(_missing(evidence)))
    lost = sum(causes.values())
    if not lost:
        return []
    told = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items()))
    line = f"view {int(epoch)} has {members} members; lost since the start: {told}"
    if not missing or members >= len(_seen_ranks(evidence)):
        advice = "nothing: those that were lost have been replaced"
        return [Finding("lost", Culprit(), 0.9, (line,), advice, remark=True)]
    cause = next((c for c in ("died", "silent", "cut") if causes[c]), "")
    if not cause:
        advice = "nothing: they said goodbye"
        return [Finding("left", Culprit(missing), 0.9, (line,), advice, remark=True)]
    what, advice = _CAUSES[cause]
    # With several losses of several kinds, who was lost by which is a guess.
    sure = 0.9 if len(missing) <= lost else 0.6
    lines = (f"{describe_ranks(missing)}: {what}", line)
    return [Finding("lost", Culprit(missing), sure, lines, advice)]


def _behind(evidence: Evidence) -> list[Finding]:
    """Of records alone: ranks whose ops end in a view that others have gone on from."""
    if any(s.metrics for s in evidence.subjects):
        return []
    records = evidence.records()
    epochs = {rank: max((e.epoch for e in r.entries), default=0) for rank, r in records.items()}
    newest = max(epochs.values(), default=0)
    found = []
    for rank, record in records.items():
        last = record.entries[-1] if record.entries else None
        voted_out = last is not None and last.code == "NotMember"
        if not voted_out and (epochs[rank] == newest or _went_on(record, records, newest) == 0):
            continue
        went_on = _went_on(record, records, newest)
        lines = [f"its last op is of view {epochs[rank]}; {went_on} others are at {newest}"]
        if last is not None and not last.ended:
            lines.append(f"it ended, or was stopped, in {last.collective} {last.sequence}")
        if voted_out:
            lines.append("it was voted out (NotMember): nothing came from it for option silence")
        sure = 0.9 if voted_out or (last is not None and not last.ended) else 0.6
        found.append(Finding("lost", Culprit((rank,)), sure, tuple(lines), _LOOK_AT_PROCESS))
    return found


def _went_on(record: Record, records: dict[int, Record], newest: int) -> int:
    """How many ranks of this record's groups were at the newest view."""
    groups = set(record.groups)
    return sum(
        1
        for other in records.values()
        if other is not record
        and groups & set(other.groups)
        and max((e.epoch for e in other.entries), default=0) == newest
    )


def _cut_off(evidence: Evidence) -> list[Finding]:
    """Of records alone: whom ops that ended with PeerLost had waited for."""
    blamed: Counter[int] = Counter()
    lines: dict[int, list[str]] = {}
    for rank, record in evidence.records().items():
        lost = [op for op in record.entries if op.code == "PeerLost"]
        for op in lost[:1]:
            for other in op.waited_for:
                blamed[other] += 1
                said = f"rank {rank} lost a peer in {op.collective} {op.sequence}, waiting for it"
                lines.setdefault(other, []).append(said)
    if not blamed:
        return []
    most = max(blamed.values())
    worst = [rank for rank, count in blamed.items() if count == most]
    return [
        Finding("lost", Culprit((rank,)), 0.7 / len(worst), tuple(lines[rank]), _LOOK_AT_PROCESS)
        for rank in worst
    ]


def _coordinator(evidence: Evidence) -> list[Finding]:
    if not evidence.coordinator_trouble:
        return []
    line = f"{evidence.coordinator} does not answer: {evidence.coordinator_trouble}"
    advice = (
        "start it again at the same address: the members tell it what it knew, and until then no "
        "loss is decided and nobody comes in"
    )
    culprit = Culprit(coordinator=evidence.coordinator)
    return [Finding("coordinator", culprit, 0.95, (line,), advice)]


def find_members(evidence: Evidence, limits: Limits) -> list[Finding]:
    """Find ranks that are not there, or not as they should be.

    Parameters
    ----------
    evidence : Evidence
        Anything.
    limits : Limits
        Not used: who does not answer was given its time.

    Returns
    -------
    list of Finding
        Kinds `stopped`, `dead`, `mute`, `stuck`, `voted-out`, `lost`, `left`, `coordinator`.
    """
    del limits
    found = [*_coordinator(evidence), *_processes(evidence), *_mute(evidence)]
    found += _stuck(evidence)
    found += _lost(evidence)
    return found + _behind(evidence) + _cut_off(evidence)

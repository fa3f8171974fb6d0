"""``holdfast doctor``: looks at a running or recorded job, and says what is wrong with it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.errors import ConfigError
from holdfast.ft.health import access
from holdfast.ft.health.collect import Address, pages_of, url_of
from holdfast.ft.health.diagnosis import confirmed, diagnose, doubtful, suspicious
from holdfast.ft.health.diagnosis_links import matrix_of, matrix_text
from holdfast.ft.health.evictor import Evictor, evictor_of
from holdfast.ft.health.evictor import add_arguments as add_evictions
from holdfast.ft.health.evidence import Evidence
from holdfast.ft.health.finding import Finding, Limits
from holdfast.ft.health.live import Job, now_s, pause
from holdfast.options import Options

EXAMPLES = """examples:
  holdfast doctor --targets http://coordinator:9400/targets     all ranks that it knows
  holdfast doctor node1:9401 node2:9401                         ranks by their pages (option http)
  holdfast doctor /dev/shm/flight                               flight records, of living or dead
  holdfast doctor --watch 10 --targets ...                      again and again, with trends
  holdfast doctor --watch 5 --evict hang,stopped /dev/shm/flight   and end whom it accuses

Without any of these: what HOLDFAST_FLIGHT_DIR, HOLDFAST_HTTP and HOLDFAST_COORDINATOR name.
Exit status: 0 nothing is wrong, 1 something is, 2 nothing could be asked.
"""
HEALTHY, SICK, UNREACHABLE = 0, 1, 2
# Between two looks: a few heartbeats, so that what is not heard is silent, and a hang is one.
_BETWEEN_S = 1.0
_GLANCES = 2
# Until two looks agree on who is slow; then nobody is called so.
_MOST_AGAIN = 2
# Stacks are long; a rank that hangs is one, or a few.
_MOST_STACKS = 4
_STACK_LINES = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument(
        "what", nargs="*", metavar="WHERE", help="host:port of a rank, or flight records"
    )
    parser.add_argument("--targets", default="", metavar="URL", help="a coordinator's /targets")
    parser.add_argument(
        "--watch", type=float, default=None, metavar="SECONDS", help="look again and again"
    )
    parser.add_argument(
        "--looks", type=int, default=0, metavar="N", help="with --watch: end after so many (never)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=Limits().hang_s,
        metavar="SECONDS",
        help="an op that waits for less does not hang (2); more for jobs whose ranks pause",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    access.add_arguments(parser)
    add_evictions(parser)
    parser.set_defaults(run=run)


def job_of(what: Sequence[str], targets: str) -> Job:
    """Return where to look.

    Parameters
    ----------
    what : sequence of str
        Addresses, files, folders; with `targets` empty and none of them, what the options say.
    targets : str
        URL of a coordinator's targets, or empty.

    Returns
    -------
    Job
        Not looked at yet.

    Raises
    ------
    ConfigError
        For what is neither a path nor an address, and for nothing at all.
    """
    job = Job(targets=url_of(pages_of(targets), "targets") if targets else "")
    for text in what:
        if Path(text).exists():
            job.folders.append(Path(text))
        elif "/" in text and not text.startswith(("http://", "https://")):
            raise ConfigError(f"no file or folder {text}")
        else:
            job.addresses.append(Address(pages_of(text)))
    if what or targets:
        return job
    options = Options.from_env()
    if options.flight_dir:
        job.folders.append(Path(options.flight_dir))
    if options.http and not options.http.endswith(":0") and options.http != "0":
        host, _, port = options.http.rpartition(":")
        scheme = "https://" if options.http_cert else ""
        job.addresses.append(Address(f"{scheme}{host or '127.0.0.1'}:{port}"))
    job.coordinator = options.coordinator
    if not (job.folders or job.addresses or job.coordinator):
        raise ConfigError(
            "where is the job? accepted: --targets URL, host:port ..., a folder of flight records, "
            "or HOLDFAST_FLIGHT_DIR, HOLDFAST_HTTP, HOLDFAST_COORDINATOR"
        )
    return job


def examine(job: Job, limits: Limits | None = None) -> tuple[Evidence, list[Finding]]:
    """Look at a job, twice if it runs, and a third time before anybody is called slow.

    Parameters
    ----------
    job : Job
        Where it is.
    limits : Limits, optional
        From where on something is wrong.

    Returns
    -------
    tuple of Evidence and list of Finding
        What was seen, and what is wrong.
    """
    began = now_s()
    evidence = job.look()
    if not evidence.live:
        return evidence, diagnose(evidence, limits)
    evidence = _look_again(job, evidence, now_s() - began)
    findings = diagnose(evidence, limits)
    before: list[Finding] = []
    for _ in range(_MOST_AGAIN):
        settled = bool(before) and not doubtful(before, findings)
        if settled or not (suspicious(findings) or _young_waits(evidence, findings)):
            break
        before += findings
        evidence = _look_again(job, evidence, 0.0)
        findings = diagnose(evidence, limits)
    if before:
        findings = confirmed(before, findings)
    return evidence, with_stacks(job, findings)


def _look_again(job: Job, before: Evidence, spent_s: float) -> Evidence:
    """Look once more after a while, with glances at the metrics meanwhile."""
    # A look at ranks that are mute has taken its time already, and so would each glance.
    if not all(s.answers for s in before.subjects):
        pause(_BETWEEN_S - min(_BETWEEN_S / 2, spent_s))
        return job.look()
    for _ in range(_GLANCES):
        pause(_BETWEEN_S / (_GLANCES + 1))
        job.look(brief=True)
    pause(_BETWEEN_S / (_GLANCES + 1))
    return job.look()


def _young_waits(evidence: Evidence, findings: Sequence[Finding]) -> bool:
    """Whether ops have begun to wait that nothing explains yet: they may be about to hang."""
    if findings:
        return False
    begun = {
        op.call
        for record in evidence.records().values()
        for op in record.entries[-4:]
        if not op.ended
    }
    moved = [(subject.looks[0].metrics, subject.looks[-1].metrics) for subject in evidence.subjects]
    ended = sum(
        last.total("holdfast_ops_total") - first.total("holdfast_ops_total")
        for first, last in moved
        if first and last
    )
    return bool(begun) and ended == 0


def with_stacks(job: Job, findings: Sequence[Finding]) -> list[Finding]:
    """Ask ranks that hang what their threads are at.

    Parameters
    ----------
    job : Job
        Where they are.
    findings : sequence of Finding
        What is wrong.

    Returns
    -------
    list of Finding
        Hangs with stacks, where they could be had.
    """
    told = []
    asked = 0
    for finding in findings:
        wanted = finding.kind in ("hang", "deadlock") and asked < _MOST_STACKS
        ranks = finding.culprit.ranks[:1] if wanted else ()
        for rank in ranks:
            asked += 1
            stack = "\n".join(job.stack_of(rank).splitlines()[:_STACK_LINES])
            finding = replace(finding, stack=stack)
        told.append(finding)
    return told


def status_of(evidence: Evidence, findings: Sequence[Finding]) -> int:
    """Return the exit status.

    Parameters
    ----------
    evidence : Evidence
        What was seen.
    findings : sequence of Finding
        What is wrong.

    Returns
    -------
    int
        0 healthy, 1 sick, 2 nothing was seen.
    """
    seen = any(s.answers for s in evidence.subjects)
    if not seen and not evidence.bad_files:
        return UNREACHABLE
    return SICK if any(f.sick for f in findings) else HEALTHY


def report_text(evidence: Evidence, findings: Sequence[Finding]) -> str:
    """Return what people read.

    Parameters
    ----------
    evidence : Evidence
        What was seen.
    findings : sequence of Finding
        What is wrong.

    Returns
    -------
    str
        Lines.
    """
    seen = sum(s.answers for s in evidence.subjects)
    lines = [f"{seen} of {len(evidence.subjects)} ranks looked at"]
    sick = [f for f in findings if f.sick]
    if not sick:
        lines.append("nothing is wrong" if seen else "nobody answers")
    if locked := sum(bool(s.last.locked) for s in evidence.subjects):
        lines.append(f"of {locked} without the flight record, which is for the role admin")
    for finding in findings:
        mark = "SICK" if finding.sick else "note"
        lines.append("")
        lines.append(
            f"{mark}  {finding.kind}: {finding.culprit.name}   "
            f"(confidence {finding.confidence:.2f})"
        )
        lines += [f"      - {line}" for line in finding.evidence]
        lines.append(f"      what to do: {finding.advice}")
        if finding.stack:
            lines.append("      its threads:")
            lines += [f"      | {line}" for line in finding.stack.splitlines()]
    if sick and (table := matrix_text(matrix_of(evidence))):
        lines += ["", table]
    return "\n".join(lines)


def report_json(evidence: Evidence, findings: Sequence[Finding]) -> str:
    """Return what programs read: one line of JSON.

    Parameters
    ----------
    evidence : Evidence
        What was seen.
    findings : sequence of Finding
        What is wrong.

    Returns
    -------
    str
        An object with `status`, `ranks`, `answering` and `findings`.
    """
    return json.dumps(
        {
            "status": ("healthy", "sick", "unreachable")[status_of(evidence, findings)],
            "ranks": len(evidence.subjects),
            "answering": sum(s.answers for s in evidence.subjects),
            "findings": [finding.as_json() for finding in findings],
        }
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of :func:`add_arguments`.

    Returns
    -------
    int
        0 healthy, 1 sick, 2 nothing could be asked.

    Raises
    ------
    ConfigError
        For arguments that cannot be used.
    """
    if arguments.watch is not None and not 0 < arguments.watch <= 86400:
        raise ConfigError(f"--watch {arguments.watch:g}; accepted: seconds, up to a day")
    if not 0 < arguments.patience <= 86400:
        raise ConfigError(f"--patience {arguments.patience:g}; accepted: seconds, up to a day")
    limits = Limits(hang_s=arguments.patience)
    evictor = evictor_of(arguments)
    job = job_of(arguments.what, arguments.targets)
    job.access = access.access_of(arguments)
    report = report_json if arguments.json else report_text
    if arguments.watch is None:
        evidence, findings = examine(job, limits)
        print(report(evidence, findings))
        return status_of(evidence, findings)
    return _watch(job, arguments, limits, evictor)


def _watch(job: Job, arguments: argparse.Namespace, limits: Limits, evictor: Evictor | None) -> int:
    report = report_json if arguments.json else report_text
    looks = 0
    status = HEALTHY
    before = ""
    try:
        while arguments.looks == 0 or looks < arguments.looks:
            began = now_s()
            evidence, findings = examine(job, limits)
            status = status_of(evidence, findings)
            looks += 1
            text = report(evidence, findings)
            told = "\n".join(f"{f.kind} {f.culprit.name}" for f in findings)
            # A terminal shows what is new; a program gets every look.
            if arguments.json or told != before or looks == 1:
                print(text, flush=True)
            before = told
            if evictor is not None:
                evictor.look(job, evidence, findings, now_s())
            if looks != arguments.looks:
                pause(arguments.watch - (now_s() - began))
    except KeyboardInterrupt:
        print("", file=sys.stderr)
    return status

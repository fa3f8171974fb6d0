"""Evictor: does what :mod:`holdfast.ft.health.eviction` decides, and says so on standard error.

A process of this host is ended by SIGKILL, once it is certain that it is the rank's: it has the
rank's flight record mapped. For all others there is a command of the operator's. What follows is
what follows any death: the others repair their ops and go on, and ``holdfast run --respawn`` or the
cluster's scheduler brings the rank back. Pages are only read: they can change nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import ConfigError
from holdfast.ft.health import dumps
from holdfast.ft.health.eviction import KINDS, Court, Decision, Policy, look_of
from holdfast.ft.health.evidence import Evidence, Record
from holdfast.ft.health.finding import Finding
from holdfast.ft.health.live import Job
from holdfast.ft.health.processes import state_of

# For a command of the operator's: a call of a scheduler's API takes seconds.
COMMAND_S = 30.0
_FIELDS = ("rank", "host", "pid", "kind")
_OUTPUT_LINES = 10
# Comes from the network, and goes to the operator's command: nothing that could be an option of it.
_HOST = re.compile(r"(?:[\w:][\w.:%-]*)?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of evictions.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of `holdfast doctor`.
    """
    group = parser.add_argument_group("evictions, with --watch")
    group.add_argument(
        "--evict",
        default="",
        metavar="KIND[,KIND]",
        help=f"end a rank that is accused of one of these in look after look: {', '.join(KINDS)}",
    )
    whole = Policy(KINDS)
    group.add_argument(
        "--after",
        type=int,
        default=whole.after,
        metavar="N",
        help=f"so many looks one after the other ({whole.after})",
    )
    group.add_argument(
        "--evict-confidence",
        type=float,
        default=whole.confidence,
        metavar="C",
        help=f"accusations below it do not count ({whole.confidence:g})",
    )
    group.add_argument(
        "--evict-every",
        type=float,
        default=whole.every_s,
        metavar="SECONDS",
        help=f"from one eviction to the next, at least ({whole.every_s:g})",
    )
    group.add_argument(
        "--keep",
        type=int,
        default=whole.keep,
        metavar="N",
        help="leave so many answering ranks, at least (a majority)",
    )
    group.add_argument(
        "--evict-command",
        default="",
        metavar="CMD",
        help="for ranks that are no process of this host: run it, with {rank} {host} {pid} {kind}",
    )
    group.add_argument("--dry-run", action="store_true", help="only say who would be evicted")


def evictor_of(arguments: argparse.Namespace) -> Evictor | None:
    """Return what evicts, as the arguments want it.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of :func:`add_arguments`.

    Returns
    -------
    Evictor or None
        None without `--evict`.

    Raises
    ------
    ConfigError
        For arguments that cannot be used.
    """
    if not arguments.evict:
        if arguments.evict_command or arguments.dry_run:
            which = "--dry-run" if arguments.dry_run else "--evict-command"
            raise ConfigError(f"{which} without --evict; accepted: --evict KIND[,KIND], of {KINDS}")
        return None
    if arguments.watch is None:
        raise ConfigError(f"--evict {arguments.evict} without --watch; accepted: --watch SECONDS")
    if not math.isfinite(arguments.evict_confidence + arguments.evict_every):
        raise ConfigError("--evict-confidence, --evict-every; accepted: finite numbers")
    policy = Policy(
        tuple(kind.strip() for kind in arguments.evict.split(",")),
        arguments.after,
        arguments.evict_confidence,
        arguments.evict_every,
        arguments.keep,
    )
    command = _command_of(arguments.evict_command)
    return Evictor(Court(policy), command, arguments.dry_run)


def _command_of(text: str) -> tuple[str, ...]:
    """The words of a command: no shell is in between, so no value can be more than a word."""
    try:
        words = tuple(shlex.split(text))
        for word in words:
            word.format(**dict.fromkeys(_FIELDS, ""))
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        accepted = "a command with {rank}, {host}, {pid}, {kind}"
        raise ConfigError(f"--evict-command {text!r}: {error}; accepted: {accepted}") from None
    return words


@dataclass(slots=True)
class Evictor:
    """Evicts ranks.

    Parameters
    ----------
    court : Court
        Who decides.
    command : tuple of str
        For ranks that are no process of this host; empty: none.
    dry_run : bool
        Only say who would be evicted.
    """

    court: Court
    command: tuple[str, ...] = ()
    dry_run: bool = False
    _held: dict[int, str] = field(default_factory=dict)

    def look(self, job: Job, evidence: Evidence, findings: Sequence[Finding], at_s: float) -> None:
        """Evict whoever is due after one more look.

        Parameters
        ----------
        job : Job
            Where the ranks are.
        evidence : Evidence
            What was seen.
        findings : sequence of Finding
            What is wrong.
        at_s : float
            Of a clock that only goes forward.
        """
        decisions = self.court.decide(look_of(evidence, findings, at_s))
        held = {d.rank: d.held for d in decisions if d.held}
        for decision in decisions:
            if not decision.held:
                self._evict(job, evidence, decision, at_s)
            elif self._held.get(decision.rank) != decision.held:  # once, and not at each look
                _say(f"rank {decision.rank} is not evicted: {decision.held}", decision)
        self._held = held

    def _evict(self, job: Job, evidence: Evidence, decision: Decision, at_s: float) -> None:
        rank = decision.rank
        if self.dry_run:
            way = self._way(job, rank)
            done, what = bool(way), way or _NOBODY
        else:
            done, what = self._end(job, evidence, decision)
        if done and self.dry_run:
            _say(f"dry run: rank {rank} would be evicted: {what}", decision)
            self.court.evicted(rank, at_s)
        elif done:
            _say(f"rank {rank} is evicted: {what}", decision)
            self.court.evicted(rank, at_s)
        else:
            _say(f"rank {rank} cannot be evicted: {what}", decision)
            self.court.failed(rank)

    def _way(self, job: Job, rank: int) -> str:
        """How a rank would be evicted; empty: it cannot be."""
        found = job.file_of(rank)
        if found is not None and _is_writer(found[0], found[1]):
            return f"SIGKILL to process {found[0].pid}"
        return f"by {shlex.join(self.command)}" if self.command else ""

    def _end(self, job: Job, evidence: Evidence, decision: Decision) -> tuple[bool, str]:
        found = job.file_of(decision.rank)
        why = end_writer(found[0], found[1]) if found is not None else _NOBODY
        if not why and found is not None:
            return True, f"SIGKILL to process {found[0].pid}, which has {found[1]} mapped"
        if not self.command:
            return False, why
        return run_command(self.command, _fields_of(evidence, decision))


def _fields_of(evidence: Evidence, decision: Decision) -> dict[str, str]:
    """What a command is told. A host is that of the rank's pages, or else what its record says."""
    subject = evidence.by_rank().get(decision.rank)
    host, pid = "", ""
    if subject is not None:
        source = subject.source.removeprefix("https://")
        pages = source.rpartition(":")[0] if "/" not in source else ""
        host = pages.strip("[]") or subject.host
        pid = str(subject.record.pid) if subject.record else ""
    values = (str(decision.rank), host, pid, decision.finding.kind)
    return dict(zip(_FIELDS, values, strict=True))


_NOBODY = (
    "it is no process of this host whose flight record is among what the doctor looks at, and "
    "there is no --evict-command"
)


def _say(what: str, decision: Decision) -> None:
    finding = decision.finding
    lines = [
        f"holdfast doctor: {what}",
        f"      accused of {finding.kind} in {decision.looks} looks one after the other "
        f"(confidence {finding.confidence:.2f})",
        *(f"      - {line}" for line in finding.evidence),
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)


def _is_writer(record: Record, file: Path) -> bool:
    """Whether the record's process of this host has the file mapped, and the file is that record's.

    The record may have come from a page, and pages can say anything.
    """
    if state_of(record.pid, file) not in ("running", "stopped"):
        return False
    own, _ = dumps.read(file)
    return own is not None and (own.pid, own.member, own.rank) == (
        record.pid,
        record.member,
        record.rank,
    )


def end_writer(record: Record, file: Path) -> str:
    """End the process that writes a record, if it is certain that it does.

    Parameters
    ----------
    record : Record
        What is known of the rank.
    file : Path
        Its flight record.

    Returns
    -------
    str
        Empty when it was ended; else why not.
    """
    try:
        # Names the process, not its number: what is found out of it is true of whom is signalled.
        process = os.pidfd_open(record.pid)
    except OSError as error:
        return f"process {record.pid}: {error.strerror or error}"
    try:
        if not _is_writer(record, file):
            return f"process {record.pid} of this host does not write {file}"
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except OSError as error:
        return f"process {record.pid}: {error.strerror or error}"
    finally:
        os.close(process)
    return ""


def run_command(command: Sequence[str], fields: dict[str, str]) -> tuple[bool, str]:
    """Run a command of the operator's.

    Parameters
    ----------
    command : sequence of str
        Its words, with names of `fields` in braces.
    fields : dict of str to str
        `rank`, `host`, `pid` and `kind`, empty where unknown; also in the environment, as
        ``EVICT_RANK`` and so on.

    Returns
    -------
    tuple of bool and str
        Whether it ended with status 0 in time, and what is to be said of it.
    """
    if not _HOST.fullmatch(fields["host"]):
        return False, f"its host calls itself {fields['host']!r}, which is told to no command"
    words = [word.format(**fields) for word in command]
    told = shlex.join(words)
    environment = dict(os.environ) | {f"EVICT_{name.upper()}": x for name, x in fields.items()}
    try:
        done = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"{told} has not ended after {COMMAND_S:g} s, and was ended"
    except OSError as error:
        return False, f"{told}: {error.strerror or error}"
    lines = "".join(f"\n      | {line}" for line in done.stdout.splitlines()[-_OUTPUT_LINES:])
    return done.returncode == 0, f"{told} ended with status {done.returncode}{lines}"

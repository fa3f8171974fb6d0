"""Evidence: what is known of a job when somebody asks what is wrong with it.

Values only: where they come from is the collectors' business (:mod:`holdfast.ft.health.collect`),
what they mean that of :mod:`holdfast.ft.health.diagnosis`. Times are nanoseconds; those of records
are of the writer's monotonic clock, all others of the reader's wall clock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Labels = tuple[tuple[str, str], ...]
Call = tuple[str, int]  # group id, number of the collective in it

# Peers of a message have numbers of their own: they cannot be compared across ranks.
MESSAGES = ("send", "recv")


@dataclass(frozen=True, slots=True)
class Op:
    """One entry of a flight record; the fields are those of docs/reference/flight-record.md."""

    number: int
    group: str
    sequence: int
    epoch: int
    collective: str
    dtype: str
    op: str
    bytes: int
    path: str
    algorithm: str
    rank: int
    other: int
    enqueued_ns: int
    started_ns: int
    ended_ns: int
    state: str
    code: str
    repaired: bool
    waited_for: tuple[int, ...]
    caller: str = ""  # the call of the program: "MPI_Allreduce"

    @property
    def call(self) -> Call:
        """What identifies a collective across ranks."""
        return (self.group, self.sequence)

    @property
    def ended(self) -> bool:
        """Whether it has, well or badly."""
        return self.state == "ended"

    @property
    def is_message(self) -> bool:
        """Whether it is a send or a receive."""
        return self.collective in MESSAGES

    @property
    def name(self) -> str:
        """What the program called: "all_reduce", or "MPI_Allreduce"."""
        return self.caller or self.collective


@dataclass(frozen=True, slots=True)
class Record:
    """A flight record: the last ops of one process, oldest first."""

    pid: int
    member: str
    rank: int
    host: str
    wall_offset_ns: int
    ops: int
    groups: Mapping[str, str]
    entries: tuple[Op, ...]
    torn: int = 0
    damaged: int = 0
    truncated: bool = False

    def group_name(self, group: str) -> str:
        """Return the name of a group, or its id where the record has none.

        Parameters
        ----------
        group : str
            Its id.
        """
        return self.groups.get(group, group)

    @property
    def last_ns(self) -> int:
        """The latest time in it, on the wall clock of its writer; 0 when there is none."""
        newest = max((max(e.started_ns, e.ended_ns) for e in self.entries), default=0)
        return newest + self.wall_offset_ns if newest else 0


@dataclass(frozen=True, slots=True)
class Metrics:
    """What one scrape says, by name and labels."""

    values: Mapping[str, Mapping[Labels, float]]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all samples of a name that have these labels; 0 for none.

        Parameters
        ----------
        name : str
            Of the samples, with ``_total``.
        **labels : str
            Values that the samples' labels have.
        """
        wanted = set(labels.items())
        found = self.values.get(name, {})
        return sum(value for have, value in found.items() if wanted <= set(have))

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of a name's samples by one label.

        Parameters
        ----------
        name, label : str
            Of the samples, with ``_total``; what they are told apart by.
        """
        sums: dict[str, float] = {}
        for have, value in self.values.get(name, {}).items():
            key = dict(have).get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def by_peer(self, name: str, **labels: str) -> dict[int, float]:
        """Return the sums by peer; `other`, which is many ranks, is left out.

        Parameters
        ----------
        name : str
            Of the samples, with ``_total``.
        **labels : str
            Values that the samples' other labels have.
        """
        wanted = set(labels.items())
        sums: dict[int, float] = {}
        for have, value in self.values.get(name, {}).items():
            peer = dict(have).get("peer", "")
            if peer.isdigit() and wanted <= set(have):
                sums[int(peer)] = sums.get(int(peer), 0.0) + value
        return sums


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one rank."""

    at_ns: int
    metrics: Metrics | None = None
    record: Record | None = None
    health: str = ""  # what /healthz said; empty: nothing
    ready: str = ""
    trouble: str = ""  # why there is no answer
    # Of a process of this host, all threads since it began: ran; was ready, and had no processor.
    run_ns: int = 0
    ready_ns: int = 0
    locked: str = ""  # why it, or its record, may not be read by who asks


@dataclass(frozen=True, slots=True)
class Subject:
    """One rank, and all looks at it, oldest first."""

    source: str  # address or file
    rank: int = -1  # -1: not known
    host: str = ""
    looks: tuple[Look, ...] = ()
    process: str = ""  # running, stopped, gone; empty: not known
    known: bool = True  # it was asked for, or has been seen, and should be there

    @property
    def last(self) -> Look:
        """The latest look."""
        return self.looks[-1] if self.looks else Look(0)

    @property
    def record(self) -> Record | None:
        """The latest flight record, of whichever look."""
        return next((look.record for look in reversed(self.looks) if look.record), None)

    @property
    def metrics(self) -> Metrics | None:
        """The latest metrics, of whichever look."""
        return next((look.metrics for look in reversed(self.looks) if look.metrics), None)

    @property
    def answers(self) -> bool:
        """Whether the latest look found it."""
        return bool(self.looks) and not self.last.trouble


@dataclass(frozen=True, slots=True)
class BadFile:
    """A dump that cannot be used, or not all of it."""

    path: str
    why: str
    rank: int = -1


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known of a job."""

    subjects: tuple[Subject, ...] = ()
    live: bool = False  # the ranks were looked at while they should have been running
    coordinator: str = ""  # its address, where there is one
    coordinator_trouble: str = ""  # why it does not answer
    bad_files: tuple[BadFile, ...] = ()
    vanished: tuple[tuple[str, int], ...] = ()  # source and rank of those that targets dropped

    def by_rank(self) -> dict[int, Subject]:
        """Return the subjects whose rank is known."""
        return {s.rank: s for s in self.subjects if s.rank >= 0}

    def records(self) -> dict[int, Record]:
        """Return the latest record of each rank that has one."""
        found = {rank: s.record for rank, s in self.by_rank().items()}
        return {rank: record for rank, record in found.items() if record is not None}


def _whole(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"field {name} = {value!r}; accepted: a whole number")
    return value


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise ValueError(f"field {name} = {value!r}; accepted: text")
    return value


_OP_WHOLE = (
    *("number", "sequence", "epoch", "bytes", "rank", "other"),
    *("enqueued_ns", "started_ns", "ended_ns"),
)
_OP_TEXT = ("group", "collective", "dtype", "op", "path", "algorithm", "state", "code")


def _op_of(data: Mapping[str, Any]) -> Op:
    fields: dict[str, Any] = {name: _whole(data, name) for name in _OP_WHOLE}
    fields |= {name: _text(data, name) for name in _OP_TEXT}
    waited = tuple(int(rank) for rank in data.get("waited_for", ()))
    fields |= {"caller": _text(data, "caller"), "repaired": bool(data.get("repaired"))}
    return Op(**fields, waited_for=waited)


def record_of(data: Mapping[str, Any]) -> Record:
    """Return the record that JSON of /flight, or read_flight(), describes.

    Parameters
    ----------
    data : mapping
        As in docs/reference/flight-record.md.

    Returns
    -------
    Record
        The same.

    Raises
    ------
    ValueError
        When a field is missing or of another kind, naming it.
    """
    entries = data.get("entries")
    if not isinstance(entries, list):
        raise ValueError("field entries is no list")
    return Record(
        pid=_whole(data, "pid"),
        member=_text(data, "member"),
        rank=_whole(data, "rank"),
        host=_text(data, "host"),
        wall_offset_ns=_whole(data, "wall_offset_ns"),
        ops=_whole(data, "ops"),
        groups={str(k): str(v) for k, v in dict(data.get("groups", {})).items()},
        entries=tuple(_op_of(entry) for entry in entries),
        torn=_whole(data, "torn"),
        damaged=_whole(data, "damaged"),
        truncated=bool(data.get("truncated")),
    )


def parsed(text: str) -> Any:
    """Return what JSON from another host says.

    Parameters
    ----------
    text : str
        Whatever has come.

    Raises
    ------
    ValueError
        For all that is no JSON.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def record_of_json(text: str) -> Record:
    """Return the record that the text of /flight describes.

    Parameters
    ----------
    text : str
        JSON, as docs/reference/flight-record.md has it.

    Raises
    ------
    ValueError
        When it is none.
    """
    data = parsed(text)
    if not isinstance(data, dict):
        raise ValueError("no flight record")
    return record_of(data)


_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*?)\})? (\S+)(?: .*)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], text)


def metrics_of(text: str) -> Metrics:
    """Return the samples of a scrape.

    Parameters
    ----------
    text : str
        Prometheus's text format 0.0.4, or OpenMetrics.

    Returns
    -------
    Metrics
        All lines that are samples; others are skipped.
    """
    values: dict[str, dict[Labels, float]] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.fullmatch(line)
        if match is None:
            continue
        labels = tuple(sorted((k, _unescape(v)) for k, v in _LABEL.findall(match[2] or "")))
        try:
            values.setdefault(match[1], {})[labels] = float(match[3])
        except ValueError:
            continue
    return Metrics(values)


def by_call(records: Mapping[int, Record]) -> dict[Call, dict[int, Op]]:
    """Return the op of each rank that has made a call, by call; messages are left out.

    Parameters
    ----------
    records : mapping of int to Record
        By rank.
    """
    calls: dict[Call, dict[int, Op]] = {}
    for rank, record in records.items():
        for op in record.entries:
            if not op.is_message:
                calls.setdefault(op.call, {})[rank] = op
    return calls


def describe_ranks(ranks: Iterable[int]) -> str:
    """Return "rank 3" or "ranks 1, 2, 5".

    Parameters
    ----------
    ranks : iterable of int
        In any order.
    """
    listed = sorted(ranks)
    return f"rank{'s' if len(listed) != 1 else ''} {', '.join(map(str, listed))}"

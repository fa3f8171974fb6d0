"""Dumps: flight records in files. One that is cut, damaged or none is told of, and no reason to
stop.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from holdfast import _core
from holdfast.errors import ConfigError, HoldfastError
from holdfast.ft.health.evidence import BadFile, Evidence, Look, Record, Subject, record_of
from holdfast.ft.health.processes import state_of, turns_of

# Records of one folder; those of former runs may be among them.
_MAX_FILES = 4096


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the dumps that these paths name.

    Parameters
    ----------
    paths : iterable of Path
        Files, or folders with `*.flight` files.

    Returns
    -------
    list of Path
        Sorted within a folder.

    Raises
    ------
    ConfigError
        When there is nothing, naming the path.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.flight"))
            if not inside:
                raise ConfigError(f"no flight records (*.flight) in {path}")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise ConfigError(f"no file or folder {path}")
    if len(found) > _MAX_FILES:
        raise ConfigError(f"{len(found)} flight records; accepted: at most {_MAX_FILES} at once")
    return found


def read(path: Path) -> tuple[Record | None, BadFile | None]:
    """Read one dump.

    Parameters
    ----------
    path : Path
        A flight record.

    Returns
    -------
    tuple of Record or None, and BadFile or None
        What could be read, and what is wrong with it.
    """
    try:
        record = record_of(_core.read_flight(str(path)))
    except (HoldfastError, OSError, ValueError) as error:
        return None, BadFile(str(path), str(error))
    wrong = []
    if record.truncated:
        wrong.append("the end of the file is missing")
    if record.damaged:
        wrong.append(f"{record.damaged} entries hold what no writer writes")
    bad = BadFile(str(path), "; ".join(wrong), record.rank) if wrong else None
    return record, bad


def _latest(subjects: list[Subject]) -> list[Subject]:
    """Of several records of a rank the newest: the others are of processes that it has replaced."""
    newest: dict[tuple[str, int], Subject] = {}
    for subject in subjects:
        key = ("", subject.rank) if subject.rank >= 0 else (subject.source, -1)
        record, other = subject.record, newest.get(key)
        known = other.record if other else None
        if known is None or (record is not None and record.last_ns >= known.last_ns):
            newest[key] = subject
    return sorted(newest.values(), key=lambda s: (s.rank, s.source))


def _until_ns(path: Path, record: Record, process: str) -> int:
    """Until when a record tells what its writer did, on the wall clock; 0: not known."""
    if process in ("running", "stopped"):
        return max(time.time_ns(), record.last_ns)
    # What is written through a mapping does not show in a file's times; a copy's time is its own.
    if path.name == f"holdfast-{record.pid}-{record.member}.flight":
        return 0
    written = path.stat().st_mtime_ns
    return written if written >= record.last_ns else 0


def of_this_run(subjects: list[Subject]) -> list[Subject]:
    """Without records of former runs in the same folder: each run's groups have ids of their own.

    Parameters
    ----------
    subjects : list of Subject
        All that is in the folder.

    Returns
    -------
    list of Subject
        Of the living all jobs; where nobody lives, the one that was heard of last.
    """
    living = [s for s in subjects if s.process in ("running", "stopped")]
    newest = sorted(subjects, key=lambda s: s.record.last_ns if s.record else 0)[-1:]
    kept = living or newest
    groups = {group for s in kept if s.record for group in s.record.groups}
    while True:  # ends: each turn adds a subject, or is the last
        more = [s for s in subjects if s not in kept and s.record and groups & set(s.record.groups)]
        if not more:
            return [s for s in subjects if s in kept]
        kept = [*kept, *more]
        groups |= {group for s in more if s.record for group in s.record.groups}


def collect(paths: Iterable[Path]) -> Evidence:
    """Read dumps.

    Parameters
    ----------
    paths : iterable of Path
        Files and folders.

    Returns
    -------
    Evidence
        One subject for each rank. It is live where one of the writers runs on this host.

    Raises
    ------
    ConfigError
        When a path names nothing.
    """
    subjects, bad = [], []
    for path in files_of(paths):
        record, wrong = read(path)
        if wrong is not None:
            bad.append(wrong)
        if record is None:
            continue
        process = state_of(record.pid, path)
        ran, ready = turns_of(record.pid) if process == "running" else (0, 0)
        until = _until_ns(path, record, process)
        look = Look(until, record=record, run_ns=ran, ready_ns=ready)
        subjects.append(Subject(str(path), record.rank, record.host, (look,), process))
    latest = _latest(of_this_run(subjects))
    live = any(s.process in ("running", "stopped") for s in latest)
    return Evidence(tuple(latest), live, bad_files=tuple(bad))


def again(before: Evidence) -> Evidence:
    """Read the same dumps once more.

    Parameters
    ----------
    before : Evidence
        Of :func:`collect`.

    Returns
    -------
    Evidence
        The same subjects with one more look each.
    """
    fresh = {s.source: s for s in collect([Path(s.source) for s in before.subjects]).subjects}
    subjects = tuple(
        replace(s, looks=(*s.looks, *fresh[s.source].looks), process=fresh[s.source].process)
        if s.source in fresh
        else s
        for s in before.subjects
    )
    return replace(before, subjects=subjects)

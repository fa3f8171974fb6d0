"""``holdfast trace``: one timeline of all ranks, from their flight records."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from holdfast.errors import ConfigError
from holdfast.ft.health.doctor import HEALTHY, SICK, UNREACHABLE, job_of
from holdfast.ft.health.evidence import Evidence, Record
from holdfast.ft.health.trace import merge

EXAMPLES = """examples:
  holdfast trace /dev/shm/flight -o trace.json                     what the files of a folder hold
  holdfast trace --targets http://coordinator:9400/targets -o trace.json      of a running job
  holdfast trace node1:9401 node2:9401 -o trace.json

Open the file at https://ui.perfetto.dev or chrome://tracing. Exit status: 0, 1 when part of a
record could not be read, 2 when there was none.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument(
        "what", nargs="*", metavar="DUMP", help="flight records, folders of them, or host:port"
    )
    parser.add_argument("--targets", default="", metavar="URL", help="a coordinator's /targets")
    parser.add_argument(
        "-o", "--output", default="trace.json", metavar="FILE", help="to write (trace.json)"
    )
    parser.set_defaults(run=run)


def _troubles(evidence: Evidence) -> list[str]:
    told = [f"{bad.path}: {bad.why}" for bad in evidence.bad_files]
    if evidence.coordinator_trouble:
        told.append(f"{evidence.coordinator}: {evidence.coordinator_trouble}")
    for subject in evidence.subjects:
        if subject.record is None:
            told.append(f"{subject.source}: {subject.last.trouble or 'no flight record'}")
        elif subject.record.rank < 0:
            told.append(f"{subject.source}: its rank is not known, it had none yet; left out")
    return told


def _write(path: Path, records: dict[int, Record]) -> int:
    trace = merge(records)
    try:
        with path.open("w", encoding="utf-8") as out:
            json.dump(trace, out, separators=(",", ":"))
    except OSError as error:
        raise ConfigError(f"-o {path}: {error.strerror or error}") from None
    return len(trace["traceEvents"])


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of :func:`add_arguments`.

    Returns
    -------
    int
        0; 1 when something could not be read; 2 when nothing could.

    Raises
    ------
    ConfigError
        For arguments that cannot be used, and a file that cannot be written.
    """
    evidence = job_of(arguments.what, arguments.targets).look()
    troubles = _troubles(evidence)
    for trouble in troubles:
        print(f"holdfast trace: {trouble}", file=sys.stderr)
    records = evidence.records()
    if not records:
        print("holdfast trace: no flight record could be read", file=sys.stderr)
        return UNREACHABLE
    events = _write(Path(arguments.output), records)
    ops = sum(len(record.entries) for record in records.values())
    print(f"{arguments.output}: {len(records)} ranks, {ops} ops, {events} events")
    return SICK if troubles else HEALTHY

"""``holdfast trace``: flight records as one timeline of all ranks, or as torch's analyser reads."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from holdfast import __version__
from holdfast.errors import ConfigError
from holdfast.ft.health import access, trace_torch
from holdfast.ft.health.doctor import HEALTHY, SICK, UNREACHABLE, job_of
from holdfast.ft.health.evidence import Evidence, Record
from holdfast.ft.health.finding import Limits
from holdfast.ft.health.trace import merge
from holdfast.ft.health.views import calls_of

EXAMPLES = """examples:
  holdfast trace /dev/shm/flight -o trace.json                     what the files of a folder hold
  holdfast trace --targets http://coordinator:9400/targets -o trace.json      of a running job
  holdfast trace node1:9401 node2:9401 -o trace.json
  holdfast trace --format torch /dev/shm/flight -o dumps && torchfrtrace dumps

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
        "--format",
        choices=("perfetto", "torch"),
        default="perfetto",
        help="one timeline (the default), or what torchfrtrace of PyTorch reads",
    )
    parser.add_argument(
        "-o",
        "--output",
        default="",
        metavar="PATH",
        help="to write: a file (trace.json), or with --format torch a new folder (torch_trace)",
    )
    access.add_arguments(parser)
    parser.set_defaults(run=run)


def _troubles(evidence: Evidence) -> list[str]:
    told = [f"{bad.path}: {bad.why}" for bad in evidence.bad_files]
    if evidence.coordinator_trouble:
        told.append(f"{evidence.coordinator}: {evidence.coordinator_trouble}")
    for subject in evidence.subjects:
        if subject.record is None:
            locked = subject.last.locked and f"its flight record {subject.last.locked}"
            told.append(f"{subject.source}: {subject.last.trouble or locked or 'no flight record'}")
        elif subject.record.rank < 0:
            told.append(f"{subject.source}: its rank is not known, it had none yet; left out")
    return told


def _write_timeline(path: Path, records: dict[int, Record]) -> None:
    trace = merge(records)
    try:
        with path.open("w", encoding="utf-8") as out:
            json.dump(trace, out, separators=(",", ":"))
    except OSError as error:
        raise ConfigError(f"-o {path}: {error.strerror or error}") from None
    ops = sum(len(record.entries) for record in records.values())
    print(f"{path}: {len(records)} ranks, {ops} ops, {len(trace['traceEvents'])} events")


def _write_for_torch(folder: Path, evidence: Evidence) -> None:
    calls = calls_of(evidence)
    dumps = trace_torch.dumps_of(evidence, calls, __version__)
    trace_torch.write(folder, dumps)
    left_out = (
        (calls.lost, "of which a record has lost its entry"),
        (calls.under_way, f"which began in the last {Limits().hang_s:g} s and have not ended"),
    )
    for count, which in left_out:
        if count:
            print(f"holdfast trace: {count} collectives are left out, {which}", file=sys.stderr)
    print(f"{folder}: {len(dumps)} ranks, {len(calls.of)} collectives; read it by torchfrtrace")


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
    job = job_of(arguments.what, arguments.targets)
    job.access = access.access_of(arguments)
    evidence = job.look()
    troubles = _troubles(evidence)
    for trouble in troubles:
        print(f"holdfast trace: {trouble}", file=sys.stderr)
    records = evidence.records()
    if not records:
        print("holdfast trace: no flight record could be read", file=sys.stderr)
        return UNREACHABLE
    if arguments.format == "torch":
        _write_for_torch(Path(arguments.output or "torch_trace"), evidence)
    else:
        _write_timeline(Path(arguments.output or "trace.json"), records)
    return SICK if troubles else HEALTHY

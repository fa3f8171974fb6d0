"""Trace for torch: flight records as PyTorch's own flight-recorder analyser reads them.

`torchfrtrace FOLDER`, or ``python -m torch.distributed.flight_recorder.fr_trace FOLDER``, reads one
pickled dictionary for each rank. Its checks are few and strict: names, sizes, dtypes and states of
the same number of a group's collectives must be the same on all of its ranks. What Holdfast does
not record is told as flat sizes, or not at all; docs/operate/trace.md has the list.
torch is not needed to write this.

References
----------
torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, format version 2.10: the writer of the format.
torch/distributed/flight_recorder: its reader.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import ConfigError
from holdfast.ft.health.clocks import offsets_ns
from holdfast.ft.health.evidence import Evidence, Op, Record
from holdfast.ft.health.views import Calls, GroupView

Dump = dict[str, Any]

FORMAT_VERSION = "2.10"
# The analyser knows the names of torch's backends only, and Holdfast's is not among them.
_BACKEND = "nccl"
FILE_NAME = "rank_{}"  # the analyser takes the number at the end for the rank
# Protocol 4 is that of all Pythons that torch runs on.
_PICKLE_PROTOCOL = 4

# Name in torch, and bytes of an element.
DTYPES = {
    "bool": ("Bool", 1),
    "u8": ("Byte", 1),
    "i8": ("Char", 1),
    "u16": ("UInt16", 2),
    "i16": ("Short", 2),
    "u32": ("UInt32", 4),
    "i32": ("Int", 4),
    "u64": ("UInt64", 8),
    "i64": ("Long", 8),
    "f16": ("Half", 2),
    "bf16": ("BFloat16", 2),
    "f8_e4m3": ("Float8_e4m3fn", 1),
    "f8_e5m2": ("Float8_e5m2", 1),
    "f32": ("Float", 4),
    "f64": ("Double", 8),
    "c64": ("ComplexFloat", 8),
    "c128": ("ComplexDouble", 16),
}


def _dtype(op: Op) -> tuple[str, int]:
    """As torch calls it; what another version of Holdfast may know is told as bytes of its name."""
    return DTYPES.get(op.dtype, (op.dtype, 1))


def _sizes(op: Op, view: GroupView) -> tuple[str, int, int]:
    """The analyser's name of an op, and the elements of its input and output.

    A record has the larger of both. Of ops with a block for each rank that is all blocks; those of
    vacant ranks are left out, as the analyser multiplies by the members that there are.
    """
    name = op.collective
    total = op.bytes // _dtype(op)[1]
    block, rest = divmod(total, view.width)
    if name in ("all_gather", "reduce_scatter"):
        if rest:  # blocks of several sizes: `_v`, of which no product is checked
            return f"{name}_v", total, total
        whole = block * len(view.members)
        return (name, block, whole) if name == "all_gather" else (name, whole, block)
    if op.rank == op.other and not rest:
        if name == "gather":
            return name, block, total
        if name == "scatter":
            return name, total, block
    return name, total, total


def _state(op: Op) -> str:
    """An op that ended badly has begun, and was never completed."""
    if op.ended and op.code == "ok":
        return "completed"
    return "started" if op.started_ns else "scheduled"


def _entry(op: Op, view: GroupView, place: int, offset_ns: int) -> Dump:
    name, given, taken = _sizes(op, view)
    state = _state(op)
    # A barrier has no elements, and so no dtype.
    dtypes = [_dtype(op)[0]] if name != "barrier" else []
    entry: Dump = {
        "record_id": 0,
        "pg_id": place,
        "process_group": (_key(view), view.name),
        "collective_seq_id": op.sequence,
        "p2p_seq_id": 0,
        "op_id": op.number,
        "profiling_name": f"{_BACKEND}:{name}",
        "time_created_ns": op.enqueued_ns + offset_ns,
        "input_sizes": [[given]],
        "input_dtypes": dtypes,
        "output_sizes": [[taken]],
        "output_dtypes": dtypes,
        "state": state,
        "time_discovered_started_ns": op.started_ns + offset_ns if op.started_ns else None,
        "time_discovered_completed_ns": op.ended_ns + offset_ns if op.ended else None,
        "retired": op.ended,
        "is_p2p": False,
        "frames": [],
    }
    if state == "completed":
        entry["duration_ms"] = (op.ended_ns - op.started_ns) / 1e6
    return entry


def _key(view: GroupView) -> str:
    """A group's id and its view: what makes a process group of the analyser."""
    return f"{view.group}.{view.epoch}"


def _status(entries: list[Dump]) -> Dump:
    """The last collective of each group that was called, begun and completed; -1: none."""
    status: Dump = {}
    for entry in entries:
        number = entry["collective_seq_id"]
        of_group = status.setdefault(
            str(entry["pg_id"]),
            dict.fromkeys(
                (f"last_{what}_collective" for what in ("enqueued", "started", "completed")), -1
            ),
        )
        of_group["last_enqueued_collective"] = number
        if entry["time_discovered_started_ns"] is not None:
            of_group["last_started_collective"] = number
        if entry["state"] == "completed":
            of_group["last_completed_collective"] = number
    return status


def _dump(rank: int, calls: Calls, offset_ns: int, version: str) -> Dump:
    mine = [(at, ops[rank]) for at, ops in calls.of.values() if rank in ops]
    mine.sort(key=lambda item: item[1].number)
    entries = [_entry(op, calls.views[at], at, offset_ns) for at, op in mine]
    # The analyser cuts all ranks off at the highest first number, and it may: nothing is before it.
    for number, entry in enumerate(entries):
        entry["record_id"] = number
    config = {
        _key(view): {"name": _key(view), "desc": view.name, "ranks": str(list(view.members))}
        for view in calls.views
        if rank in view.members
    }
    return {
        "version": FORMAT_VERSION,
        "comm_lib_version": version,
        "pg_config": config,
        "pg_status": _status(entries),
        "entries": entries,
    }


def dumps_of(evidence: Evidence, calls: Calls, version: str) -> dict[int, Dump]:
    """Return what the analyser reads.

    Parameters
    ----------
    evidence : Evidence
        With flight records.
    calls : Calls
        Of the same evidence.
    version : str
        Of Holdfast: the analyser's version of the library that communicates.

    Returns
    -------
    dict of int to dict
        By rank. Times are nanoseconds since 1970 on one clock.
    """
    records: Mapping[int, Record] = evidence.records()
    offsets = offsets_ns(records)
    return {rank: _dump(rank, calls, offsets[rank], version) for rank in sorted(records)}


def write(folder: Path, dumps: Mapping[int, Dump]) -> None:
    """Write one file for each rank.

    Parameters
    ----------
    folder : Path
        Is made when it is not there. The analyser reads all files below it, so nothing else may be
        in it.
    dumps : mapping of int to dict
        Of :func:`dumps_of`.

    Raises
    ------
    ConfigError
        When the folder is a file, is not empty, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"-o {folder}: it is not empty; accepted: a new or an empty folder")
        for rank, dump in dumps.items():
            path = folder / FILE_NAME.format(rank)
            path.write_bytes(pickle.dumps(dump, protocol=_PICKLE_PROTOCOL))
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(f"-o {folder}: {why}; accepted: a new or an empty folder") from None

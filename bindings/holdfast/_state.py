"""``holdfast state``: states in files, for people."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from holdfast import _job
from holdfast.errors import ConfigError
from holdfast.ft.state.files import flush, manifest
from holdfast.ft.state.files.saved import Saved, states
from holdfast.ft.state.files.schemes import Place, place
from holdfast.ft.state.keeper import wire
from holdfast.ft.state.keeper.address import Address

EXAMPLES = """examples:
  holdfast state ls file:///ckpt/run7           which states there are
  holdfast state verify /ckpt/run7              read every byte of the newest, and say what is wrong
  holdfast state export /ckpt/run7 --to safetensors --part model --out model.safetensors
  holdfast state rm /ckpt/run7 --step 500
  holdfast state stop --job run7                end the job's keepers of this host
"""
# As of grep(1): 1 is an answer, 2 is trouble.
_DAMAGED = 1
# Ranks of a job whose keepers are looked for, and how long one may take to end.
_MOST_RANKS, _ANSWER_S = 4096, 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's own commands.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    listed = commands.add_parser(
        "ls",
        help="say which states there are; reads their manifests alone",
        epilog="example: holdfast state ls file:///ckpt/run7 --json",
    )
    _add_place(listed)
    listed.set_defaults(run=_list)
    verify = commands.add_parser(
        "verify",
        help="read every byte of a state, and say what is wrong, by file and tile",
        description="Status 0: every byte is as it was written, 1: some are not, 2: there is no "
        "such state.",
        epilog="example: holdfast state verify file:///ckpt/run7 --step 500",
    )
    _add_place(verify)
    _add_step(verify)
    verify.set_defaults(run=_verify)
    export = commands.add_parser(
        "export",
        help="write a state as torch.distributed.checkpoint, safetensors or torch.save have it",
        description="Puts whole tensors together from all ranks' files. What it writes loads where "
        "Holdfast is not installed. Needs torch.",
        epilog="example: holdfast state export file:///ckpt/run7 --to dcp --out run7-dcp",
    )
    _add_place(export)
    _add_step(export)
    export.add_argument(
        "--to",
        required=True,
        choices=("dcp", "safetensors", "torch"),
        help="dcp: a folder, for dcp.load; safetensors: a file with the tensors; torch: a file, "
        "for torch.load",
    )
    export.add_argument(
        "--out", type=Path, required=True, metavar="PATH", help="what is written; a new name"
    )
    export.add_argument(
        "--part", default="", metavar="NAME", help="only what is below this name, as model (all)"
    )
    export.add_argument(
        "--trust",
        action="store_true",
        help="also unpickle classes of others: runs what whoever wrote the state put there",
    )
    export.set_defaults(run=_export)
    stop = commands.add_parser(
        "stop",
        help="end a job's keepers on this host, and what they have; it begins anew then",
        epilog="example: holdfast state stop --job run7",
    )
    stop.add_argument(
        "--job", default="", metavar="NAME", help="whose (HOLDFAST_JOB, or its launcher's name)"
    )
    stop.set_defaults(run=_stop)
    remove = commands.add_parser(
        "rm",
        help="remove a state",
        description="Refuses the newest state that verifies, without --force.",
        epilog="example: holdfast state rm file:///ckpt/run7 --step 500",
    )
    _add_place(remove)
    remove.add_argument("--step", type=int, required=True, metavar="N", help="which state")
    remove.add_argument("--force", action="store_true", help="even what a run would go on from")
    remove.set_defaults(run=_remove)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="where a run's states are: file:///folder, a path, SCHEME://..."
    )
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_step(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", type=int, metavar="N", help="which state (the newest)")


def _list(arguments: argparse.Namespace) -> int:
    where = place(arguments.url)
    rows = [_row(saved) for saved in states(where)]
    whole = {row["folder"] for row in rows}
    rows += [
        {"folder": name, "step": step[0], "epoch": step[1], "manifest": False}
        for name in reversed(where.folders())
        if (step := manifest.of_folder(name)) is not None and name not in whole
    ]
    if arguments.json:
        print(json.dumps(rows))
        return 0
    if not rows:
        print(f"{where.url}: no states")
    for row in rows:
        if not row["manifest"]:
            print(f"{row['folder']}: unfinished or damaged: it has no manifest that can be read")
            continue
        print(
            f"{row['folder']}: step {row['step']}, job {row['job'] or '-'}, {row['ranks']} ranks, "
            f"{row['bytes'] / 1e6:,.1f} MB, parity of {row['parity']} ranks"
        )
    return 0


def _row(saved: Saved) -> dict[str, Any]:
    whole = saved.manifest
    return {
        "folder": whole.folder,
        "step": whole.step,
        "epoch": whole.epoch,
        "manifest": True,
        "job": whole.job,
        "ranks": whole.world,
        "bytes": sum(file.nbytes for file in whole.files),
        "parity": sum(file.is_parity for file in whole.files),
        "layout": whole.layout,
    }


def _verify(arguments: argparse.Namespace) -> int:
    saved = _chosen(place(arguments.url), arguments.step)
    problems = saved.problems()
    is_enough = not problems or saved.is_enough()
    if arguments.json:
        print(json.dumps({**_row(saved), "problems": problems, "restorable": is_enough}))
    elif problems:
        print("\n".join(problems))
        print(
            "all of it can be made again of the rest, and a restore does"
            if is_enough
            else "too much is damaged or missing: it is not restored from here"
        )
    else:
        print(f"{saved.url}: whole: {len(saved.manifest.files)} files")
    return _DAMAGED if problems else 0


def _export(arguments: argparse.Namespace) -> int:
    try:
        from holdfast.ft.state.export import Export
    except ImportError as error:
        raise ConfigError(f"export needs torch: {error}; pip install torch") from None
    saved = _chosen(place(arguments.url), arguments.step)
    Export(saved, arguments.part, arguments.trust).write(arguments.to, arguments.out)
    if arguments.json:
        print(json.dumps({**_row(saved), "to": arguments.to, "out": str(arguments.out)}))
    else:
        print(f"{arguments.out}: step {saved.manifest.step}, as {arguments.to} has it")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    where = place(arguments.url)
    found = [
        name
        for name in where.folders()
        if (step := manifest.of_folder(name)) is not None and step[0] == arguments.step
    ]
    if not found:
        raise ConfigError(f"{where.url}: no state of step {arguments.step}; see holdfast state ls")
    newest = flush.newest(where)
    if newest is not None and newest.manifest.folder in found and not arguments.force:
        raise ConfigError(
            f"{newest.url}: is the newest state that verifies; accepted: --force removes it"
        )
    for name in found:
        where.remove(name, manifest.NAME)
    print(json.dumps(found) if arguments.json else f"removed: {', '.join(found)}")
    return 0


def _chosen(where: Place, step: int | None) -> Saved:
    there = []
    for saved in states(where):
        if step is None or saved.manifest.step == step:
            return saved
        there.append(saved.manifest.step)
    what = "no state" if step is None else f"no state of step {step}; accepted: {there}"
    raise ConfigError(f"{where.url}: {what}")


def _stop(arguments: argparse.Namespace) -> int:
    job = arguments.job or _job.job_name()
    found = 0
    for rank in range(_MOST_RANKS):
        connection = Address(job, _job.host_name(), rank).connect(_ANSWER_S)
        if connection is None:
            continue
        with connection:
            # It closes the connection when it has ended.
            wire.send(connection, wire.Message("end"))
            while wire.receive(connection) is not None:
                pass
        found += 1
        print(f"rank {rank}: its keeper has ended")
    if not found:
        print(f"job {job!r} has no keepers on this host")
    return 0

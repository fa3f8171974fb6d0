"""The ``holdfast`` command."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Protocol

from holdfast import _coordinator, _info, _launcher, _simulate
from holdfast.comm.bench import command as bench
from holdfast.comm.bench import plan_command
from holdfast.errors import HoldfastError
from holdfast.ft.health import doctor, files_command, top, trace_command


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="start the ranks of a job on this host",
        description="Starts N ranks of a Python script, or of a program, on this host; ends all "
        "when one fails.",
        epilog="example: holdfast run -n 4 train.py --epochs 3",
    )
    run.add_argument("-n", "--ranks", type=int, required=True, metavar="N", help="number of ranks")
    run.add_argument(
        "--tag-output",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="begin every line of output with its rank",
    )
    run.add_argument(
        "--grace",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="time for the other ranks to end by themselves after one has failed (default: 5)",
    )
    run.add_argument(
        "--respawn",
        action="store_true",
        help="start a rank that fails again: it takes its place at the others' next advance(); "
        "where no other is left, all are started again",
    )
    run.add_argument(
        "--max-respawns",
        type=int,
        default=3,
        metavar="N",
        help="how often each rank is started again at most (default: 3); never when it has exited "
        "with a status of its own within 10 s of that",
    )
    run.add_argument("script", help="Python script (*.py) or program that every rank runs")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    run.set_defaults(run=_run)


class _Part(Protocol):
    """A module with a command."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments, and what runs it."""


# Name, module, help, description.
_PARTS: tuple[tuple[str, _Part, str, str], ...] = (
    (
        "bench",
        bench,
        "time collectives beside gloo and MPI",
        "Times collectives on this host, Holdfast, gloo and MPI in turns in one run. Sizes and "
        "bandwidths as nccl-tests define them; a ratio above 1 means that Holdfast is faster.",
    ),
    (
        "plan",
        plan_command,
        "which algorithm runs where, and why; measure which is fastest",
        "Shows what a group runs for each collective and size: by the cost model, or by a table "
        "of measurements, which --measure makes and the option plan uses.",
    ),
    (
        "coordinator",
        _coordinator,
        "decide who is in a job or an elastic group, in a process of its own",
        "Coordinates jobs and elastic groups. Members find it by its address.",
    ),
    (
        "top",
        top,
        "ranks, views, links and events of a running job, in the terminal",
        "Shows what the status page of a coordinator, or of a rank, shows. Status 1 with --once "
        "or --json: a rank is lost, gone or failed.",
    ),
    (
        "doctor",
        doctor,
        "who hangs, who is slow, which link: of a running or a recorded job",
        "Says what is wrong with a job, who is to blame, how sure that is, and why.",
    ),
    (
        "trace",
        trace_command,
        "one timeline of all ranks, for Perfetto or Chrome",
        "Merges the flight records of all ranks into one trace.",
    ),
    (
        "health",
        files_command,
        "print the alert rules and the dashboard that come with Holdfast",
        "Prints alert rules for Prometheus, or a dashboard for Grafana.",
    ),
    (
        "simulate",
        _simulate,
        "run the fault-tolerance protocol in virtual time, under faults",
        "Runs the code of production on simulated time and connections: ranks crash, pause, "
        "leave, come back; connections break, stall, lose messages. Every op's result is checked.",
    ),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="Collective communication that keeps going.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    info = commands.add_parser(
        "info",
        help="what is built in, what is off and why, which options are in force",
        epilog="example: holdfast info --json",
    )
    info.add_argument("--json", action="store_true", help="for programs")
    info.add_argument("--cflags", action="store_true", help="flags to compile C programs")
    info.add_argument("--libs", action="store_true", help="flags to link them")
    info.set_defaults(run=_info_command)
    _add_run(commands)
    for name, part, summary, description in _PARTS:
        command = commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=part.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        part.add_arguments(command)
    return parser


def _info_command(arguments: argparse.Namespace) -> int:
    if arguments.cflags or arguments.libs:
        print(_info.build_flags(compiler=arguments.cflags, linker=arguments.libs))
        return 0
    return _info.show(as_json=arguments.json)


def _run(arguments: argparse.Namespace) -> int:
    job = _launcher.Job(
        ranks=arguments.ranks,
        command=(arguments.script, *arguments.arguments),
        tag_output=arguments.tag_output,
        grace_s=arguments.grace,
        respawns=arguments.max_respawns if arguments.respawn else 0,
    )
    return job.run()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; default: the process's.

    Returns
    -------
    int
        Exit status: 0, 2 for arguments that cannot be used, 141 when the reader of the output has
        gone, else the failing rank's.
    """
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has enough, as `head` has: the status of a program that SIGPIPE
        # ends. Python writes the rest at its exit, to where nobody complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())

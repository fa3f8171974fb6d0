"""The ``holdfast`` command."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol

from holdfast import (
    _admin,
    _coordinator,
    _info,
    _launcher,
    _mpi,
    _plan,
    _relay,
    _secret,
    _simulate,
    _state,
    _token,
    _topology,
)
from holdfast._supervise import respawn
from holdfast.comm.bench import command as bench
from holdfast.errors import ConfigError, HoldfastError
from holdfast.ft.health import doctor, files_command, top, trace_command


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="start the ranks of a job on this host",
        description="Starts N ranks of a Python script, of a module, or of a program, on this "
        "host; ends all when one fails. MPI programs that were built for Open MPI, MPICH or "
        "MPI-5's ABI run on Holdfast's library of their ABI.",
        epilog="example: holdfast run -n 4 train.py --epochs 3\n"
        "example: holdfast run -n 4 -m mpi4py.bench helloworld\n"
        "example: holdfast run -n 2 ./a.out             # of any MPI's mpicc, or of ours\n"
        "example: holdfast run -n 2 --mpi off ./a.out   # with the MPI that it finds itself",
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    _add_respawns(run)
    run.add_argument(
        "--mpi",
        choices=_mpi.CHOICES,
        default="auto",
        help="give MPI programs Holdfast's library of this ABI; auto: that which the program, or "
        "mpi4py, was built for (default: auto)",
    )
    run.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE",
        help="Python module that every rank runs, and its arguments",
    )
    run.add_argument(
        "script",
        nargs="?",
        help="Python script (*.py), or program, by its path or by its name in PATH, that every "
        "rank runs",
    )
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    run.set_defaults(run=_run)


def _add_respawns(run: argparse.ArgumentParser) -> None:
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
    run.add_argument(
        "--spares",
        type=int,
        default=0,
        metavar="N",
        help="with --respawn: keep N processes that have imported torch, and take over from ranks "
        "that fail (default: 0)",
    )
    run.add_argument(
        "--spare-import",
        action="append",
        default=[],
        metavar="MODULE",
        help="module that spares import beside torch and holdfast; may be given several times",
    )


class _Part(Protocol):
    """A module with a command."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments, and what runs it."""


# Name, module, help, description.
_PARTS: tuple[tuple[str, _Part, str, str], ...] = (
    (
        "respawn",
        respawn,
        "supervise one rank of another launcher, and start it again when it dies",
        "Runs a Python script, a module, or a program, as one rank that torchrun, srun, mpirun or "
        "a pod has started. When it dies it is started again, and comes in again as the same rank: "
        "the launcher never sees it. To be used for all ranks of a job. Ends with the program's "
        "status.",
    ),
    (
        "bench",
        bench,
        "time collectives beside gloo and MPI",
        "Times collectives on this host, Holdfast, gloo and MPI in turns in one run. Sizes and "
        "bandwidths as nccl-tests define them; a ratio above 1 means that Holdfast is faster.",
    ),
    (
        "plan",
        _plan,
        "which algorithm runs where, and why; which trainer hides a distance",
        "Shows what a group runs for each collective and size: by the cost model, or by a table "
        "of measurements, which --measure makes and the option plan uses. With --trainer: which "
        "rounds and codec of holdfast.ft suit a model, its computation and the links.",
    ),
    (
        "topology",
        _topology,
        "maps of links: what is in one, what changed",
        "Reads maps of links, by which collectives are planned (holdfast plan --topology).",
    ),
    (
        "state",
        _state,
        "states in files: list, verify, export, remove",
        "Shows the states that a run has flushed or that StateWriter has written, checks every "
        "byte of one, and writes one in torch's formats.",
    ),
    (
        "coordinator",
        _coordinator,
        "decide who is in a job or an elastic group, in a process of its own",
        "Coordinates jobs and elastic groups. Members find it by its address.",
    ),
    (
        "relay",
        _relay,
        "connect members that cannot call each other, as behind NATs",
        "Passes on what two members of a job say to each other, encrypted by them, where neither "
        "can call the other. A coordinator with a secret is a relay, too: this is one alone.",
    ),
    (
        "admin",
        _admin,
        "see a coordinator's jobs and members; send one away, pause a job, revoke a token",
        "Shows the jobs of a coordinator and their members, and acts on them, through its pages. "
        "Status 1: refused, not done in time, or nobody answers.",
    ),
    (
        "secret",
        _secret,
        "make the file with the secret that the processes of a job share",
        "Makes a file with a new secret (option secret_file): TLS 1.3 then encrypts what a job's "
        "processes and its coordinator say to each other, and keeps everybody else out.",
    ),
    (
        "token",
        _token,
        "make, list and revoke the tokens that let others into a run",
        "Makes tokens from a run's secret: each lets who has it into one run, in one role, until a "
        "time, and can be revoked.",
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
    info.add_argument(
        "--mpi", action="store_true", help="list the functions of MPI that are not supported"
    )
    info.set_defaults(run=_info_command)
    _add_run(commands)
    _add_mpicc(commands)
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
    if arguments.mpi:
        return _info.show_mpi()
    return _info.show(as_json=arguments.json)


def _run(arguments: argparse.Namespace) -> int:
    command = ["-m", *arguments.module] if arguments.module else [arguments.script]
    if len(command) + bool(arguments.script) == 1:
        raise ConfigError("nothing to run; accepted: a script, a program, or -m and a module")
    job = _launcher.Job(
        ranks=arguments.ranks,
        command=(*command, *arguments.arguments),
        tag_output=arguments.tag_output,
        grace_s=arguments.grace,
        respawns=arguments.max_respawns if arguments.respawn else 0,
        mpi=arguments.mpi,
        spares=arguments.spares,
        spare_imports=tuple(arguments.spare_import),
    )
    return job.run()


def _add_mpicc(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    mpicc = commands.add_parser(
        "mpicc",
        help="compile a program of MPI, for MPI-5's ABI",
        description="Runs the compiler with what it needs for MPI: a header of MPI-5's ABI, and "
        "Holdfast's library, which the program then finds by itself. Other libraries of that ABI "
        "run it, too.",
        epilog="example: holdfast mpicc -O2 ring.c -o ring\n"
        "example: holdfast mpicc --compiler g++ -O2 ring.cpp -o ring\n"
        "example: holdfast mpicc --show ring.c",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="holdfast mpicc [--help] [--compiler NAME] [--show] ARGUMENT ...",
        # Whatever begins with a hyphen is the compiler's, but for our own in front of it.
        prefix_chars="+",
        add_help=False,
    )
    mpicc.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        help="the compiler's; before them --compiler NAME (default: cc), for C++ or another one, "
        "or --show, which prints the command and runs nothing",
    )
    mpicc.set_defaults(run=lambda given: _mpicc(given, mpicc))


def _mpicc(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    arguments, compiler, show = list(given.arguments), "cc", False
    while arguments and arguments[0] in ("--help", "--compiler", "--show"):
        option = arguments.pop(0)
        if option == "--help":
            parser.print_help()
            return 0
        if option == "--show":
            show = True
        elif arguments:
            compiler = arguments.pop(0)
    if not arguments:
        raise ConfigError("mpicc: nothing to compile; accepted: a compiler's arguments")
    command = _mpi.compiler_command(compiler, arguments)
    if show:
        print(shlex.join(command))
        return 0
    if shutil.which(compiler) is None:
        raise ConfigError(f"--compiler {compiler}: no such program; accepted: a compiler's name")
    return subprocess.run(command, check=False).returncode


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

"""What faults of machines cost the ranks that live: a table for each subcommand.

    python tests/bench/membership_faults.py kill               # kill -9 between two hosts
    python tests/bench/membership_faults.py resets             # connections of the living close
    python tests/bench/membership_faults.py still --seconds 4  # a cable is out for a while
    python tests/bench/membership_faults.py crowd --pause 2    # 64 ranks on few cores, half stopped

`kill` and `still` play hosts as network namespaces and need root. Milliseconds. Exit status 1 when
a rank that lives was lost, or an op had a wrong sum.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from emulated_network import Network, Unavailable
from ranks import Process, all_end_well, start_rank

from holdfast.comm.bench import churn
from holdfast.comm.bench.neighbours import busy
from holdfast.comm.bench.plan import parse_size

WAIT_S = 300
CUTS = 10


def on_host(network: Network, host: int) -> tuple[str, ...]:
    return (*network.inside(host), "env", f"HOLDFAST_ADDRESS={network.address(host)}")


def kill(arguments: argparse.Namespace) -> None:
    """A rank dies; half of the others are on another host, and only its kernel saw it."""
    print(churn.HEADER)
    with Network(arguments.hosts) as network:
        worlds = [
            churn.World("tcp", arguments.ranks, size, arguments.hosts) for size in arguments.sizes
        ]
        for row in churn.measure(
            worlds, arguments.repeats, lambda rank: on_host(network, worlds[0].host(rank))
        ):
            print(row.line(), flush=True)


def told_by(processes: Sequence[Process]) -> list[dict[str, Any]]:
    outcomes = all_end_well(processes, WAIT_S)
    lines = [line for o in outcomes for line in o.output.splitlines() if line.startswith("{")]
    words = [json.loads(line) for line in lines]
    everybody = list(range(len(processes)))
    assert all(word["live"] == everybody for word in words), words
    return words


def await_all(processes: Sequence[Process]) -> None:
    for process in processes:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def latest_ms(words: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(round(1e3 * word["latest"]) for word in words)


def still(arguments: argparse.Namespace) -> None:
    """The last host's cable is out for a while, in the middle of ops."""
    row("hosts", "still s", "times", "lost", "latest op: median ms", "longest ms", "views")
    row(*["---"] * 7)
    for hosts in arguments.hosts:
        latest: list[int] = []
        views = 0
        with Network(hosts) as network:
            for _ in range(arguments.repeats):
                words = one_stillness(network, hosts, arguments.seconds)
                latest.append(latest_ms(words)[-1])
                views = max(views, *(word["epoch"] for word in words))
        median = statistics.median(latest)
        row(hosts, arguments.seconds, len(latest), 0, median, max(latest), views)


def one_stillness(network: Network, hosts: int, seconds: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="holdfast-still-") as name:
        here = Path(name)
        env = {"SIZES": "8,8192,2097152", "HOLDFAST_TRANSPORTS": "tcp", "HOLDFAST_TIMEOUT": "60"}
        processes = [
            start_rank(
                *("host_ranks", "until_told", rank, hosts, here),
                {**env, "HOLDFAST_HOST_ID": f"host {rank}"},
                before=on_host(network, rank),
            )
            for rank in range(hosts)
        ]
        await_all(processes)
        time.sleep(0.5)
        network.pull_cable(hosts - 1)
        time.sleep(seconds)
        network.plug_cable(hosts - 1)
        # A kernel says a segment again after twice as long as the last time.
        time.sleep(seconds + 1)
        (here / "stop").touch()
        return told_by(processes)


def crowd(arguments: argparse.Namespace) -> None:
    """Many more ranks than cores, beside busy processes; half of them are stopped for a while."""
    row("ranks", "cores", "busy", "stopped s", "ops", "lost", "latest op: median ms", "longest ms")
    row(*["---"] * 8)
    for _ in range(arguments.repeats):
        with (
            busy(arguments.busy, nice=0),
            tempfile.TemporaryDirectory(prefix="holdfast-crowd-") as name,
        ):
            env = {
                "SIZES": ",".join(map(str, arguments.sizes)),
                "OPS": str(arguments.ops),
                "HOLDFAST_TIMEOUT": str(WAIT_S),
            }
            processes = [
                start_rank(*("host_ranks", "until_told", rank, arguments.ranks, Path(name)), env)
                for rank in range(arguments.ranks)
            ]
            await_all(processes)
            if arguments.pause:
                stop_half(processes, arguments.pause)
            latest = latest_ms(told_by(processes))
        cores = len(os.sched_getaffinity(0))
        row(
            *(arguments.ranks, cores, arguments.busy, arguments.pause, arguments.ops, 0),
            *(statistics.median(latest), latest[-1]),
        )


def resets(arguments: argparse.Namespace) -> None:
    """Connections of ranks are closed under them, one or all of a rank's, by either end."""
    row("ranks", "coordinator", "resets", "ops", "lost", "latest op: median ms", "longest ms")
    row(*["---"] * 7)
    for ranks in arguments.ranks:
        for coordinated in (False, True):
            words = []
            cuts = 0
            while cuts < arguments.resets:
                # Each rank cuts so often in one world.
                words.append(one_world_of_resets(ranks, coordinated))
                cuts += ranks * CUTS
            latest = sorted(latest_ms(word)[-1] for word in words)
            ops = sum(word[0]["ops"] for word in words)
            outside = "outside" if coordinated else "a rank"
            row(ranks, outside, cuts, ops, 0, statistics.median(latest), latest[-1])


def one_world_of_resets(ranks: int, coordinated: bool) -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        here = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-resets-")))
        # Apart, so that few ops see two of them.
        env = {
            "CUTS": str(CUTS),
            "PAUSES": "1,3",
            "HOLDFAST_TRANSPORTS": "tcp",
            "HOLDFAST_TIMEOUT": "60",
        }
        if coordinated:
            env["HOLDFAST_COORDINATOR"] = f"127.0.0.1:{stack.enter_context(coordinator())}/resets"
        return told_by(
            [
                start_rank("reset_ranks", "reduce_among_resets", r, ranks, here, env)
                for r in range(ranks)
            ]
        )


@contextlib.contextmanager
def coordinator() -> Iterator[str]:
    """The port of one of its own."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "holdfast.cli",
            "coordinator",
            "--address",
            "127.0.0.1",
            "--port",
            "0",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.wait()


def stop_half(processes: Sequence[Process], seconds: float) -> None:
    stopped = processes[::2]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in stopped:
            os.kill(process.pid, number)
        if number == signal.SIGSTOP:
            time.sleep(seconds)


def sizes(text: str) -> list[int]:
    return [parse_size(part) for part in text.split(",")]


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("kill", help="kill -9, told of by another host's kernel")
    one.add_argument("--hosts", type=int, default=2)
    one.add_argument("--ranks", type=int, default=4, help="on all hosts")
    one.add_argument("--sizes", type=sizes, default=[4096, 65536], help="bytes (default: 4K,64K)")
    one.add_argument("--repeats", type=int, default=20)
    one.set_defaults(run=kill)
    one = commands.add_parser("still", help="a cable is out for a while")
    one.add_argument("--hosts", type=numbers, default=[2, 3, 4], help="(default: 2,3,4)")
    one.add_argument("--seconds", type=float, default=4.0)
    one.add_argument("--repeats", type=int, default=5)
    one.set_defaults(run=still)
    one = commands.add_parser("resets", help="connections between the living are closed")
    one.add_argument("--ranks", type=numbers, default=[2, 3, 4], help="(default: 2,3,4)")
    one.add_argument("--resets", type=int, default=200, help="at least so many a row")
    one.set_defaults(run=resets)
    one = commands.add_parser("crowd", help="many more ranks than cores")
    one.add_argument("--ranks", type=int, default=64)
    one.add_argument("--busy", type=int, default=2, help="processes beside them")
    one.add_argument("--pause", type=float, default=0.0, help="seconds that half of them stop")
    one.add_argument("--ops", type=int, default=100)
    one.add_argument("--sizes", type=sizes, default=sizes("4K,16K,64K,256K,1M,4M"), help="4K to 4M")
    one.add_argument("--repeats", type=int, default=1)
    one.set_defaults(run=crowd)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except Unavailable as lacks:
        parser.error(str(lacks))
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

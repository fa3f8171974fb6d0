"""What faults of a long path cost: resets of connections, flaps, and none at all.

    python tests/bench/far_faults.py resets --ranks 2,3,4 --count 200
    python tests/bench/far_faults.py flaps --outages 0.5,2,8 --mebibytes 64 --mbit 200
    python tests/bench/far_faults.py full --ranks 3,4 --mebibytes 64 --mbit 200 --delay-ms 75
    python tests/bench/far_faults.py heartbeats --mbit 10 --program trunk_heartbeats

Two network namespaces with an emulated path between them (tests/python/support/emulated_path.py),
half of the ranks in each, as one host. All ranks all_reduce in rounds and check each sum. Prints
Markdown, each row sealed or plain, with a coordinator or without: views that changed, wrong sums,
by how much rounds were late beside the median of those that nothing disturbed. `full` gives the bus
bandwidth over the path as a part of its rate, `heartbeats` by how much they are late beside bulk,
by a program that is built with -DHOLDFAST_TESTS=ON. Needs root, `ip` and /dev/net/tun; says what is
missing, and ends with status 2, where they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

import numpy as np
from emulated_network import Unavailable
from emulated_path import LongPath
from ranks import Process, finish, start_rank

from holdfast.cli import main as holdfast_command

LIMIT_S = 400.0
COORDINATOR_PORT = 29500


def rounds() -> None:
    """Reduce until rank 0 is told to stop; check each sum; tell what all of it took."""
    import holdfast

    count = int(os.environ["BENCH_BYTES"]) // 4
    with holdfast.init() as group:
        rank, size, epoch = group.rank, group.size, group.epoch
        group.barrier()
        begun, took, wrong, turn, stops = [], [], 0, 0, False
        while not stops:
            data = np.full(count, rank + turn % 1000, np.float32)
            data[0] = Path("stop").exists() if rank == 0 else 0
            begun.append(time.monotonic())
            group.all_reduce(data)
            took.append(time.monotonic() - begun[-1])
            expected = size * (turn % 1000) + size * (size - 1) // 2
            wrong += not bool((data[1:] == expected).all())
            stops = bool(data[0])
            turn += 1
            if turn == 3 and rank == 0:
                print("WARM", flush=True)
        told = {"begun": begun, "took": took, "wrong": wrong, "epochs": group.epoch - epoch}
        group.barrier()
    print("TOLD", json.dumps(told), flush=True)


@dataclass(frozen=True)
class Setting:
    """How the job of one row is set up."""

    ranks: int
    mebibytes: float
    secret: str = ""
    coordinated: bool = False

    def name(self) -> str:
        sealed = "sealed" if self.secret else "plain"
        return f"{self.ranks} | {sealed}{', coordinator' if self.coordinated else ''}"


@dataclass(frozen=True)
class Told:
    """Of all ranks: views that changed, wrong sums; of the rank that was latest, its rounds."""

    epochs: int
    wrong: int
    begun: list[float]
    took: list[float]


@contextmanager
def coordinator(setting: Setting, path: LongPath, here: Path) -> Iterator[dict[str, str]]:
    """The coordinator's part of the ranks' environment; one runs in the first place meanwhile."""
    if not setting.coordinated:
        yield {}
        return
    secret = ["--secret-file", setting.secret] if setting.secret else ["--insecure"]
    where = ["--address", path.address(0), "--port", str(COORDINATOR_PORT)]
    command = [sys.executable, "-m", "holdfast.cli", "coordinator", *where, *secret]
    process = subprocess.Popen(
        [*path.inside(0), *command], stdout=subprocess.PIPE, text=True, cwd=here
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield {"HOLDFAST_COORDINATOR": f"{path.address(0)}:{COORDINATOR_PORT}"}
    finally:
        process.terminate()
        process.wait(20)


def run(setting: Setting, path: LongPath, disturb: Callable[[], None]) -> Told:
    """Start the ranks, call `disturb` once they are warm, stop them, and collect what they tell."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        with coordinator(setting, path, here) as env:
            if setting.secret:
                env["HOLDFAST_SECRET_FILE"] = setting.secret
            processes = [start(setting, path, here, rank, env) for rank in range(setting.ranks)]
            await_line(processes[0], "WARM")
            disturb()
            (here / "stop").touch()
            outcomes = finish(processes, LIMIT_S)
    failed = "\n".join(o.output for o in outcomes if o.status != 0)
    if failed:
        raise RuntimeError(failed)
    told = []
    for outcome in outcomes:
        (line,) = [x for x in outcome.output.splitlines() if x.startswith("TOLD ")]
        told.append(json.loads(line.removeprefix("TOLD ")))
    latest = max(told, key=lambda one: max(one["took"]))
    epochs, wrong = (max(one[key] for one in told) for key in ("epochs", "wrong"))
    return Told(epochs, wrong, latest["begun"], latest["took"])


def start(setting: Setting, path: LongPath, here: Path, rank: int, env: dict[str, str]) -> Process:
    place = rank * 2 // setting.ranks
    own = {
        "BENCH_BYTES": str(int(setting.mebibytes * 1024**2)),
        "HOLDFAST_TRANSPORTS": "shm,tcp",
        "HOLDFAST_ADDRESS": path.address(place),
        "HOLDFAST_HOST_ID": f"site{place}",
        "HOLDFAST_TIMEOUT": str(LIMIT_S),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    at = (rank, setting.ranks, here, {**env, **own}, path.inside(place))
    return start_rank("far_faults", "rounds", *at)


def await_line(process: Process, word: str) -> None:
    assert process.stdout is not None
    while (line := process.stdout.readline()) and word not in line:
        print(line, end="", file=sys.stderr)


def far_connections(path: LongPath, place: int) -> list[tuple[str, str]]:
    """Local and remote port of each connection from one place to a rank in the other one."""
    command = [*path.inside(place), "ss", "-tnH", "state", "established"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    ports = []
    for line in listed.stdout.splitlines():
        here, there = (end.rsplit(":", 1) for end in line.split()[2:4])
        if there[0] == path.address(1 - place) and str(COORDINATOR_PORT) not in (here[1], there[1]):
            ports.append((here[1], there[1]))
    return ports


def reset_some(path: LongPath, count: int, dice: random.Random, at: list[float]) -> None:
    """Destroy connections one by one, at random instants; `at` gets the times."""
    while len(at) < count:
        time.sleep(dice.uniform(0.05, 0.5))
        place = dice.randrange(2)
        if not (standing := far_connections(path, place)):
            continue
        here, there = dice.choice(standing)
        command = [*path.inside(place), "ss", "-K", "sport", "=", here, "dport", "=", there]
        at.append(time.monotonic())
        subprocess.run(command, capture_output=True, timeout=20, check=False)


def late_rounds(told: Told, faults: list[tuple[float, float]]) -> list[float]:
    """By how much each round that a fault fell into took longer than the median of the others."""
    rows = list(zip(told.begun, told.took, strict=True))[1:]
    hit = [any(b < end and begin < b + t for begin, end in faults) for b, t in rows]
    usual = statistics.median([t for (_, t), is_hit in zip(rows, hit, strict=True) if not is_hit])
    return [t - usual for (_, t), is_hit in zip(rows, hit, strict=True) if is_hit]


def settings(arguments: argparse.Namespace, secret: str) -> Iterator[Setting]:
    for ranks in map(int, arguments.ranks.split(",")):
        for kind in arguments.kinds.split(","):
            sealed, coordinated = "sealed" in kind, "coordinator" in kind
            yield Setting(ranks, arguments.mebibytes, secret if sealed else "", coordinated)


def resets(arguments: argparse.Namespace, path: LongPath, secret: str) -> None:
    bar = 3 * 2 * arguments.delay_ms / 1000 + 0.05
    print(
        f"{arguments.count} connections reset, rounds of {arguments.mebibytes:g} MiB; a round may "
        f"be {bar:.2f} s late\n\n| ranks | | views changed | wrong sums | late, median | worst | "
        "later than that |\n|---|---|---|---|---|---|---|"
    )
    for setting in settings(arguments, secret):
        at: list[float] = []
        dice = random.Random(arguments.seed)
        told = run(
            setting, path, lambda at=at, dice=dice: reset_some(path, arguments.count, dice, at)
        )
        late = late_rounds(told, [(x, x + 0.05) for x in at])
        beyond = sum(x > bar for x in late)
        print(
            f"| {setting.name()} | {told.epochs} | {told.wrong} | {statistics.median(late):.2f} | "
            f"{max(late):.2f} | {beyond} of {len(late)} |",
            flush=True,
        )


def flaps(arguments: argparse.Namespace, path: LongPath, secret: str) -> None:
    bar = 3 * 2 * arguments.delay_ms / 1000 + 0.3
    print(
        f"all_reduce of {arguments.mebibytes:g} MiB while the path is still; it may be {bar:.2f} s "
        "late beyond that\n\n| ranks | | direction | outage | views changed | wrong sums | late "
        "beyond it |\n|---|---|---|---|---|---|---|"
    )
    for setting in settings(arguments, secret):
        for outage in map(float, arguments.outages.split(",")):
            for direction in arguments.directions.split(","):
                stood: list[tuple[float, float]] = []

                def stand_still(
                    outage: float = outage, direction: str = direction, stood: list = stood
                ) -> None:
                    time.sleep(random.Random(arguments.seed).uniform(0.3, 1))
                    begun = time.monotonic()
                    path.set(direction, still=1)
                    time.sleep(outage)
                    path.set(direction, still=0)
                    stood.append((begun, time.monotonic()))

                told = run(setting, path, stand_still)
                late = max(late_rounds(told, stood)) - outage
                print(
                    f"| {setting.name()} | {direction} | {outage:g} s | {told.epochs} | "
                    f"{told.wrong} | {late:.2f} s |",
                    flush=True,
                )


def full(arguments: argparse.Namespace, path: LongPath, secret: str) -> None:
    print(
        f"all_reduce of {arguments.mebibytes:g} MiB\n\n| ranks | | bus bandwidth over the path, of "
        "its rate | worst round |\n|---|---|---|---|"
    )
    for setting in settings(arguments, secret):
        usual = arguments.mebibytes * 8 * 1024**2 / arguments.mbit / 1e6
        told = run(setting, path, lambda usual=usual: time.sleep(5 * usual + 2))
        # What crosses the path in each direction, at the least: the sum of a site, once.
        rates = [usual / took for took in told.took[2:-1]]
        print(
            f"| {setting.name()} | {statistics.median(rates):.2f} | {min(rates):.2f} |", flush=True
        )


def heartbeats(arguments: argparse.Namespace, path: LongPath, _secret: str) -> None:
    bar = 2 * arguments.delay_ms + 50
    print(f"{arguments.mbit:g} Mbit/s, 30 s; a heartbeat may be {bar:g} ms late\n")
    at = [path.address(1), str(COORDINATOR_PORT)]
    program = str(Path(arguments.program).resolve())
    hears = subprocess.Popen(
        [*path.inside(1), program, "listen", *at], stdout=subprocess.PIPE, text=True
    )
    try:
        await_line(hears, "listens")
        calls = [*path.inside(0), program, "call", *at, "30"]
        subprocess.run(calls, timeout=LIMIT_S, check=True)
        print(hears.communicate(timeout=LIMIT_S)[0], end="", flush=True)
    finally:
        hears.kill()


WHAT = {"resets": resets, "flaps": flaps, "full": full, "heartbeats": heartbeats}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--ranks", default="2", metavar="N,...")
    parser.add_argument(
        "--kinds",
        default="plain,sealed,plain+coordinator,sealed+coordinator",
        metavar="KIND,...",
        help="of plain, sealed, plain+coordinator, sealed+coordinator",
    )
    parser.add_argument("--count", type=int, default=200, help="resets of each row")
    parser.add_argument("--outages", default="0.5,2,8", metavar="S,...")
    parser.add_argument("--directions", default="both", metavar="ab,ba,both")
    parser.add_argument("--mebibytes", type=float, default=0.2, help="of a round")
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--delay-ms", type=float, default=20, help="one way")
    parser.add_argument("--loss", type=float, default=0, help="of packets, each way")
    parser.add_argument("--program", default="trunk_heartbeats", help="of `heartbeats`")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        secret = f"{folder}/secret"
        holdfast_command(["secret", secret])
        try:
            with LongPath() as path:
                path.set("both", delay_ms=arguments.delay_ms, mbit=arguments.mbit)
                path.set("both", loss=arguments.loss, queue_ms=max(50, arguments.delay_ms))
                WHAT[arguments.what](arguments, path, secret)
        except Unavailable as missing:
            print(missing, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

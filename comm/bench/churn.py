"""``holdfast bench --churn``: how long a collective takes to recover from a killed rank.

As a module, ``python -m holdfast.comm.bench.churn CONFIG RANK``: one rank of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import __version__
from holdfast.errors import HoldfastError
from holdfast.options import Options

HEADER = (
    f"{'transport':10} {'ranks':>5} {'hosts':>5} {'children':>8} {'bytes':>10} {'kills':>5} "
    f"{'op ms':>8} {'from kill':>9} {'median':>8} {'p90':>8} {'p99':>8} {'max':>8}   ms"
)
# Of each rank; more than a data loader has workers, and few enough for a small machine.
MOST_CHILDREN = 64
# Ops before the kill, to know what one takes; and after it.
_BEFORE, _AFTER = 12, 5
_LATEST_KILL_OPS = 12
_LIMIT_S = 60.0
Before = Callable[[int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class World:
    """What the ranks of a row are like.

    `hosts` are played by one machine, each with as many ranks as the others, or one more;
    `children` are processes that every rank has forked, and that outlive it, as the workers of a
    data loader may.
    """

    transport: str
    ranks: int
    bytes: int
    hosts: int = 1
    children: int = 0

    def host(self, rank: int) -> int:
        """Return the host that the rank is on."""
        return rank * self.hosts // self.ranks


@dataclass(frozen=True, slots=True)
class Row:
    """Recoveries of one world; times in milliseconds.

    From the signal to the end of the first op of the next view on the last survivor; a recovery is
    that less what an op takes without a loss, and 0 where the interrupted op was nearly done.
    """

    world: World
    op_ms: float
    from_kill_ms: float  # median
    recoveries_ms: list[float]

    def at(self, part: float) -> float:
        """Return the recovery that `part` of them do not exceed."""
        ordered = sorted(self.recoveries_ms)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    def line(self) -> str:
        """Return it as a line of the table."""
        world = self.world
        return (
            f"{world.transport:10} {world.ranks:5} {world.hosts:5} {world.children:8} "
            f"{world.bytes:10} {len(self.recoveries_ms):5} {self.op_ms:8.2f} "
            f"{self.from_kill_ms:9.2f} {self.at(0.5):8.2f} {self.at(0.9):8.2f} "
            f"{self.at(0.99):8.2f} {self.at(1.0):8.2f}"
        )

    def as_json(self) -> str:
        """Return it as a JSON object."""
        flat = asdict(self)
        return json.dumps({"version": __version__, **flat.pop("world"), **flat})


def _start(folder: Path, world: World, before: Before) -> list[subprocess.Popen[str]]:
    (folder / "config").write_text(json.dumps({"folder": str(folder), **asdict(world)}))
    command = [sys.executable, "-m", "holdfast.comm.bench.churn", str(folder / "config")]
    # What they say of views is of interest only when one fails.
    # Children of ranks read from stdin: they live until it is closed here.
    pipe = subprocess.PIPE
    with (folder / "log").open("w") as log:
        return [
            subprocess.Popen(
                [*before(r), *command, str(r)], stdin=pipe, stdout=pipe, stderr=log, text=True
            )
            for r in range(world.ranks)
        ]


def _kill_one(world: World, choose: random.Random, before: Before) -> tuple[float, float]:
    """Return the op's own time, and the time from the kill to the last survivor, in seconds."""
    with tempfile.TemporaryDirectory(prefix="holdfast-churn-") as folder:
        processes = _start(Path(folder), world, before)
        try:
            for process in processes:
                assert process.stdout is not None
                if "ready" not in process.stdout.readline():
                    raise HoldfastError("a rank of the benchmark failed; its message is above")
            own = max(json.loads(_line(process))["op"] for process in processes)
            victim = choose.randrange(world.ranks)
            with contextlib.suppress(subprocess.TimeoutExpired):
                processes[victim].wait(choose.uniform(0, _LATEST_KILL_OPS) * own)
            killed = time.monotonic()
            processes[victim].kill()
            ends = []
            for rank, process in enumerate(processes):
                if rank != victim:
                    ends.append(json.loads(_line(process))["end"])
            for rank, process in enumerate(processes):
                if process.wait(_LIMIT_S) != 0 and rank != victim:
                    raise HoldfastError(f"rank {rank} of the benchmark failed")
            return own, max(ends) - killed
        except HoldfastError:
            sys.stderr.write((Path(folder) / "log").read_text())
            raise
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
                for stream in (process.stdin, process.stdout):
                    assert stream is not None
                    stream.close()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise HoldfastError("a rank of the benchmark failed; its message is above")
    return line


def _here(rank: int) -> Sequence[str]:
    del rank
    return ()


def measure(worlds: list[World], kills: int, before: Before = _here) -> Iterator[Row]:
    """Kill one rank after the other, each in a world of its own.

    Parameters
    ----------
    worlds : list of World
        What the ranks do is an all_reduce over and over.
    kills : int
        Per row.
    before : callable
        From a rank to a command that runs the rest of its arguments, such as one that enters a
        network namespace; it must become that process, for that is what is killed.

    Yields
    ------
    Row
        One for each world.
    """
    choose = random.Random(1)
    for world in worlds:
        pairs = [_kill_one(world, choose, before) for _ in range(kills)]
        own = statistics.median(pair[0] for pair in pairs)
        whole = statistics.median(pair[1] for pair in pairs)
        times = [round(1e3 * max(0.0, pair[1] - pair[0]), 3) for pair in pairs]
        yield Row(world, round(1e3 * own, 3), round(1e3 * whole, 3), times)


def _fork_children(count: int) -> None:
    """Make children that live until the benchmark closes their stdin, whatever becomes of us."""
    for _ in range(count):
        if os.fork() == 0:
            os.read(0, 1)
            os._exit(0)


def _say(**what: float) -> None:
    print(json.dumps(what), flush=True)


def main() -> int:
    """Reduce over and over; say when the first op after the loss has ended."""
    import holdfast

    config: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    rank, folder = int(sys.argv[2]), config.pop("folder")
    world = World(**config)
    host = "" if world.hosts == 1 else f"host{world.host(rank)}"
    options = replace(
        Options.from_env(), transports=(world.transport,), timeout=_LIMIT_S, host_id=host
    )
    group = holdfast.init(f"file://{folder}/groups", rank, world.ranks, options=options)
    _fork_children(world.children)
    data = np.zeros(max(1, world.bytes // 4), np.float32)
    print("ready", flush=True)
    times: list[float] = []
    after = 0
    while after < _AFTER:
        begun = time.monotonic()
        group.all_reduce(data)
        end = time.monotonic()
        assert group.outcome is not None
        if group.outcome.epoch == 1:
            times.append(end - begun)
            if len(times) == _BEFORE:
                _say(op=statistics.median(times))
            continue
        after += 1
        if after == 1:
            _say(end=end)
    group.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

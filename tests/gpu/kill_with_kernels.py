"""Ranks that share a GPU are killed one after another while kernels run; the rest must go on.

    python tests/gpu/kill_with_kernels.py --ranks 6 --worlds 5

Each rank loops: it copies its input inside the device, and all_reduces several arrays at once, from
device to device (`--ipc off`: through the host). At a random moment one rank gets SIGKILL, and when
all others have met the loss, the next, until two are left. A survivor sees that each sum is of
ranks that were alive, with all or nothing of an element of the lost one, and in the end that its
context is usable: new memory, copies both ways and inside the device, a kernel, and a last sum.

`kills`, `survivors` (those of all worlds that were asked to go on), and `lost`: survivors that
failed, with the end of what each of them said. No torch is needed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import world

LIMIT_S = 90.0
ARRAYS = 4
# Ops between two looks at the results: a look lets the device rest.
TURNS = 6
# Further rounds, once the last loss was met.
AFTER = 5
GONE_S = 30


def check(values: Any, outcome: Any, gone: set[int]) -> None:
    """See what an all_reduce of 1 << rank holds: whole elements, and nobody's who was gone."""
    sure = sum(1 << rank for rank in outcome.contributors)
    may = sure | sum(1 << rank for rank in outcome.missing if rank not in gone)
    seen = np.unique(values)
    assert ((seen & sure) == sure).all(), (seen, outcome, gone)
    assert ((seen & ~may) == 0).all(), (seen, outcome, gone)


def loop() -> None:
    """Go on until KILLS ranks are lost, and tell of each; a rank."""
    from gpu_array import GpuArray

    import holdfast

    kills, count = int(os.environ["KILLS"]), int(os.environ["BYTES"]) // 4
    with holdfast.init() as group:
        own = np.full(count, 1 << group.rank, np.int32)
        source = GpuArray(own, shared=True)
        arrays = [GpuArray(own, shared=True) for _ in range(ARRAYS)]
        gone: set[int] = set()
        left, rounds = AFTER, 0
        while left > 0:
            for turn in range(TURNS):
                for array in arrays:
                    array.copy_from(source)
                works = [group.all_reduce(array, async_op=True) for array in arrays]
                missing: set[int] = set()
                for array, work in zip(arrays, works, strict=True):
                    assert work is not None
                    work.wait(60)
                    outcome = work.outcome
                    if turn == TURNS - 1 or set(outcome.missing) != gone:
                        check(array.get(), outcome, gone)
                    missing |= set(outcome.missing)
                if missing != gone:
                    gone |= missing
                    print("MET", len(gone), flush=True)
            rounds += 1
            if rounds == 2:
                print("MET 0", flush=True)
            left -= len(gone) >= kills
        use_context(group, count)
        world.tell({"rank": group.rank, "rounds": rounds, "direct_ops": world.ops("direct")})


def use_context(group: Any, count: int) -> None:
    """See that the device does all that it did, for those that are left."""
    from gpu_array import GpuArray

    from holdfast.comm import HostTensor

    values = np.arange(count, dtype=np.int32) % 1000
    fresh, copied = GpuArray(values, shared=True), GpuArray(np.zeros_like(values), shared=True)
    copied.copy_from(fresh)
    assert (copied.get() == values).all()
    # A kernel of this process alone.
    table = HostTensor(values[: count // 64 * 64].reshape(-1, 64))
    stream = 1
    index = np.arange(len(table), dtype=np.int64)[::-1].copy()
    rows = GpuArray(np.zeros((len(index), 64), np.int32), stream)
    table.gather(GpuArray(index, stream), rows)
    assert (rows.get() == table.array[::-1]).all()
    work = group.all_reduce(copied, async_op=True)
    work.wait(60)
    assert (copied.get() == values * len(work.outcome.contributors)).all()


class Listener(threading.Thread):
    """Reads what a rank says; `met` tells how many losses it has met."""

    def __init__(self, process: Any) -> None:
        super().__init__(daemon=True)
        self.process, self.lines = process, list[str]()
        self._met, self._word = -1, threading.Condition()
        self.start()

    def run(self) -> None:
        for line in self.process.stdout:
            with self._word:
                self.lines.append(line)
                if line.startswith("MET "):
                    self._met = int(line.split()[1])
                self._word.notify_all()
        with self._word:
            self._met = 1 << 30
            self._word.notify_all()

    def wait_for(self, losses: int, seconds: float) -> bool:
        """Wait until it has met so many losses, or has ended."""
        with self._word:
            return self._word.wait_for(lambda: self._met >= losses, seconds)


def end(listener: Listener, seconds: float) -> str:
    """Wait for a survivor; what is wrong with it, empty if nothing."""
    try:
        status = listener.process.wait(max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        listener.process.kill()
        listener.process.wait()
        status = "it did not end in time"
    listener.join(5)
    done = any(line.startswith(world.MARK) for line in listener.lines)
    if status == 0 and done:
        return ""
    return f"status {status}: " + " | ".join(line.strip() for line in listener.lines[-3:])


def ended(process: Any) -> bool:
    """Wait until a killed process is gone: its driver lets go of the device first."""
    try:
        process.wait(GONE_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def one_world(given: Any, number: int) -> dict[str, Any]:
    """Kill all but two of a world's ranks."""
    chance = random.Random(1000 * given.seed + number)
    deadline = time.monotonic() + given.limit
    env = world.environment(
        given.driver,
        KILLS=str(given.ranks - 2),
        BYTES=str(given.bytes),
        HOLDFAST_CUDA_IPC=given.ipc,
    )
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            Listener(world.start("kill_with_kernels", "loop", r, given.ranks, Path(folder), env))
            for r in range(given.ranks)
        ]
        alive, kills = list(ranks), 0
        wrong: list[str] = []
        while True:
            # Who has ended by itself is a loss, too, and the ranks count it.
            for one in alive:
                one.wait_for(given.ranks - len(alive), deadline - time.monotonic())
            wrong += [end(one, 1) for one in alive if one.process.poll() is not None]
            alive = [one for one in alive if one.process.poll() is None]
            if len(alive) <= 2 or time.monotonic() > deadline:
                break
            time.sleep(chance.random() * given.within)
            victim = alive.pop(chance.randrange(len(alive)))
            victim.process.send_signal(signal.SIGKILL)
            kills += 1
            if not ended(victim.process):
                wrong.append(f"pid {victim.process.pid} had SIGKILL and did not end in {GONE_S} s")
        wrong += [end(one, deadline - time.monotonic()) for one in alive]
    rows = [
        json.loads(line[len(world.MARK) :])
        for one in ranks
        for line in one.lines
        if line.startswith(world.MARK)
    ]
    return {
        "kills": kills,
        "survivors": given.ranks - kills,
        "lost": [text for text in wrong if text],
        "rounds": sum(row["rounds"] for row in rows),
        "direct_ops": sum(row["direct_ops"] for row in rows),
    }


def main() -> int:
    """Kill, and print a line."""
    parser = world.arguments_of(__doc__, LIMIT_S)
    parser.add_argument("--ranks", type=int, default=6, help="of a world; all but two die (6)")
    parser.add_argument("--worlds", type=int, default=5, help="one after another (5)")
    parser.add_argument("--bytes", type=int, default=4 << 20, help="of each array (4 MiB)")
    parser.add_argument("--within", type=float, default=0.05, help="seconds before a kill (0.05)")
    parser.add_argument("--ipc", choices=["auto", "off"], default="auto")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and the victims")
    given = parser.parse_args()
    if given.ranks < 3:
        parser.error(f"--ranks is {given.ranks}; accepted: 3 and more")
    if world.lacks(given.driver):
        return world.LACKS
    worlds = [one_world(given, number) for number in range(given.worlds)]
    row: dict[str, Any] = {
        "name": "kill with kernels",
        "device": world.device_name(given.driver),
        "ipc": given.ipc,
        "worlds": given.worlds,
        **{key: sum(one[key] for one in worlds) for key in ("kills", "survivors", "rounds")},
        "direct_ops": sum(one["direct_ops"] for one in worlds),
        "expected_kills": given.worlds * (given.ranks - 2),
        "lost": [text for one in worlds for text in one["lost"]],
    }
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())

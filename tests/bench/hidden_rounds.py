"""How much of a far exchange each outer-step trainer hides behind its local steps.

    python tests/bench/hidden_rounds.py --rtt 150 --inner-steps 48

Two members, one in each of two network namespaces, with an emulated path in between
(tests/python/support/emulated_path.py), whose rate is such that one exchange takes 0.8 of a
round's computation. A local step is a pause, or with ``--busy`` a computation, and an inner step.
Prints Markdown: the time of a round by the time of its local steps without any exchange; and, over
a path that is fast enough for bursts, the most bytes in 0.8 of the time between two fragments, by
those of DiLoCo. Needs root, `ip` and /dev/net/tun; says what is
missing, and ends with status 2, where they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

import torch
from emulated_network import Unavailable
from emulated_path import LongPath
from ranks import Process, all_end_well, start_rank

import holdfast
from holdfast import ft

LIMIT_S = 500.0
# An exchange, by the computation of a round.
PART = 0.8
# Rounds that are not counted, and those that are.
WARM, ROUNDS = 2, 4
PARTS = 4
FIRST_MBIT, FAST_MBIT, NEAR_MS = 20.0, 1000.0, 5.0
LOOK_S = 0.1
# Of the rate at which an exchange takes its part; and what an exchange waits beside its bytes.
MOST_TRIES, ROUND_TRIPS = 8, 3

Make = Callable[[Any, torch.optim.Optimizer, Any, int], ft.Trainer]
TRAINERS: dict[str, Make] = {
    "DiLoCo": lambda m, i, g, h: ft.DiLoCo(m, i, g, inner_steps=h),
    "StreamingDiLoCo, 4 fragments": lambda m, i, g, h: ft.StreamingDiLoCo(
        m, i, g, inner_steps=h, fragments=PARTS, delay=h // 3
    ),
    "StreamingDiLoCo, 1 fragment": lambda m, i, g, h: ft.StreamingDiLoCo(
        m, i, g, inner_steps=h, fragments=1, delay=h - 1
    ),
    "AsyncDiLoCo, eager": lambda m, i, g, h: ft.AsyncDiLoCo(m, i, g, inner_steps=h),
    "AsyncDiLoCo, delayed": lambda m, i, g, h: ft.AsyncDiLoCo(
        m, i, g, inner_steps=h, mode="delayed"
    ),
    "CO2": lambda m, i, g, h: ft.CO2(m, i, g, inner_steps=h),
}


class Computation:
    """A local step's: a pause, or products of matrices for as long."""

    def __init__(self, step_s: float, busy: bool) -> None:
        self._step_s, self._pause = step_s, threading.Event()
        self._matrix = torch.randn(128, 128)
        self._products = 0
        if not busy:
            return
        begun = time.monotonic()
        while time.monotonic() - begun < 20 * step_s:
            self._product()
            self._products += 1
        self._products = max(1, self._products // 20)

    def __call__(self) -> None:
        if not self._products:
            self._pause.wait(self._step_s)
        for _ in range(self._products):
            self._product()

    def _product(self) -> None:
        torch.mm(self._matrix, self._matrix)


def rounds() -> None:
    """Tell seconds of a round's local steps alone, of an exchange alone, and of whole rounds."""
    torch.set_num_threads(1)
    count, h = int(os.environ["BENCH_PARAMETERS"]), int(os.environ["BENCH_H"])
    compute = Computation(float(os.environ["BENCH_STEP_S"]), "BENCH_BUSY" in os.environ)
    with holdfast.init() as group:
        weights = {
            f"layers.{part}.w": torch.zeros(count // PARTS, requires_grad=True)
            for part in range(PARTS)
        }
        inner = torch.optim.SGD(weights.values(), 0.01)
        for part in weights.values():
            part.grad = torch.ones_like(part)
        if not (method := os.environ.get("BENCH_METHOD")):
            alone = []
            for _ in range(2):
                begun = time.monotonic()
                for _ in range(h):
                    compute()
                    inner.step()
                alone.append(time.monotonic() - begun)
            flat, took = torch.ones(count), []
            for _ in range(4):
                begun = time.monotonic()
                group.all_reduce(flat, op="avg")
                took.append(time.monotonic() - begun)
            told = {"alone_s": min(alone), "exchange_s": statistics.median(took[1:])}
        else:
            trainer = TRAINERS[method](weights, inner, group, h)
            group.barrier()
            ends = [time.monotonic()]
            while len(ends) <= WARM + ROUNDS:
                compute()
                trainer.step()
                if trainer.at_boundary:
                    ends.append(time.monotonic())
                    print("ROUND", flush=True)
            if "BENCH_PEAK" not in os.environ:
                trainer.finish()  # which exchanges all fragments at once
            told = {"round_s": (ends[-1] - ends[WARM]) / ROUNDS}
        group.barrier()
        print("TOLD", json.dumps(told), flush=True)


def start(path: LongPath, here: Path, rank: int, env: dict[str, str]) -> Process:
    own = {
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_HOST_ID": f"host{rank}",
        "HOLDFAST_ADDRESS": path.address(rank),
        "HOLDFAST_TIMEOUT": str(LIMIT_S),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    at = path.inside(rank)
    return start_rank("hidden_rounds", "rounds", rank, 2, here, {**own, **env}, at)


def run(path: LongPath, env: dict[str, str], window_s: float = 1.0) -> tuple[dict, int]:
    """What the ranks told, the longest of each; and the most bytes there in so many seconds."""
    with tempfile.TemporaryDirectory() as here:
        ranks = [start(path, Path(here), rank, env) for rank in range(2)]
        ended, seen = threading.Event(), [path.counts()[0].bytes]

        def watch() -> None:
            while not ended.wait(LOOK_S):
                seen.append(path.counts()[0].bytes)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            outcomes = all_end_well(ranks, LIMIT_S)
        finally:
            ended.set()
            watcher.join()
    looks = round(window_s / LOOK_S)
    peak = max((b - a for a, b in zip(seen, seen[looks:], strict=False)), default=0)
    lines = [line for one in outcomes for line in one.output.splitlines()]
    rows = [json.loads(line[5:]) for line in lines if line.startswith("TOLD ")]
    return {name: max(row[name] for row in rows) for name in rows[0]}, peak


def report(arguments: argparse.Namespace, path: LongPath) -> None:
    env = {
        "BENCH_PARAMETERS": str(arguments.parameters),
        "BENCH_H": str(arguments.inner_steps),
        "BENCH_STEP_S": str(arguments.step_seconds),
        **({"BENCH_BUSY": "1"} if arguments.busy else {}),
    }
    mbit = arguments.mbit
    for _ in range(MOST_TRIES):
        path.set("both", delay_ms=arguments.rtt / 2, mbit=mbit, queue_ms=max(50, arguments.rtt / 2))
        found, _ = run(path, env)
        alone, exchange = found["alone_s"], found["exchange_s"]
        if abs(exchange / alone / PART - 1) < 0.05:
            break
        # The round trips of an exchange stay as they are at any rate.
        moving = exchange - ROUND_TRIPS * arguments.rtt / 1e3
        mbit *= moving / (PART * alone - ROUND_TRIPS * arguments.rtt / 1e3)
    else:
        print(f"no rate was found at which an exchange takes {PART} of a round", file=sys.stderr)
    print(
        f"{arguments.parameters:,} parameters, round trip {arguments.rtt:g} ms, {mbit:.2f} Mbit/s; "
        f"{arguments.inner_steps} local steps take {alone:.2f} s alone, an all_reduce "
        f"{exchange:.2f} s, so that one at each step makes it "
        f"{1 + exchange * arguments.inner_steps / alone:.0f} times as long\n\n"
        "| | round, by its local steps alone |\n|---|---|"
    )
    for method in filter(None, arguments.methods.split(";")):
        found, _ = run(path, {**env, "BENCH_METHOD": method})
        print(f"| {method} | {found['round_s'] / alone:.3f} |", flush=True)
    # So near that an exchange is over before the next fragment's begins, whatever TCP does first.
    path.set("both", mbit=FAST_MBIT, delay_ms=NEAR_MS)
    peaks = [
        run(path, {**env, "BENCH_METHOD": method, "BENCH_PEAK": "1"}, 0.8 * alone / PARTS)[1]
        for method in ("DiLoCo", f"StreamingDiLoCo, {PARTS} fragments")
    ]
    print(f"\nA stream of {PARTS} fragments has a peak of {peaks[1] / peaks[0]:.2f} of DiLoCo's")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtt", type=float, default=150.0, help="milliseconds")
    parser.add_argument("--inner-steps", type=int, default=48)
    parser.add_argument("--step-seconds", type=float, default=0.1)
    parser.add_argument("--parameters", type=int, default=500_000)
    parser.add_argument("--mbit", type=float, default=FIRST_MBIT, help="of the first try")
    parser.add_argument("--busy", action="store_true", help="local steps compute")
    parser.add_argument("--methods", default=";".join(TRAINERS), help="with semicolons between")
    arguments = parser.parse_args()
    if unknown := set(arguments.methods.split(";")) - {"", *TRAINERS}:
        parser.error(f"--methods {'; '.join(unknown)}; accepted: {'; '.join(TRAINERS)}")
    try:
        with LongPath() as path:
            report(arguments, path)
    except Unavailable as missing:
        print(missing, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a late member costs the others, in time and in learning, with a grace and without.

``python late_members.py`` starts four ranks, which train the character model of `learning_tasks`
by each method: all equally fast; one at a quarter of the speed; one whose computation stands still
for three rounds of every ten. A local step is its computation and a pause up to
``--step-seconds``. One JSON line each: seconds of the others' rounds (the median, as other work on
the machine makes some of them long; where one stands still, of those rounds), validation loss in
nats per character, whether what is shared has the same bits on all ranks, and how many samples of
the late one are in means, of those that it has computed. ``--table FILE`` makes a table of the
lines in a file.

``--by-rows`` is for the loss alone: ranks are threads, and the late one is stood in for after a
quarter of its steps, or in the middle of the round in which it stands still, whatever clocks say.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from learning_tasks import BATCH, TASKS, Task
from outer_learning import RATE, H, same
from thread_exchange import Meeting, ThreadExchange
from torch import nn

import holdfast
from holdfast import ft

LIMIT_S = 6 * 3600.0
RANKS, LATE = 4, 3
# Rounds that are not counted: the first one has no speeds to go by.
WARM = 3
STILL_ROUNDS, STILL_EVERY, STILL_FROM = 3, 10, 5
MODES = ("equal", "quarter", "still")
TRAINERS: dict[str, Any] = {
    "LocalSGD": lambda m, i, g, s: ft.LocalSGD(m, i, g, inner_steps=H, grace_s=s),
    "DiLoCo": lambda m, i, g, s: ft.DiLoCo(m, i, g, inner_steps=H, grace_s=s),
    "StreamingDiLoCo, 2 fragments, delay 5": lambda m, i, g, s: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=2, delay=5, grace_s=s
    ),
    "AsyncDiLoCo, eager": lambda m, i, g, s: ft.AsyncDiLoCo(m, i, g, inner_steps=H, grace_s=s),
    "SparseLoCo, 3 %": lambda m, i, g, s: ft.SparseLoCo(
        m, i, g, inner_steps=H, ratio=0.03, grace_s=s
    ),
    "CO2": lambda m, i, g, s: ft.CO2(m, i, g, inner_steps=H, grace_s=s),
}


class Late:
    """What delays the local steps of one rank."""

    def __init__(self, mode: str, trainer: ft.Trainer, step_s: float) -> None:
        self._mode, self._trainer, self._step_s = mode, trainer, step_s
        # In the middle of a round.
        self._still_at = STILL_FROM * H + H // 2
        self._pause = threading.Event()

    def wait(self, begun: float, is_late: bool) -> None:
        """Make a local step that has begun then as long as it is to be."""
        factor = 4 if is_late and self._mode == "quarter" else 1
        self._pause.wait(max(0.0, begun + factor * self._step_s - time.perf_counter()))
        if is_late and self._mode == "still" and self._trainer.steps >= self._still_at:
            self._still_at += STILL_EVERY * H
            self._stand_still()

    def _stand_still(self) -> None:
        if self._trainer._stand_in is None:
            self._pause.wait(STILL_ROUNDS * H * self._step_s)
            return
        end = self._trainer.steps // H * H + STILL_ROUNDS * H
        until = time.monotonic() + 100 * STILL_ROUNDS * H * self._step_s
        while self._trainer.steps < end and time.monotonic() < until:
            self._pause.wait(self._step_s / 4)


def counted(trainer: ft.Trainer) -> list[float]:
    """Have the samples that a trainer's exchanges have added up in a list of one number."""
    begin, count = trainer._begin_mean, [0.0]

    def begin_mean(fragment: int, sent: torch.Tensor, share: Any) -> Any:
        count[0] += share.count / len(trainer._flats)
        return begin(fragment, sent, share)

    trainer._begin_mean = begin_mean  # type: ignore[method-assign]
    return count


def train(group: holdfast.Group, method: str, mode: str, options: argparse.Namespace) -> None:
    """Train, and have the lowest rank print what came of it."""
    task: Task = TASKS["characters"]()
    net = task.model(options.seed)
    inner = torch.optim.Adam(net.parameters(), RATE)
    grace = None if options.without else options.grace
    trainer = TRAINERS[method](net, inner, group, grace)
    sent = counted(trainer)
    late = Late(mode, trainer, options.step_seconds)
    group.barrier()
    done, ends = 0, [time.perf_counter()]
    while trainer.steps < options.steps:
        begun = time.perf_counter()
        rest = 1 - trainer.steps / options.steps
        inner.param_groups[0]["lr"] = RATE * min(1.0, max(0.02, 2 * rest))
        x, y = task.batch(options.seed, done, group.rank)
        inner.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        late.wait(begun, group.rank == LATE)
        trainer.step(samples=len(y))
        done += 1
        if trainer.at_boundary:
            ends.append(time.perf_counter())
    trainer.finish()
    rounds = [b - a for a, b in zip(ends[WARM:], ends[WARM + 1 :], strict=False)]
    if mode == "still":
        place = range(STILL_FROM, STILL_FROM + STILL_ROUNDS)
        rounds = [r for at, r in enumerate(rounds, WARM) if at % STILL_EVERY in place]
    shares = torch.zeros(2, dtype=torch.float64)
    if group.rank == LATE:
        shares = torch.tensor([sent[0], float(done * BATCH)], dtype=torch.float64)
    group.all_reduce(shares)
    flat = torch.cat([t.detach().to(torch.float64).flatten() for t in trainer.shared.values()])
    row = {
        "name": "late_members",
        "method": method,
        "mode": mode,
        "grace_s": grace,
        "seed": options.seed,
        "steps": options.steps,
        "step_s": options.step_seconds,
        "round_s": round(statistics.median(rounds), 4),
        **task.judge(net),
        "late_committed": round(float(shares[0] / shares[1]), 4),
        "late_computed": round(float(shares[1]) / (options.steps * BATCH), 4),
        "same_bits": same(zlib.crc32(flat.numpy().tobytes()), group),
    }
    if group.rank == 0:
        print(json.dumps(row), flush=True)


def by_rows(
    exchange: ThreadExchange, net: nn.Module, method: str, mode: str, options: argparse.Namespace
) -> Any:
    """Train as one thread of four; loss, and what is shared."""
    task: Task = TASKS["characters"]()
    inner = torch.optim.Adam(net.parameters(), RATE)
    trainer = TRAINERS[method](net, inner, exchange, 1.0)
    # Its clock stands still, so that its thread does nothing.
    trainer._stand_in._clock = lambda: 0.0
    sent, done, made = counted(trainer), 0, 0
    while trainer.steps < options.steps:
        rest = 1 - trainer.steps / options.steps
        inner.param_groups[0]["lr"] = RATE * min(1.0, max(0.02, 2 * rest))
        x, y = task.batch(options.seed, done, exchange.rank)
        inner.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        done, made = done + 1, made + 1
        turn = trainer.steps // H
        stands = mode == "still" and turn % STILL_EVERY == STILL_FROM and made == H // 2
        slow = mode == "quarter" and turn >= 1 and made == H // 4
        if exchange.rank == LATE and (slow or stands):
            end = (turn + (STILL_ROUNDS if stands else 1)) * H
            while trainer.steps < end:
                with trainer._stand_in._lock:
                    trainer._stand_in_now()
            made = 0
        trainer.step(samples=len(y))
        made = 0 if trainer.at_boundary else made
    trainer.finish()
    flat = torch.cat([t.detach().to(torch.float64).flatten() for t in trainer.shared.values()])
    return task.judge(net), zlib.crc32(flat.numpy().tobytes()), sent[0], done * BATCH


def run_by_rows(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for method in options.methods.split(";"):
        for mode in options.modes.split(","):
            meeting = Meeting(RANKS)
            nets = [TASKS["characters"]().model(options.seed) for _ in range(RANKS)]
            meeting.barrier = threading.Barrier(RANKS, timeout=LIMIT_S)
            with ThreadPoolExecutor(RANKS) as pool:
                seats = [ThreadExchange(meeting, rank) for rank in range(RANKS)]
                ends = [
                    pool.submit(by_rows, seat, net, method, mode, options)
                    for seat, net in zip(seats, nets, strict=True)
                ]
                told = [end.result() for end in ends]
            row = {
                "name": "late_members",
                "method": method,
                "mode": mode,
                "grace_s": 1.0,
                "seed": options.seed,
                "steps": options.steps,
                "round_s": 1.0,
                **told[0][0],
                "late_committed": round(told[LATE][2] / told[LATE][3], 4),
                "late_computed": round(told[LATE][3] / (options.steps * BATCH), 4),
                "same_bits": len({one[1] for one in told}) == 1,
            }
            print(json.dumps(row), flush=True)


def be_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    with holdfast.init() as group:
        for method in options.methods.split(";"):
            for mode in options.modes.split(","):
                train(group, method, mode, options)
        group.barrier()


def launch(arguments: Sequence[str]) -> int:
    """Run this program as all ranks."""
    with tempfile.TemporaryDirectory() as here:
        run = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(RANKS)]
        command = [*run, str(Path(__file__).resolve()), *arguments, "--rank"]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=here, env=env, timeout=LIMIT_S, check=False).returncode


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines of a table: rounds by those of equal members, and loss above theirs, same seeds."""
    yield "| method | late | grace | round, s | of equal | loss | above equal | in means | bits |"
    yield "|---|---|---|---|---|---|---|---|---|"
    equal = {(r["method"], r["seed"]): r for r in rows if r["mode"] == "equal"}
    for method, mode, grace in dict.fromkeys((r["method"], r["mode"], r["grace_s"]) for r in rows):
        mine = [r for r in rows if (r["method"], r["mode"], r["grace_s"]) == (method, mode, grace)]
        bases = [equal.get((method, r["seed"]), r) for r in mine]
        mean = statistics.mean
        ratio = mean(r["round_s"] / base["round_s"] for r, base in zip(mine, bases, strict=True))
        above = mean(r["loss"] - base["loss"] for r, base in zip(mine, bases, strict=True))
        alike = "same" if all(r["same_bits"] for r in mine) else "OTHER"
        cells = [
            method,
            mode,
            f"{grace}" if grace is not None else "none",
            f"{mean(r['round_s'] for r in mine):.3f}",
            f"{ratio:.2f}",
            f"{mean(r['loss'] for r in mine):.3f}",
            f"{above:+.3f}",
            f"{mean(r['late_committed'] for r in mine):.3f}",
            alike,
        ]
        yield f"| {' | '.join(cells)} |"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-seconds", type=float, default=0.02)
    parser.add_argument("--grace", type=float, default=0.05, help="seconds")
    parser.add_argument("--without", action="store_true", help="grace: late ones are waited for")
    names = "; ".join(TRAINERS).replace("%", "%%")
    parser.add_argument("--methods", default=";".join(TRAINERS), help=f"by semicolons, of: {names}")
    parser.add_argument("--modes", default=",".join(MODES), help=f"of: {', '.join(MODES)}")
    parser.add_argument("--table", type=Path, metavar="FILE", help="of lines that were printed")
    parser.add_argument("--by-rows", action="store_true", help="ranks are threads, without clocks")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for what, given, known in (
        ("--methods", options.methods.split(";"), TRAINERS),
        ("--modes", options.modes.split(","), MODES),
    ):
        if unknown := set(given) - set(known):
            parser.error(f"{what} {', '.join(sorted(unknown))}; accepted: {', '.join(known)}")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    if options.rank or options.by_rows:
        (be_rank if options.rank else run_by_rows)(options)
        return 0
    if options.table is not None:
        lines = options.table.read_text().splitlines()
        for line in table([json.loads(line) for line in lines if line.startswith("{")]):
            print(line)
        return 0
    return launch(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

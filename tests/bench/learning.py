"""What compression costs in learning: a character model on the texts of `pydoc_data.topics`.

``python learning.py --steps 2000`` starts four ranks, which train the same model by each method and
from each seed; one JSON line each: validation loss in nats per character, bytes that a rank gave to
collectives per step (of codecs: of the frame), their ratio to float32, seconds, and whether all
ranks ended with the same bits. ``--task digits``: percent of scikit-learn's digits, too;
``--task source --ranks 3 --steps 600 --rate 0.5 --clip 1``: a GRU on the standard library's text.
``--churn 3`` kills a rank so many times in each training, and has it started again.
``--table FILE`` makes a table of the lines in a file. Compare lines of one run with each other.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from learning_tasks import TASKS, Task
from torch import nn

import holdfast
from holdfast import _core, compress

# A rank that has not ended after so long hangs.
LIMIT_S = 24 * 3600.0
# One that is started again comes back within a minute.
WAIT_S, MOST_WAITS = 0.05, 1200


class Counted(compress.ProcessGroupExchange):
    """The exchange of the world; counts what this rank gives to it."""

    def __init__(self, group: holdfast.Group) -> None:
        super().__init__()
        self.group = group
        self.sent = 0

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> compress.Pending:
        self.sent += tensor.numel() * tensor.element_size()
        return super().mean(tensor, codec, weight)

    def coded(
        self, tensor: torch.Tensor, codec: str, owed: torch.Tensor | None
    ) -> compress.Pending:
        """Average through a wire codec, with a residual or without one."""
        self.sent += frame_bytes(codec, tensor.numel())
        work = self.group.all_reduce(tensor, op="avg", codec=codec, residual=owed, async_op=True)
        assert work is not None
        return work

    def sum(self, tensor: torch.Tensor) -> compress.Pending:
        self.sent += tensor.numel() * tensor.element_size()
        return super().sum(tensor)

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> compress.Pending:
        self.sent += sent.numel() * sent.element_size()
        return super().swap(received, sent)

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> compress.Pending:
        self.sent += own.numel() * own.element_size()
        return super().gather(rows, own)


@functools.cache
def frame_bytes(codec: str, count: int) -> int:
    return len(_core.encode(codec, np.zeros(count, np.float32)))


class Flat(compress.Reducer):
    """All gradients in one op: as they are, or through a codec of the collectives."""

    def __init__(self, exchange: Counted, codec: str = "", feedback: bool = False) -> None:
        super().__init__(exchange=exchange)
        self._begin = exchange.mean
        self._owed: torch.Tensor | None = None
        if codec:
            self._begin = lambda flat: exchange.coded(flat, codec, self._residual(flat, feedback))

    def _residual(self, flat: torch.Tensor, feedback: bool) -> torch.Tensor | None:
        if feedback and self._owed is None:
            self._owed = torch.zeros_like(flat)
        return self._owed

    def reduction(self, gradients: Sequence[tuple[str, torch.Tensor]]) -> compress.Reduction:
        flat = torch.cat([g.reshape(-1) for _, g in gradients])
        yield self._begin(flat)
        at = 0
        for _, g in gradients:
            g.copy_(flat[at : at + g.numel()].view(g.shape))
            at += g.numel()


# SGD with momentum over a reducer.
REDUCERS: dict[str, Callable[[Counted], compress.Reducer]] = {
    "float32": Flat,
    "codec int8": lambda x: Flat(x, "int8", feedback=True),
    "codec int4": lambda x: Flat(x, "int4", feedback=True),
    "powersgd 4": lambda x: compress.PowerSGD(4, exchange=x),
    "codec onebit": lambda x: Flat(x, "onebit", feedback=True),
    "one bit": lambda x: compress.OneBit(exchange=x),
    "codec int8 no feedback": lambda x: Flat(x, "int8"),
    "codec int4 no feedback": lambda x: Flat(x, "int4"),
    "codec onebit no feedback": lambda x: Flat(x, "onebit"),
    "one bit no feedback": lambda x: compress.OneBit(error_feedback=False, exchange=x),
    "powersgd 4 cold": lambda x: compress.PowerSGD(4, warm_start=False, exchange=x),
    "powersgd 4 no feedback": lambda x: compress.PowerSGD(4, error_feedback=False, exchange=x),
    "powersgd 1": lambda x: compress.PowerSGD(1, exchange=x),
    "powersgd 1 cold": lambda x: compress.PowerSGD(1, warm_start=False, exchange=x),
    "powersgd 1 no feedback": lambda x: compress.PowerSGD(1, error_feedback=False, exchange=x),
    "codec onebit l1": lambda x: Flat(x, "onebit(l1)", feedback=True),
    "codec bf16": lambda x: Flat(x, "bf16"),
    "codec fp16": lambda x: Flat(x, "fp16"),
    "codec fp8_e4m3": lambda x: Flat(x, "fp8_e4m3"),
    "powersgd 2": lambda x: compress.PowerSGD(2, exchange=x),
    "one bit l1": lambda x: compress.OneBit(scale="l1", exchange=x),
    "top 1 %": lambda x: compress.TopK(0.01, exchange=x),
    "top 0.1 %": lambda x: compress.TopK(0.001, exchange=x),
}
Parameters = list[nn.Parameter]
# The second argument: the number of steps. DGC's momentum is its reducer's.
OPTIMIZERS: dict[str, Callable[[Parameters, int, Counted], compress.CompressedOptimizer]] = {
    "adam": lambda p, n, x: compress.GaLore(p, 2e-3, rank=None, exchange=x),
    "1-bit adam": lambda p, n, x: compress.OneBitAdam(
        p, 2e-3, freeze_step=max(1, n * 15 // 100), exchange=x
    ),
    "1-bit adam 1 %": lambda p, n, x: compress.OneBitAdam(
        p, 2e-3, freeze_step=max(1, n // 100), exchange=x
    ),
    "0/1 adam": lambda p, n, x: compress.ZeroOneAdam(
        p,
        2e-3,
        freeze_step=max(1, n * 15 // 100),
        local_start=max(1, n * 30 // 100),
        local_double=max(1, n // 4),
        max_interval=4,
        exchange=x,
    ),
    "1-bit lamb": lambda p, n, x: compress.OneBitLamb(
        p, 1e-2, freeze_step=max(1, n * 15 // 100), exchange=x
    ),
    "galore 32": lambda p, n, x: compress.GaLore(p, 2e-3, rank=32, scale=1.0, exchange=x),
    "apollo 32": lambda p, n, x: compress.Apollo(p, 2e-3, rank=32, refresh=20, exchange=x),
    "demo": lambda p, n, x: compress.DeMo(p, 1e-3, exchange=x),
}
METHODS = (*REDUCERS, "dgc 1 %", *OPTIMIZERS)


def stepper(
    method: str, net: nn.Module, options: argparse.Namespace, exchange: Counted
) -> tuple[torch.optim.Optimizer, compress.Reducer | None]:
    parameters, steps = list(net.parameters()), options.steps
    if method in OPTIMIZERS:
        return OPTIMIZERS[method](parameters, steps, exchange), None
    if method == "dgc 1 %":
        ramp = steps // 20
        reducer: compress.Reducer = compress.TopK(
            0.01, momentum=0.9, ramp_steps=ramp, exchange=exchange
        )
        return torch.optim.SGD(parameters, options.rate), reducer
    return torch.optim.SGD(parameters, options.rate, momentum=0.9), REDUCERS[method](exchange)


class Training:
    """One model, one method; goes on with whoever is there."""

    def __init__(
        self, task: Task, method: str, seed: int, options: argparse.Namespace, exchange: Counted
    ) -> None:
        self.task, self.seed, self.steps, self.clip = task, seed, options.steps, options.clip
        self.group, self.net = exchange.group, task.model(seed)
        self.optimizer, self.reducer = stepper(method, self.net, options, exchange)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        # The same on all ranks.
        self.progress = {"step": 0, "came": 0, "short": 0}
        self._ranks: tuple[int, ...] = ()

    def pass_boundary(self) -> None:
        """Admit who waits, and take note of who is there."""
        view = holdfast.advance()
        if view.joined or view.ranks != self._ranks:
            averages = isinstance(self.optimizer, compress.CompressedOptimizer)
            (self.optimizer if averages else self.reducer).on_view(view)
        if view.joined:
            own = getattr(self.optimizer, "common", self.optimizer)
            shared = [self.reducer.shared] if self.reducer is not None else []
            holdfast.sync(self.net, own, *shared, self.progress)
            self.progress["came"] += len(view.joined)
        self._ranks = view.ranks

    def step(self) -> None:
        step = self.progress["step"]
        # The learning rate falls over the last half.
        share = min(1.0, max(0.02, 2 * (1 - step / self.steps)))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * share
        x, y = self.task.batch(self.seed, step, self.group.rank)
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.net(x), y).backward()
        if self.reducer is not None:
            named = [(n, p.grad) for n, p in self.net.named_parameters() if p.grad is not None]
            for pending in self.reducer.reduction(named):
                pending.wait()
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.optimizer.step()
        self.progress["step"] += 1
        self.progress["short"] += self.lacks_somebody()

    def lacks_somebody(self) -> bool:
        """Tell whether somebody was away at the last boundary; the same on all ranks."""
        return bool(self._ranks) and len(self._ranks) < self.group.size


class Killer:
    """Ends this process in the middle of a step, when it is its turn; once in all its lives."""

    def __init__(self, count: int, rank: int, size: int, steps: int) -> None:
        self._count, self._rank, self._size, self._steps = count, rank, size, steps

    def pass_step(self, step: int, came: int) -> None:
        """Go on, or die; nobody does before who died before is back."""
        due = self._steps * (came + 1) // (self._count + 1)
        mine = (1 + 3 * came) % self._size == self._rank
        marker = Path(f"killed-{came}")
        if came < self._count and step >= due and mine and not marker.exists():
            marker.touch()
            threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGKILL)).start()


def train(group: holdfast.Group, method: str, seed: int, options: argparse.Namespace) -> None:
    """Train, and have the lowest rank print what came of it."""
    exchange = Counted(group)
    training = Training(TASKS[options.task](), method, seed, options, exchange)
    killer = Killer(options.churn, group.rank, group.size, options.steps)
    begin, own_steps = time.perf_counter(), 0
    for _ in range(options.steps + MOST_WAITS):
        if options.churn:
            training.pass_boundary()
        if training.progress["step"] < options.steps:
            if options.churn:
                killer.pass_step(training.progress["step"], training.progress["came"])
            training.step()
            own_steps += 1
        elif options.churn and training.lacks_somebody():
            time.sleep(WAIT_S)  # who is on the way back would find nobody
        else:
            break
    if isinstance(training.optimizer, compress.ZeroOneAdam):
        training.optimizer.synchronise()
    seconds = time.perf_counter() - begin
    flat = torch.cat([p.detach().flatten() for p in training.net.parameters()])
    row = {
        "name": "learning",
        "task": options.task,
        "method": method,
        "seed": seed,
        "steps": options.steps,
        "ranks": group.size,
        "came": training.progress["came"],
        # Steps without somebody; those in which somebody died not counted.
        "short": training.progress["short"],
        **training.task.judge(training.net),
        "finite": bool(flat.isfinite().all()),
        "bytes_per_step": round(exchange.sent / max(1, own_steps)),
        "ratio": round(4 * flat.numel() * own_steps / max(1, exchange.sent), 1),
        "seconds": round(seconds, 1),
        "same_bits": same(zlib.crc32(flat.numpy().tobytes()), group),
    }
    if group.rank == group.live_ranks[0]:
        print(json.dumps(row), flush=True)


def same(value: int, group: holdfast.Group) -> bool:
    """Tell whether all ranks that are there have this number."""
    rows = [torch.zeros(1, dtype=torch.int64) for _ in range(group.size)]
    dist.all_gather(rows, torch.tensor([value]))
    return all(int(rows[rank]) == value for rank in group.live_ranks)


def be_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    with holdfast.init() as group:
        group.as_process_group()
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for method in options.methods.split(","):
                train(group, method, seed, options)
        if not options.churn:
            group.barrier()
        dist.destroy_process_group()


def launch(arguments: Sequence[str], options: argparse.Namespace, respawn: bool) -> int:
    """Run this program as all ranks."""
    with tempfile.TemporaryDirectory() as here:
        run = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(options.ranks)]
        program = [str(Path(__file__).resolve()), *arguments, "--rank"]
        command = [*run, *(["--respawn"] if respawn else []), *program]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=here, env=env, timeout=LIMIT_S, check=False).returncode


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines of a table: by seed, and the mean distance from the same seeds uncompressed."""
    yield "| method | by seed | mean | difference | fewer x | same bits, finite |"
    yield "|---|---|---|---|---|---|"
    key = "right" if any("right" in row for row in rows) else "loss"
    found = {(row["method"], row["seed"]): row[key] for row in rows}
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        base = "adam" if method in OPTIMIZERS else "float32"
        apart = [r[key] - found[base, r["seed"]] for r in mine if (base, r["seed"]) in found]
        sound = all(row["same_bits"] and row["finite"] for row in mine)
        yield (
            f"| {method} | {', '.join(f'{row[key]:.3f}' for row in mine)} "
            f"| {statistics.mean(row[key] for row in mine):.3f} "
            f"| {f'{statistics.mean(apart):+.3f}' if apart else ''} "
            f"| {mine[0]['ratio']:.1f} | {'yes' if sound else 'NO'} |"
        )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", choices=list(TASKS), default="characters")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.1, help="of SGD; Adam's are fixed")
    parser.add_argument("--clip", type=float, help="norm of SGD's averaged gradients; none: any")
    parser.add_argument("--churn", type=int, default=0, help="kills in each training")
    methods = ", ".join(METHODS).replace("%", "%%")
    parser.add_argument("--methods", default=",".join(METHODS), help=f"by commas, of: {methods}")
    parser.add_argument("--table", type=Path, metavar="FILE", help="of lines that were printed")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.methods.split(",")) - set(METHODS)
    if unknown:
        parser.error(f"--methods {', '.join(sorted(unknown))}; accepted: {', '.join(METHODS)}")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    if options.rank:
        be_rank(options)
        return 0
    if options.table is not None:
        lines = options.table.read_text().splitlines()
        rows = [json.loads(line) for line in lines if line.startswith("{")]
        for line in table(rows):
            print(line)
        return 0
    if not options.churn:
        return launch(arguments, options, respawn=False)
    # A world each: what was killed is in its folder.
    failed = 0
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for method in options.methods.split(","):
            one = ["--methods", method, "--first-seed", str(seed), "--seeds", "1"]
            failed |= launch([*arguments, *one], options, respawn=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

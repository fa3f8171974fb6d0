"""What seldom exchanges cost in learning: every outer-step trainer beside Adam at each step.

``python outer_learning.py`` starts four ranks, which train the character model of `learning_tasks`
by each method and from each seed; one JSON line each: validation loss in nats per character, of all
samples that were computed on the share that an outer step has, the mean share of the ranks in an
outer step, and whether what is shared has the same bits on all ranks. ``--task digits`` reads
digits. ``--churn 3`` kills a rank so many times in each training, and has it started again;
``--slow 0.02`` has each step wait so many seconds, so that who is started again misses fewer.
``--table FILE`` makes a table of the lines in a file.
"""

from __future__ import annotations

import argparse
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

import torch
from learning_tasks import TASKS, Task
from torch import nn

import holdfast
from holdfast import compress, ft

LIMIT_S = 24 * 3600.0
# One that is started again comes back within that.
WAIT_S = 60.0
RANKS = 4
# Local steps of a round, and Adam's rate, which falls over the last half.
H, RATE = 20, 2e-3
ADAM = "adam"

Make = Callable[[nn.Module, torch.optim.Optimizer, Any], ft.Trainer]
TRAINERS: dict[str, Make] = {
    "local sgd": lambda m, i, g: ft.LocalSGD(m, i, g, inner_steps=H),
    "diloco": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H),
    "diloco int4": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, codec="int4"),
    "streaming 2": lambda m, i, g: ft.StreamingDiLoCo(m, i, g, inner_steps=H, fragments=2, delay=5),
    "streaming 2 at once": lambda m, i, g: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=2, delay=0
    ),
    "streaming 2 int4": lambda m, i, g: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=2, delay=5, codec="int4"
    ),
    "streaming 2 int4 at once": lambda m, i, g: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=2, delay=0, codec="int4"
    ),
    "eager": lambda m, i, g: ft.AsyncDiLoCo(m, i, g, inner_steps=H),
    "sparse 3 %": lambda m, i, g: ft.SparseLoCo(m, i, g, inner_steps=H, ratio=0.03),
    "co2": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H),
    # What each part is for: without it.
    "diloco 0.9": lambda m, i, g: ft.DiLoCo(
        m, i, g, inner_steps=H, outer=ft.OuterNesterov(0.7, 0.9)
    ),
    "eager 0.9": lambda m, i, g: ft.AsyncDiLoCo(
        m, i, g, inner_steps=H, outer=ft.OuterNesterov(0.7, 0.9)
    ),
    "delayed": lambda m, i, g: ft.AsyncDiLoCo(m, i, g, inner_steps=H, mode="delayed"),
    "co2 no penalty": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H, penalty=False),
    "co2 no clip": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H, clip=None),
    "co2 clip 1": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H, clip=1.0),
    "sparse 3 % no feedback": lambda m, i, g: ft.SparseLoCo(
        m, i, g, inner_steps=H, ratio=0.03, error_feedback=False
    ),
}
METHODS = (ADAM, *TRAINERS)


class EachStep:
    """Adam on the average gradient of all ranks, at each step."""

    def __init__(self, net: nn.Module, inner: torch.optim.Optimizer, group: holdfast.Group) -> None:
        self._net = net
        self._inner = inner
        self._exchange = compress.GroupExchange(group)
        self.steps = 0

    def step(self, samples: int) -> None:
        gradients = [p.grad for p in self._net.parameters() if p.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        self._exchange.mean(flat, weight=samples).wait()
        for gradient, part in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(part.view_as(gradient))
        self._inner.step()
        self.steps += 1

    def finish(self) -> None:
        pass


class Killer:
    """Ends this process in the middle of a round when it is its turn; once in all its lives."""

    def __init__(self, kills: int, group: holdfast.Group, steps: int) -> None:
        self._kills, self._group, self._steps = kills, group, steps

    def pass_step(self, step: int) -> None:
        """Go on, or die; nobody does before who died before is back."""
        done = len(list(Path().glob("killed-*")))
        due = done < self._kills and step >= self._steps * (done + 1) // (self._kills + 2)
        mine = (1 + 3 * done) % RANKS == self._group.rank
        if due and mine and len(self._group.live_ranks) == RANKS:
            Path(f"killed-{done}").touch()
            threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGKILL)).start()


class Tally:
    """What was computed, and what outer steps have of it, in files: they outlive a killed rank."""

    def __init__(self, training: str, rank: int, fragments: int) -> None:
        self._training, self._last = training, fragments - 1
        # Of one life: a rank that is started again begins another.
        self._computed = Path(f"{training}-computed-{rank}-{os.getpid()}")
        self._outer = Path(f"{training}-outer-{rank}-{os.getpid()}")
        self._momenta: list[tuple[float, float]] = []
        self._at_end = False

    def computed(self, samples: float) -> None:
        """Note them before the step has anything to do with others."""
        self._note(self._computed, samples)

    def watch(self, trainer: Any) -> None:
        """Note outer steps as they are done, of which `finish` does several at once."""
        mix = trainer._mix

        def mix_and_note(fragment: int) -> None:
            before = trainer.last
            mix(fragment)
            # The last fragment's stands for the round's.
            if fragment == self._last and trainer.last is not before:
                self._passed(trainer)

        trainer._mix = mix_and_note

    def ends(self) -> None:
        """Tell outer steps of `finish` from those of the last round, after as many steps."""
        self._at_end = True

    def _passed(self, trainer: Any) -> None:
        outer = trainer.last
        told = [outer.step, self._at_end, sum(outer.weights.values()), len(outer.weights)]
        self._note(self._outer, told)
        acted = getattr(trainer, "acted", None)
        if acted is not None and outer.length:
            kept = min(acted.momentum, acted.limit)
            self._momenta.append((acted.momentum / outer.length, kept / outer.length))

    @staticmethod
    def _note(file: Path, what: float | list[float]) -> None:
        with file.open("a") as opened:
            opened.write(json.dumps(what) + "\n")

    def momentum(self) -> dict[str, float]:
        """Return how long CO2's momentum was at most, in mean progresses, and after its clip."""
        if not self._momenta:
            return {}
        found, kept = (max(lengths) for lengths in zip(*self._momenta, strict=True))
        return {"momentum": round(found, 3), "clipped": round(kept, 3)}

    def shares(self) -> dict[str, float]:
        """Return goodput and presence, when all ranks have ended."""
        here = Path()
        files = here.glob(f"{self._training}-computed-*")
        computed = sum(float(line) for file in files for line in file.read_text().splitlines())
        rounds: dict[tuple[int, bool], tuple[float, int]] = {}
        for file in here.glob(f"{self._training}-outer-*"):
            for line in file.read_text().splitlines():
                step, at_end, *told = json.loads(line)
                # A newcomer whom a mean awaited does not know of whom it is.
                known = rounds.get((step, at_end), (0.0, 0))
                rounds[step, at_end] = max(known, (told[0], told[1]))
        if not rounds:
            return {}
        committed = sum(samples for samples, _ in rounds.values())
        present = sum(members for _, members in rounds.values())
        return {
            "goodput": round(committed / computed, 4),
            "present": round(present / (RANKS * len(rounds)), 3),
        }


def train(group: holdfast.Group, method: str, seed: int, options: argparse.Namespace) -> None:
    """Train, and have the lowest rank print what came of it."""
    task: Task = TASKS[options.task]()
    net = task.model(seed)
    inner = torch.optim.Adam(net.parameters(), RATE)
    trainer: Any = (EachStep if method == ADAM else TRAINERS[method])(net, inner, group)
    if options.churn:
        trainer.advance(each_round=True)
    killer = Killer(options.churn, group, options.steps)
    fragments = 1 if method == ADAM else len(trainer.rounds.parts)
    tally = Tally(f"{METHODS.index(method)}-{seed}", group.rank, fragments)
    if method != ADAM:
        tally.watch(trainer)
    begun = time.perf_counter()
    while trainer.steps < options.steps:
        step = trainer.steps
        inner.param_groups[0]["lr"] = RATE * min(1.0, max(0.02, 2 * (1 - step / options.steps)))
        killer.pass_step(step)
        x, y = task.batch(seed, step, group.rank)
        inner.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        time.sleep(options.slow)
        tally.computed(len(y))
        trainer.step(samples=len(y))
    tally.ends()
    trainer.finish()
    until = time.monotonic() + WAIT_S
    while options.churn and len(group.live_ranks) < RANKS and time.monotonic() < until:
        time.sleep(0.05)  # who is on the way back would find nobody
        trainer.advance()
    shared = [net.state_dict()] if method == ADAM else [trainer.shared]
    flat = torch.cat([t.detach().to(torch.float64).flatten() for s in shared for t in s.values()])
    live, same_bits = len(group.live_ranks), same(zlib.crc32(flat.numpy().tobytes()), group)
    row = {
        "name": "outer_learning",
        "task": options.task,
        "method": method,
        "seed": seed,
        "steps": options.steps,
        "kills": options.churn,
        "live": live,
        **task.judge(net),
        **tally.shares(),
        **tally.momentum(),
        "same_bits": same_bits,
        "seconds": round(time.perf_counter() - begun, 1),
    }
    if group.rank == group.live_ranks[0]:
        print(json.dumps(row), flush=True)


def same(value: int, group: holdfast.Group) -> bool:
    """Tell whether all ranks that are there have this number."""
    rows = torch.zeros(group.size, dtype=torch.int64)
    rows[group.rank] = value
    group.all_reduce(rows)
    return all(int(rows[rank]) == value for rank in group.live_ranks)


def be_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    with holdfast.init() as group:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for method in options.methods.split(","):
                train(group, method, seed, options)
        group.barrier()


def launch(arguments: Sequence[str], options: argparse.Namespace) -> int:
    """Run this program as all ranks."""
    with tempfile.TemporaryDirectory() as here:
        run = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(RANKS)]
        program = [str(Path(__file__).resolve()), *arguments, "--rank"]
        command = [*run, *(["--respawn"] if options.churn else []), *program]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=here, env=env, timeout=LIMIT_S, check=False).returncode


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines of a table: by seed, and the mean distance from Adam at each step, same seeds."""
    yield "| method | kills | by seed | mean | above adam | goodput | present | same bits |"
    yield "|---|---|---|---|---|---|---|---|"
    key = "right" if any("right" in row for row in rows) else "loss"
    base = {row["seed"]: row[key] for row in rows if row["method"] == ADAM and not row["kills"]}
    for method, kills in dict.fromkeys((row["method"], row["kills"]) for row in rows):
        mine = [row for row in rows if (row["method"], row["kills"]) == (method, kills)]
        apart = [row[key] - base[row["seed"]] for row in mine if row["seed"] in base]
        losses = [row[key] for row in mine]
        by_seed = ", ".join(f"{loss:.3f}" for loss in losses)
        above = f"{statistics.mean(apart):+.3f}" if apart else ""
        alike = "yes" if all(row["same_bits"] for row in mine) else "NO"
        mean = statistics.mean(losses)
        good, there = (
            f"{min(row[name] for row in mine):.3f}" if all(name in row for row in mine) else ""
            for name in ("goodput", "present")
        )
        row = [method, str(kills), by_seed, f"{mean:.3f}", above, good, there, alike]
        yield f"| {' | '.join(row)} |"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", choices=list(TASKS), default="characters")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--slow", type=float, default=0.0, help="seconds that each step waits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--churn", type=int, default=0, help="kills in each training; not of adam")
    methods = ", ".join(METHODS).replace("%", "%%")
    parser.add_argument("--methods", default=",".join(METHODS), help=f"by commas, of: {methods}")
    parser.add_argument("--table", type=Path, metavar="FILE", help="of lines that were printed")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.methods.split(",")) - set(TRAINERS if options.churn else METHODS)
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
        for line in table([json.loads(line) for line in lines if line.startswith("{")]):
            print(line)
        return 0
    if not options.churn:
        return launch(arguments, options)
    # A world each: what was killed is in its folder.
    failed = 0
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for method in options.methods.split(","):
            one = ["--methods", method, "--first-seed", str(seed), "--seeds", "1"]
            failed |= launch([*arguments, *one], options)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

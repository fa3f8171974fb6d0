"""Kills at random instants of rounds: whether what is shared is what it should be afterwards.

``python outer_kills.py --kills 200`` trains on four ranks with DiLoCo and short rounds, kills a
random rank again and again, at any instant, and has it started again. Every rank writes down what
it sends, and after each outer step the weights and what is shared. At the end: whether all
survivors have had the same bits after each outer step, and whether these are what a plain
computation makes of what was sent by those in the mean (float64, to 1e-12).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import torch

import holdfast
from holdfast import ft

RANKS, H, COUNT = 4, 5, 40
RATE, MOMENTUM = 0.7, 0.5
STEP_S = 0.004
# Of a rank that is started again, and of the whole.
BACK_S, LIMIT_S = 60.0, 3000.0


class Recorded(ft.DiLoCo):
    """Writes down what it sends."""

    def _sends(self, fragment: int, local: torch.Tensor) -> torch.Tensor:
        sent = super()._sends(fragment, local)
        note({"sent": sent.tolist(), "step": self.steps})
        return sent


def note(row: dict) -> None:
    # The launcher begins the job anew where it takes nobody for a part of it any more.
    life = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    whole = {"rank": int(os.environ["RANK"]), "life": life, **row}
    os.write(FILE, (json.dumps(whole) + "\n").encode())


def be_rank() -> None:
    global FILE
    FILE = os.open(os.environ["ROWS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    torch.set_num_threads(1)
    with holdfast.init() as group:
        weights = {"w": torch.zeros(COUNT, dtype=torch.float64, requires_grad=True)}
        inner = torch.optim.SGD(weights.values(), 0.1)
        outer = ft.OuterNesterov(RATE, MOMENTUM)
        trainer = Recorded(weights, inner, group, inner_steps=H, outer=outer)
        trainer.advance(each_round=True)
        drawn = torch.Generator().manual_seed(os.getpid())
        pause, ended = threading.Event(), torch.zeros(1, dtype=torch.int64)
        Path(f"up-{group.rank}-{os.getpid()}").touch()
        # Who comes in does so at the others' boundary, where they then tell.
        comes_in = trainer.steps > 0
        while not int(ended):
            if comes_in:
                comes_in = False
                tell(trainer, group, ended)
                continue
            weights["w"].grad = torch.randn(COUNT, generator=drawn, dtype=torch.float64)
            pause.wait(STEP_S)
            trainer.step(samples=1 + group.rank)
            if trainer.at_boundary:
                tell(trainer, group, ended)
        group.barrier()


def tell(trainer: Recorded, group: holdfast.Group, ended: torch.Tensor) -> None:
    """Write down what is shared, and agree on the end."""
    if trainer.last is not None:
        told = {str(rank): weight for rank, weight in trainer.last.weights.items()}
        shared = trainer.shared_parameters()["w"].tolist()
        note({"shared": shared, "weights": told, "step": trainer.steps})
    ended[0] = int(Path("end").exists())
    group.all_reduce(ended, op="max")


def check(rows: list[dict]) -> tuple[int, int, int]:
    """Count outer steps, those with several outcomes, and those that are not as computed."""
    sent = {(row["step"], row["rank"]): row["sent"] for row in rows if "sent" in row}
    steps: dict[int, list[dict]] = {}
    for row in rows:
        if "shared" in row:
            steps.setdefault(row["step"], []).append(row)
    torn = wrong = 0
    outer, velocity = torch.zeros(COUNT, dtype=torch.float64), torch.zeros(COUNT)
    velocity = velocity.double()
    for step in sorted(steps):
        found = steps[step]
        torn += any(row["shared"] != found[0]["shared"] for row in found)
        torn += any(row["weights"] != found[0]["weights"] for row in found)
        weights = {int(rank): weight for rank, weight in found[0]["weights"].items()}
        whole = sum(weights.values())
        mean = torch.zeros(COUNT, dtype=torch.float64)
        for rank, weight in weights.items():
            mean += torch.tensor(sent[step, rank], dtype=torch.float64) * (weight / whole)
        velocity = MOMENTUM * velocity + mean
        outer = outer - RATE * (mean + MOMENTUM * velocity)
        there = torch.tensor(found[0]["shared"], dtype=torch.float64)
        wrong += not torch.allclose(outer, there, rtol=1e-12, atol=1e-12)
        outer = there
    return len(steps), torn, wrong


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rank:
        be_rank()
        return 0
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as here:
        run = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(RANKS)]
        again = ["--respawn", "--max-respawns", str(options.kills + 1)]
        command = [*run, *again, str(Path(__file__).resolve()), "--rank"]
        env = {**os.environ, "ROWS": f"{here}/rows", "OMP_NUM_THREADS": "1"}
        job = subprocess.Popen(command, cwd=here, env=env)
        begun, killed = time.monotonic(), 0
        while killed < options.kills and time.monotonic() - begun < LIMIT_S and job.poll() is None:
            up = {}
            for mark in sorted(Path(here).glob("up-*"), key=lambda mark: mark.stat().st_mtime_ns):
                _, rank, process = mark.name.split("-")
                up[int(rank)] = int(process)
            alive = [rank for rank, pid in up.items() if Path(f"/proc/{pid}").exists()]
            if len(alive) < RANKS:
                time.sleep(0.01)
                continue
            time.sleep(rng.uniform(0.0, 0.1))
            try:
                os.kill(up[rng.randrange(RANKS)], signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
            # Until it is seen to be gone.
            time.sleep(0.2)
        until = time.monotonic() + BACK_S
        while len(list(Path(here).glob("up-*"))) < RANKS + killed and time.monotonic() < until - 45:
            time.sleep(0.05)
        time.sleep(1.0)
        (Path(here) / "end").touch()
        try:
            status = job.wait(BACK_S / 3)
        except subprocess.TimeoutExpired:
            # Somebody came when the others had ended.
            job.terminate()
            job.wait(BACK_S)
            status = 0
        rows = [json.loads(line) for line in (Path(here) / "rows").read_text().splitlines()]
    lives = sorted({row["life"] for row in rows})
    counts = [check([row for row in rows if row["life"] == life]) for life in lives]
    steps, torn, wrong = (sum(column) for column in zip(*counts, strict=True))
    print(
        f"{killed} kills in {steps} outer steps (status {status}): {torn} with other bits or "
        f"weights on some survivor, {wrong} unlike the plain computation"
    )
    return int(bool(torn or wrong or status))


FILE = -1
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

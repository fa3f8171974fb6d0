"""Bytes that a member sends in a round of each outer-step trainer, counted at its sockets.

    python tests/bench/outer_bytes.py --parameters 2000000

Four ranks on this host over sockets; a round has one local step. Prints Markdown: bytes of a round,
and how many times less that is than an all_reduce of the parameters in float32, as DDP does one at
each step; heartbeats of the time are in it, and little beside.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import holdfast
from holdfast import ft
from holdfast._process import node

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from ranks import all_end_well, start_rank

RANKS, ROUNDS = 4, 5
LIMIT_S = 300.0
SENT = re.compile(r'^holdfast_link_bytes_total\{[^}]*direction="sent"[^}]*\} (\S+)', re.M)
Make = Callable[[Any, torch.optim.Optimizer, Any], ft.Trainer]
TRAINERS: dict[str, Make] = {
    "DiLoCo, float32": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=1),
    "DiLoCo, bf16": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=1, codec="bf16"),
    "DiLoCo, int8": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=1, codec="int8"),
    "DiLoCo, int4": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=1, codec="int4"),
    "SparseLoCo, 3 %": lambda m, i, g: ft.SparseLoCo(m, i, g, inner_steps=1, ratio=0.03),
    "SparseLoCo, 1.56 %": lambda m, i, g: ft.SparseLoCo(m, i, g, inner_steps=1, ratio=0.0156),
}


def sent() -> float:
    """Bytes that this rank has given to its sockets."""
    return sum(map(float, SENT.findall(node().metrics_text())))


def counts() -> None:
    """Count each trainer's bytes of a round, and those of an all_reduce."""
    count = int(os.environ["BENCH_PARAMETERS"])
    torch.set_num_threads(1)
    with holdfast.init() as group:
        told = {}
        plain = torch.randn(count)
        group.barrier()
        before = sent()
        for _ in range(ROUNDS):
            group.all_reduce(plain, op="avg")
        told["all_reduce, float32"] = (sent() - before) / ROUNDS
        for name, make in TRAINERS.items():
            weights = {"w": torch.zeros(count, requires_grad=True)}
            inner = torch.optim.SGD(weights.values(), 0.1)
            trainer = make(weights, inner, group)
            group.barrier()
            before = sent()
            for _ in range(ROUNDS):
                weights["w"].grad = torch.randn(count)
                trainer.step(samples=32)
            trainer.finish()
            told[name] = (sent() - before) / ROUNDS
        group.barrier()
        print("TOLD", json.dumps(told), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=int, default=2_000_000)
    arguments = parser.parse_args()
    env = {
        "BENCH_PARAMETERS": str(arguments.parameters),
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_HEARTBEAT": "2",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            start_rank("outer_bytes", "counts", rank, RANKS, Path(folder), env, fresh=True)
            for rank in range(RANKS)
        ]
        outcomes = all_end_well(ranks, LIMIT_S)
    rows = [
        json.loads(line.removeprefix("TOLD "))
        for outcome in outcomes
        for line in outcome.output.splitlines()
        if line.startswith("TOLD ")
    ]
    mean = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    whole = mean["all_reduce, float32"]
    print(f"{arguments.parameters:,} parameters, {RANKS} ranks\n")
    print("| | bytes a rank sends in a round | fewer than an all_reduce |\n|---|---|---|")
    for name, count in mean.items():
        print(f"| {name} | {count:,.0f} | {whole / count:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

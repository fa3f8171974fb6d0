"""Ranks that choose their codec, over a path whose rate changes while they train."""

from __future__ import annotations

import json
import logging
import os
import threading
import zlib
from itertools import groupby

import torch
import torch.distributed as dist
from methods import bits
from outer_ranks import leave
from torch import nn
from torch_world import join

from holdfast import ft

# Computation of a round: a tenth of a second.
H, STEP_S = 5, 0.02
# A megabyte in float32.
WIDE = 500
MOST_ROUNDS = 250


def over_a_path() -> None:
    """Train until the choice has gone from int4 to bf16 and back, or for too long."""
    rank, _ = join(os.environ["BACKEND"])
    logged = _Lines()
    logging.getLogger("holdfast.ft").setLevel(logging.INFO)
    logging.getLogger("holdfast.ft").addHandler(logged)
    torch.manual_seed(1)
    net = nn.Linear(WIDE, WIDE)
    trainer = ft.AsyncDiLoCo(
        net, torch.optim.SGD(net.parameters(), 0.01), inner_steps=H, codec="auto(bf16,int8,int4)"
    )
    x = torch.randn(4, WIDE, generator=torch.Generator().manual_seed(rank))
    computes = threading.Event()
    trail: list[tuple[str, int]] = []
    names: list[str] = []
    while len(trail) < MOST_ROUNDS and not ("bf16" in names and names[-1] == "int4"):
        trainer.inner.zero_grad()
        net(x).square().mean().backward()
        computes.wait(STEP_S)
        trainer.step()
        if not trainer.at_boundary or trainer.last is None:
            continue
        assert trainer.last.codec is not None
        trail.append((trainer.last.codec.partition("(")[0], zlib.crc32(bits(trainer))))
        names = [name for name, _ in groupby(name for name, _ in trail)]
        print(f"ROUND {len(trail)} {trail[-1][0]} {trainer.last.why}", flush=True)
    trainer.finish()
    print("FOUND", json.dumps({"trail": trail, "names": names, "log": logged.lines}), flush=True)
    dist.barrier()
    leave()


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

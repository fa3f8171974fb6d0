"""Every method with a grace, and a member that stands still until its stand-in has done rounds."""

from __future__ import annotations

import threading
import time
import zlib
from dataclasses import dataclass, field
from typing import Any

import torch
from methods import H, bits, local_step
from torch import nn

from holdfast import ft

LIMIT_S = 60.0
# Of a member that is never late, whatever the machine does besides, and of one that soon is.
LONG_S, SHORT_S = 600.0, 0.02

GRACED: dict[str, Any] = {
    "local sgd": lambda m, i, g, **o: ft.LocalSGD(m, i, g, inner_steps=H, **o),
    "local sgd, int8": lambda m, i, g, **o: ft.LocalSGD(m, i, g, inner_steps=H, codec="int8", **o),
    "diloco": lambda m, i, g, **o: ft.DiLoCo(m, i, g, inner_steps=H, **o),
    "diloco, batch": lambda m, i, g, **o: ft.DiLoCo(m, i, g, inner_steps=H, global_batch=288, **o),
    "diloco, pace": lambda m, i, g, **o: ft.DiLoCo(m, i, g, inner_steps=H, pace=True, **o),
    "sparse": lambda m, i, g, **o: ft.SparseLoCo(m, i, g, inner_steps=H, ratio=0.03, **o),
    "co2": lambda m, i, g, **o: ft.CO2(m, i, g, inner_steps=H, **o),
    "co2, 3, 4": lambda m, i, g, **o: ft.CO2(m, i, g, inner_steps=H, fragments=3, delay=4, **o),
    "streaming, 1, 0": lambda m, i, g, **o: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=1, **o
    ),
    "streaming, 3, 3": lambda m, i, g, **o: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=3, delay=3, **o
    ),
    "eager, 1, 6": lambda m, i, g, **o: ft.AsyncDiLoCo(m, i, g, inner_steps=H, **o),
    "delayed, 2, 4": lambda m, i, g, **o: ft.AsyncDiLoCo(
        m, i, g, inner_steps=H, mode="delayed", fragments=2, delay=4, **o
    ),
}


@dataclass
class Sent:
    """What a member has brought to an exchange."""

    tensor: torch.Tensor
    weight: float
    count: float
    late: bool


@dataclass
class Record:
    """By the row and the fragment of an exchange, or of an outer step."""

    sent: dict[tuple[int, int], Sent] = field(default_factory=dict)
    means: dict[tuple[int, int], Any] = field(default_factory=dict)
    shared: dict[tuple[int, int], int] = field(default_factory=dict)
    last: dict[tuple[int, int], Any] = field(default_factory=dict)


def recorded(trainer: ft.Trainer) -> Record:
    """Write down what a trainer sends, and what comes of it, on whichever thread."""
    record = Record()
    begin, outer_step, mix = trainer._begin_mean, trainer._outer_step, trainer._mix
    begun: dict[int, int] = {}

    def begin_mean(fragment: int, sent: torch.Tensor, share: Any) -> Any:
        begun[fragment] = trainer.steps
        late = trainer._absence.is_on
        told = Sent(sent.clone(), share.told, share.count, late)
        record.sent[trainer.steps, fragment] = told
        return begin(fragment, sent, share)

    def step(fragment: int, arrived: Any) -> None:
        record.means[begun[fragment], fragment] = (arrived.value.clone(), dict(arrived.weights))
        outer_step(fragment, arrived)

    def mixed(fragment: int) -> None:
        before = trainer.last
        mix(fragment)
        if trainer.last is not before:
            record.shared[trainer.steps, fragment] = zlib.crc32(bits(trainer))
            record.last[begun[fragment], fragment] = trainer.last

    trainer._begin_mean, trainer._outer_step, trainer._mix = begin_mean, step, mixed
    return record


def stand_still(trainer: ft.Trainer, rounds: int) -> None:
    """Compute nothing until others have gone on for so many rounds."""
    stand_in = trainer._stand_in
    before, stand_in.grace_s = stand_in.grace_s, SHORT_S
    with stand_in._wake:
        stand_in._wake.notify_all()
    end, until = trainer.steps + rounds * H, time.monotonic() + LIMIT_S
    pause = threading.Event()
    while trainer.steps < end:
        assert time.monotonic() < until, "nobody stands in"
        pause.wait(0.005)
    stand_in.grace_s = before


def train(
    trainer: ft.Trainer, net: nn.Module, rank: int, rounds: int, still_at: int | None = None
) -> list[int]:
    """Train; before one local step stand still for three rounds. Rows at which steps ended."""
    rows = []
    while trainer.steps < rounds * H:
        if still_at is not None and trainer.steps >= still_at:
            # The batch of a computation is drawn before it.
            still_at = None
            stand_still(trainer, 3)
        local_step(trainer, net, rank, len(rows))
        rows.append(trainer.steps)
    return rows

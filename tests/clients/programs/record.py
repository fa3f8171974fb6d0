"""What every client's program shares: what it tells the runner, its data, and its death.

The runner sets CLIENT_BACKEND, CLIENT_OUT (a folder), CLIENT_STEPS, CLIENT_KILL (RANK:STEP, or
nothing), and CLIENT_PAUSE, by which a step takes longer than a launcher takes to see a loss. A
program appends one JSON line for each thing it tells to its rank's file.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

BACKEND = os.environ.get("CLIENT_BACKEND", "holdfast")
STEPS = int(os.environ.get("CLIENT_STEPS", "12"))
FEATURES, CLASSES, BATCH = 16, 4, 8


def tell(rank: int, **what: object) -> None:
    """Append a line to the rank's file, with the time, so that the runner can say who was late."""
    file = Path(os.environ["CLIENT_OUT"]) / f"rank{rank}.jsonl"
    with file.open("a") as lines:
        lines.write(json.dumps({**what, "time": time.time()}) + "\n")


def tell_step(rank: int, step: int, loss: Tensor | float) -> None:
    tell(rank, step=step, loss=float(loss))


def tell_error(rank: int, error: BaseException) -> None:
    """Tell an exception's class and text, with those of its causes: clients wrap what they get."""
    chain: list[str] = []
    link: BaseException | None = error
    while link is not None and len(chain) < 5:
        chain.append(f"{type(link).__name__}: {str(link)[:500]}")
        link = link.__cause__ or link.__context__
    tell(rank, error=chain)


def tell_end(rank: int, parameters: Iterable[Tensor], **more: object) -> None:
    """Tell that the loop ended, and a digest of the bits of the parameters."""
    digest = hashlib.sha256()
    for tensor in parameters:
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    tell(rank, end=True, parameters=digest.hexdigest()[:16], **more)


def die_if_due(rank: int, step: int) -> None:
    """Kill this process with SIGKILL, where the runner wants it so; else take CLIENT_PAUSE.

    A process that an agent has started again is not killed again.
    """
    time.sleep(float(os.environ.get("CLIENT_PAUSE", "0")))
    is_first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if is_first and os.environ.get("CLIENT_KILL") == f"{rank}:{step}":
        tell(rank, killed=step)
        os.kill(os.getpid(), signal.SIGKILL)


def model() -> nn.Module:
    """Make a small classifier, alike on all ranks. Its normalisation has buffers."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(FEATURES, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Linear(32, CLASSES),
    )


def samples(count: int) -> tuple[Tensor, Tensor]:
    """Draw points whose class is the largest of four projections of them."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(count, FEATURES, generator=generator)
    return x, (x @ torch.randn(FEATURES, CLASSES, generator=generator)).argmax(1)


def batch(rank: int, step: int) -> tuple[Tensor, Tensor]:
    """Return a rank's batch of a step: what others have, and who is there, changes nothing."""
    x, y = samples(BATCH * 64)
    generator = torch.Generator().manual_seed(1000 * step + rank)
    picked = torch.randint(len(x), (BATCH,), generator=generator)
    return x[picked], y[picked]

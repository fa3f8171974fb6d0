"""What compression costs in learning: a character model on the texts of `pydoc_data.topics`.

``python learning.py --steps 2000`` starts four ranks, which train the same model by each method and
from each seed; one JSON line each: validation loss in nats per character, bytes that a rank gave to
collectives per step, their ratio to float32, seconds, and whether all ranks ended with the same
bits. Compare lines of one run with each other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import nn

from holdfast import compress

CONTEXT, BATCH = 16, 32
# A rank that has not ended after so long hangs.
LIMIT_S = 24 * 3600.0


class Counted(compress.ProcessGroupExchange):
    """The exchange of the world; counts what this rank gives to it."""

    sent = 0

    def mean(self, tensor: torch.Tensor, codec: str | None = None) -> compress.Pending:
        self.sent += tensor.numel() * tensor.element_size()
        return super().mean(tensor, codec)

    def sum(self, tensor: torch.Tensor) -> compress.Pending:
        self.sent += tensor.numel() * tensor.element_size()
        return super().sum(tensor)

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> compress.Pending:
        self.sent += sent.numel() * sent.element_size()
        return super().swap(received, sent)

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> compress.Pending:
        self.sent += own.numel() * own.element_size()
        return super().gather(rows, own)


class Plain(compress.Reducer):
    """No compression."""

    def reduction(self, gradients: Sequence[tuple[str, torch.Tensor]]) -> compress.Reduction:
        flat = torch.cat([g.reshape(-1) for _, g in gradients])
        yield self.exchange.mean(flat)
        at = 0
        for _, g in gradients:
            g.copy_(flat[at : at + g.numel()].view(g.shape))
            at += g.numel()


# SGD with momentum over a reducer.
REDUCERS: dict[str, Callable[[Counted], compress.Reducer]] = {
    "float32": lambda x: Plain(exchange=x),
    "powersgd 4": lambda x: compress.PowerSGD(4, exchange=x),
    "powersgd 2": lambda x: compress.PowerSGD(2, exchange=x),
    "powersgd 1": lambda x: compress.PowerSGD(1, exchange=x),
    "powersgd 1 cold": lambda x: compress.PowerSGD(1, warm_start=False, exchange=x),
    "powersgd 1 no feedback": lambda x: compress.PowerSGD(1, error_feedback=False, exchange=x),
    "one bit": lambda x: compress.OneBit(exchange=x),
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


def texts() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return training and validation characters, numbered, and how many kinds there are."""
    whole = "\n".join(topics[name] for name in sorted(topics))
    kinds = {c: i for i, c in enumerate(sorted(set(whole)))}
    numbers = torch.tensor([kinds[c] for c in whole])
    cut = len(numbers) * 9 // 10
    return numbers[:cut], numbers[cut:], len(kinds)


def model(kinds: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Embedding(kinds, 24),
        nn.Flatten(),
        nn.Linear(CONTEXT * 24, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, kinds),
    )


def batch(
    numbers: torch.Tensor, count: int, chance: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.randint(len(numbers) - CONTEXT - 1, (count, 1), generator=chance)
    window = numbers[at + torch.arange(CONTEXT + 1)]
    return window[:, :-1], window[:, -1]


def stepper(
    method: str, net: nn.Module, steps: int, exchange: Counted
) -> tuple[torch.optim.Optimizer, compress.Reducer | None]:
    parameters = list(net.parameters())
    if method in OPTIMIZERS:
        return OPTIMIZERS[method](parameters, steps, exchange), None
    if method == "dgc 1 %":
        ramp = steps // 20
        reducer: compress.Reducer = compress.TopK(
            0.01, momentum=0.9, ramp_steps=ramp, exchange=exchange
        )
        return torch.optim.SGD(parameters, 0.1), reducer
    return torch.optim.SGD(parameters, 0.1, momentum=0.9), REDUCERS[method](exchange)


def train(method: str, seed: int, steps: int, rank: int) -> dict[str, object]:
    training, validation, kinds = texts()
    net, exchange = model(kinds, seed), Counted()
    optimizer, reducer = stepper(method, net, steps, exchange)
    # The learning rate falls over the last half.
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, max(0.02, 2 * (1 - step / steps)))
    )
    begin = time.perf_counter()
    for step in range(steps):
        chance = torch.Generator().manual_seed((seed * 10**6 + step) * 64 + rank)
        x, y = batch(training, BATCH, chance)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        if reducer is not None:
            named = [(name, p.grad) for name, p in net.named_parameters() if p.grad is not None]
            for pending in reducer.reduction(named):
                pending.wait()
        optimizer.step()
        schedule.step()
    if isinstance(optimizer, compress.ZeroOneAdam):
        optimizer.synchronise()
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        x, y = batch(validation, 20_000, torch.Generator().manual_seed(0))
        loss = float(nn.functional.cross_entropy(net(x), y))
    flat = torch.cat([p.detach().flatten() for p in net.parameters()])
    sent = exchange.sent / steps
    return {
        "name": "learning",
        "method": method,
        "seed": seed,
        "steps": steps,
        "ranks": dist.get_world_size(),
        "loss": round(loss, 4),
        "bytes_per_step": round(sent),
        "ratio": round(4 * flat.numel() / sent, 1),
        "seconds": round(seconds, 1),
        "same_bits": same(zlib.crc32(flat.numpy().tobytes())),
    }


def same(value: int) -> bool:
    """Tell whether all ranks have this number."""
    rows = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, torch.tensor([value]))
    return all(int(row) == value for row in rows)


def be_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        options.backend,
        init_method=f"file://{options.meeting}/meeting",
        rank=options.rank,
        world_size=options.ranks,
    )
    for method in options.methods.split(","):
        for seed in range(options.seeds):
            row = train(method, seed, options.steps, options.rank)
            if options.rank == 0:
                print(json.dumps(row), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--backend", default="holdfast", help="of torch.distributed")
    parser.add_argument(
        "--methods", default=",".join(METHODS), help=f"by commas, of: {', '.join(METHODS)}"
    )
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meeting", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.methods.split(",")) - set(METHODS)
    if unknown:
        parser.error(f"--methods {', '.join(sorted(unknown))}; accepted: {', '.join(METHODS)}")
    if options.rank is not None:
        be_rank(options)
        return 0
    with tempfile.TemporaryDirectory() as meeting:
        shared = [*(arguments or sys.argv[1:]), "--meeting", meeting]
        command = [sys.executable, str(Path(__file__).resolve()), *shared]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "HOLDFAST_STORE": f"file://{meeting}/store"}
        ranks = [
            subprocess.Popen([*command, "--rank", str(rank)], env=env)
            for rank in range(options.ranks)
        ]
        return max(rank.wait(LIMIT_S) != 0 for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())

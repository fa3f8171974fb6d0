"""Three ranks train by DistributedDataParallel; one kills itself by SIGKILL; the others go on.

Prints ``SURVIVOR`` with the ranks that are left and whether their parameters are the same bits.
"""

from __future__ import annotations

import hashlib
import os
import signal

import torch
import torch.distributed as dist
from torch import nn

import holdfast

STEPS, KILLED_RANK, KILL_STEP = 12, 1, 5


def digest(model: nn.Module) -> str:
    whole = hashlib.sha256()
    for parameter in model.parameters():
        whole.update(parameter.detach().numpy().tobytes())
    return whole.hexdigest()


def main() -> None:
    dist.init_process_group("holdfast")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for step in range(STEPS):
        if rank == KILLED_RANK and step == KILL_STEP:
            os.kill(os.getpid(), signal.SIGKILL)
        chance = torch.Generator().manual_seed(1000 * step + rank)
        x = torch.randn(8, 16, generator=chance)
        loss = nn.functional.mse_loss(parallel(x), x[:, :4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holdfast.advance()
    mine = digest(model)
    # Everybody's, as sums: a rank that is gone adds nothing.
    seen = torch.tensor(list(bytes.fromhex(mine)), dtype=torch.int64)
    dist.all_reduce(seen)
    alive = holdfast.live_ranks()
    same = seen.tolist() == [len(alive) * byte for byte in bytes.fromhex(mine)]
    print(
        "SURVIVOR",
        rank,
        "of",
        *alive,
        "same" if same else "DIFFERENT",
        f"steps {STEPS}",
        flush=True,
    )


main()

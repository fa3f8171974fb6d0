"""DDP on CUDA tensors of ranks that share one GPU learns what it learns on the CPU.

    python tests/gpu/ddp_equals_cpu.py --ranks 4

Both train in float64, so that all they may differ in is the order in which a device adds:
`deviation`, the greatest difference of any parameter after the last step by the greatest parameter,
is about 1e-14 then. A gradient that is lost, doubled or late makes it 1e-3 and more. `alike`: all
ranks have the same bits. Buckets of 1 MiB go from device to device, small ones through the host.
`--device cpu` takes the CPU for the GPU, which proves the program and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from typing import Any

import world

STEPS = 12
LIMIT_S = 180.0


def train(device: str, rank: int, steps: int) -> tuple[Any, float]:
    """Return all parameters after the last step, on the CPU, and how far any has moved."""
    import torch
    from torch import nn

    torch.manual_seed(7)
    layers = nn.Sequential(
        *(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 8))
    ).double()
    begun = nn.utils.parameters_to_vector(layers.parameters()).detach().clone()
    model = nn.parallel.DistributedDataParallel(layers.to(device), bucket_cap_mb=1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    chance = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        inputs = torch.randn(32, 64, generator=chance, dtype=torch.float64).to(device)
        optimiser.zero_grad()
        loss = (model(inputs) - inputs[:, :8] * inputs[:, 8:16]).square().mean()
        loss.backward()
        optimiser.step()
    ended = nn.utils.parameters_to_vector(layers.parameters()).detach().cpu()
    return ended, float((ended - begun).abs().max())


def learn() -> None:
    """Train on the CPU, then on DEVICE; a rank."""
    import torch
    import torch.distributed as dist

    rank, ranks = world.join_torch()
    device, steps = os.environ["DEVICE"], int(os.environ["STEPS"])
    right, learned = train("cpu", rank, steps)
    got, _ = train(device, rank, steps)
    deviation = float((got - right).abs().max() / right.abs().max())
    digests = [torch.zeros(2, dtype=torch.int64) for _ in range(ranks)]
    own = [zlib.crc32(values.numpy().tobytes()) for values in (right, got)]
    dist.all_gather(digests, torch.tensor(own))
    row = {
        "name": "ddp equals cpu",
        "ranks": ranks,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "steps": steps,
        "parameters": right.numel(),
        "learned": learned,
        "deviation": deviation,
        "alike": all(torch.equal(digest, digests[0]) for digest in digests),
        "ops": world.ops(),
        "direct_ops": world.ops("direct"),
    }
    dist.destroy_process_group()
    world.tell(row)


def main() -> int:
    """Run the ranks, and print the worst row."""
    parser = world.arguments_of(__doc__, LIMIT_S)
    parser.add_argument("--ranks", type=int, default=2, help="ranks that share the GPU (2)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    if given.device == "cuda" and world.lacks(given.driver, torch=True):
        return world.LACKS
    env = world.environment(given.driver, DEVICE=given.device, STEPS=str(given.steps))
    outcomes = world.run("ddp_equals_cpu", "learn", given.ranks, given.limit, **env)
    rows = [row for outcome in outcomes for row in world.told(outcome)]
    print(json.dumps(max(rows, key=lambda row: (not row["alike"], row["deviation"]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Ray starts the ranks, Holdfast moves the data: ``pip install "ray[train]"``, then run this."""

from __future__ import annotations

import ray
import torch
import torch.distributed as dist
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def train() -> None:
    """Run on every worker; Ray has set up the process group."""
    assert dist.get_backend() == "holdfast"
    t = torch.full((1000,), float(dist.get_rank() + 1))
    dist.all_reduce(t)
    size = dist.get_world_size()
    assert t[0].item() == size * (size + 1) / 2
    if dist.get_rank() == 0:
        print(f"{size} workers agree on {t[0].item():.0f}", flush=True)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False)
    trainer = TorchTrainer(
        train,
        torch_config=TorchConfig(backend="holdfast"),
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
    )
    trainer.fit()
    ray.shutdown()

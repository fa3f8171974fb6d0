"""A DeepSpeed engine on the CPU, ZeRO stage by argument; a checkpoint at the end."""

from __future__ import annotations

import os
import sys

import deepspeed
import record
import torch
from torch import nn

STAGE = int(sys.argv[1])
CONFIG = {
    "train_micro_batch_size_per_gpu": record.BATCH,
    # By its own name: DeepSpeed takes torch's own Adam, and compiles none.
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    # Parameters of a small model would stay whole with ZeRO-3's own threshold.
    "zero_optimization": {"stage": STAGE, "stage3_param_persistence_threshold": 0},
    "gradient_clipping": 1.0,
}


def net() -> nn.Module:
    """Make record.model() without its normalisation, whose buffers ZeRO leaves to each rank."""
    return nn.Sequential(*(layer for layer in record.model() if type(layer) is not nn.BatchNorm1d))


def train(rank: int) -> nn.Module:
    model = net()
    engine, *_ = deepspeed.initialize(model=model, config=CONFIG, dist_init_required=False)
    for step in range(record.STEPS):
        record.die_if_due(rank, step)
        x, y = record.batch(rank, step)
        loss = nn.functional.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
        record.tell_step(rank, step, loss.detach())
    engine.save_checkpoint(os.environ["CLIENT_OUT"], tag="end")
    return engine.module


def main() -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    try:
        deepspeed.init_distributed(dist_backend=record.BACKEND)
        module = train(rank)
        with deepspeed.zero.GatheredParameters(list(module.parameters()), enabled=STAGE == 3):
            record.tell_end(rank, module.parameters())
    except BaseException as error:
        record.tell_error(rank, error)
        raise


if __name__ == "__main__":
    main()

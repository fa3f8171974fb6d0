"""A training loop in Hugging Face accelerate: prepare, backward, reduce.

With the argument `option` the backend's name is given to accelerate, as its documentation has it;
otherwise torch.distributed is initialised before accelerate is.
"""

from __future__ import annotations

import os
import sys

import record
import torch
import torch.distributed as dist
from accelerate import Accelerator, InitProcessGroupKwargs
from torch import nn


def make() -> Accelerator:
    if sys.argv[1:] == ["option"]:
        return Accelerator(kwargs_handlers=[InitProcessGroupKwargs(backend=record.BACKEND)])
    dist.init_process_group(record.BACKEND)
    return Accelerator()


def train(rank: int, accelerator: Accelerator) -> nn.Module:
    model = record.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(record.STEPS):
        record.die_if_due(rank, step)
        x, y = record.batch(rank, step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        record.tell_step(rank, step, accelerator.reduce(loss.detach(), reduction="mean"))
    return accelerator.unwrap_model(model)


def main() -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    try:
        accelerator = make()
        model = train(rank, accelerator)
        record.tell_end(rank, model.parameters())
        accelerator.end_training()
    except BaseException as error:
        record.tell_error(rank, error)
        raise


if __name__ == "__main__":
    main()

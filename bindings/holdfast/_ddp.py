"""Communication hooks of DistributedDataParallel.

Without postponed annotations: DDP compares a hook's with its own types.
"""

from typing import Any

import torch
import torch.distributed as dist

from holdfast.torch import native


def average_gradients(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over the ranks that are in it; a communication hook of DDP.

    DDP by itself divides by the size of the group, vacant ranks included: after a loss its
    gradients are too small by their share. With
    ``ddp.register_comm_hook(None, holdfast.average_gradients)`` it divides by the contributors.

    Parameters
    ----------
    group : ProcessGroup, optional
        The hook's state; None: the world.
    bucket : torch.distributed.GradBucket
        Gradients of one bucket, one tensor.

    Returns
    -------
    torch.futures.Future
        Of the averaged tensor.
    """
    work = dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.AVG, group=group, async_op=True)
    assert work is not None
    averaged: torch.futures.Future[torch.Tensor] = work.get_future().then(
        lambda future: future.value()[0]
    )
    # DDP goes on with backward until the last bucket, and waits from there on.
    native().tell_wait(work, bucket.is_last())
    return averaged

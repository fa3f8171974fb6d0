"""The communication hook that runs any reducer under DistributedDataParallel.

Without postponed annotations: DDP compares a hook's with its own types.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from holdfast.compress.reducer import Reducer


def hook(state: Reducer, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients by a reducer; a communication hook of DDP.

    Parameters
    ----------
    state : Reducer
        What averages.
    bucket : torch.distributed.GradBucket
        Gradients of one bucket, one tensor.

    Returns
    -------
    torch.futures.Future
        Of the averaged tensor: the bucket's own.
    """
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    buffer = bucket.buffer()
    gradients = [
        (state.name_of(parameter), gradient)
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True)
    ]
    pipeline = state.pipeline
    if bucket.index() == 0:
        pipeline.abandon()
    reduction = state.counted(gradients)
    pipeline.push(reduction, lambda: future.set_result(buffer), bucket.is_last())
    return future


def local_gradients(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Leave gradients as they are; a hook of DDP under optimisers that average by themselves.

    Parameters
    ----------
    state : object
        Not used.
    bucket : torch.distributed.GradBucket
        Gradients of one bucket.

    Returns
    -------
    torch.futures.Future
        Of the bucket's own tensor.
    """
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def register(model: DistributedDataParallel, reducer: Reducer) -> None:
    """Let a reducer average the gradients of a DDP model.

    Same as ``model.register_comm_hook(reducer, hook)``, with residuals kept and saved under the
    names that the wrapped model's parameters have.

    Parameters
    ----------
    model : DistributedDataParallel
        It may have no other hook.
    reducer : Reducer
        One per model, for all its wrappers: it outlives a DDP that is wrapped anew.
    """
    reducer.name_parameters(model.module)
    model.register_comm_hook(reducer, hook)
